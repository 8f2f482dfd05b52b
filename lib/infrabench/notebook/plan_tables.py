"""Before a session: what a design will do, cost and be able to show, and what a pilot says of its size.

A time that is shared out: what it was expected to decide, what it did not, and what that would take.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.budget import describe_share, share_next
from infrabench.analysis.session_data import Session
from infrabench.analysis.tidy import tidy
from infrabench.core import DesignError
from infrabench.core.request import MOST_BLOCKS
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import FIRST_BLOCKS, LEAST_BLOCKS, Design
from infrabench.experiment.execution import session
from infrabench.experiment.execution.progress import words
from infrabench.experiment.execution.runner import Look, LookAt
from infrabench.experiment.provenance import labels
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import LOOK, read_blocks
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats import planning, stopping
from infrabench.stats.planning import ALPHA, detectable, equivalence_margin, margin_of

ENDED = {
    "target": "It ended because nothing needs more blocks",
    "n_max": "It ended because the rest have as many blocks as a case may have, or no number would do",
    "time": "It ended because no further block fits into the time",
}
CASE = ["workload", "scenario"]
COLUMNS = [*CASE, "metric", "system", "pairs", "pairs needed", "more time", "note"]
ENOUGH, EXPECTED, OPEN = "enough", "expected within the time", "not enough"
TOO_LONG, TOO_MANY = "takes longer than the time", "needs more blocks than a case may have"
MIB = 2**20
log = logging.getLogger(__name__)


def plan_table(wanted: Design) -> pd.DataFrame:
    """Return one row per case of `wanted`: systems, blocks, trials, expected minutes and MiB inside a target."""
    systems = Counter((case.workload, case.scenario) for _, case in designs.treatments(wanted))
    rows = [
        {
            "workload": case.workload, "scenario": case.scenario, "systems": count, "blocks": wanted.blocks,
            "trials": count * wanted.blocks, "rounds": case.rounds, "seconds_each": case.seconds,
            "disk_MiB": round(case.disk_bytes / MIB, 1),
            "minutes": round(count * wanted.blocks * (case.seconds + designs.TRIAL_OVERHEAD_S) / 60, 1),
        }
        for case in wanted.cases
        if (count := systems[case.workload, case.scenario])
    ]  # fmt: skip
    return pd.DataFrame(rows)


def plan_summary(wanted: Design) -> str:
    """Return one sentence that says how much `wanted` is and how long it takes."""
    cost = designs.expected_study_cost(session.study_of(wanted), wanted)
    less = f", less {len(wanted.excluded)} that a system has no place for" if wanted.excluded else ""
    timed = wanted.stopping is not None and wanted.stopping.target is None
    more = (
        ", and then more of the cases that are too wide for their margins (what to expect of that is said after the "
        "first blocks; plan --pilot SESSION --minutes N says it from an earlier session)"
        if timed
        else ""
    )
    return (
        f"{designs.count_trials(wanted)} trials: {wanted.blocks} blocks of {len(wanted.systems)} systems "
        f"({', '.join(wanted.systems)}) x {len(wanted.cases)} cases{less}{more}, seed {wanted.seed}, "
        f"about {words(cost.seconds)}; at most {cost.target_bytes / MIB:.0f} MiB inside a target, "
        f"{cost.ledger_bytes / MIB:.0f} MiB recorded"
        f"{session.baseline_text(wanted)}"
    )


def power_summary(wanted: Design) -> str:
    """Return what `wanted` can show, whatever its values will be: detectable difference and margin of equivalence.

    In units of the standard deviation of the paired log ratios, at 80 % power; and the largest such spread at which
    equal systems are shown equivalent within the study's default margin. A claim of equivalence has to hold within its
    family, all systems and scenarios of a workload: it is taken at the first step of Holm over the largest one.
    """
    planned = [(system, (case.workload, case.scenario)) for system, case in designs.treatments(wanted)]
    base = {cell for system, cell in planned if system == wanted.baseline}
    family = Counter(cell[0] for system, cell in planned if system != wanted.baseline and cell in base)
    anew, contrasted = wanted.deployments > 1, max(family.values(), default=1)
    n, unit = (wanted.deployments, "deployments") if anew else (wanted.blocks, "blocks")
    if n < 2:
        return f"n = {n} ({unit[:-1]}): no interval and no test; take at least 2, better 30."
    one, holm = (float(detectable(1.0, n, alpha=ALPHA / k)) for k in (1, contrasted))
    within = float(equivalence_margin(1.0, n, alpha=ALPHA / contrasted))
    margin = session.study_of(wanted).margins.get("")
    text = (
        f"n = {n} {unit}, paired: a difference of {one:.2f} SD of the log ratios is found with 80 % power"
        + (f" ({holm:.2f} with Holm over {contrasted} contrasts)" if contrasted > 1 else "")
        + "; equal systems are shown equivalent, with 80 % power"
        + (" and Holm over as many" if contrasted > 1 else "")
        + f", within {within:.2f} SD"
    )
    if margin is None:
        return f"{text}."
    limit = 100 * margin / within
    return f"{text}. At the margin of {100 * margin:g} % that asks for an SD of at most {limit:.2g} %."


def look_of(wanted: Design) -> LookAt | None:
    """Return what looks at a session's intervals for the stopping rule of `wanted`, if it has one: at widths alone."""
    rule = wanted.stopping
    if rule is None:
        return None
    asked, study = {case.workload for case in wanted.cases}, session.study_of(wanted)
    primary = [each for each in study.primary if each[0] in asked]
    if not primary:
        raise DesignError(
            "blocks are added for the study's primary metrics, and none of their workloads is asked for: "
            "leave out --precision and --minutes, or name one of them"
        )

    if rule.target is None:
        for _, metric in primary:
            margin_of(study.margins, metric)  # raises, before the first trial and not after the first blocks

    def look_at(stored: SessionFolder, elapsed_s: float) -> Look:
        if rule.target is None:
            return _look_at_time(stored)
        table = tidy(stored)
        there = [each for each in primary if each[0] in set(table["workload"])]  # what cannot run here was left out
        seen = stopping.look(
            table, there, rule.target, least=rule.least, batch=rule.batch,
            most=rule.most, elapsed_s=elapsed_s, budget_s=np.inf if rule.budget_s is None else rule.budget_s,
        )  # fmt: skip
        widths = {" ".join(cell): width for cell, width in seen.widths.items() if np.isfinite(width)}
        unequal = {" ".join(cell): said for cell, said in seen.unequal.items()}
        return Look(seen.n, widths, seen.stop, seen.reason, unequal)

    return look_at


def _look_at_time(stored: SessionFolder) -> Look:
    """Return the look that gives the next blocks to one case; the first logs what to expect, the last what lacks."""
    share, left_s = share_next(stored, tidy(stored))
    noted = describe_share(share, left_s, stored.session["stopping"]["most"])
    if not stored.notes(LOOK):
        log.info(describe_expectation(noted))
    if share.case is None:
        log.info(describe_end(noted, share.reason))
    return Look(
        min(share.blocks.values(), default=0) if share.case is None else share.blocks[share.case],
        {" ".join(cell): width for cell, width in share.widths.items() if np.isfinite(width)},
        share.case is None,
        share.reason,
        {" ".join(cell): said for cell, said in share.unequal.items()},
        cases=() if share.case is None else (share.case,),
        count=share.count,
        budget=noted,
    )


def plan_from_pilot(
    data: Mapping[str, Any], table: pd.DataFrame, goals: Sequence[float], *, every: bool = False
) -> pd.DataFrame:
    """Return how many blocks, and hours, each goal needs, from the spread and the pace of a pilot.

    `data`, `table`: ``session.json`` and tidy table of the pilot; `goals`: relative half-widths (0.02 = 2 %); `every`:
    of all metrics, not only of the primary ones. See `planning.plan_from_pilot`.
    """
    planned = planning.plan_from_pilot(table, data["baseline"], data["margins"], goals, _pace_s(table))
    return planned if every else _of_primary(planned, data)


def dimensions_from_pilot(
    data: Mapping[str, Any], table: pd.DataFrame, goals: Sequence[float], *, every: bool = False
) -> pd.DataFrame:
    """Return how many deployments, and blocks in each, reach each goal at the least cost, from a pilot with several.

    Arguments as of `plan_from_pilot`. See `planning.dimensions`; empty for a pilot of one deployment, which does not
    show what differs from one to the next.
    """
    if table[["session", "deployment"]].drop_duplicates().shape[0] < 2:
        return pd.DataFrame(columns=list(planning.DIMENSIONS)).astype(planning.DIMENSIONS)
    planned = planning.dimensions(table, data["baseline"], goals, *_costs_s(table))
    return planned if every else _of_primary(planned, data)


def _of_primary(planned: pd.DataFrame, data: Mapping[str, Any]) -> pd.DataFrame:
    wanted = pd.MultiIndex.from_tuples([tuple(each) for each in data["primary"]])
    chosen = pd.MultiIndex.from_frame(planned[["workload", "metric"]]).isin(wanted)
    return planned[chosen].reset_index(drop=True)


def _costs_s(table: pd.DataFrame) -> tuple[float, float]:
    """Return the wall time of one block, and of making the systems ready between two deployments of a session.

    A deployment that was interrupted is discarded whole, and a pause is beside it: neither says what one costs.
    """
    trials = _timed_trials(table)
    parts = (
        trials.assign(whole=trials["state"] != "discarded")
        .groupby(["session", "deployment"])
        .agg(begin=("start", "min"), end=("end", "max"), blocks=("block", "nunique"), whole=("whole", "all"))
        .sort_values(["session", "begin"])
    )
    parts.loc[~parts["whole"], ["begin", "end"]] = pd.NaT
    inside = ((parts["end"] - parts["begin"]).dt.total_seconds() / parts["blocks"]).mean()
    gaps = parts["begin"] - parts.groupby("session")["end"].shift()
    return float(inside), float(gaps.dt.total_seconds().mean())


def _pace_s(table: pd.DataFrame) -> float:
    """Return the wall time of one block, or of making a deployment ready and of its blocks where there are several.

    A block that a shared-out time has added holds one case: only those with all cases say what a block takes.
    """
    trials = _timed_trials(table)
    trials = trials[trials["state"] != "discarded"]
    several = trials[["session", "deployment"]].drop_duplicates().shape[0] > 1
    unit = ["session", "deployment" if several else "block"]
    parts = trials.groupby(unit)
    length_s = (parts["start"].max() - parts["start"].min()).dt.total_seconds() + parts["duration_s"].last()
    if several:
        ready_s = _costs_s(table)[1]
        return float(length_s.mean() + (ready_s if np.isfinite(ready_s) else 0.0))
    cases = trials.drop_duplicates([*unit, *CASE]).groupby(unit).size()
    return float(length_s[cases == cases.max()].mean())


def _timed_trials(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial, with its ``start`` and ``end``."""
    trials = table.drop_duplicates(["session", "trial"])
    start = pd.to_datetime(trials["started_utc"], format="ISO8601").astype("datetime64[ns, UTC]")
    return trials.assign(start=start, end=start + pd.to_timedelta(trials["duration_s"], unit="s"))


def budget_table(session: Session) -> pd.DataFrame:
    """Return what each primary contrast has and needs at the last look of a session that shares out a time.

    One row per workload, scenario, metric and system. ``pairs needed``: at which no outcome is inconclusive at the
    margin, at the spread seen so far; empty where no number is named, and ``note`` says why. ``more time``: what so
    many more blocks of the case take, with all its systems. No row for a session of another kind, or before its first
    look. Of pooled sessions each has its rows.
    """
    columns = COLUMNS if len(session.folders) == 1 else ["session", *COLUMNS]
    frames = [
        _tabulate(looks[-1]["budget"], labels.of(folder), ended=bool(looks[-1]["reason"])).assign(session=folder.name)
        for folder in session.folders
        if (looks := _looks(folder))
    ]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def budget_summary(session: Session) -> str:
    """Return what a time was expected to decide after the first blocks, and what it did not and what that would take.

    Empty for a session that shares out no time, or before its first look. Of pooled sessions each is named.
    """
    told = []
    for folder in session.folders:
        if looks := _looks(folder):
            last, name = looks[-1], "" if len(session.folders) == 1 else f"{folder.name}: "
            told.append(f"{name}{describe_expectation(looks[0]['budget'])}")
            told += [describe_end(last["budget"], last["reason"], labels.of(folder))] if last["reason"] else []
    return " ".join(told)


def describe_enough(look: Mapping[str, Any]) -> str:
    """Return how many contrasts had enough pairs at a look, ``3 of 9``; empty where no time is shared out."""
    if "budget" not in look:
        return ""
    frame = _tabulate(look["budget"])
    return f"{int((frame['note'] == ENOUGH).sum())} of {len(frame)}"


def describe_expectation(noted: Mapping[str, Any]) -> str:
    """Return what a look (its ``budget``) expects of the time that is left, in a sentence."""
    frame = _tabulate(noted)
    left_s = noted["left_s"]
    if frame.empty:
        return "None of the primary metrics could be compared: there is nothing that the time could decide."
    if left_s <= 0:
        return f"The first blocks took {words(-left_s)} more than the time that was given: none can be added."
    enough, expected = (int((frame["note"] == word).sum()) for word in (ENOUGH, EXPECTED))
    return (
        f"After the first blocks {enough} of {len(frame)} primary contrasts have enough pairs for their margins; "
        f"{expected} more are expected to in the {words(left_s)} that are left, at the spread and pace seen so far."
    )


def describe_end(noted: Mapping[str, Any], reason: str, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what the time could not decide and what that would take; `names`: what systems are called."""
    frame = _tabulate(noted, names, ended=True)
    lacking = frame[frame["note"] != ENOUGH]
    have = f"{len(frame) - len(lacking)} of {len(frame)} primary contrasts have enough pairs for their margins"
    each = [
        f"{row['workload']} {row['scenario']} {row['metric']} of {row['system']}: {row['pairs']} pairs, "
        + (f"{row['pairs needed']} would be enough ({row['more time']} more)" if row["more time"] else row["note"])
        for row in lacking.to_dict("records")
    ]
    return f"{ENDED.get(reason, 'It was interrupted')}: {have}{'. Not: ' if each else ''}{'; '.join(each)}."


def budget_from_pilot(session: Session, minutes: float) -> tuple[str, pd.DataFrame]:
    """Return what so many minutes are expected to decide, in a sentence and by contrast, from an earlier session.

    By its cases, its spread and its pace. Raises `DesignError` where the first blocks do not fit.
    """
    stored = SessionFolder(session.folder)
    data, pace = stored.session, measure_pace(stored.records.values())
    all_s = sum(pace.costs_s.values())
    first = min(FIRST_BLOCKS, int(2 / 3 * 60 * minutes / all_s))
    if first < LEAST_BLOCKS:
        raise DesignError(
            f"{LEAST_BLOCKS} blocks took {words(LEAST_BLOCKS * all_s)} in {session.folder.name}, and {minutes:g} "
            "minutes have to hold half as many again: give more, or measure fewer cases"
        )
    left_s = 60 * minutes - first * all_s
    share = stopping.share_out(
        tidy(stored), [(workload, metric) for workload, metric in data["primary"]], data["baseline"], data["margins"],
        costs_s=pace.costs_s, left_s=left_s, most=MOST_BLOCKS,
    )  # fmt: skip
    needs = {**share.needs, **dict.fromkeys(share.still, float(first))}
    share = share._replace(pairs=dict.fromkeys(share.pairs, first), needs=needs)
    frame = _tabulate(describe_share(share, left_s, MOST_BLOCKS), labels.of(session.folder))
    counts = frame["note"].value_counts()
    return (
        f"{minutes:g} minutes: {first} blocks of every case, and {words(left_s)} to share out. Of {len(frame)} primary "
        f"contrasts {counts.get(ENOUGH, 0)} need no more, {counts.get(EXPECTED, 0)} more are expected to have enough."
    ), frame.drop(columns="pairs")


def _looks(folder: Path) -> list[dict[str, Any]]:
    """Return the looks of the session in a folder that share out a time."""
    return [each for each in read_blocks(folder, LOOK) if "budget" in each]


def _expect(frame: pd.DataFrame, left_s: float) -> list[int]:
    """Return the rows that get enough pairs in `left_s`, the soonest first: a block is of all its systems."""
    given_s: dict[tuple[str, str], float] = {}
    rows: list[int] = []
    waiting = {
        row.Index: ((row.workload, row.scenario), row.missing_s) for row in frame.itertuples() if row.missing_s > 0
    }
    while waiting:
        row, (case, takes_s) = min(waiting.items(), key=lambda each: each[1][1] - given_s.get(each[1][0], 0.0))
        if sum(given_s.values()) - given_s.get(case, 0.0) + takes_s > left_s:
            break
        given_s[case] = takes_s
        rows.append(row)
        del waiting[row]
    return rows


def _tabulate(
    noted: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({}), *, ended: bool = False
) -> pd.DataFrame:
    """Return one row per contrast of a ``budget``: its pairs, how many it needs, what these take, and its state."""
    costs_s = {(workload, scenario): cost for workload, scenario, cost in noted["costs_s"]}
    frame = pd.DataFrame(noted["contrasts"], columns=[*COLUMNS[:5], "need", "why"])
    need, pairs = frame["need"].astype(float), frame["pairs"]
    keys = list(frame[CASE].itertuples(index=False, name=None))
    missing_s = pd.Series(np.where(need > pairs, (need - pairs) * [costs_s.get(key, np.nan) for key in keys], np.nan))
    expected = _expect(frame.assign(missing_s=missing_s)[need <= noted["most"]], noted["left_s"])
    state = np.select(
        [
            frame["why"] != "", need <= pairs, np.full(len(frame), ended), need > noted["most"],
            frame.index.isin(expected),
        ],
        [frame["why"], ENOUGH, OPEN, TOO_MANY, EXPECTED], TOO_LONG,
    )  # fmt: skip
    return frame.assign(**{
        "system": frame["system"].replace(dict(names)), "note": state,
        "more time": [words(each) if np.isfinite(each) else "" for each in missing_s],
        "pairs needed": ["" if pd.isna(each) else str(round(each)) for each in frame["need"]],
    })[COLUMNS]  # fmt: skip
