"""A time that is shared out: what it was expected to decide, what it did not, and what that would take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.budget import describe_share, is_shared_out
from infrabench.analysis.session_data import Session
from infrabench.analysis.tidy import tidy
from infrabench.core import DesignError
from infrabench.core.request import MOST_BLOCKS
from infrabench.experiment.design.design import FIRST_BLOCKS, LEAST_BLOCKS
from infrabench.experiment.execution.progress import words
from infrabench.experiment.provenance import labels
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import LOOK, read_blocks
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats.stopping import share_out

ENDED = {
    "target": "It ended because nothing needs more blocks",
    "n_max": "It ended because the rest have as many blocks as a case may have, or no number would do",
    "time": "It ended because no further block fits into the time",
}
CASE = ["workload", "scenario"]
COLUMNS = [*CASE, "metric", "system", "pairs", "pairs needed", "more time", "note"]
ENOUGH, EXPECTED, OPEN = "enough", "expected within the time", "not enough"
TOO_LONG, TOO_MANY = "takes longer than the time", "needs more blocks than a case may have"


def budget_table(session: Session) -> pd.DataFrame:
    """Return what each primary contrast has and needs at the last look of a session that shares out a time.

    One row per workload, scenario, metric and system. ``pairs needed``: at which no outcome is inconclusive at the
    margin, at the spread seen so far; empty where no number is named, and ``note`` says why. ``more time``: what so
    many more blocks of the case take, with all its systems. No row for a session of another kind, or before its first
    look.
    """
    looks = _looks(session)
    if not looks:
        return pd.DataFrame(columns=COLUMNS)
    return _tabulate(looks[-1]["budget"], labels.of(session.folder), ended=bool(looks[-1]["reason"]))


def budget_summary(session: Session) -> str:
    """Return what a time was expected to decide after the first blocks, and what it did not and what that would take.

    Empty for a session that shares out no time, or before its first look.
    """
    looks, names = _looks(session), labels.of(session.folder)
    if not looks:
        return ""
    first, last = looks[0], looks[-1]
    ended = [describe_end(last["budget"], last["reason"], names)] if last["reason"] else []
    return " ".join([describe_expectation(first["budget"]), *ended])


def describe_enough(look: Mapping[str, Any]) -> str:
    """Return how many contrasts had enough pairs at a look, ``3 of 9``; empty where no time is shared out."""
    if "budget" not in look:
        return ""
    frame = _frame(look["budget"])
    return f"{int((frame['note'] == ENOUGH).sum())} of {len(frame)}"


def describe_expectation(noted: Mapping[str, Any]) -> str:
    """Return what a look (its ``budget``) expects of the time that is left, in a sentence."""
    frame = _frame(noted)
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


def describe_end(noted: Mapping[str, Any], reason: str, names: Mapping[str, str] | None = None) -> str:
    """Return what the time could not decide and what that would take; `names`: what systems are called."""
    frame = _tabulate(noted, names or {}, ended=True)
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
    share = share_out(
        tidy(stored), [(workload, metric) for workload, metric in data["primary"]], data["baseline"], data["margins"],
        costs_s=pace.costs_s, left_s=left_s, most=MOST_BLOCKS,
    )  # fmt: skip
    share = share._replace(pairs=dict.fromkeys(share.pairs, first))
    frame = _tabulate(describe_share(share, left_s, MOST_BLOCKS), labels.of(session.folder))
    counts = frame["note"].value_counts()
    return (
        f"{minutes:g} minutes: {first} blocks of every case, and {words(left_s)} to share out. Of {len(frame)} primary "
        f"contrasts {counts.get(ENOUGH, 0)} need no more, {counts.get(EXPECTED, 0)} more are expected to have enough."
    ), frame.drop(columns="pairs")


def _looks(session: Session) -> list[dict[str, Any]]:
    return (
        [each for each in read_blocks(session.folder, LOOK) if "budget" in each] if is_shared_out(session.data) else []
    )


def _frame(noted: Mapping[str, Any], ended: bool = False) -> pd.DataFrame:
    """One row per contrast of a ``budget``: ``missing_s``, what its pairs would take, and ``note``, its state."""
    costs_s = {(workload, scenario): cost for workload, scenario, cost in noted["costs_s"]}
    frame = pd.DataFrame(noted["contrasts"], columns=[*COLUMNS[:5], "need", "why"])
    need = frame["need"].astype(float)
    cost = [costs_s.get(case, np.nan) for case in frame[CASE].itertuples(index=False, name=None)]
    frame["missing_s"] = np.where(need > frame["pairs"], (need - frame["pairs"]) * cost, np.nan)
    expected = _expect(frame[need <= noted["most"]], noted["left_s"])
    state = np.select(
        [
            frame["why"] != "",
            need <= frame["pairs"],
            np.full(len(frame), ended),
            need > noted["most"],
            frame.index.isin(expected),
        ],
        [frame["why"], ENOUGH, OPEN, TOO_MANY, EXPECTED],
        TOO_LONG,
    )
    return frame.assign(note=state)


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


def _tabulate(noted: Mapping[str, Any], names: Mapping[str, str], *, ended: bool = False) -> pd.DataFrame:
    frame = _frame(noted, ended)
    more = [words(each) if np.isfinite(each) else "" for each in frame["missing_s"]]
    needed = ["" if pd.isna(each) else str(round(each)) for each in frame["need"]]
    frame = frame.assign(system=frame["system"].replace(names), **{"more time": more, "pairs needed": needed})
    return frame[COLUMNS]
