"""One analysis over several sites: which sessions it is of, whether they may stand side by side, what they say.

Every function takes what `opened` returns: a campaign may hold several studies, and each is a part of its own. Tables
and figures are written to disk as they are shown.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import figures, session_data, tables
from infrabench.analysis.results import Shown, listed, paragraph, whole
from infrabench.analysis.tables import notation
from infrabench.core import DesignError, LedgerError, SchemaError, check_known
from infrabench.core.request import parse_names
from infrabench.experiment.provenance.comparability import Between, between_sites
from infrabench.ledger import catalogue
from infrabench.ledger.records import not_applicable, read_session, recorded
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import api
from infrabench.notebook.sections import join
from infrabench.notebook.session_figures import name_files, rows_of, show_figure
from infrabench.stats.sites import DIFFERS, OPEN, STANDS_OUT, over_sites, per_site
from infrabench.stats.table import CELL

USED = ("complete", "partial")  # states of a session that has something to say
STATES = (*USED, "failed", "missing")
MOST_DRAWN = 6  # cases of one metric, a panel each, in one figure
WORDS = {DIFFERS: "yes", OPEN: "not decided"}
NO_SESSION = "There is no session to analyse: no site has one that is complete or partial."
NO_CASE = "There is nothing to compare: no site has a case that was tried with two systems and has a value."


@dataclass(frozen=True)
class Member:
    """A site of a campaign and its session: the folder's name or path, how far it is, and why no further."""

    site: str
    session: str
    state: str
    reason: str


@dataclass(frozen=True)
class Across:
    """What the sites of one study say together.

    `data`: ``session.json`` of the first site, systems of all; `rows` and `over`: the tables of `stats.sites`;
    `folders`: the session of every site that has one; figures and tables are written below `folder`.
    """

    name: str
    members: tuple[Member, ...]
    data: dict[str, Any]
    rows: pd.DataFrame
    over: pd.DataFrame
    between: Between
    folders: dict[str, Path]
    folder: Path

    @property
    def sites(self) -> list[str]:
        """Every planned site, in the campaign's order."""
        return [each.site for each in self.members]


Many = Sequence[Across]


def opened(
    campaign: str | Path | None = None, sessions: Sequence[str] | str | None = None,
    labels: Sequence[str] | str | None = None, out: str = "out",
) -> tuple[Across, ...]:  # fmt: skip
    """Return the analysis over sites of every study of a campaign, or of some sessions of one study.

    `campaign`: a ``campaign.json``, here or from the project's home: ``{"name", "sessions": [{"site", "study",
    "session", "state", "reason"}]}``, with paths from there, or names, of sessions. Entries with a ``label`` of their
    own are a study each. It goes before `sessions`: names, folders or archives, one a site, called as in `labels`
    (default: by the sessions' names). `out`: where figures and tables go, relative to the project's home.

    Raises `DesignError` where the file is no campaign, a site is there twice, or sessions and labels are not equally
    many; `SchemaError` or `NotComparable` where sites were asked for different things (studies, baselines, parameters,
    margins).
    """
    if campaign:
        path = Path(campaign)
        name, groups = read_campaign(path if path.exists() else catalogue.home() / path)
    else:
        given = parse_names(sessions) or ()
        if not given:
            raise DesignError("name sessions, one of each site, or a campaign.json")
        sites = parse_names(labels)
        if sites is None:
            sites = [Path(each).name.removesuffix(catalogue.ARCHIVE) for each in given]
        if len(sites) != len(given):
            raise DesignError(f"{len(given)} sessions and {len(sites)} labels: give each session one")
        found = [os.path.realpath(catalogue.find(None, each)) for each in given]
        name, groups = "", {"": [Member(*pair, "complete", "") for pair in zip(sites, found, strict=True)]}
    for mine, what in product(groups.values(), ("site", "session")):
        names = Counter(getattr(each, what) for each in mine if getattr(each, what))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise DesignError(f"{what} {', '.join(twice)} is there twice: a site has one session in an analysis")
    return tuple(
        _across(f"{name}-{label}" if name else label, mine, catalogue.home() / out, strict=not campaign)
        for label, mine in groups.items()
    )


def members(found: Many) -> Shown:
    """Return one row per planned site: its session, how far that is, trials, and why no further."""
    return _each(found, lambda one: whole(pd.DataFrame([_member(each, one) for each in one.members])))


def differences(found: Many) -> Shown:
    """Return what differs between the sites' hosts and systems, and which sites are one machine."""

    def one(part: Across) -> Shown:
        if not part.folders:
            return paragraph(NO_SESSION)
        stamp = part.between.stamp or "Nothing that is compared differs between the sites."
        if not part.between.differs:
            return paragraph(stamp)
        rows = [{"what": key} | values for key, values in part.between.differs.items()]
        return join(paragraph(stamp), whole(pd.DataFrame(rows)))

    return _each(found, one)


def table(found: Many, kind: str, workloads: Sequence[str] = ()) -> Shown:
    """Return a table, written as Markdown, CSV and LaTeX: ``ratios`` (sites side by side) or ``heterogeneity``.

    `workloads`: those to show (default: the primary metrics); the files have all, and the CSV every column.
    """
    check_known("table", [kind], ("ratios", "heterogeneity"))

    def make(part: Across, over: pd.DataFrame) -> pd.DataFrame:
        return tables.sites_table(part.rows, over, part.sites) if kind == "ratios" else tables.heterogeneity_table(over)

    def one(part: Across) -> Shown:
        tables.save(
            make(part, part.over), part.folder / "tables" / part.name, f"sites-{kind}",
            f"{part.data['title']} Sites: {', '.join(part.sites)}. {part.between.stamp}".strip(),
            whole=part.rows if kind == "ratios" else part.over,
        )  # fmt: skip
        chosen = part.over[part.over["workload"].isin(list(workloads))] if workloads else _primary(part)
        if chosen.empty:
            return paragraph("There is no such workload at these sites.")
        shown = make(part, chosen)
        signs = ""
        if kind == "ratios":
            cases, wanted = (pd.MultiIndex.from_frame(frame[CELL]) for frame in (part.rows, chosen))
            if signs := tables.describe_signs(part.rows[cases.isin(wanted)]):
                signs += "; * named apart from the others" if (chosen["named"] != "").any() else ""
        html_text = f"{notation.html_table(shown)}<p>{html.escape(signs)}</p>"
        return Shown(html_text, f"{tables.markdown(shown)}\n{signs}".rstrip())

    return _each(found, one, NO_SESSION)


def forest(found: Many, workload: str, metric: str, scenario: str = "") -> Shown:
    """Return the forest over sites of one metric, of one scenario or of all, written as PDF, SVG, PNG and side-car."""

    def one(part: Across) -> Shown:
        over = rows_of(part.over, workload, metric, scenario)
        if over.empty:
            where = ", ".join(filter(None, (workload, metric, scenario)))
            return paragraph(f"{where}: not measured at these sites.")
        return _drawn(part, over, workload, metric, scenario)

    return _each(found, one)


def forests(found: Many) -> Shown:
    """Return the forest over sites of every primary metric: of all its scenarios, or the first where they are many."""

    def one(part: Across) -> Shown:
        drawn = []
        for (workload, metric), group in _primary(part).groupby(["workload", "metric"], sort=False):
            every = group.sort_values(["level", "scenario"], kind="stable")["scenario"].astype(str).unique()
            scenario = every[0] if len(every) == 1 or len(group) > MOST_DRAWN else ""
            drawn.append(_drawn(part, rows_of(part.over, workload, metric, scenario), workload, metric, scenario))
        return join(*drawn)

    return _each(found, one, NO_SESSION)


def findings(found: Many) -> Shown:
    """Return what the sites say together of the primary metrics, in sentences made from the computed values."""

    def one(part: Across) -> Shown:
        sentences = [part.between.stamp] if part.between.stamp else []
        sentences += [f"{each.site} is {each.state}: {each.reason}." for each in part.members if each.reason]
        return listed([*sentences, *(_sentence(row) for row in _primary(part).itertuples(index=False))])

    return _each(found, one, NO_SESSION)


def lines(found: Many) -> Iterator[str]:
    """Yield the analysis over sites for a terminal: sites, ratios side by side, how far apart, and what it means."""
    for one in found:
        yield f"{one.name}: {one.data.get('title', 'no session')}"
        for shown in (members([one]), table([one], "ratios"), table([one], "heterogeneity"), findings([one])):
            yield shown.text


def read_campaign(path: Path) -> tuple[str, dict[str, list[Member]]]:
    """Return the name of a campaign, and its members by study; `DesignError` where the file is no ``campaign.json``."""
    try:
        data = json.loads(path.read_bytes())
        name, entries = str(data["name"]), list(data["sessions"])
        groups: dict[str, list[Member]] = {}
        for each in entries:
            state = str(each["state"])
            if state not in STATES:
                raise DesignError(f"{path}: state {state!r} of {each['site']}: known are {', '.join(STATES)}")
            groups.setdefault(str(each.get("label") or each["study"]), []).append(
                Member(str(each["site"]), str(each.get("session") or ""), state, str(each.get("reason") or ""))
            )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DesignError(f"{path} is not a campaign.json ({type(error).__name__}: {error}); a campaign writes one") \
            from error  # fmt: skip
    if not groups:
        raise DesignError(f"{path} names no session")
    return name, groups


def _across(name: str, members: Sequence[Member], folder: Path, *, strict: bool) -> Across:
    """The analysis of one study; with `strict` a session that cannot be read is an error, else its site is missing."""
    lost, parts, own = {}, {}, list(members)
    for index, each in enumerate(own):
        if each.state in USED:
            inside = catalogue.home() / each.session
            try:
                parts[each.site] = session_data.open_session(str(inside) if inside.is_dir() else each.session)
                continue
            except (DesignError, LedgerError, SchemaError) as error:
                if strict:
                    raise
                each = own[index] = replace(each, state="missing", reason=str(error))
        lost[each.site] = f"{each.state}: {each.reason}" if each.reason else each.state
    folders = {site: part.folder for site, part in parts.items()}
    between = between_sites(folders) if folders else Between({}, (), "")
    data = dict(next(iter(parts.values())).data) if parts else {}
    data["systems"] = list(dict.fromkeys(name for part in parts.values() for name in part.data["systems"]))
    frames = {site: api.contrasts(part) for site, part in parts.items()}
    primary = [tuple(each) for each in data.get("primary", [])]
    rows = per_site(frames, {site: part.table for site, part in parts.items()})
    left = {(site, *key): why for site, part in parts.items() for key, why in _not_run(part.data).items()}
    rows, over = over_sites(rows, [each.site for each in own], primary, lost, left)
    study = str(data.get("study", "sites"))
    # it becomes the name of folders
    called = re.sub(r"[^A-Za-z0-9_+-]+", "-", name or f"sites-{study}").strip("-") or "sites"
    return Across(called, tuple(own), data, rows, over, between, folders, folder)


def _not_run(data: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """What a session has not run, by system, workload and scenario, "" for any, and why."""
    found = {(name, "", ""): why for name, why in data["not_run"].items()}
    found |= {("", name, ""): why for name, why in data.get("left_out", {}).items()}
    return {key: f"not run: {why}" for key, why in (found | not_applicable(data)).items()}


def _member(each: Member, part: Across) -> dict[str, Any]:
    row = {
        "site": each.site, "session": each.session, "state": each.state, "blocks": "", "trials": "", "begun": "",
        "reason": each.reason,
    }  # fmt: skip
    if folder := part.folders.get(each.site):
        data, there, planned = read_session(folder), recorded(folder), SessionFolder(folder).awaited
        row |= {
            "session": folder.name, "blocks": str(data["blocks"]), "begun": str(data.get("created_utc", ""))[:16],
            "trials": f"{sum(trial.id in there for trial in planned)} of {len(planned)}",
        }  # fmt: skip
    return row


def _primary(part: Across) -> pd.DataFrame:
    """The cases of primary metrics; all, where a session names none."""
    wanted = {tuple(each) for each in part.data.get("primary", [])}
    keys = zip(part.over["workload"], part.over["metric"], strict=True)
    chosen = part.over[[key in wanted for key in keys]]
    return part.over if chosen.empty else chosen


def _drawn(part: Across, over: pd.DataFrame, workload: str, metric: str, scenario: str) -> Shown:
    rows = rows_of(part.rows, workload, metric, scenario)
    if not rows["ratio"].notna().any():
        return paragraph(f"{workload}, {metric}: no site has a ratio.")
    draw = partial(figures.sites, rows, over, part.between.stamp, systems=list(part.data["systems"]))
    name = name_files("sites", workload, metric, scenario)
    parameters = {
        "kind": "sites", "workload": workload, "metric": metric, "scenario": scenario, "sites": part.sites,
        "session": [each.session for each in part.members if each.site in part.folders],
    }  # fmt: skip
    return show_figure(draw, part.folder / "figures" / part.name, name, rows, parameters)


def _sentence(row: Any) -> str:
    """What the sites say together of one case: mean, new site, verdict, whether it holds, who is named or missing."""
    text = f"{row.workload} {notation.metric_title(row.metric)}, {row.scenario}, {row.system}: "
    if np.isfinite(row.ratio):
        number, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
        new = notation.interval(row.predicted_low, row.predicted_high, null=1)
        text += f"over {row.sites} sites {number} times {row.baseline} (95 % interval {interval}; a new site: {new}); "
        ruled = tables.ruled_out(row)
        text += f"{notation.direction(row.better)}: {row.verdict}{ruled and f' ({ruled})'}; {row.across}"
    else:
        text += f"{row.reason}; do these differ: {WORDS[row.across]}"
    if np.isfinite(row.p_sites):
        spread = f"SD between sites {notation.short(100 * row.tau)} %, " if np.isfinite(row.tau) else ""
        text += f" ({spread}p of equal sites {notation.p_value(row.p_sites)})"
    if row.named:
        text += f". {row.named}"
        text += "" if STANDS_OUT in row.named else ", which cannot be told apart"
    text += f". Missing: {row.missing}" if row.missing else ""
    return text + (f". {row.reason}." if row.reason and np.isfinite(row.ratio) else ".")


def _each(found: Many, one: Callable[[Across], Shown], nothing: str = "") -> Shown:
    """What `one` makes of each study; its name above where there are several.

    Of one without a case it is, where there is such a text, `nothing`, or with sessions that they have no case.
    """
    pages = [
        paragraph(NO_CASE if each.folders else nothing) if nothing and each.over.empty else one(each) for each in found
    ]
    if len(found) == 1:
        return pages[0]
    return join(*(
        Shown(f"<h4>{html.escape(each.name)}</h4>{shown.html}", f"{each.name}\n\n{shown.text}")
        for each, shown in zip(found, pages, strict=True)
    ))  # fmt: skip
