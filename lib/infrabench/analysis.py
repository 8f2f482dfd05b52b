"""A session's analysis in one place, and its figures, tables and sentences, written to disk as they are shown.

A notebook asks for a figure or a table by what it is about; choosing data, caption, file name and side-car is the same
for every study and stands here.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench import display, figures, published, tables
from infrabench.core import DesignError
from infrabench.stats.contrasts import contrasts
from infrabench.stats.diagnostics import diagnostics
from infrabench.stats.estimates import estimates


@dataclass(frozen=True)
class Results:
    """What a session says: its data, one row per cell (`estimates`, `diagnostics`), one per contrast (`contrasts`).

    `folder`: figures go to ``figures/STUDY`` and tables to ``tables/STUDY`` below it.
    """

    data: dict[str, Any]
    table: pd.DataFrame
    estimates: pd.DataFrame
    contrasts: pd.DataFrame
    diagnostics: pd.DataFrame
    folder: Path

    @property
    def systems(self) -> list[str]:
        """Systems in the session's order: it fixes colours and markers."""
        return list(self.data["systems"])


@dataclass(frozen=True)
class Shown:
    """Something to show in a notebook: HTML, with the same in plain text."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def results(data: dict[str, Any], table: pd.DataFrame, missing: pd.DataFrame, folder: Path) -> Results:
    """Return the analysis of a session (``session.json``, tidy table, planned trials without a record)."""
    primary = [tuple(each) for each in data["primary"]]
    return Results(
        data, table, estimates(table, missing), contrasts(table, data["baseline"], data["margins"], primary),
        diagnostics(table), folder,
    )  # fmt: skip


def figure(
    found: Results, kind: str, workload: str = "", metric: str = "", *, scenario: str = "",
    width_mm: float | None = None,
) -> Shown:  # fmt: skip
    """Return a figure with its caption, written as PDF, SVG, PNG and side-car.

    Parameters
    ----------
    kind
        ``points`` (raw values, mean, ratio to the baseline), ``scaling`` (over the case's numeric factor), ``forest``
        (ratios; without workload and metric those of the primary metrics) or ``order`` (one case in executed order).
    workload, metric, scenario
        What it is about.
    width_mm
        Printed width; a journal column is 85, a page 174.
    """
    draw = {"points": _points, "scaling": _scaling, "forest": _forest, "order": _order}
    if kind not in draw:
        raise DesignError(f"unknown figure {kind!r}; there are {', '.join(draw)}")
    if workload and not (found.estimates["workload"] == workload).any():
        return _absent(found, workload)
    if kind == "forest" and _chosen(found, workload, metric).empty:
        return _alone(found)
    with figures.style():
        drawn, data, caption = draw[kind](found, workload, metric, scenario, width_mm)
    name = "-".join(part for part in (kind, workload, metric, scenario) if part).replace("=", "-")
    parameters = {
        "kind": kind, "workload": workload, "metric": metric, "scenario": scenario, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
    }  # fmt: skip
    paths = figures.save(drawn, found.folder / "figures" / found.data["study"], name, data, parameters, caption)
    return Shown(picture(next(path for path in paths if path.suffix == ".png"), caption), caption)


def table(found: Results, kind: str, workloads: Sequence[str] = ()) -> Shown:
    """Return a table, written as Markdown, CSV and LaTeX: ``estimates``, ``contrasts``, ``results`` or ``published``.

    `workloads`: those to show; the files have all.
    """
    made, frame = {
        "estimates": lambda: (tables.estimates_table(found.estimates), found.estimates),
        "contrasts": lambda: (tables.contrasts_table(found.contrasts), found.contrasts),
        "results": lambda: (tables.results_table(found.estimates, found.contrasts, found.diagnostics), found.estimates),
        "published": lambda: _published(found),
    }[kind]()
    caption = f"{found.data['title']} Profile {found.data['profile']}, {found.data['blocks']} blocks. {_base(found)}"
    tables.save(made, found.folder / "tables" / found.data["study"], kind, caption)
    chosen = made[frame["workload"].isin(workloads).to_numpy()] if workloads else made
    return Shown(chosen.to_html(index=False, border=0), tables.markdown(chosen))


def whole(frame: pd.DataFrame) -> Shown:
    """Return a frame with every cell shown in full; what is missing is an empty cell."""
    text = frame.reset_index() if frame.index.name else frame
    text = text.astype("object").where(text.notna(), "").astype("str")
    with pd.option_context("display.max_colwidth", None):
        return Shown(text.to_html(index=False, border=0), tables.markdown(text))


def findings(found: Results, workload: str, metric: str) -> Shown:
    """Return what the contrasts of one metric say, in sentences made from the computed values."""
    if found.contrasts.empty:
        return _alone(found)
    rows = _chosen(found, workload, metric)
    if rows.empty:
        return _absent(found, workload)
    sentences = [_sentence(row) for row in rows.itertuples(index=False)]
    items = "".join(f"<li>{html.escape(each)}</li>" for each in sentences)
    return Shown(f"<ul>{items}</ul>", "\n".join(f"- {each}" for each in sentences))


def summary(found: Results) -> Shown:
    """Return how many contrasts have which verdict, by system; primary metrics apart."""
    rows = found.contrasts.assign(family=_is_primary(found).map({True: "primary", False: "exploratory"}))
    counts = pd.crosstab([rows["family"], rows["system"]], rows["verdict"]).reset_index()
    return Shown(counts.to_html(index=False, border=0), tables.markdown(counts.astype("str")))


def _points(found: Results, workload: str, metric: str, scenario: str, width_mm: float | None) -> Any:
    scenarios = [scenario] if scenario else None
    drawn = figures.points(
        found.table, found.estimates, workload, metric, scenarios=scenarios, systems=found.systems,
        not_run=found.data["not_run"], contrasts=found.contrasts, width_mm=width_mm,
    )  # fmt: skip
    cells = found.estimates if not scenario else found.estimates[found.estimates["scenario"] == scenario]
    caption = figures.caption(cells, workload, metric, contrasts=found.contrasts, not_run=found.data["not_run"])
    return drawn, _of(found.table, workload, metric), f"{caption} {_base(found)}"


def _scaling(found: Results, workload: str, metric: str, _scenario: str, width_mm: float | None) -> Any:
    drawn = figures.scaling(
        found.estimates, workload, metric, systems=found.systems, not_run=found.data["not_run"],
        width_mm=width_mm or figures.COLUMN_MM,
    )  # fmt: skip
    caption = figures.caption(found.estimates, workload, metric, kind="scaling", not_run=found.data["not_run"])
    return drawn, _of(found.table, workload, metric), f"{caption} {_base(found)}"


def _forest(found: Results, workload: str, metric: str, _scenario: str, width_mm: float | None) -> Any:
    rows = _chosen(found, workload, metric)
    drawn = figures.forest(
        rows, systems=found.systems, not_run=found.data["not_run"], width_mm=width_mm or figures.PAGE_MM
    )
    caption = (
        f"Ratio to {found.data['baseline']} of the means over complete blocks, 95 % Fieller interval (paired by "
        f"block), equivalence margin shaded. {_base(found)}"
    )
    return drawn, rows, caption


def _order(found: Results, workload: str, metric: str, scenario: str, width_mm: float | None) -> Any:
    drawn = figures.order(
        found.table, workload, metric, scenario, systems=found.systems, width_mm=width_mm or figures.PAGE_MM
    )
    caption = f"{workload}, {scenario}: every value in the order in which it was measured, blocks marked."
    return drawn, _of(found.table, workload, metric), caption


def _published(found: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    beside = published.against(found.contrasts)
    return tables.against_table(beside), beside


def _chosen(found: Results, workload: str, metric: str) -> pd.DataFrame:
    """Return the contrasts of a workload, or the primary ones; of one metric, where it is given."""
    rows = found.contrasts
    rows = rows[rows["workload"] == workload] if workload else rows[_is_primary(found)]
    return rows[rows["metric"] == metric] if metric else rows


def _of(table: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    return table[(table["workload"] == workload) & (table["metric"] == metric)]


def _is_primary(found: Results) -> pd.Series:
    wanted = {tuple(each) for each in found.data["primary"]}
    pairs = zip(found.contrasts["workload"], found.contrasts["metric"], strict=True)
    return pd.Series([pair in wanted for pair in pairs], index=found.contrasts.index, dtype="bool")


def _base(found: Results) -> str:
    """Say what the baseline is at this site: in the lab it is a system container itself."""
    kind = found.data["site"]["kind"]
    what = "the lab's server node, a system container on the same kernel" if kind == "lab" else "the host itself"
    return f"{found.data['baseline'].capitalize()} is {what}."


def _sentence(row: Any) -> str:
    told = f"{row.scenario}, {row.system}: "
    if pd.isna(row.ratio):
        return f"{told}{row.verdict} ({row.reason})."
    places = display.decimals(row.ratio_low, row.ratio_high, null=1)
    told += f"{display.number(row.ratio, places)} times {row.baseline}"
    told += f" (95 % interval {display.interval(row.ratio_low, row.ratio_high, null=1)}, n = {row.n_pairs} blocks)"
    told += f"; {display.direction(row.better)}: {row.verdict}"
    if row.verdict == "inconclusive" and not pd.isna(row.n_to_decide):
        told += f", about {int(row.n_to_decide)} blocks would decide"
    return told + (f" ({row.reason})." if row.reason else ".")


def _absent(found: Results, workload: str) -> Shown:
    why = found.data.get("left_out", {}).get(workload, f"not part of the profile {found.data['profile']}")
    text = f"{workload}: not run: {why}."
    return Shown(f"<p>{html.escape(text)}</p>", text)


def _alone(found: Results) -> Shown:
    why = "; ".join(f"{name}: {reason}" for name, reason in found.data["not_run"].items())
    why = f"Not run: {why}." if why else "No other system was asked for."
    text = f"There is nothing to compare {found.data['baseline']} with. {why}"
    return Shown(f"<p>{html.escape(text)}</p>", text)


def picture(png: Path, caption: str) -> str:
    """Return a figure as HTML, the picture in it and the caption under it."""
    data = base64.b64encode(png.read_bytes()).decode()
    told = html.escape(caption, quote=True)
    return (
        f'<figure style="margin:0"><img alt="{told}" src="data:image/png;base64,{data}" style="max-width:100%">'
        f"<figcaption>{told}</figcaption></figure>"
    )
