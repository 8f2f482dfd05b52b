"""What trials found, yes or no: rows of questions, one column a system, each cell counted and never averaged.

An answer that is the same in every trial has no spread, so it gets no interval: the count says what there is to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from infrabench.analysis.tables import notation

HAS_NONE = "has none"  # another system answers here
NO_TRIAL = "no valid trial"


@dataclass(frozen=True, slots=True)
class Question:
    """A metric as a question. `kind`: ``flag`` is 0 or 1, ``share`` from 0 to 1, ``count`` a whole number."""

    metric: str
    words: str
    kind: Literal["flag", "share", "count"]


def matrix_table(
    table: pd.DataFrame,
    workload: str,
    questions: Sequence[Question],
    *,
    scenarios: Sequence[str],
    systems: Sequence[str],
) -> pd.DataFrame:
    """Return one row for each scenario and question that some trial of it answers; one column for each system.

    Parameters
    ----------
    table
        The tidy table. Only valid trials have answers; the row *valid trials* counts them.
    scenarios, systems
        In this order; scenarios without a trial are left out.

    Returns
    -------
    DataFrame
        ``scenario``, ``question``, then the systems. A flag reads ``3 of 3``; a share and a count are one number, or
        their smallest and largest. A system that has no such answer, as it has no such scrub, *has none*.
    """
    mine = table[table["workload"] == workload]
    rows = []
    for scenario in [name for name in scenarios if name in set(mine["scenario"])]:
        cases = mine[mine["scenario"] == scenario]
        trials = cases.drop_duplicates("trial")
        of = {name: trials[trials["system"] == name] for name in systems}
        told = {name: f"{(each['state'] == 'ok').sum()} of {len(each)}" for name, each in of.items()}
        rows.append({"scenario": scenario, "question": "valid trials", **told})
        for asked in questions:
            answers = cases[(cases["metric"] == asked.metric) & cases["value"].notna()]
            if not answers.empty:
                cells = {
                    name: _cell(answers.loc[answers["system"] == name, "value"], asked.kind, HAS_NONE)
                    if (of[name]["state"] == "ok").any()
                    else NO_TRIAL
                    for name in systems
                }
                rows.append({"scenario": scenario, "question": asked.words, **cells})
    return pd.DataFrame(rows, columns=["scenario", "question", *systems], dtype="str")


def _cell(values: pd.Series, kind: str, otherwise: str) -> str:
    if values.empty:
        return otherwise
    if kind == "flag":
        return f"{int((values == 1).sum())} of {len(values)}"
    scale, unit = (100, " %") if kind == "share" else (1, "")
    ends = dict.fromkeys(notation.number(scale * value) for value in (values.min(), values.max()))
    return " to ".join(ends) + unit
