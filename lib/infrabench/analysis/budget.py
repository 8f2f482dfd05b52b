"""A time that is shared out: what gets the next blocks, what a look notes of that, and whether it follows from trials.

Everything is of the stored session alone, so that whoever verifies it finds each choice again: the trials up to a look
give spreads, costs and the time that is left, and these give the choice (`stopping.share_out`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

import pandas as pd

from infrabench.analysis.tidy import tidy
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import LOOK, added_cases
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats.stopping import Share, share_out

ABOUT = 1e-6  # relative: sums in another order


def is_shared_out(session: Mapping[str, Any]) -> bool:
    """Tell whether a session shares out a time, from its ``session.json``."""
    rule = session.get("stopping") or {}
    return rule.get("target") is None and rule.get("budget_s") is not None


def share_next(stored: SessionFolder, table: pd.DataFrame, last: int | None = None) -> tuple[Share, float]:
    """Return what gets the next blocks of a session that shares out a time, and the seconds that it has left.

    `table`: its tidy table; `last`: as it was after this block; None: as it is. Raises as `stopping.share_out`.
    """
    data, records = stored.session, stored.records.values()
    rule, last = data["stopping"], max(trial.block for trial in stored.plan) if last is None else last
    table = table[table["block"] <= last]
    pace = measure_pace(record for record in records if record.trial.block <= last)
    left_s = float(rule["budget_s"] - pace.spent_s)
    share = share_out(
        table, [(workload, metric) for workload, metric in data["primary"]], data["baseline"], data["margins"],
        costs_s=pace.costs_s, left_s=left_s, batch=rule["batch"], most=rule["most"],
    )  # fmt: skip
    return share, left_s


def describe_share(share: Share, left_s: float, most: int) -> dict[str, Any]:
    """Return what a look notes beside its choice: each contrast with what it needs, costs of blocks, and time left.

    `most`: blocks that a case may have.
    """
    return {
        "left_s": left_s, "most": most,
        "costs_s": [[*case, cost] for case, cost in share.costs_s.items()],
        "contrasts": [
            {
                **dict(zip(("workload", "scenario", "metric", "system"), cell, strict=True)),
                "pairs": share.pairs[cell], "need": None if cell in share.why else need,
                "why": share.why.get(cell, ""),
            }
            for cell, need in share.needs.items()
        ],
    }  # fmt: skip


def check_looks(stored: SessionFolder) -> list[str]:
    """Return which looks of a session that shares out a time do not follow from the trials before them, in words.

    Not asked are those that a lost host ended, and those of a reparsed session: they were made by other values.
    """
    if not is_shared_out(stored.session):
        return []
    faults, table = [], tidy(stored)
    for note in stored.notes(LOOK):
        if note["reason"] == "error" or note.get("reparsed"):
            continue
        share, left_s = share_next(stored, table, note["block"])
        then = _describe_choice(added_cases(note), len(note["adds"]), note["reason"])
        now = _describe_choice([share.case] if share.case else [], share.count, share.reason)
        where = f"{stored.path}: its look after block {note['block']}"
        if then != now:
            faults.append(f"{where} gave {then}, and from the trials before it follows {now}")
        elif not _is_alike(note.get("budget"), describe_share(share, left_s, stored.session["stopping"]["most"])):
            faults.append(f"{where} notes other pairs, needs, costs or time than follow from the trials before it")
    return faults


def _describe_choice(cases: Sequence[tuple[str, str]], count: int, reason: str) -> str:
    return f"none ({reason})" if reason else f"{count} blocks of {', '.join(' '.join(case) for case in cases) or 'all'}"


def _is_alike(first: Any, second: Any) -> bool:
    """Tell whether two values of JSON are the same, numbers to within `ABOUT`."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_is_alike(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_is_alike, first, second))
    if isinstance(first, int | float) and isinstance(second, int | float):
        return isclose(first, second, rel_tol=ABOUT, abs_tol=ABOUT)
    return bool(first == second)
