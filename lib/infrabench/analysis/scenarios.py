"""The same analysis the other way round: what a scenario changes, within each system.

"Does the second interface cost throughput?" compares two scenarios of one system, which share their blocks as systems
do. So the table is turned: scenarios stand where systems stood, and the very same paired statistics answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from infrabench.analysis.results import Results, explain_scope, results
from infrabench.analysis.tidy import PLAN_COLUMNS
from infrabench.stats.table import span_deployments

MISSING = "missing"
Parts = Callable[[str, str], tuple[str, str] | None]  # (system, scenario) -> the same turned, None to leave it out


def between(found: Results, workload: str, base: str, others: Sequence[str], view: str) -> Results:
    """Return the analysis of some scenarios of `workload`, each as a ratio to scenario `base`, within every system.

    Its systems are scenarios, its scenarios systems. No metric is primary: what it says is exploratory. Scenarios that
    the session does not have are named as not run. `view` ends the names of the folders that figures and tables go to:
    ``cnis-VIEW``.
    """
    names = [base, *others]
    return _turned(found, workload, names, view, lambda system, name: (name, system) if name in names else None)


def levels(found: Results, workload: str, base: str, others: Sequence[str], view: str) -> Results:
    """Return the same for all scenarios of `workload` that have one of several levels in their name.

    ``random read strict`` is the case ``random read`` at the level ``strict``. Each level is a ratio to the level
    `base`, within every system and for each case: what stands where scenarios stood is ``zfs, random read``.
    """
    names = [base, *others]

    def parts(system: str, scenario: str) -> tuple[str, str] | None:
        for level in sorted(names, key=len, reverse=True):  # `strict rbd` before `strict`
            before, there, after = f" {scenario} ".partition(f" {level} ")
            if there:
                return level, f"{system}, {f'{before} {after}'.strip()}"
        return None

    return _turned(found, workload, names, view, parts)


def _turned(found: Results, workload: str, names: Sequence[str], view: str, parts: Parts) -> Results:
    """Return the analysis of what `parts` gives for a system and a scenario: another system, another scenario."""
    base = names[0]
    rows = planned_rows(found)
    rows = rows[rows["workload"] == workload]
    new = [parts(system, scenario) for system, scenario in zip(rows["system"], rows["scenario"], strict=True)]
    kept = [each for each in new if each is not None]
    rows = rows.iloc[[place for place, each in enumerate(new) if each is not None]]
    turned = rows.assign(
        system=[system for system, _ in kept], scenario=[name for _, name in kept], factor=None, level=float("nan")
    )
    there = set(turned.loc[turned["state"] != MISSING, "system"])
    turned = turned if base in there else turned.iloc[:0]
    absent = [
        {**each, "system": to[0], "scenario": to[1]}
        for each in found.data.get("not_applicable", [])
        if each["workload"] == workload and (to := parts(each["system"], each["scenario"])) is not None
    ]
    elsewhere = there | {each["system"] for each in absent}
    why = explain_scope(found.data)
    return analyse_view(
        found, turned, view, systems=[name for name in names if name in there], baseline=base, primary=[],
        not_run={name: why for name in names if name not in elsewhere}, not_applicable=absent,
    )  # fmt: skip


def planned_rows(found: Results) -> pd.DataFrame:
    """Return the tidy table, and below it the trials without a record, in the state `MISSING`."""
    if found.missing.empty:
        return found.table.reset_index(drop=True)
    missing = found.missing.assign(state=MISSING)
    if "session" not in missing:  # of a part of a data set
        sessions = found.table["session"].unique()
        missing = missing.assign(session=sessions[0] if len(sessions) == 1 else "")
    return pd.concat([found.table, missing], ignore_index=True)


def analyse_view(found: Results, rows: pd.DataFrame, view: str, **data: Any) -> Results:
    """Return the analysis of other rows of a session, called `view`; `data` is what it says of itself instead.

    `rows` are those of `planned_rows`, with other names and values. Their index tells the case that they were of, which
    says what the unit is: what stands for a case here may lack trials of a deployment that the session has.
    """
    is_missing = rows["state"] == MISSING
    recorded = rows[~is_missing]
    return results(
        found.data | {"variants": {}, "view": view} | data,
        recorded.astype(found.table.dtypes).reset_index(drop=True),
        rows.loc[is_missing, ["session", *PLAN_COLUMNS]].reset_index(drop=True), found.folder, found.probes,
        several=span_deployments(found.table)[recorded.index],
    )  # fmt: skip
