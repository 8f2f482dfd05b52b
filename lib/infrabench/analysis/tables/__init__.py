"""Tables to read: rounded, in shown units, as Markdown, CSV and LaTeX.

Numbers are text here, rounded by one rule (`tables.notation`); the unrounded values stay in the frames that these
tables are made from.
"""

from infrabench.analysis.tables.bounds import ruled_out, ruled_out_label, state_bounds
from infrabench.analysis.tables.cases import (
    Question,
    diagnostics_table,
    dimensions_table,
    heterogeneity_table,
    history_table,
    interactions_table,
    matrix_table,
    omnibus_table,
    planning_table,
    sites_table,
    tiers_table,
    trends_table,
)
from infrabench.analysis.tables.cells import (
    against_table,
    contrasts_table,
    describe_signs,
    estimates_table,
    interim_table,
    ratios_table,
    results_table,
)
from infrabench.analysis.tables.notation import latex, markdown, save

__all__ = [
    "Question", "against_table", "contrasts_table", "describe_signs", "diagnostics_table", "dimensions_table",
    "estimates_table", "heterogeneity_table", "history_table", "interactions_table", "interim_table", "latex",
    "markdown", "matrix_table", "omnibus_table", "planning_table", "ratios_table", "results_table", "ruled_out",
    "ruled_out_label", "save", "sites_table", "state_bounds", "tiers_table", "trends_table",
]  # fmt: skip
