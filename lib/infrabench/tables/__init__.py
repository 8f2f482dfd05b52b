"""Tables to read: rounded, in shown units, as Markdown, CSV and LaTeX.

Numbers are text here, rounded by one rule (`infrabench.display`); the unrounded values stay in the frames that these
tables are made from.
"""

from infrabench.display import latex, markdown, save
from infrabench.tables.cases import diagnostics_table, interactions_table, omnibus_table, tiers_table, trends_table
from infrabench.tables.cells import against_table, contrasts_table, estimates_table, results_table
from infrabench.tables.interim import interim_table
from infrabench.tables.matrix import Question, matrix_table
from infrabench.tables.plans import differences_table, planning_table
from infrabench.tables.ratios import ratios_table, signs_told
from infrabench.tables.sites import heterogeneity_table, sites_table

__all__ = [
    "Question",
    "against_table",
    "contrasts_table",
    "diagnostics_table",
    "differences_table",
    "estimates_table",
    "heterogeneity_table",
    "interactions_table",
    "interim_table",
    "latex",
    "markdown",
    "matrix_table",
    "omnibus_table",
    "planning_table",
    "ratios_table",
    "results_table",
    "save",
    "signs_told",
    "sites_table",
    "tiers_table",
    "trends_table",
]
