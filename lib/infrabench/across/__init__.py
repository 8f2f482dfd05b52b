"""One analysis over several sites: which sessions it is of, whether they may stand side by side, what they say."""

from infrabench.across.opening import Across, Member, opened
from infrabench.across.shown import differences, findings, forest, forests, lines, members, table

__all__ = ["Across", "Member", "differences", "findings", "forest", "forests", "lines", "members", "opened", "table"]
