"""Figures at printed size, their captions from computed values, and their files."""

from infrabench.figures.caption import caption
from infrabench.figures.cells import points
from infrabench.figures.effects import forest
from infrabench.figures.order import order
from infrabench.figures.save import save
from infrabench.figures.scaling import scaling
from infrabench.figures.style import COLUMN_MM, PAGE_MM, style

__all__ = ["COLUMN_MM", "PAGE_MM", "caption", "forest", "order", "points", "save", "scaling", "style"]
