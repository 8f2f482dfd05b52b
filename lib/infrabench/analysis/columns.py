"""The columns of the tidy table, declared once: types of its files, and the data dictionary beside every export.

Standard library only: a command line lists `FORMS` without loading pandas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from infrabench.core import STATES, UNITS
from infrabench.core.workloads import Kind

FORMS = ("csv", "parquet", "jsonl")  # in which a session is exported (`analysis.export`)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the tidy table: its name, what its cells are, their unit, and what they mean.

    `nullable`: a cell may be missing. `blank`: its text may be empty, which is a value and not a missing one.
    `choices`: all that a cell can be.
    """

    name: str
    kind: Literal["string", "integer", "number", "datetime"]
    meaning: str
    unit: str = ""
    nullable: bool = False
    blank: bool = False
    choices: tuple[str, ...] = ()


DICTIONARY = (
    Column("session", "string", "name of the session: one execution of a plan on one site"),
    Column("study", "string", "the question that the session answers, as containers or storage"),
    Column("site", "string", "the hosts that it ran on; every embedded lab is called lab"),
    Column("trial", "string", "id of the trial, and of its folder trials/ID in the session; unique within a session"),
    Column("block", "integer", "number of the block, from 0: trials that share hosts and time; pair systems by it"),
    Column("position", "integer", "place of the trial in the order of execution of the whole session, from 0"),
    Column("deployment", "integer", "which making ready of all systems the trial belongs to, from 0"),
    Column("attempt", "integer", "0 for a planned trial; 1, 2, ... for the repeat of an invalid one"),
    Column("system", "string", "what was measured: a level of the factor under study"),
    Column("workload", "string", "what was run on it; `NAME (code 2)`: with other code, never to be pooled with NAME"),
    Column("scenario", "string", "one setting of the workload's parameters"),
    Column("factor", "string", "parameter that varies over the scenarios; missing where none does", nullable=True),
    Column("level", "number", "value of that parameter in this scenario", nullable=True),
    Column("metric", "string", "what was measured; missing where the trial has no value that counts", nullable=True),
    Column(
        "value", "number", "one value a trial and metric; missing, never 0, for a trial that is not ok",
        unit="as in column unit", nullable=True,
    ),
    Column("unit", "string", "unit of value", nullable=True, choices=tuple(sorted(UNITS))),
    Column("better", "string", "whether higher or lower values are better", nullable=True, choices=("higher", "lower")),
    Column("state", "string", "what became of the trial; values of ok ones alone count", choices=STATES),
    Column("reason", "string", "why the trial is not ok; empty where it is", blank=True),
    Column("started_utc", "datetime", "when the trial began, by the clock of the controlling machine, in UTC"),
    Column("duration_s", "number", "time that the whole trial took, harness included", unit="s"),
    Column("tool_s", "number", "time inside the steps that measure", unit="s"),
)  # fmt: skip


# How the trials of a metric are averaged, by what kind of metric it is (`core.workloads.Kind`).
AVERAGES: dict[Kind, str] = {
    "time": "mean",
    "total time": "mean",
    "fixed-work rate": "harmonic mean: the work of a trial over the mean time",
    "fixed-time rate": "mean",
    "count": "mean",
    "share": "mean",
    "quantity": "mean",
}


def table_schema() -> dict[str, Any]:
    """Return the dictionary as a Table Schema of the Data Package standard, version 1.

    `unit` is a property of our own, which the standard allows.
    """
    fields: list[dict[str, Any]] = []
    for column in DICTIONARY:
        field: dict[str, Any] = {"name": column.name, "type": column.kind, "description": column.meaning}
        if column.kind == "datetime":
            field["format"] = "any"  # that of version 1 has no milliseconds
        if column.unit:
            field["unit"] = column.unit
        constraints: dict[str, Any] = {} if column.nullable or column.blank else {"required": True}
        if column.choices:
            constraints["enum"] = list(column.choices)
        fields.append(field | ({"constraints": constraints} if constraints else {}))
    return {"fields": fields, "missingValues": [""]}
