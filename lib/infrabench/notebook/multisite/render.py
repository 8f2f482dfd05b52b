"""Tables, figures and sentences over sites, as a notebook and the terminal show them; written to disk as shown.

Every function takes what `opened` returns: a campaign may hold several studies, and each is a part of its own.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import figures, tables
from infrabench.analysis.results import Shown, listed, whole
from infrabench.analysis.tables import notation
from infrabench.core import unknown_name
from infrabench.ledger.records import awaited, read_session, recorded
from infrabench.notebook.multisite.load import Across, Member
from infrabench.notebook.session_figures import show_figure
from infrabench.stats.sites import CASE, DIFFERS, OPEN, STANDS_OUT

Many = Sequence[Across]
MOST_DRAWN = 6  # cases of one metric, a panel each, in one figure
WORDS = {DIFFERS: "yes", OPEN: "not decided"}
NO_SESSION = "There is no session to analyse: no site has one that is complete or partial."


def members(found: Many) -> Shown:
    """Return one row per planned site: its session, how far that is, trials, and why no further."""
    return _each(found, lambda one: whole(pd.DataFrame([_member(each, one) for each in one.members])))


def differences(found: Many) -> Shown:
    """Return what differs between the sites' hosts and systems, and which sites are one machine."""

    def one(part: Across) -> Shown:
        if not part.folders:
            return _paragraph(NO_SESSION)
        stamp = part.between.stamp or "Nothing that is compared differs between the sites."
        if not part.between.differs:
            return _paragraph(stamp)
        rows = [{"what": key} | values for key, values in part.between.differs.items()]
        shown = whole(pd.DataFrame(rows))
        return Shown(f"<p>{html.escape(stamp)}</p>{shown.html}", f"{stamp}\n\n{shown.text}")

    return _each(found, one)


def table(found: Many, kind: str, workloads: Sequence[str] = ()) -> Shown:
    """Return a table, written as Markdown, CSV and LaTeX: ``ratios`` (sites side by side) or ``heterogeneity``.

    `workloads`: those to show (default: the primary metrics); the files have all, and the CSV every column.
    """
    kinds: dict[str, Callable[[Across, pd.DataFrame], pd.DataFrame]] = {
        "ratios": lambda one, over: tables.sites_table(one.rows, over, one.sites),
        "heterogeneity": lambda one, over: tables.heterogeneity_table(over),
    }
    if kind not in kinds:
        raise unknown_name("table", kind, kinds)

    def one(part: Across) -> Shown:
        if part.over.empty:
            return _paragraph(NO_SESSION)
        every = part.rows if kind == "ratios" else part.over
        tables.save(
            kinds[kind](part, part.over),
            part.folder / "tables" / part.name,
            f"sites-{kind}",
            _caption(part),
            whole=every,
        )
        chosen = part.over[part.over["workload"].isin(list(workloads))] if workloads else _primary(part)
        if chosen.empty:
            return _paragraph("There is no such workload at these sites.")
        made = kinds[kind](part, chosen)
        shown = Shown(notation.html_table(made), tables.markdown(made))
        signs = tables.describe_signs(_rows_of(part, chosen)) if kind == "ratios" else ""
        star = "; * named apart from the others" if signs and (chosen["named"] != "").any() else ""
        return Shown(f"{shown.html}<p>{html.escape(signs + star)}</p>", f"{shown.text}\n{signs}{star}".rstrip())

    return _each(found, one)


def forest(found: Many, workload: str, metric: str, scenario: str = "") -> Shown:
    """Return the forest over sites of one metric, of one scenario or of all, written as PDF, SVG, PNG and side-car."""

    def one(part: Across) -> Shown:
        over = _of(part.over, workload, metric, scenario)
        if over.empty:
            where = ", ".join(filter(None, (workload, metric, scenario)))
            return _paragraph(f"{where}: not measured at these sites.")
        return _drawn(part, over, workload, metric, scenario)

    return _each(found, one)


def forests(found: Many) -> Shown:
    """Return the forest over sites of every primary metric: of all its scenarios, or the first where they are many."""

    def one(part: Across) -> Shown:
        if part.over.empty:
            return _paragraph(NO_SESSION)
        drawn = []
        for (workload, metric), group in _primary(part).groupby(["workload", "metric"], sort=False):
            every = group.sort_values(["level", "scenario"], kind="stable")["scenario"].astype(str).unique()
            scenario = every[0] if len(every) == 1 or len(group) > MOST_DRAWN else ""
            drawn.append(_drawn(part, _of(part.over, workload, metric, scenario), workload, metric, scenario))
        return _joined(drawn)

    return _each(found, one)


def findings(found: Many) -> Shown:
    """Return what the sites say together of the primary metrics, in sentences made from the computed values."""

    def one(part: Across) -> Shown:
        if part.over.empty:
            return _paragraph(NO_SESSION)
        sentences = [part.between.stamp] if part.between.stamp else []
        sentences += [f"{each.site} is {each.state}: {each.reason}." for each in part.members if each.reason]
        return listed([*sentences, *(_sentence(row) for row in _primary(part).itertuples(index=False))])

    return _each(found, one)


def lines(found: Many) -> Iterator[str]:
    """Yield the analysis over sites for a terminal: sites, ratios side by side, how far apart, and what it means."""
    for one in found:
        yield f"{one.name}: {one.data.get('title', 'no session')}"
        for shown in (members([one]), table([one], "ratios"), table([one], "heterogeneity"), findings([one])):
            yield shown.text


def _member(each: Member, part: Across) -> dict[str, Any]:
    folder = part.folders.get(each.site)
    if folder is None:
        return {"site": each.site, "session": each.session, "state": each.state, "blocks": "", "trials": "",
                "begun": "", "reason": each.reason}  # fmt: skip
    data = read_session(folder)
    there, planned = recorded(folder), awaited(folder)
    return {
        "site": each.site, "session": folder.name, "state": each.state, "blocks": str(data["blocks"]),
        "trials": f"{sum(trial.id in there for trial in planned)} of {len(planned)}",
        "begun": str(data.get("created_utc", ""))[:16], "reason": each.reason,
    }  # fmt: skip


def _primary(part: Across) -> pd.DataFrame:
    """The cases of primary metrics; all, where a session names none."""
    wanted = {tuple(each) for each in part.data.get("primary", [])}
    keys = zip(part.over["workload"], part.over["metric"], strict=True)
    chosen = part.over[[key in wanted for key in keys]]
    return part.over if chosen.empty else chosen


def _of(frame: pd.DataFrame, workload: str, metric: str, scenario: str) -> pd.DataFrame:
    rows = frame[(frame["workload"] == workload) & (frame["metric"] == metric)]
    return rows[rows["scenario"] == scenario] if scenario else rows


def _rows_of(part: Across, over: pd.DataFrame) -> pd.DataFrame:
    """The rows of the sites in some cases."""
    cases, wanted = (pd.MultiIndex.from_frame(frame[CASE]) for frame in (part.rows, over))
    return part.rows[cases.isin(wanted)]


def _drawn(part: Across, over: pd.DataFrame, workload: str, metric: str, scenario: str) -> Shown:
    rows = _of(part.rows, workload, metric, scenario)
    if not rows["ratio"].notna().any():
        return _paragraph(f"{workload}, {metric}: no site has a ratio.")
    draw = partial(figures.sites, rows, over, systems=list(part.data["systems"]))
    caption = figures.sites_caption(rows, over, part.between.stamp)
    name = "-".join(filter(None, ("sites", workload, metric, scenario))).replace("=", "-").replace(" ", "-")
    parameters = {
        "kind": "sites", "workload": workload, "metric": metric, "scenario": scenario, "sites": part.sites,
        "session": [each.session for each in part.members if each.site in part.folders],
    }  # fmt: skip
    return show_figure(draw, part.folder / "figures" / part.name, name, rows, parameters, caption)


def _caption(part: Across) -> str:
    return f"{part.data['title']} Sites: {', '.join(part.sites)}. {part.between.stamp}".strip()


def _sentence(row: Any) -> str:
    """What the sites say together of one case: mean, new site, verdict, whether it holds, who is named or missing."""
    told = f"{row.workload} {notation.metric_title(row.metric)}, {row.scenario}, {row.system}: "
    if np.isfinite(row.ratio):
        number, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
        new = notation.interval(row.predicted_low, row.predicted_high, null=1)
        told += f"over {row.sites} sites {number} times {row.baseline} (95 % interval {interval}; a new site: {new}); "
        ruled = tables.ruled_out(row)
        told += f"{notation.direction(row.better)}: {row.verdict}{ruled and f' ({ruled})'}; {row.across}"
    else:
        told += f"{row.reason}; do these differ: {WORDS[row.across]}"
    if np.isfinite(row.p_sites):
        spread = f"SD between sites {notation.short(100 * row.tau)} %, " if np.isfinite(row.tau) else ""
        told += f" ({spread}p of equal sites {notation.p_value(row.p_sites)})"
    if row.named:
        told += f". {row.named}"
        told += "" if STANDS_OUT in row.named else ", which cannot be told apart"
    told += f". Missing: {row.missing}" if row.missing else ""
    return told + (f". {row.reason}." if row.reason and np.isfinite(row.ratio) else ".")


def _paragraph(text: str) -> Shown:
    return Shown(f"<p>{html.escape(text)}</p>", text)


def _joined(parts: Sequence[Shown]) -> Shown:
    return Shown("".join(each.html for each in parts), "\n\n".join(each.text for each in parts))


def _each(found: Many, one: Callable[[Across], Shown]) -> Shown:
    """What `one` makes of each study, its name above where there are several."""
    if len(found) == 1:
        return one(found[0])
    made = [(each.name, one(each)) for each in found]
    return _joined(
        [Shown(f"<h4>{html.escape(name)}</h4>{shown.html}", f"{name}\n\n{shown.text}") for name, shown in made]
    )
