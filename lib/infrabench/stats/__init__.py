"""Statistics: tidy table in, table out. Each module is one step and adds no state."""

from infrabench.stats.contrasts import contrasts
from infrabench.stats.diagnostics import diagnostics
from infrabench.stats.estimates import estimates
from infrabench.stats.interactions import interactions
from infrabench.stats.omnibus import omnibus
from infrabench.stats.tiers import tiers

__all__ = ["contrasts", "diagnostics", "estimates", "interactions", "omnibus", "tiers"]
