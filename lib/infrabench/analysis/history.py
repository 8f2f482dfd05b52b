"""Many sessions of one study in the order of their time: what changed, when, by how much, and what else did then.

A session is one point of a series, with the standard error that its own blocks or deployments give. What changed
between two sessions beside the numbers (a kernel, a processor, the version of a system or tool, an image, the code) is
a break: a change of a series that coincides with one is attributed to it by name, any other is unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from infrabench.analysis.session_data import Session, open_session
from infrabench.analysis.tables import notation
from infrabench.core import LOST_STATES, DesignError, InfrabenchError, unknown_name
from infrabench.experiment.provenance import comparability, labels
from infrabench.experiment.provenance.comparability import Difference
from infrabench.ledger.fields import check_present
from infrabench.ledger.records import SESSION, read_session
from infrabench.stats.contrasts import contrasts
from infrabench.stats.estimates import estimates
from infrabench.stats.intervals import LEVEL
from infrabench.stats.losses import LOST
from infrabench.stats.segmentation import CORRELATION, FEWEST, SHORTEST, find_changes
from infrabench.stats.sites import per_site
from infrabench.stats.table import CELL, ORDER

RATIO, OWN = "ratio", "level"
VIEWS = (RATIO, OWN)
WORSE, BETTER = "worse", "better"
SEPARATOR = "\x1f"  # between a scenario and the number of a session
FEW = 3  # series that a sentence names
BATCH = 20  # sessions worked out together: a table of them has a place for every block of each
OFTEN = 0.25  # share of the steps from which a fact that changes explains nothing
SHORT = {".".join(fact.path): fact.parity or fact.path[-1] for fact in comparability.FACTS if fact.path}
COMPONENTS = "components."  # of an engine: reported by it, and no part of what has to agree
HASH = 16  # digits of a hash; its first seven name it
POINTS = [*CELL, "level", "unit", "better", "at", "estimate", "error", "df", "reason"]
CHANGES = [
    *CELL, "unit", "better", "at", "session", "time", "before", "after", "ratio", "ratio_low", "ratio_high",
    "p_adjusted", "direction", "explained", "stands",
]  # fmt: skip


@dataclass(frozen=True)
class Break:
    """What is not as it was in session `at` - 1: in words, and whose numbers it may explain; empty: everybody's."""

    at: int
    text: str
    fact: str
    systems: frozenset[str] = frozenset()
    workload: str = ""

    def explains(self, workload: str, systems: set[str]) -> bool:
        """Tell whether it may be the cause of a change in a workload of these systems."""
        return self.workload in ("", workload) and (not self.systems or bool(self.systems & systems))


@dataclass(frozen=True)
class History:
    """The sessions of a study in the order of time, and what their series say.

    `points`: a row for each series and session, its index ``at``, ``estimate`` and ``error`` of a logarithm with the
    ends of its 95 % interval; `series`: a row each, with ``n`` sessions, the size that would be found and a ``note``;
    `segments` and `changes`: rows of them, by ``at`` too. `left_out`: a sentence for each session that is not in it;
    `silent`: one for each series of which the last sessions have no value, although they were asked for it.
    """

    study: str
    baseline: str
    view: str
    systems: tuple[str, ...]
    sessions: tuple[str, ...]
    times: tuple[str, ...]
    breaks: tuple[Break, ...]
    left_out: tuple[str, ...]
    silent: tuple[str, ...]
    points: pd.DataFrame
    series: pd.DataFrame
    segments: pd.DataFrame
    changes: pd.DataFrame


def read_history(
    folders: Sequence[Path], *, metrics: Sequence[str] = (), view: str = RATIO, since: str = ""
) -> History:
    """Return the history of the sessions in these folders, those of a study.

    >>> read_history(sorted(catalogue.local("containers").values()), metrics=["latency_p99_s"])

    `metrics`: names of metrics (default: the primary ones); `view`: ``ratio`` to the baseline of each session, or each
    system's own ``level``; `since`: name of the first session to look at. The newest session that can be read says what
    is asked for: sessions of another study, site, baseline, case or margin are left out with a sentence. Raises
    `DesignError` without a session, for a view, metric or session that there is not.
    """
    if view not in VIEWS:
        raise unknown_name("view", view, VIEWS)
    known, left_out = _in_order(folders)
    names = [folder.name for folder, _ in known]
    if since and since not in names:
        raise unknown_name("session", since, names)
    known = known[names.index(since) if since else 0 :]
    if not known:
        raise DesignError(f"there is no session to read: {'; '.join(left_out) or 'none was named'}")
    newest: Path | None = None
    opened, times = list[Session](), list[str]()
    for folder, time in reversed(known):
        try:
            reference = newest or folder
            if why := _other_design(folder, reference):
                raise InfrabenchError(f"it is not comparable with {reference.name}, which was asked for another {why}")
            opened.insert(0, open_session(folder))
            times.insert(0, time)
            newest = reference
        except (InfrabenchError, OSError) as error:
            left_out.setdefault(str(error), []).insert(0, folder.name)
    if not opened:
        raise DesignError(f"no session can be read: {'; '.join(left_out)}")
    every = {name for each in opened for name in each.table["metric"].dropna()}
    if unknown := [name for name in metrics if name not in every]:
        raise unknown_name("metric", unknown[0], every)
    data = opened[-1].data
    points = pd.concat(
        [_points(opened[at : at + BATCH], view, metrics, at) for at in range(0, len(opened), BATCH)], ignore_index=True
    )
    if points.empty:
        raise DesignError(f"no {view} in these sessions")
    empty = History(
        str(data["study"]), str(data["baseline"]), view,
        tuple(dict.fromkeys(name for each in reversed(opened) for name in each.data["systems"])),
        tuple(each.folder.name for each in opened), tuple(times), find_breaks([each.folder for each in opened]),
        tuple(_left_out(names, why) for why, names in left_out.items()), tuple(_silent(points, opened)), points,
        *(pd.DataFrame(),) * 3,
    )  # fmt: skip
    return analyse_history(empty)


def analyse_history(read: History) -> History:
    """Return a history with what its `points` say: one family of tests over all of its series."""
    groups = [
        (dict(zip(CELL, key, strict=True)), rows.sort_values("at"))
        for key, rows in read.points.groupby(CELL, sort=False)
    ]
    usable = [rows[np.isfinite(rows["error"])] for _, rows in groups]
    found = find_changes([(rows["estimate"].to_numpy(), rows["error"].to_numpy()) for rows in usable])
    series, segments, changes = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for (cell, every), rows, said in zip(groups, usable, found, strict=True):
        at, better = rows["at"].to_numpy(), every["better"].iloc[0]
        cell |= {"unit": "1" if read.view == RATIO else every["unit"].iloc[0], "better": better}
        finds = float(np.expm1(said.detectable))
        series.append(cell | {"n": len(rows), "finds": finds, "lag1": said.lag1,
                              "note": _note(len(rows), said.lag1, every, len(read.sessions))})  # fmt: skip
        for begin, end, *level in said.segments:
            ends = dict(zip(("level", "level_low", "level_high"), np.exp(level), strict=True))
            segments.append(cell | {"begin": at[begin], "end": at[end - 1]} | ends)
        for place, (change, (before, after)) in enumerate(zip(said.changes, pairwise(said.segments), strict=True)):
            own = {cell["system"], *([read.baseline] if read.view == RATIO else [])}
            # the steps between sessions at which it may have been
            steps = range(at[change.first - 1] + 1, at[change.last] + 1)
            why = [b.text for b in read.breaks if b.at in steps and b.explains(cell["workload"], own)]
            size = dict(zip(("ratio", "ratio_low", "ratio_high"), np.exp(change[3:6]), strict=True))
            changes.append(cell | {
                "at": at[change.place], "session": read.sessions[at[change.place]],
                "time": read.times[at[change.place]], "before": np.exp(before[2]), "after": np.exp(after[2]), **size,
                "p_adjusted": change.p, "direction": WORSE if (change.size > 0) == (better == "lower") else BETTER,
                "explained": "; ".join(dict.fromkeys(why)), "stands": _stands(said.segments, place, change.size),
            })  # fmt: skip
    return replace(read, series=pd.DataFrame(series), segments=pd.DataFrame(segments),
                   changes=pd.DataFrame(changes, columns=CHANGES))  # fmt: skip


def _stands(segments: Sequence[Sequence[float]], place: int, size: float) -> bool:
    """Tell whether what the change after segment `place` brought is still there.

    The last segment is off the one before the change, in its direction, by more than their 95 % intervals leave open.
    """
    if place == len(segments) - 2:
        return True
    (*_, level, low, high), (*_, last, last_low, last_high) = segments[place], segments[-1]
    return bool((last - level) * np.sign(size) > np.hypot(high - low, last_high - last_low) / 2)


def unexplained(found: History, *, both: bool = False) -> pd.DataFrame:
    """Return the changes for the worse that are still there and that no break explains.

    A later change may have made one good, whatever explains that; `both`: also those for the better.
    """
    rows = found.changes
    chosen = rows["stands"].astype(bool) & (rows["explained"] == "")
    return rows[chosen if both else chosen & (rows["direction"] == WORSE)]


def describe_change(row: Any) -> str:
    """Return what a row of `History.changes` says."""
    ratio = notation.ratio(row)
    return (
        f"{row.workload} {row.scenario} {row.metric}, {row.system} is {row.direction} since {row.session}: "
        f"{ratio} times as before, {row.explained or 'unexplained'}"
    )


def describe_history(found: History) -> Iterator[str]:
    """Yield what the history says in sentences: sessions, breaks, what cannot be told yet, and what was left out."""
    first, last = (time[:10] for time in (found.times[0], found.times[-1]))
    count = f"{len(found.sessions)} session{'s' if len(found.sessions) > 1 else ''}"
    yield f"{found.study}: {count}, from {first} to {last}, in {len(found.series)} series."
    yield from (f"Break at {found.sessions[b.at]} ({found.times[b.at][:10]}): {b.text}." for b in found.breaks)
    for note, rows in found.series[found.series["note"] != ""].groupby("note", sort=False):
        names = [" ".join(map(str, row)) for row in rows[CELL].to_numpy()]
        few = len(names) < len(found.series) and len(names) <= FEW
        yield f"{'; '.join(names) if few else f'{len(names)} of {len(found.series)} series'}: {note}."
    yield from found.left_out


def find_breaks(folders: Sequence[Path]) -> tuple[Break, ...]:
    """Return what differs between consecutive sessions and has to agree for their numbers to be of one thing.

    A fact that changes at more than a quarter of the steps (the name of a machine that is another one each night)
    explains nothing and is none.
    """
    breaks: dict[tuple[int, str, str], Break] = {}
    for at, (one, two) in enumerate(pairwise(folders), start=1):
        names = labels.of(one) | labels.of(two)
        found = comparability.differences(one, two)
        versions = {(each.where, each.first, each.second) for each in found if each.key == "version"}
        for each in found:
            part = each.key.startswith(COMPONENTS) and (each.where, each.first, each.second) not in versions
            found_break = _break(at, each, names) if each.checked or part else None
            if found_break is None:
                continue
            key = (at, found_break.text, found_break.workload)
            other = breaks.get(key, found_break)
            systems = found_break.systems | other.systems if found_break.systems and other.systems else frozenset()
            breaks[key] = replace(found_break, systems=systems)
    often = pd.Series([fact for fact, _ in {(b.fact, b.at) for b in breaks.values()}], dtype="str").value_counts()
    restless = set(often[often > max(2, OFTEN * (len(folders) - 1))].index)
    return tuple(each for each in breaks.values() if each.fact not in restless)


def _break(at: int, each: Difference, names: dict[str, str]) -> Break | None:
    kind, _, name = each.where.partition(" ")
    first, second = each.first, each.second
    if each.where == "asked":
        return None
    if each.key == "memory.total_bytes" and first and second:
        if comparability.is_same_memory(first, second):
            return None
        first, second = (f"{value / 2**30:.1f} GiB" for value in (first, second))
    step = f"{_value(first)} → {_value(second)}"
    if each.key == "packages" or each.key.startswith("program "):  # of an image or a host that several systems share
        what = f"{len(each.packages)} packages changed" if each.packages else f"{each.key} {step}"
        return Break(at, what, f"{each.where} {each.key}")
    if kind == "code":
        part, _, of = each.key.partition(" ")
        mine, workload = part == "system", of if part in ("workload", "parser") else ""
        systems = frozenset((names.get(of, of),)) if mine else frozenset[str]()
        return Break(at, f"code of {of if mine or workload else 'the suite'}", f"code {each.key}", systems, workload)
    if kind != "system":
        if each.key == "host":
            return Break(at, f"host {each.where} {'is new' if second else 'is gone'}", f"{each.where} host")
        return Break(at, f"{SHORT.get(each.key, each.key)} {step}", f"{each.where} {each.key}")
    part, _, rest = each.key.partition(".")
    what = {"version": name, "tools": f"tool of {rest}", "components": rest}.get(part, f"{each.key} of {name}")
    fact, systems = f"{each.where} {each.key}", frozenset((names.get(name, name),))
    return Break(at, f"{what} {step}", fact, systems, rest if part == "tools" else "")


def _value(value: Any) -> str:
    text = comparability.shown(value)
    return text[:7] if len(text) == HASH and set(text) <= set("0123456789abcdef") else text


def _in_order(folders: Sequence[Path]) -> tuple[list[tuple[Path, str]], dict[str, list[str]]]:
    """The folders with the time at which each session was made, in that order; and those not readable, by reason."""
    known, left_out = list[tuple[Path, str]](), dict[str, list[str]]()
    for folder in folders:
        try:
            data = read_session(folder)
            check_present(folder / SESSION, data, ("created_utc", "study", "site"))
            known.append((folder, str(data["created_utc"])))
        except (InfrabenchError, OSError) as error:
            left_out.setdefault(str(error), []).append(folder.name)
    return sorted(known, key=lambda each: (each[1], each[0].name)), left_out


def _left_out(names: Sequence[str], why: str) -> str:
    who = names[0] if len(names) == 1 else f"{len(names)} sessions, {names[0]} to {names[-1]},"
    return f"{who} {'is' if len(names) == 1 else 'are'} left out: {why}."


def _other_design(folder: Path, newest: Path) -> str:
    """Say what a session was asked for that the newest one was not; empty when they may be in one series.

    Raises for a session whose provenance is damaged, also where it is the newest itself.
    """
    one, two = read_session(folder), read_session(newest)
    if differing := [key for key in ("study", "site") if one[key] != two[key]]:
        return differing[0]
    found = [each.key for each in comparability.differences(folder, newest) if each.checked and each.where == "asked"]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _points(opened: Sequence[Session], view: str, metrics: Sequence[str], begin: int) -> pd.DataFrame:
    """The points of some sessions that follow one another, the first of which is number `begin`.

    Each session is a scenario of its own in one table, which is worked out once; names are put apart again.
    """
    data = opened[-1].data
    primary = {tuple(each) for each in data["primary"]}
    tables = []
    for at, each in enumerate(opened, start=begin):
        keys = zip(each.table["workload"], each.table["metric"], strict=True)
        wanted = np.array([key[1] in metrics if metrics else key in primary for key in keys], dtype=bool)
        failed = each.table["metric"].isna()  # a trial without a value counts as lost
        tables.append(each.table[wanted | failed].assign(session=str(at)))
    table = pd.concat(tables, ignore_index=True)
    table["scenario"] = table["scenario"].astype(str) + SEPARATOR + table["session"]
    if table["value"].isna().all():
        return pd.DataFrame()
    frame = _ratios(table, data) if view == RATIO else _levels(table)
    apart = frame["scenario"].str.rpartition(SEPARATOR)
    frame = frame.assign(scenario=apart[0], at=apart[2].astype(int))
    t = special.stdtrit(frame["df"], (1 + LEVEL) / 2)
    frame["low"], frame["high"] = (frame["estimate"] + side * t * frame["error"] for side in (-1, 1))
    return frame.sort_values([*ORDER, "at"], ignore_index=True)


def _ratios(table: pd.DataFrame, data: dict[str, Any]) -> pd.DataFrame:
    rows = per_site({"": contrasts(table, data["baseline"], data["margins"])})
    # what is left after the slowest trials were lost is no point of a series; its reason says how many were
    rows.loc[rows["flags"].str.contains(LOST, regex=False), ["log_ratio", "error"]] = np.nan
    return rows.rename(columns={"log_ratio": "estimate"}).assign(at=0)[POINTS]


def _levels(table: pd.DataFrame) -> pd.DataFrame:
    rows = estimates(table)
    rows = rows[rows["metric"].notna()]
    df = rows["unit_n"].to_numpy(dtype=float) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.log(rows[["geometric_low", "geometric_high"]].to_numpy(dtype=float))
        error = (ends[:, 1] - ends[:, 0]) / 2 / special.stdtrit(df, (1 + LEVEL) / 2)
        value = np.log(rows["geometric_mean"].to_numpy(dtype=float))
    lost = rows[list(LOST_STATES)].sum(axis=1).to_numpy() > 0
    there = np.isfinite(value) & np.isfinite(error) & (error > 0) & ~lost
    return rows.assign(
        estimate=np.where(there, value, np.nan), error=np.where(there, error, np.nan), df=df, at=0,
        reason=np.select([there, lost], ["", LOST], "no interval"),
    )[POINTS]  # fmt: skip


def _silent(points: pd.DataFrame, opened: Sequence[Session]) -> Iterator[str]:
    """Say of which series the last sessions have no value, although earlier ones have and the newest was to have.

    No change can be found in what has become so slow that its trials time out.
    """
    newest, names = opened[-1], [each.folder.name for each in opened]
    not_run, left_out = newest.data["not_run"], newest.data.get("left_out", {})
    planned = pd.concat([each[["workload", "scenario"]] for each in (newest.table, newest.missing)])
    cases = set(planned.itertuples(index=False, name=None))
    for (workload, scenario, metric, system), rows in points.groupby(CELL, sort=False):
        there = rows["at"][np.isfinite(rows["error"])]
        if there.empty or there.max() >= len(opened) - SHORTEST or system not in {*newest.data["systems"], *not_run}:
            continue
        if workload not in left_out and (workload, scenario) not in cases:
            continue
        now = "".join(rows["reason"][rows["at"] == len(opened) - 1])
        why = now or not_run.get(system) or left_out.get(workload) or "not measured"
        yield f"{workload} {scenario} {metric}, {system} has no value since {names[there.max() + 1]}: {why}"


def _note(n: int, lag1: float, rows: pd.DataFrame, sessions: int) -> str:
    """What has to be known of a series: too short, gaps, sessions that depend on one another."""
    notes = []
    if n < FEWEST:
        notes.append(f"too few sessions to tell a change from chance: {n}, and at least {FEWEST} are needed")
    if n < sessions:
        reasons = ", ".join(dict.fromkeys(filter(None, rows["reason"][rows["error"].isna()]))) or "not measured"
        notes.append(f"{sessions - n} of {sessions} sessions have no value ({reasons})")
    if lag1 > CORRELATION + 2 / max(n, 1) ** 0.5:
        notes.append(f"consecutive sessions are alike (correlation {lag1:.1f}): a change may be a drift of the machine")
    return "; ".join(notes)
