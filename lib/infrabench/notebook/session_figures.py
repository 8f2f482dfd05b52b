"""The figures of a session, each chosen by what it is about: data, caption, file name and side-car follow from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench.analysis import figures
from infrabench.analysis.figures import FIGURES, Drawn, View
from infrabench.analysis.results import (
    Results,
    Shown,
    absent,
    alone,
    base,
    chosen,
    drawing,
    not_applicable,
    paragraph,
    picture,
)
from infrabench.core import unknown_name

SCREEN_DPI = 200  # sharp where a screen shows a figure larger than paper does


def figure(
    found: Results, kind: str, workload: str = "", metric: str = "", *, scenario: str = "",
    width_mm: float | None = None, save: bool = True,
) -> Shown:  # fmt: skip
    """Return a figure with its caption, written as PDF, SVG, PNG and side-car.

    Parameters
    ----------
    kind
        ``points`` (raw values, mean, ratio to the baseline), ``scaling`` (over the case's numeric factor), ``curves``
        (the same, and below it the ratios to the baseline), ``forest`` (ratios; without workload and metric those of
        the primary metrics), ``tiers`` (which systems cannot be told apart); of one case, with `scenario`: ``blocks``
        (values, the systems of a block side by side), ``order`` (values and drift probes in executed order), ``ecdf``,
        ``modes``, ``lag``, ``qq`` and ``power`` (detectable difference over n).
    workload, metric, scenario
        What it is about. Without a scenario, figures of one case take the first one.
    width_mm
        Printed width; a journal column is 85, a page 174.
    save
        False: draw it for a screen alone, and write nothing.
    """
    if kind not in FIGURES:
        raise unknown_name("figure", kind, FIGURES)
    if workload and not (found.estimates["workload"] == workload).any():
        return absent(found, workload)
    if kind in ("forest", "tiers", "power") and chosen(found, workload, metric).empty:
        return alone(found)
    if metric and not rows_of(found.table, workload, metric, scenario)["value"].notna().any():
        return _nothing(found, workload, metric, scenario)
    each = FIGURES[kind]
    if each.one_case and not scenario:
        values = rows_of(found.table, workload, metric).dropna(subset="value")
        scenario = str(values.sort_values(["level", "scenario"], kind="stable")["scenario"].iloc[0])
    view = view_of(found, workload, metric, scenario)
    if kind == "power" and not (rows_of(view.contrasts, workload, metric, scenario)["detectable"] > 0).any():
        return paragraph(f"{workload}, {scenario}: no contrast has a spread, and so no power can be told from it.")
    if not save:
        drawn, told = each.draw(replace(view, width_mm=width_mm))
        caption = f"{told} {base(found)}".strip()
        return Shown(drawing(figures.screen(drawn, SCREEN_DPI), caption), caption)
    rows = getattr(view, each.rows)
    if each.rows == "table":
        rows = rows_of(found.table, workload, metric, scenario if each.one_case else "")
    name = "-".join(part for part in (kind, workload, metric, scenario) if part).replace("=", "-").replace(" ", "-")
    parameters = {
        "kind": kind, "workload": workload, "metric": metric, "scenario": scenario, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
        "session": sorted(found.table["session"].unique()),
    }  # fmt: skip

    def draw(**width: float) -> Drawn:
        return each.draw(replace(view, **width))  # type: ignore[arg-type]

    return show_figure(draw, found.folder / "figures" / found.name, name, rows, parameters, base(found), width_mm)


def show_figure(
    draw: Callable[..., Drawn], folder: Path, name: str, data: pd.DataFrame, parameters: Mapping[str, Any],
    note: str = "", width_mm: float | None = None,
) -> Shown:  # fmt: skip
    """Return a figure with its caption, written by `figures.save` at this width and at a journal's other one.

    `draw` takes ``width_mm``, and has a width of its own where it is not given; `note` stands behind its caption.
    """
    drawn, told = draw(**({"width_mm": width_mm} if width_mm else {}))
    other = draw(width_mm=figures.other_width(drawn)).figure
    caption = f"{told} {note}".strip()
    paths = figures.save(drawn, folder, name, data, parameters, caption, other)
    return Shown(picture(next(path for path in paths if path.suffix == ".png"), caption), caption)


def view_of(found: Results, workload: str = "", metric: str = "", scenario: str = "") -> View:
    """Return what figures of a session are drawn from; without a workload, of its primary metrics."""
    kind, cases = str(found.data.get("order", "random")), found.data.get("parameters", {}).get("cases", [])
    groups = list(dict.fromkeys(case["group"] for case in cases if case.get("group")))
    cells = [each for each in found.data.get("not_applicable", []) if each["workload"] == workload]
    return View(
        workload, metric, scenario, found.table, found.estimates, chosen(found, workload, metric), found.diagnostics,
        found.tiers[(found.tiers["workload"] == workload) & (found.tiers["metric"] == metric)],
        None if found.probes.empty else found.probes, found.systems,
        # without a workload the reasons of all would be longer than the figure: the table of validity has them
        found.data["not_run"] | (not_applicable(found, workload, metric) if workload else {}),
        {(each["scenario"], each["system"]): each["reason"] for each in cells},
        figures.grouped(groups, kind) if groups else kind,
    )  # fmt: skip


def rows_of(frame: pd.DataFrame, workload: str, metric: str, scenario: str = "") -> pd.DataFrame:
    """Return the rows of a metric of a workload; of one scenario, where it is given."""
    rows = frame[(frame["workload"] == workload) & (frame["metric"] == metric)]
    return rows[rows["scenario"] == scenario] if scenario else rows


def _nothing(found: Results, workload: str, metric: str, scenario: str) -> Shown:
    """Return that there is no value to draw; `DesignError` for a metric that the workload does not have."""
    known = set(found.table.loc[found.table["workload"] == workload, "metric"].dropna())
    if known and metric not in known:
        raise unknown_name(f"metric of {workload}", metric, known)
    where = ", ".join(part for part in (workload, scenario) if part)
    return paragraph(f"{where}: there is no valid trial to draw {metric} of in this session.")
