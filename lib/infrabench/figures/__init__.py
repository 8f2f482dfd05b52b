"""Figures at printed size, their captions from computed values, and their files."""

from infrabench.figures.caption import caption
from infrabench.figures.cells import points
from infrabench.figures.composite import composite
from infrabench.figures.ecdf import ecdf, ecdf_caption
from infrabench.figures.forest import forest, forest_caption
from infrabench.figures.interim import interim, screen
from infrabench.figures.lag import lag, lag_caption
from infrabench.figures.look import COLUMN_MM, PAGE_MM, other_width, style
from infrabench.figures.modes import modes, modes_caption
from infrabench.figures.order import order, order_caption
from infrabench.figures.power import power, power_caption
from infrabench.figures.qq import qq, qq_caption
from infrabench.figures.save import save
from infrabench.figures.scaling import scaling
from infrabench.figures.sentences import grouped, pairs
from infrabench.figures.sites import sites, sites_caption
from infrabench.figures.tiers import tiers, tiers_caption
from infrabench.figures.timeline import timeline, timeline_caption

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
