"""Figures at printed size, their captions from computed values, and their files."""

from infrabench.analysis.figures.caption import caption
from infrabench.analysis.figures.composite import composite
from infrabench.analysis.figures.ecdf import ecdf, ecdf_caption
from infrabench.analysis.figures.forest import forest, forest_caption
from infrabench.analysis.figures.interim import interim, screen
from infrabench.analysis.figures.lag import lag, lag_caption
from infrabench.analysis.figures.modes import modes, modes_caption
from infrabench.analysis.figures.order import order, order_caption
from infrabench.analysis.figures.points import points
from infrabench.analysis.figures.power import power, power_caption
from infrabench.analysis.figures.qq import qq, qq_caption
from infrabench.analysis.figures.save import save
from infrabench.analysis.figures.scaling import scaling
from infrabench.analysis.figures.sentences import grouped, pairs
from infrabench.analysis.figures.sites import sites, sites_caption
from infrabench.analysis.figures.theme import COLUMN_MM, PAGE_MM, other_width, style
from infrabench.analysis.figures.tiers import tiers, tiers_caption
from infrabench.analysis.figures.timeline import timeline, timeline_caption

__all__ = [
    "COLUMN_MM",
    "PAGE_MM",
    "caption",
    "composite",
    "ecdf",
    "ecdf_caption",
    "forest",
    "forest_caption",
    "grouped",
    "interim",
    "lag",
    "lag_caption",
    "modes",
    "modes_caption",
    "order",
    "order_caption",
    "other_width",
    "pairs",
    "points",
    "power",
    "power_caption",
    "qq",
    "qq_caption",
    "save",
    "scaling",
    "screen",
    "sites",
    "sites_caption",
    "style",
    "tiers",
    "tiers_caption",
    "timeline",
    "timeline_caption",
]
