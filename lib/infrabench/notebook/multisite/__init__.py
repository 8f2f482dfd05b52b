"""One analysis over several sites: which sessions it is of, whether they may stand side by side, what they say."""

from infrabench.notebook.multisite.load import Across, Member, opened
from infrabench.notebook.multisite.render import differences, findings, forest, forests, lines, members, table

__all__ = ["Across", "Member", "differences", "findings", "forest", "forests", "lines", "members", "opened", "table"]
