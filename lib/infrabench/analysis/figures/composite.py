"""The versions of a score, one row each: every engine's value with what the rounding of printed digits leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.view import Drawn
from infrabench.core import SchemaError

ROW_MM = 6.5


@theme.style()
def composite(
    scores: pd.DataFrame, orders: Mapping[str, str], *, systems: Sequence[str], names: Mapping[str, str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Drawn:  # fmt: skip
    """Return a dot plot of a score by version, with the order of the systems written at the right.

    `scores` has the columns ``label`` (the version), ``engine``, ``score``, ``low``, ``high``, in percent of the
    baseline, and is drawn in the order of its rows. `orders` gives for the label of a version its order in words, which
    is left out at 85 mm. `systems` (baseline first, then the engines) fixes colours and markers; `names` gives for an
    engine its name in the legend. Raises `SchemaError` when there is nothing to draw, or an engine not in `systems`.
    """
    engines = [name for name in systems if (scores["engine"] == name).any()]
    if scores.empty or set(scores["engine"]) - set(engines):
        raise SchemaError(f"scores of {', '.join(sorted(set(scores['engine']))) or 'nothing'}, systems {list(systems)}")
    marks, wide = theme.assign_styles(systems), width_mm > 120
    labels = list(dict.fromkeys(scores["label"]))
    drawn, axes = theme.canvas(width_mm, ROW_MM * len(labels) + 20)
    for y, label in enumerate(labels):
        axes.axhline(y, color=theme.BAND, lw=0.6, zorder=0)
        rows = scores[scores["label"] == label].set_index("engine").reindex(engines).dropna(subset="score")
        for place, (engine, row) in enumerate(rows.iterrows()):
            shift = 0.2 * (place - (len(rows) - 1) / 2)  # bars of neighbours that overlap stay apart
            colour, marker, _ = marks[str(engine)]
            axes.plot([row["low"], row["high"]], [y + shift] * 2, color=colour, lw=1.4, alpha=0.55, zorder=2)
            axes.plot(row["score"], y + shift, marker=marker, color=colour, ms=4, mew=0, zorder=3)
        axes.annotate(
            orders[label] if wide else "", (1.01, y), xycoords=("axes fraction", "data"), va="center",
            fontsize=theme.SMALL_PT, color=theme.GREY,
        )  # fmt: skip
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    what = ("Score, % of native (higher is better)", "bars: what the rounding of the printed digits allows")
    axes.set_xlabel("; ".join(what) if wide else "\n".join(["Score, % of native", "(bars: rounding)"]))
    drawn.get_layout_engine().set(w_pad=1.5 * theme.MM)
    shown = {engine: (names or {}).get(engine, engine) for engine in engines}
    theme.legend(drawn, {shown[engine]: marks[engine] for engine in engines}, list(shown.values()), line=0.0)
    return Drawn(drawn, (
        f"Overall performance of the container papers in {len(orders)} versions, % of native: as published, and "
        "computed again from the numbers that the same papers print. A question mark between two engines: the "
        "rounding of the printed digits alone can turn their order. Spread between runs, which is not printed, comes "
        "on top."
    ))  # fmt: skip
