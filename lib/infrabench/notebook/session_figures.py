"""The figures of a session, each chosen by what it is about: data, caption, file name and side-car follow from that."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from infrabench.analysis import figures
from infrabench.analysis.results import Results, Shown, absent, alone, base, chosen, not_applicable, picture
from infrabench.core import unknown_name


@dataclass(frozen=True)
class SessionFigure:
    """What draws a figure, what words its caption, and which rows it shows: ``table``, ``contrasts`` or ``groups``.

    Both functions are called with what their parameters name, see `_arguments`; `settled` stands before that.
    """

    draw: Callable[..., Figure]
    caption: Callable[..., str]
    rows: str = "table"
    one_case: bool = False
    settled: Mapping[str, Any] = field(default_factory=dict)


FIGURES: Mapping[str, SessionFigure] = {
    "points": SessionFigure(figures.points, figures.caption),
    "scaling": SessionFigure(figures.scaling, figures.caption, settled={"kind": "scaling", "contrasts": None}),
    "curves": SessionFigure(figures.scaling, figures.caption, settled={"kind": "scaling"}),
    "forest": SessionFigure(figures.forest, figures.forest_caption, "contrasts"),
    "tiers": SessionFigure(figures.tiers, figures.tiers_caption, "groups"),
    "order": SessionFigure(figures.order, figures.order_caption, one_case=True),
    "ecdf": SessionFigure(figures.ecdf, figures.ecdf_caption, one_case=True),
    "modes": SessionFigure(figures.modes, figures.modes_caption, one_case=True),
    "lag": SessionFigure(figures.lag, figures.lag_caption, one_case=True),
    "qq": SessionFigure(figures.qq, figures.qq_caption, one_case=True),
    "power": SessionFigure(figures.power, figures.power_caption, "contrasts", one_case=True),
}
OF_ONE_CASE = tuple(name for name, each in FIGURES.items() if each.one_case)


def figure(
    found: Results, kind: str, workload: str = "", metric: str = "", *, scenario: str = "",
    width_mm: float | None = None,
) -> Shown:  # fmt: skip
    """Return a figure with its caption, written as PDF, SVG, PNG and side-car.

    Parameters
    ----------
    kind
        ``points`` (raw values, mean, ratio to the baseline), ``scaling`` (over the case's numeric factor), ``curves``
        (the same, and below it the ratios to the baseline), ``forest`` (ratios; without workload and metric those of
        the primary metrics), ``tiers`` (which systems cannot be told apart); of one case, with `scenario`: ``order``
        (values and drift probes in executed order), ``ecdf``, ``modes``, ``lag``, ``qq`` and ``power`` (detectable
        difference over n).
    workload, metric, scenario
        What it is about. Without a scenario, figures of one case take the first one.
    width_mm
        Printed width; a journal column is 85, a page 174.
    """
    if kind not in FIGURES:
        raise unknown_name("figure", kind, FIGURES)
    if workload and not (found.estimates["workload"] == workload).any():
        return absent(found, workload)
    if kind in ("forest", "tiers", "power") and chosen(found, workload, metric).empty:
        return alone(found)
    if metric and not _of(found, workload, metric, scenario)["value"].notna().any():
        return _nothing(found, workload, metric, scenario)
    if kind in OF_ONE_CASE and not scenario:
        scenario = _first_scenario(found, workload, metric)
    each, values = FIGURES[kind], _arguments(found, kind, workload, metric, scenario)
    caption = f"{_call(each.caption, values)} {base(found)}".strip()
    name = "-".join(part for part in (kind, workload, metric, scenario) if part).replace("=", "-").replace(" ", "-")
    parameters = {
        "kind": kind, "workload": workload, "metric": metric, "scenario": scenario, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
        "session": sorted(found.table["session"].unique()),
    }  # fmt: skip
    rows = (
        _of(found, workload, metric, scenario if each.one_case else "") if each.rows == "table" else values[each.rows]
    )
    draw, folder = partial(_call, each.draw, values), found.folder / "figures" / found.name
    with figures.style():
        return show_figure(draw, folder, name, rows, parameters, caption, width_mm)


def show_figure(
    draw: Callable[..., Figure], folder: Path, name: str, data: pd.DataFrame, parameters: Mapping[str, Any],
    caption: str, width_mm: float | None = None,
) -> Shown:  # fmt: skip
    """Return a figure with its caption, written by `figures.save` at this width and at a journal's other one.

    `draw` takes ``width_mm``, and has a width of its own where it is not given.
    """
    drawn = draw(**({"width_mm": width_mm} if width_mm else {}))
    other = draw(width_mm=figures.other_width(drawn))
    paths = figures.save(drawn, folder, name, data, parameters, caption, other)
    return Shown(picture(next(path for path in paths if path.suffix == ".png"), caption), caption)


def _arguments(found: Results, kind: str, workload: str, metric: str, scenario: str) -> dict[str, Any]:
    """Return what functions of figures and captions can ask for, by the names of their parameters."""
    estimates, tiers = found.estimates, found.tiers
    if kind == "points" and scenario:
        estimates = estimates[estimates["scenario"] == scenario]
    return {
        "workload": workload, "metric": metric, "scenario": scenario, "systems": found.systems,
        "table": found.table, "estimates": estimates, "contrasts": chosen(found, workload, metric),
        "diagnostics": found.diagnostics, "probes": None if found.probes.empty else found.probes,
        "groups": tiers[(tiers["workload"] == workload) & (tiers["metric"] == metric)],
        # without a workload the reasons of all would be longer than the figure: the table of validity has them
        "not_run": found.data["not_run"] | (not_applicable(found, workload, metric) if workload else {}),
        "absent": _absent(found, workload), "order": _order_kind(found), **FIGURES[kind].settled,
    }  # fmt: skip


def _call(function: Callable[..., Any], values: Mapping[str, Any], **more: Any) -> Any:
    """Call a function with those of the values that its parameters name."""
    named = [name for name in inspect.signature(function).parameters if name in values]
    return function(**{name: values[name] for name in named}, **more)


def _of(found: Results, workload: str, metric: str, scenario: str = "") -> pd.DataFrame:
    rows = found.table[(found.table["workload"] == workload) & (found.table["metric"] == metric)]
    return rows[rows["scenario"] == scenario] if scenario else rows


def _absent(found: Results, workload: str) -> dict[tuple[str, str], str]:
    """Return (scenario, system) -> reason of the cells of a workload that do not apply."""
    absent = [each for each in found.data.get("not_applicable", []) if each["workload"] == workload]
    return {(each["scenario"], each["system"]): each["reason"] for each in absent}


def _order_kind(found: Results) -> str:
    """Return how the trials of a block were ordered: a word that captions know, or a sentence where groups are kept."""
    kind = str(found.data.get("order", "random"))
    cases = found.data.get("parameters", {}).get("cases", [])
    groups = list(dict.fromkeys(case["group"] for case in cases if case.get("group")))
    return figures.grouped(groups, kind) if groups else kind


def _first_scenario(found: Results, workload: str, metric: str) -> str:
    values = _of(found, workload, metric).dropna(subset="value")
    levels = values.sort_values(["level", "scenario"], kind="stable")
    return str(levels["scenario"].iloc[0])


def _nothing(found: Results, workload: str, metric: str, scenario: str) -> Shown:
    """Return that there is no value to draw; `DesignError` for a metric that the workload does not have."""
    known = set(found.table.loc[found.table["workload"] == workload, "metric"].dropna())
    if known and metric not in known:
        raise unknown_name(f"metric of {workload}", metric, known)
    where = ", ".join(part for part in (workload, scenario) if part)
    text = f"{where}: there is no valid trial to draw {metric} of in this session."
    return Shown(f"<p>{html.escape(text)}</p>", text)
