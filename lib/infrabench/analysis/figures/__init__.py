"""Figures at printed size with captions from computed values, and their files."""

from infrabench.analysis.figures.cells import caption, points, scaling
from infrabench.analysis.figures.history import history
from infrabench.analysis.figures.published import composite, published
from infrabench.analysis.figures.ratios import forest, interim, power, screen, tiers
from infrabench.analysis.figures.save import METADATA, overhang_mm, save
from infrabench.analysis.figures.sentences import grouped, pairs, ratio_interval
from infrabench.analysis.figures.sites import sites
from infrabench.analysis.figures.theme import COLUMN_MM, PAGE_MM, other_width, style
from infrabench.analysis.figures.timeline import timeline
from infrabench.analysis.figures.trials import blocks, ecdf, lag, modes, order, qq
from infrabench.analysis.figures.view import FIGURES, Drawn, View, figure

__all__ = [
    "COLUMN_MM", "FIGURES", "METADATA", "PAGE_MM", "Drawn", "View", "blocks", "caption", "composite", "ecdf", "figure",
    "forest", "grouped", "history", "interim", "lag", "modes", "order", "other_width", "overhang_mm", "pairs", "points",
    "power", "published", "qq", "ratio_interval", "save", "scaling", "screen", "sites", "style", "tiers", "timeline",
]  # fmt: skip
