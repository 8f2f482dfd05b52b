"""The figures of a session, each chosen by what it is about: data, caption, file name and side-car follow from that."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import pandas as pd

from infrabench import figures
from infrabench.analysis import Results, Shown, absent, alone, base, chosen, not_applicable, picture
from infrabench.core import unknown_name

Drawn = tuple[Any, pd.DataFrame, str]  # figure, its data, its caption
Draw = Callable[[Results, str, str, str, dict[str, float]], Drawn]


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
    if kind not in DRAW:
        raise unknown_name("figure", kind, DRAW)
    if workload and not (found.estimates["workload"] == workload).any():
        return absent(found, workload)
    if kind in ("forest", "tiers", "power") and chosen(found, workload, metric).empty:
        return alone(found)
    if metric and not _of(found, workload, metric, scenario)["value"].notna().any():
        return _nothing(found, workload, metric, scenario)
    if kind in OF_ONE_CASE and not scenario:
        scenario = _first_scenario(found, workload, metric)
    with figures.style():
        drawn, data, caption = DRAW[kind](found, workload, metric, scenario, {"width_mm": width_mm} if width_mm else {})
        other, _, _ = DRAW[kind](found, workload, metric, scenario, {"width_mm": figures.other_width(drawn)})
    caption = f"{caption} {base(found)}".strip()
    name = "-".join(part for part in (kind, workload, metric, scenario) if part).replace("=", "-").replace(" ", "-")
    parameters = {
        "kind": kind, "workload": workload, "metric": metric, "scenario": scenario, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
        "session": sorted(found.table["session"].unique()),
    }  # fmt: skip
    paths = figures.save(drawn, found.folder / "figures" / found.name, name, data, parameters, caption, other)
    return Shown(picture(next(path for path in paths if path.suffix == ".png"), caption), caption)


def _points(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    drawn = figures.points(
        found.table, found.estimates, workload, metric, scenarios=[scenario] if scenario else None,
        systems=found.systems, not_run=found.data["not_run"], absent=_absent(found, workload),
        contrasts=found.contrasts, **width,
    )  # fmt: skip
    cells = found.estimates if not scenario else found.estimates[found.estimates["scenario"] == scenario]
    caption = figures.caption(
        cells, workload, metric, contrasts=found.contrasts, not_run=_not_run(found, workload, metric),
        table=found.table, order=_order_kind(found),
    )  # fmt: skip
    return drawn, _of(found, workload, metric), caption


def _scaling(found: Results, workload: str, metric: str, _scenario: str, width: dict[str, float]) -> Drawn:
    drawn = figures.scaling(
        found.estimates, workload, metric, systems=found.systems, not_run=found.data["not_run"], **width
    )
    caption = figures.caption(
        found.estimates, workload, metric, kind="scaling", not_run=_not_run(found, workload, metric), table=found.table,
        order=_order_kind(found),
    )  # fmt: skip
    return drawn, _of(found, workload, metric), caption


def _curves(found: Results, workload: str, metric: str, _scenario: str, width: dict[str, float]) -> Drawn:
    drawn = figures.scaling(
        found.estimates, workload, metric, systems=found.systems, not_run=found.data["not_run"],
        contrasts=found.contrasts, **width,
    )  # fmt: skip
    caption = figures.caption(
        found.estimates, workload, metric, kind="scaling", contrasts=found.contrasts,
        not_run=_not_run(found, workload, metric), table=found.table, order=_order_kind(found),
    )  # fmt: skip
    return drawn, _of(found, workload, metric), caption


def _forest(found: Results, workload: str, metric: str, _scenario: str, width: dict[str, float]) -> Drawn:
    rows = chosen(found, workload, metric)
    # without a workload the reasons of all would be longer than the figure: the table of validity has them
    not_run = _not_run(found, workload, metric) if workload else found.data["not_run"]
    drawn = figures.forest(rows, systems=found.systems, not_run=not_run, **width)
    return drawn, rows, figures.forest_caption(rows, table=found.table, order=_order_kind(found))


def _tiers(found: Results, workload: str, metric: str, _scenario: str, width: dict[str, float]) -> Drawn:
    drawn = figures.tiers(
        found.tiers,
        found.contrasts,
        workload,
        metric,
        systems=found.systems,
        not_run=_not_run(found, workload, metric),
        **width,
    )
    data = found.tiers[(found.tiers["workload"] == workload) & (found.tiers["metric"] == metric)]
    caption = figures.tiers_caption(
        found.tiers, found.contrasts, workload, metric, table=found.table, order=_order_kind(found)
    )
    return drawn, data, caption


def _order(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    probes = None if found.probes.empty else found.probes
    drawn = figures.order(
        found.table, workload, metric, scenario, systems=found.systems, probes=probes, **width
    )  # fmt: skip
    caption = figures.order_caption(
        found.table, workload, metric, scenario, diagnostics=found.diagnostics, probes=probes, order=_order_kind(found)
    )  # fmt: skip
    return drawn, _of(found, workload, metric, scenario), caption


def _ecdf(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    case = (workload, metric, scenario)
    drawn = figures.ecdf(found.table, found.estimates, *case, systems=found.systems, **width)
    caption = figures.ecdf_caption(found.table, found.estimates, *case, _order_kind(found))
    return drawn, _of(found, *case), caption


def _modes(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    case = (workload, metric, scenario)
    drawn = figures.modes(found.table, found.diagnostics, *case, systems=found.systems, **width)
    return drawn, _of(found, *case), figures.modes_caption(found.table, found.diagnostics, *case)


def _lag(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    case = (workload, metric, scenario)
    drawn = figures.lag(found.table, found.diagnostics, *case, systems=found.systems, **width)
    return drawn, _of(found, *case), figures.lag_caption(found.table, found.diagnostics, *case)


def _qq(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    case = (workload, metric, scenario)
    drawn = figures.qq(found.table, *case, systems=found.systems, **width)
    return drawn, _of(found, *case), figures.qq_caption(found.table, found.diagnostics, *case)


def _power(found: Results, workload: str, metric: str, scenario: str, width: dict[str, float]) -> Drawn:
    case = (workload, metric, scenario)
    drawn = figures.power(found.contrasts, *case, systems=found.systems, **width)
    return drawn, chosen(found, workload, metric), figures.power_caption(found.contrasts, *case)


DRAW: dict[str, Draw] = {
    "points": _points, "scaling": _scaling, "curves": _curves, "forest": _forest, "tiers": _tiers, "order": _order,
    "ecdf": _ecdf, "modes": _modes, "lag": _lag, "qq": _qq, "power": _power,
}  # fmt: skip
OF_ONE_CASE = ("order", "ecdf", "modes", "lag", "qq", "power")


def _of(found: Results, workload: str, metric: str, scenario: str = "") -> pd.DataFrame:
    rows = found.table[(found.table["workload"] == workload) & (found.table["metric"] == metric)]
    return rows[rows["scenario"] == scenario] if scenario else rows


def _not_run(found: Results, workload: str, metric: str) -> dict[str, str]:
    """Return who was not run, whole systems and single scenarios, with the reason."""
    return found.data["not_run"] | not_applicable(found, workload, metric)


def _absent(found: Results, workload: str) -> dict[tuple[str, str], str]:
    """Return (scenario, system) -> reason of the cells of a workload that do not apply."""
    absent = [each for each in found.data.get("not_applicable", []) if each["workload"] == workload]
    return {(each["scenario"], each["system"]): each["reason"] for each in absent}


def _order_kind(found: Results) -> str:
    """Return how the trials of a block were ordered: a word that captions know, or a sentence where groups are kept."""
    kind = str(found.data.get("order", "random"))
    cases = found.data.get("parameters", {}).get("cases", [])
    groups = list(dict.fromkeys(case["group"] for case in cases if case.get("group")))
    return figures.grouped(groups) if groups else kind


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
