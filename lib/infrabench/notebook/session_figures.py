"""The figures of a session, each chosen by what it is about: data, caption, file name and side-car follow from that.

And the figures and the table of a study's history, which are written alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.text import Text

from infrabench.analysis import figures, results, tables
from infrabench.analysis.figures import FIGURES, Drawn, View, theme
from infrabench.analysis.history import RATIO, History, describe_history
from infrabench.analysis.results import Results, Shown, paragraph
from infrabench.analysis.session_data import Session, open_session
from infrabench.core import DesignError, check_known, unknown_name
from infrabench.notebook import api
from infrabench.notebook.published_cells import compare_published
from infrabench.registry import names as plugins

WIDTHS = {"column": figures.COLUMN_MM, "page": figures.PAGE_MM}
NAMED = ("system", "baseline", "workload", "metric", "scenario", "factor")  # columns of names that may have a label
CASE = ["workload", "metric", "scenario"]
FRAMES = ("table", "estimates", "contrasts", "diagnostics", "tiers", "published")
BEYOND_MM = 0.1  # of the paper: less is a rounding of the layout

SCREEN_DPI = 200  # sharp where a screen shows a figure larger than paper does


def figure(
    found: Results | Session | str | Path, kind: str, workload: str = "", metric: str = "", *, scenario: str = "",
    systems: Sequence[str] = (), labels: Mapping[str, str] | None = None, words: Mapping[str, str] | None = None,
    width: str = "", path: str | Path | None = None, save: bool = True,
) -> Shown:  # fmt: skip
    """Return a figure of a session with its caption; write it, as PDF, SVG, PNG and side-car, or to `path` alone.

    >>> ib.figure(results, "ecdf", "web", "latency_p99_s", scenario="users=1000")
    >>> ib.figure("lab-quick-debian13-containers", "forest", systems=["lxd", "docker"], labels={"lxd": "LXD 5.0"},
    ...           width="column", path="paper/forest.pdf")

    Numbers are always those of the whole session: a figure of fewer systems shows less and says nothing else.

    Parameters
    ----------
    found
        Results, a session, or the name, folder or archive of one. Of several figures, results are read once.
    kind
        ``points`` (raw values, mean, ratio to the baseline), ``scaling`` (over the case's numeric factor), ``curves``
        (the same, and below it the ratios to the baseline), ``forest`` (ratios; without workload and metric those of
        the primary metrics), ``tiers`` (which systems cannot be told apart), ``published`` (every ratio that the papers
        of the study print beside ours; takes neither workload nor metric); of one case, with `scenario`: ``blocks``
        (values, the systems of a block side by side), ``order`` (values and drift probes in executed order), ``ecdf``,
        ``modes``, ``lag``, ``qq`` and ``power`` (detectable difference over n).
    workload, metric, scenario
        What it is about. Without a scenario, figures of one case take the first one.
    systems
        Those to draw, in this order; all by default. Each keeps the colour and the sign that it has in the session.
    labels
        Name of a system, workload, metric, scenario or factor -> what it is called in the figure and its caption.
    words
        Any piece of text -> another, in the figure and its caption, for another language; what is not there is left.
    width
        Printed width: ``column`` (85 mm) or ``page`` (174 mm); by default what suits the figure.
    path
        File to write, whose ending is the format: ``.pdf``, ``.svg`` or ``.png``; a side-car ``.json`` that says from
        which data it was drawn stands beside it. Without one, a figure of all systems with their own names is written
        below `Results.folder`, at both widths; any other is only shown.
    save
        False: draw it for a screen alone, and write nothing.

    Raises `DesignError` for a name that is not there, with those that are; where two names would have one label; where
    a text reaches beyond the paper; and, with `path`, where the session has nothing to draw.
    """
    if not isinstance(found, Results):
        found = api.results(found if isinstance(found, Session) else open_session(found))
    check_known("figure", [kind], FIGURES)
    if width and width not in WIDTHS:
        raise unknown_name("width", width, WIDTHS)
    check_known("system", systems, found.systems)
    place = None if path is None else Path(path)
    if place is not None and place.suffix[1:] not in figures.METADATA:
        raise unknown_name("ending of a file", place.suffix[1:], figures.METADATA)
    each = FIGURES[kind]
    empty = _explain_empty(found, kind, workload, metric, scenario)
    if empty is None and each.one_case and not scenario:
        values = rows_of(found.table, workload, metric).dropna(subset="value")
        scenario = str(values.sort_values(["level", "scenario"], kind="stable")["scenario"].iloc[0])
    if empty is None and kind == "power":
        spread = rows_of(found.contrasts, workload, metric, scenario)["detectable"] > 0
        why = f"{workload}, {scenario}: no contrast has a spread, and so no power can be told from it."
        empty = None if spread.any() else paragraph(why)
    if empty is not None:
        if place is not None:
            scenarios = set(found.table.loc[found.table["workload"] == workload, "scenario"])
            known = not scenario or not scenarios or scenario in scenarios
            raise DesignError(empty.text) if known else unknown_name(f"scenario of {workload}", scenario, scenarios)
        return empty
    view = view_of(found, workload, metric, scenario, systems, kind)
    rows = getattr(view, each.rows)
    if each.rows == "table":
        rows = rows_of(view.trials, workload, metric, scenario if each.one_case else "")
    parameters = {
        "kind": kind, "workload": workload, "metric": metric, "scenario": scenario, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": view.systems,
        "session": sorted(found.table["session"].unique()),
    }  # fmt: skip
    called = _labelled(view, labels or {}, found)

    def draw(width_mm: float | None = WIDTHS.get(width)) -> Drawn:
        with theme.wording(words or {}):
            drawn, told = each.draw(replace(called, width_mm=width_mm))
            for text in drawn.findobj(Text):
                text.set_text(theme.reword(text.get_text()))
            return Drawn(drawn, theme.reword(f"{told} {results.base(found)}".strip()))

    if not save:
        drawn, caption = draw()
        return Shown(results.drawing(figures.screen(drawn, SCREEN_DPI), caption), caption)
    if place is None and not (systems or labels or words):
        name = name_files(kind, workload, metric, scenario)
        return show_figure(draw, found.folder / "figures" / found.name, name, rows, parameters)
    drawn, caption = draw()
    if (beyond := figures.overhang_mm(drawn)) > BEYOND_MM:
        raise DesignError(f"a text reaches {beyond:.1f} mm beyond the paper: shorten labels and words, or width='page'")
    if place is not None:
        more = {"labels": dict(labels or {}), "words": dict(words or {})}
        figures.save(drawn, place.parent, place.stem, rows, parameters | more, caption, kinds=[place.suffix[1:]])
    return Shown(results.drawing(figures.screen(drawn), caption), caption)


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
    png = next(path for path in paths if path.suffix == ".png")
    return Shown(results.drawing(png.read_bytes(), caption), caption)


def name_files(*parts: str) -> str:
    """Return the name of a figure's files, made of what it is about; what is empty is left out."""
    return "-".join(filter(None, parts)).replace("=", "-").replace(" ", "-")


def view_of(
    found: Results, workload: str = "", metric: str = "", scenario: str = "", systems: Sequence[str] = (),
    kind: str = "",
) -> View:  # fmt: skip
    """Return what figures of a session are drawn from: of these systems, or of all.

    Without a workload, of its primary metrics. What papers print is looked up for the figure of that `kind` alone.
    """
    order, cases = str(found.data.get("order", "random")), found.data.get("parameters", {}).get("cases", [])
    groups = list(dict.fromkeys(case["group"] for case in cases if case.get("group")))
    cells = [each for each in found.data.get("not_applicable", []) if each["workload"] == workload]
    names = list(dict.fromkeys(systems)) or found.systems
    # without a workload the reasons of all would be longer than the figure: the table of validity has them
    not_run = found.data["not_run"] | (results.not_applicable(found, workload, metric) if workload else {})

    def of_systems(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["system"].isin(names)] if systems else frame

    return View(
        workload, metric, scenario, found.table, of_systems(found.estimates),
        of_systems(results.chosen(found, workload, metric)), of_systems(found.diagnostics),
        of_systems(rows_of(found.tiers, workload, metric)),
        None if found.probes.empty else found.probes, names, found.systems,
        {name: why for name, why in not_run.items() if not systems or name.partition(" at ")[0] in names},
        {(each["scenario"], each["system"]): each["reason"] for each in cells},
        figures.grouped(groups, order) if groups else order,
        published=of_systems(compare_published(found)) if kind == "published" else None,
    )  # fmt: skip


def rows_of(frame: pd.DataFrame, workload: str, metric: str, scenario: str = "") -> pd.DataFrame:
    """Return the rows of a metric of a workload; of one scenario, where it is given."""
    rows = frame[(frame["workload"] == workload) & (frame["metric"] == metric)]
    return rows[rows["scenario"] == scenario] if scenario else rows


def _explain_empty(found: Results, kind: str, workload: str, metric: str, scenario: str) -> Shown | None:
    """Return why there is nothing to draw; None where there is. `DesignError` for a name that the session has not."""
    if workload and not (found.estimates["workload"] == workload).any():
        known = set(found.estimates["workload"])
        if workload not in {*plugins("workloads"), *found.data.get("workloads", ())}:
            raise unknown_name("workload", workload, known)
        return results.absent(found, workload)
    if kind == "published" and compare_published(found).empty:
        return paragraph("The papers print no ratio that belongs to this study.")
    if kind not in ("forest", "published") and not (workload and metric):
        pairs = found.table[["workload", "metric"]].dropna().drop_duplicates().itertuples(index=False)
        there = ", ".join(sorted(" ".join(pair) for pair in pairs))
        raise DesignError(f"{kind} shows one metric: name a workload and a metric of it; there are {there}")
    if metric and not rows_of(found.table, workload, metric, scenario)["value"].notna().any():
        known = set(found.table.loc[found.table["workload"] == workload, "metric"].dropna())
        if known and metric not in known:
            raise unknown_name(f"metric of {workload}", metric, known)
        where = ", ".join(part for part in (workload, scenario) if part)
        return paragraph(f"{where}: there is no valid trial to draw {metric} of in this session.")
    if kind in ("forest", "tiers", "power") and results.chosen(found, workload, metric).empty:
        return results.alone(found, workload)
    return None


def _labelled(view: View, labels: Mapping[str, str], found: Results) -> View:
    """Return a view in which names are replaced by their labels, in frames and all else; two never by one."""
    if not labels:
        return view
    known = {column: set(found.table[column].dropna()) for column in NAMED if column in found.table}
    known["system"] |= set(found.systems)
    check_known("name to label", labels, set().union(*known.values()))

    def call(name: str) -> str:
        factor, sign, level = name.partition("=")
        return labels.get(name, f"{labels.get(factor, factor)}{sign}{level}" if sign else name)

    for column, names in known.items():
        shared = [label for label in map(call, names) if sum(call(name) == label for name in names) > 1]
        if shared:
            raise DesignError(f"labels call two names of a {column} {shared[0]!r}: they would be drawn as one")

    def rename(frame: pd.DataFrame) -> pd.DataFrame:
        columns = [column for column in NAMED if column in frame]
        return frame.assign(**{column: frame[column].map(call, na_action="ignore") for column in columns})

    frames = {name: rename(getattr(view, name)) for name in FRAMES if getattr(view, name) is not None}
    return replace(
        view, **frames, workload=call(view.workload), metric=call(view.metric), scenario=call(view.scenario),
        systems=list(map(call, view.systems or ())), every_system=list(map(call, view.every_system or ())),
        not_run={call(name): why for name, why in view.not_run.items()},
        absent={(call(scenario), call(system)): why for (scenario, system), why in view.absent.items()},
    )  # fmt: skip


def write_history(found: History, out: Path) -> list[Path]:
    """Write the table (Markdown, CSV, LaTeX) and the figures (PDF, SVG, PNG) of a history below `out`.

    >>> write_history(read_history(folders), Path("out"))

    Returns the table's and each figure's first file. A case without any value has no figure.
    """
    name = f"history-{found.study}" + ("" if found.view == RATIO else f"-{found.view}")
    table = tables.history_table(found.series, found.changes)
    whole = found.series.merge(found.changes.drop(columns=["unit", "better"]), on=["system", *CASE], how="left")
    caption = " ".join(describe_history(found))
    paths = tables.save(table, out / "tables" / name, "changes", caption, whole=whole)[:1]
    for workload, metric, scenario in found.points.dropna(subset="estimate")[CASE].drop_duplicates().to_numpy():
        page, column = (
            figures.history(found, workload, metric, scenario, width_mm=width_mm)
            for width_mm in (figures.PAGE_MM, figures.COLUMN_MM)
        )
        called = name_files(workload, metric, scenario)
        about = {"kind": "history", "workload": workload, "metric": metric, "scenario": scenario,
                 "view": found.view, "session": list(found.sessions)}  # fmt: skip
        rows = rows_of(found.points, workload, metric, scenario)
        paths += figures.save(page.figure, out / "figures" / name, called, rows, about, page.caption, column.figure)[:1]
    return paths
