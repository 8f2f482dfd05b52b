"""Load to the knee, as a notebook shows it: the curve of time over rate, and the rate that each system sustains."""

from __future__ import annotations

import pandas as pd

from infrabench.analysis.results import Results, Shown, absent, kept, listed, paragraph, sentence
from infrabench.analysis.tables import columns, notation
from infrabench.notebook.sections import join
from infrabench.notebook.session_figures import figure
from infrabench.stats import contrasts, estimates, knee


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
    rows, lacking = knee.sustain(found.table, workload, metric, limit_s)
    curve = figure(found, "scaling", workload, metric)
    blocks = int(found.table.loc[found.table["workload"] == workload, "block"].nunique())
    where = f"{notation.number(levels.min())} to {notation.number(levels.max())} a second"
    without = [
        f"{system}: in {count} of {blocks} blocks the mean time does not cross {_time(limit_s)} from {where}, so it "
        "has no rate: take rates that reach further"
        for system, count in lacking.items()
    ]
    if rows.empty:
        return join(curve, listed(without))
    ratios = contrasts(rows, found.data["baseline"], found.data["margins"])
    told = paragraph(
        f"The rate at which the mean time of a request reaches {_time(limit_s)}, {knee.TIMES:g} times what "
        f"{found.data['baseline']} takes at {notation.number(levels.min())} requests a second:"
    )
    caption = f"{told.text} means over blocks with 95 % intervals."
    cells = columns.write(estimates(rows), {
        **columns.words("system"), "blocks": lambda row: f"{row.n} of {blocks}",
        "rate, 1/s": lambda row: columns.both(row, "mean")[0], columns.CI: lambda row: columns.both(row, "mean")[1],
    })  # fmt: skip
    compared = [sentence(row) for row in ratios.itertuples(index=False)]
    return join(curve, told, kept(found, pd.DataFrame(cells), f"{workload}-knee", caption), listed(without + compared))


def _time(seconds: float) -> str:
    scale = notation.scale([seconds], "s")
    return f"{notation.number(seconds / scale.factor)} {scale.unit}"
