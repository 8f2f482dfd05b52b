"""Figures at printed size, their captions from computed values, and their files."""

from infrabench.figures.caption import caption
from infrabench.figures.cells import points
from infrabench.figures.ecdf import ecdf, ecdf_caption
from infrabench.figures.effects import forest
from infrabench.figures.lag import lag, lag_caption
from infrabench.figures.look import COLUMN_MM, PAGE_MM, style
from infrabench.figures.order import order, order_caption
from infrabench.figures.save import save
from infrabench.figures.scaling import scaling

__all__ = [
    "COLUMN_MM",
    "PAGE_MM",
    "caption",
    "ecdf",
    "ecdf_caption",
    "forest",
    "lag",
    "lag_caption",
    "order",
    "order_caption",
    "points",
    "save",
    "scaling",
    "style",
]
