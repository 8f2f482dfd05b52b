"""Load to the knee, as a notebook shows it: the curve of time over rate, and the rate that each system sustains."""

from __future__ import annotations

import pandas as pd

from infrabench.analysis.results import Results, Shown, absent, kept, listed, paragraph, sentence
from infrabench.analysis.tables import columns, notation
from infrabench.notebook.sections import join
from infrabench.notebook.session_figures import figure
from infrabench.stats import contrasts, estimates, knee

MARGIN = 0.05  # of a sustained rate, where the study names none for it


def load_knee(found: Results, workload: str = "web-rate", metric: str = "latency_mean_s") -> Shown:
    """Return a workload whose rate was swept: its curve, and the rate at which each system's times leave the plateau.

    All systems share one limit, twice what the baseline takes at the lowest rate, so that they are compared at equal
    latency; the rates of each block are a metric like any other, with intervals, ratios in pairs and verdicts.

    >>> ib.load_knee(results)
    """
    if not (found.estimates["workload"] == workload).any():
        return absent(found, workload)
    levels = found.estimates.loc[found.estimates["workload"] == workload, "level"].dropna().unique()
    if len(levels) < 2:
        return paragraph(f"{workload}: one rate alone has no knee. Take several: its profile load, or --set.")
    limit_s = knee.find_limit(found.table, workload, metric, found.data["baseline"])
    rows = knee.sustain(found.table, workload, metric, limit_s)
    curve = figure(found, "scaling", workload, metric)
    if rows.empty:
        where = f"{notation.number(levels.min())} to {notation.number(levels.max())} a second"
        return join(curve, paragraph(f"{workload}: from {where} no time crosses the limit, {_time(limit_s)}: no knee."))
    margins = {knee.METRIC: found.data["margins"].get(knee.METRIC, MARGIN)}
    ratios = contrasts(rows, found.data["baseline"], margins)
    told = paragraph(
        f"The rate at which the mean time of a request reaches {_time(limit_s)}, {knee.TIMES:g} times what "
        f"{found.data['baseline']} takes at {notation.number(levels.min())} requests a second:"
    )
    blocks = int(found.table.loc[found.table["workload"] == workload, "block"].nunique())
    caption = f"{told.text} means over blocks with 95 % intervals; at most {blocks} blocks."
    cells = columns.write(estimates(rows), {
        **columns.words("system"), "blocks": lambda row: f"{row.n} of {blocks}",
        "rate, 1/s": lambda row: columns.both(row, "mean")[0], columns.CI: lambda row: columns.both(row, "mean")[1],
    })  # fmt: skip
    compared = [sentence(row) for row in ratios.itertuples(index=False)]
    return join(curve, told, kept(found, pd.DataFrame(cells), f"{workload}-knee", caption), listed(compared))


def _time(seconds: float) -> str:
    scale = notation.scale([seconds], "s")
    return f"{notation.number(seconds / scale.factor)} {scale.unit}"
