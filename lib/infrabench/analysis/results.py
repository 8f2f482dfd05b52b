"""A session's analysis in one place, and its tables and sentences, written to disk as they are shown.

A notebook asks for a table by what it is about; choosing data, caption and file name is the same for every study and
stands here. Figures: `infrabench.notebook.session_figures`.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.published import comparison, derived_metrics
from infrabench.analysis.tables import notation
from infrabench.core import unknown_name
from infrabench.core.names import file_name
from infrabench.stats import contrasts, diagnostics, estimates, interactions, omnibus, tiers, trends
from infrabench.stats.table import blocked


@dataclass(frozen=True, eq=False)
class Results:
    """What a session says: its data, one row per cell (`estimates`, `diagnostics`), one per contrast (`contrasts`).

    Compared by identity, so that what several figures and tables need of the last one is computed once. `folder`:
    figures go to ``figures/NAME`` and tables to ``tables/NAME`` below it.
    """

    data: dict[str, Any]
    table: pd.DataFrame
    estimates: pd.DataFrame
    contrasts: pd.DataFrame
    diagnostics: pd.DataFrame
    omnibus: pd.DataFrame
    interactions: pd.DataFrame
    trends: pd.DataFrame
    tiers: pd.DataFrame
    probes: pd.DataFrame
    folder: Path
    missing: pd.DataFrame = field(default_factory=pd.DataFrame)  # trials without a record

    @property
    def systems(self) -> list[str]:
        """Systems in the session's order: it fixes colours and markers."""
        return list(self.data["systems"])

    @property
    def name(self) -> str:
        """Name of the folders of figures and tables: the study, what it is compared with itself, and how it is seen.

        `SchemaError` when it cannot be the name of a folder.
        """
        aa, view = self.data.get("aa"), self.data.get("view")
        return file_name(str(self.data["study"]) + (f"-aa-{aa}" if aa else "") + (f"-{view}" if view else ""))


# kind -> the table of it; with True, all of its columns
TABLES: Mapping[str, Callable[[Results, bool], pd.DataFrame]] = {
    "estimates": lambda found, every: tables.estimates_table(found.estimates, found.diagnostics, every=every),
    "contrasts": lambda found, every: tables.contrasts_table(found.contrasts, every=every),
    "results": lambda found, _: tables.results_table(found.estimates, found.contrasts, found.diagnostics),
    "omnibus": lambda found, _: tables.omnibus_table(found.omnibus),
    "interactions": lambda found, _: tables.interactions_table(found.interactions),
    "trends": lambda found, _: tables.trends_table(found.trends),
    "tiers": lambda found, _: tables.tiers_table(found.tiers),
    "diagnostics": lambda found, _: tables.diagnostics_table(found.diagnostics),
    "published": lambda found, _: tables.against_table(against_published(found)),
}
WITH_MORE = ("estimates", "contrasts")  # whose files have more columns than are shown


@dataclass(frozen=True)
class Shown:
    """Something to show in a notebook: HTML, with the same in plain text."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def results(
    data: dict[str, Any], table: pd.DataFrame, missing: pd.DataFrame, folder: Path, probes: pd.DataFrame | None = None,
    systems: Sequence[str] = (), several: Iterable[bool] | None = None,
) -> Results:  # fmt: skip
    """Return the analysis of a session: ``session.json``, tidy table, trials without a record, drift probes.

    `systems`, `several`: see `stats.table.blocked`.
    """
    primary = [tuple(each) for each in data["primary"]]
    baseline, cube = data["baseline"], blocked(table, systems, several)
    return Results(
        data, table, estimates(table, missing), contrasts(table, baseline, data["margins"], primary, cube),
        diagnostics(table), omnibus(table, primary, cube), interactions(table, baseline, primary, cube),
        trends(table, primary, cube), tiers(table, cube),
        pd.DataFrame() if probes is None else probes, folder, missing,
    )  # fmt: skip


def table(found: Results, kind: str, workloads: Sequence[str] = (), metrics: Sequence[str] = ()) -> Shown:
    """Return a table, written as Markdown, CSV and LaTeX.

    `kind`: ``estimates``, ``contrasts``, ``results`` (both, with flags), ``omnibus``, ``interactions``, ``trends``,
    ``tiers``, ``diagnostics`` or ``published``. `workloads` and `metrics` are those to show; the files have all, and
    more columns.
    """
    if kind not in TABLES:
        raise unknown_name("table", kind, TABLES)
    shown = TABLES[kind](found, False)
    every = TABLES[kind](found, True) if kind in WITH_MORE else shown
    if every.empty:
        return paragraph(f"There is nothing for the table of {kind} in this session.")
    more = " and more" if found.data.get("stopping") else ""
    blocks = f"{found.data['blocks']} blocks{more}"
    caption = f"{found.data['title']} Profile {found.data['profile']}, {blocks}. {base(found)}"
    tables.save(shown, found.folder / "tables" / found.name, kind, caption, whole=every)
    if workloads:
        shown = shown[shown["workload"].isin(list(workloads))]
    if metrics:
        named = {name for metric in metrics for name in (metric, notation.metric_title(metric))}
        shown = shown[shown["metric"].str.replace(r" \([^()]*\)$", "", regex=True).isin(named)]  # without the unit
    return Shown(notation.html_table(shown), tables.markdown(shown))


def whole(frame: pd.DataFrame) -> Shown:
    """Return a frame with every cell shown in full; what is missing is an empty cell."""
    text = frame.reset_index() if frame.index.name else frame
    text = text.astype("object").where(text.notna(), "").astype("str")
    return Shown(notation.html_table(text, words=True), tables.markdown(text))


def findings(found: Results, workload: str, metric: str) -> Shown:
    """Return what the contrasts of one metric say, in sentences made from the computed values."""
    if found.contrasts.empty:
        return alone(found, workload)
    rows = chosen(found, workload, metric)
    left_out = not_applicable(found, workload, metric)
    valid = workload in set(found.table["workload"]) and not _explain_invalid(found, workload)
    if rows.empty and not (left_out and valid):
        return absent(found, workload)
    sentences = [sentence(row) for row in rows.itertuples(index=False)]
    sentences += [f"{who}: not run: {why}." for who, why in left_out.items()]
    return listed(sentences)


def paragraph(text: str) -> Shown:
    """Return a text as a paragraph."""
    return Shown(f"<p>{html.escape(text)}</p>", text)


def listed(sentences: Sequence[str]) -> Shown:
    """Return sentences as a list."""
    items = "".join(f"<li>{html.escape(each)}</li>" for each in sentences)
    return Shown(f"<ul>{items}</ul>", "\n".join(f"- {each}" for each in sentences))


def kept(found: Results, made: pd.DataFrame, name: str, caption: str) -> Shown:
    """Return a table of words, and write it with the session's other tables as `name`."""
    made = made.astype("object").fillna("").astype("str")
    tables.save(made, found.folder / "tables" / found.name, name, caption)
    return Shown(notation.html_table(made, words=True), tables.markdown(made))


def summary(found: Results) -> Shown:
    """Return how many contrasts have which verdict, by system; primary metrics apart."""
    rows = found.contrasts.assign(family=is_primary(found).map({True: "primary", False: "exploratory"}))
    counts = pd.crosstab([rows["family"], rows["system"]], rows["verdict"]).reset_index()
    return Shown(notation.html_table(counts), tables.markdown(counts.astype("str")))


def chosen(found: Results, workload: str = "", metric: str = "") -> pd.DataFrame:
    """Return the contrasts of a workload, or the primary ones; of one metric, where it is given."""
    rows = found.contrasts
    rows = rows[rows["workload"] == workload] if workload else rows[is_primary(found)]
    return rows[rows["metric"] == metric] if metric else rows


@lru_cache(maxsize=1)
def against_published(found: Results) -> pd.DataFrame:
    """Return the contrasts beside the published ratios (`comparison.against`), those of derived metrics among them."""
    return comparison.against(pd.concat([found.contrasts, derived_contrasts(found)], ignore_index=True))


@lru_cache(maxsize=1)
def derived_contrasts(found: Results) -> pd.DataFrame:
    """Return the contrasts of the metrics that papers print and no workload reports (`derived_metrics`)."""
    return derived_metrics.contrasts_of(found.table, found.data["baseline"], found.data["margins"])


@lru_cache(maxsize=1)
def derived_estimates(found: Results) -> pd.DataFrame:
    """Return the estimates of the metrics that papers print and no workload reports (`derived_metrics`)."""
    return estimates(derived_metrics.derive(found.table))


def is_primary(found: Results, rows: pd.DataFrame | None = None) -> pd.Series:
    """Return which contrasts are of a primary metric, or which of other rows."""
    rows = found.contrasts if rows is None else rows
    wanted = {tuple(each) for each in found.data["primary"]}
    pairs = zip(rows["workload"], rows["metric"], strict=True)
    return pd.Series([pair in wanted for pair in pairs], index=rows.index, dtype="bool")


def base(found: Results) -> str:
    """Say what native is at this site, where it is the baseline: in the lab a system container itself."""
    kind, name = found.data["site"]["kind"], found.data["baseline"]
    stamp = found.data.get("stamp") or ""
    if (found.data.get("variants") or {}).get(name, {}).get("system", name) != "native":
        return stamp
    what = "the lab's server node, a system container on the same kernel" if kind == "lab" else "the host itself"
    return f"{name.capitalize()} is {what}. {stamp}".strip()


def sentence(row: Any) -> str:
    """Return what one contrast says: ratio, interval, n, direction, verdict, what it rules out or what qualifies it."""
    text, ruled = f"{row.scenario}, {row.system}: ", tables.ruled_out(row)
    if pd.isna(row.ratio):
        return f"{text}{row.verdict}{ruled and f'; {ruled}'} ({row.reason})."
    ratio, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
    text += f"{ratio} times {row.baseline} (95 % interval {interval}, n = {row.n_pairs} {row.pair_unit})"
    text += f"; {notation.direction(row.better)}: {row.verdict}"
    if row.verdict == "inconclusive" and not pd.isna(row.n_to_decide):
        text += f", about {int(row.n_to_decide)} {row.pair_unit} would decide"
    text += ruled and f"; {ruled}"
    if row.sensitive:
        text += f"; without the values flagged as outliers: {row.verdict_without_flagged}"
    return text + (f" ({row.reason})." if row.reason else ".")


def absent(found: Results, workload: str) -> Shown:
    """Return that a workload was not run, and why; or that none of its trials is valid."""
    tried = _explain_invalid(found, workload)
    return paragraph(f"{workload}: {'' if tried else 'not run: '}{absence(found, workload)}.")


def absence(found: Results, workload: str) -> str:
    """Return why a workload has no value: none of its trials is valid, or it was not run."""
    reasons = [_explain_invalid(found, workload)]
    reasons += [f"{who}: {why}" for who, why in not_applicable(found, workload).items()]
    why = found.data.get("left_out", {}).get(workload, explain_scope(found.data))
    return "; ".join(filter(None, reasons)) or str(why)


def _explain_invalid(found: Results, workload: str) -> str:
    """Return how the trials of a workload ended; nothing where it has none, or a valid one."""
    trials = found.table[found.table["workload"] == workload].drop_duplicates(["session", "trial"])
    if trials.empty or (trials["state"] == "ok").any():
        return ""
    counts = ", ".join(f"{count} {state}" for state, count in trials["state"].value_counts().items())
    return f"none of its {len(trials)} trials is valid ({counts})"


def explain_scope(data: Mapping[str, Any]) -> str:
    """Return that a session was to measure something else: its profile does not have it, or nobody asked for it."""
    return f"not part of this session (profile {data['profile']})"


def not_applicable(found: Results, workload: str = "", metric: str = "") -> dict[str, str]:
    """Return which systems were not run in which scenarios (of a workload, or of all), with the reason.

    With a metric, without the scenarios that have others. Keys are words, ``host at tcp service two-nodes``; scenarios
    of one reason stand together.
    """
    rows = found.table[(found.table["workload"] == workload) & found.table["metric"].notna()]
    others = set(rows["scenario"]) - set(rows.loc[rows["metric"] == metric, "scenario"]) if metric else set()
    together: dict[tuple[str, str, str], list[str]] = {}
    for each in found.data.get("not_applicable", []):
        if workload in ("", each["workload"]) and each["scenario"] not in others:
            together.setdefault((each["system"], each["workload"], each["reason"]), []).append(each["scenario"])
    return {
        f"{system} at {'' if workload else f'{of} '}{', '.join(names)}": reason
        for (system, of, reason), names in together.items()
    }


def alone(found: Results, workload: str = "") -> Shown:
    """Return why there is no contrast with the baseline, or none of a workload."""
    why = "; ".join(f"{name}: {reason}" for name, reason in found.data["not_run"].items())
    more = f" Not run: {why}." if why else "" if has_others(found.data) else " No other system was asked for."
    return paragraph(explain_none(found, workload) + more)


def has_others(data: Mapping[str, Any]) -> bool:
    """Tell whether a session ran its baseline and another system."""
    ran = [name for name in data["systems"] if name not in data["not_run"]]
    return data["baseline"] not in data["not_run"] and any(name != data["baseline"] for name in ran)


def explain_none(found: Results, workload: str = "") -> str:
    """Return in a sentence why a session has no primary contrast, or none of a workload."""
    data, rows = found.data, found.table[found.table["value"].notna()]
    if not has_others(data):
        return f"There is nothing to compare {data['baseline']} with."
    if (rows["workload"] == workload if workload else is_primary(found, rows)).any():
        case = f"scenario of {workload}" if workload else "scenario with a primary metric"
        return f"No {case} was tried on {data['baseline']} and on another system."
    none = f"No trial{workload and f' of {workload}'} has a value"
    what = "No primary metric of the study was measured" if len(rows) and not workload else none
    return f"{what} in this session of {', '.join(name for name in data['systems'] if name not in data['not_run'])}."


def drawing(png: bytes, caption: str) -> str:
    """Return a figure as HTML, the picture in it and the caption under it."""
    data = base64.b64encode(png).decode()
    text = html.escape(caption, quote=True)
    width_mm = notation.png_width_mm(png)
    wide = f' width="{notation.on_screen(width_mm)}"' if width_mm else ""
    return (
        f'<figure style="margin:0"><img alt="{text}" src="data:image/png;base64,{data}"{wide} style="max-width:100%">'
        f"<figcaption>{text}</figcaption></figure>"
    )
