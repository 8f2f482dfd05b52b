"""What a design can find: the smallest difference against the number of blocks or deployments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.sentences import span
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.stats.planning import POWER, detectable

SIZES = (3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
TICKS = (3, 5, 10, 30, 100, 300)
PERCENT = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def power(
    contrasts: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = theme.COLUMN_MM,
) -> Figure:
    """Return the smallest difference to the baseline that 80 % of sessions find, over n, at the spread of each system.

    A marker stands at the n of the session, a dashed line at the equivalence margin. Both axes are logarithmic. Raises
    `SchemaError` when no contrast of the case has a spread.
    """
    rows = _rows(contrasts, workload, metric, scenario)
    baseline = rows[0].baseline
    marks = theme.assign_styles(
        list(systems) if systems is not None else [baseline, *theme.systems_of(contrasts, None, None)]
    )
    sizes = np.array(sorted({*SIZES, *(int(row.n_pairs) for row in rows)}), dtype=float)
    with theme.style():
        figure, axes = theme.canvas(width_mm, 60 + theme.legend_mm(len(rows), width_mm))
        for row in rows:
            curve, mark = 100 * np.expm1(_spread(row) * detectable(1.0, sizes)), marks[row.system]
            axes.plot(sizes, curve, c=mark.colour, lw=0.9, ls=mark.dash)
            axes.plot(row.n_pairs, 100 * row.detectable, mark.marker, c=mark.colour, ms=4.5, mec="white", mew=0.4)
        margin = 100 * rows[0].margin
        axes.axhline(margin, color=theme.GREY, lw=0.8, ls=(0, (4, 2)), zorder=1)
        axes.annotate(
            f"margin of {margin:g} %", (0.01, margin), xycoords=("axes fraction", "data"), xytext=(0, 1.5), ha="left",
            va="bottom", textcoords="offset points", fontsize=theme.SMALL_PT, color=theme.GREY,
        )  # fmt: skip
        axes.set(xscale="log", yscale="log")
        for axis, ticks in ((axes.xaxis, TICKS), (axes.yaxis, PERCENT)):
            axis.set_major_locator(FixedLocator(ticks))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(f"{rows[0].pair_unit} (marker: this session)")
        axes.set_ylabel("Detectable difference (%)")
        theme.legend(figure, marks, [row.system for row in rows], line=0.9)
    return figure


def power_caption(contrasts: pd.DataFrame, workload: str, metric: str, scenario: str) -> str:
    """Return the caption of `power`: what can be found with the n of the session, and the power to show equivalence."""
    rows = _rows(contrasts, workload, metric, scenario)
    found = ", ".join(f"{row.system} {notation.short(100 * row.detectable)} %" for row in rows)
    alike = ", ".join(f"{row.system} {notation.chance(row.power_equivalence)} %" for row in rows)
    n = f"{span([row.n_pairs for row in rows])} {rows[0].pair_unit}"
    return (
        f"{workload}, {scenario}: {notation.metric_title(metric)}, smallest true difference to {rows[0].baseline} that "
        f"a paired t test on log ratios at 5 % finds with {100 * POWER:.0f} % power, at the spread of the session. "
        f"With n = {n}: {found}. Chance to show equivalence within {100 * rows[0].margin:g} % (dashed) when the "
        f"systems are equal: {alike}."
    )


def _rows(contrasts: pd.DataFrame, workload: str, metric: str, scenario: str) -> list[Any]:
    chosen = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
    chosen = chosen[(chosen["scenario"] == scenario) & (chosen["detectable"] > 0)]
    if chosen.empty:
        raise SchemaError(
            f"no contrast of {workload}, {scenario}, {metric} with a spread: there is nothing to plan from"
        )
    return list(chosen.itertuples(index=False))


def _spread(row: Any) -> float:
    """Standard deviation of the log ratios that the detectable difference of a contrast was worked out from."""
    return float(np.log1p(row.detectable) / detectable(1.0, row.n_pairs))
