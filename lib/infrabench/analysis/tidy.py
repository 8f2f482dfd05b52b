"""Session folder -> one typed table: one row per (trial, metric).

Only files are read, as plain JSON, so a session recorded elsewhere is analysed with no host, container engine or
cluster at hand. A trial that is not ``ok`` keeps its one row, without metric or value: it is counted, never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from infrabench.analysis.columns import DICTIONARY
from infrabench.core import LedgerError, SchemaError, TrialRecord
from infrabench.core.names import is_label
from infrabench.ledger.codes import CODE, LATEST, code_labels, unnamed_code
from infrabench.ledger.fields import check_present
from infrabench.ledger.records import SESSION
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats.table import check_values, refuse

ARROW = {"string": pa.string(), "datetime": pa.string(), "integer": pa.int64(), "number": pa.float64()}
SCHEMA = pa.schema([pa.field(each.name, ARROW[each.kind], nullable=each.nullable) for each in DICTIONARY])
COLUMNS = tuple(SCHEMA.names)
DTYPES = {f.name: {pa.string(): "str", pa.int64(): "int64"}.get(f.type, "float64") for f in SCHEMA}
SESSION_KEYS = ("study", "baseline", "site", "systems", "margins")
PLAN_COLUMNS = (
    *("trial", "block", "position", "deployment", "attempt", "system", "workload", "scenario", "factor", "level"),
)


def tidy(session_dir: Path | SessionFolder) -> pd.DataFrame:
    """Return the tidy table of a session in executed order, the metrics of a trial by name.

    A trial of a block that was discarded whole is there without its values, in state ``discarded``. Trials that other
    code made are of another workload, ``web (code 2)``: see `ledger.codes`. Planned trials without a record are not in
    the table; `missing` lists them.

    Raises `LedgerError` when a file is damaged, or a trial is recorded that the plan does not know; `SchemaError` when
    a measurement has an unknown unit, no finite value, or appears twice.
    """
    stored = session_dir if isinstance(session_dir, SessionFolder) else SessionFolder(Path(session_dir))
    session, folder = stored.session, stored.path.resolve().name
    if not is_label(folder):
        raise LedgerError(
            f"{stored.path}: {folder[:60]!r} cannot be the name of a session; give its folder a plain one"
        )
    check_present(stored.path / SESSION, session, SESSION_KEYS)
    common = {"session": folder, "study": session["study"], "site": session["site"]["name"]}
    records = stored.records.values()
    names = code_labels(stored.session, stored.notes(CODE), {record.trial.workload for record in records})
    rows = (row for record in records for row in _rows(record, stored.discarded, names))
    table = _columns(common, rows)
    # repeats share the last position of their block
    order = ["position", "attempt", "started_utc", "trial", "metric"]
    table = table.sort_values(order, kind="stable", ignore_index=True)
    return check(table)


def missing(session_dir: Path | SessionFolder) -> pd.DataFrame:
    """Return the planned trials that have no record yet, one row each, in planned order.

    What was left of a discarded block is not missing: another block stands for it.
    """
    stored = session_dir if isinstance(session_dir, SessionFolder) else SessionFolder(Path(session_dir))
    absent = [trial for trial in stored.awaited if trial.id not in stored.records]
    names = code_labels(stored.session, stored.notes(CODE), {trial.workload for trial in absent})
    called = [replace(trial, workload=names[trial.workload][LATEST]) for trial in absent]
    rows = [(t.id, *(getattr(t, name) for name in PLAN_COLUMNS[1:])) for t in called]
    return pd.DataFrame(rows, columns=list(PLAN_COLUMNS)).astype({name: DTYPES[name] for name in PLAN_COLUMNS})


def check(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table` unchanged when it is a tidy table; raises `SchemaError` saying which column or trial is not."""
    if tuple(table.columns) != COLUMNS:
        raise SchemaError(f"tidy table: columns are {list(table.columns)}, expected {list(COLUMNS)}")
    for name, dtype in DTYPES.items():
        if str(table[name].dtype) != dtype:
            raise SchemaError(f"tidy table: column {name!r} is {table[name].dtype}, expected {dtype}")
    for field in SCHEMA:
        if not field.nullable and table[field.name].isna().any():
            raise SchemaError(f"tidy table: column {field.name!r} has empty cells")
    for name, known in ((each.name, each.choices) for each in DICTIONARY if each.choices):
        refuse(table, table[name].notna() & ~table[name].isin(known), f"an unknown {name}")
    refuse(table, table.duplicated(["session", "trial", "metric"]), "the same metric twice")
    return check_values(table)


def _columns(common: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows, which share what is `common`, as a typed frame; a text is held once, however many rows have it."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS if name not in common}
    texts: dict[str, str] = {}
    for row in rows:
        for name, column in columns.items():
            value = row[name]
            column.append(texts.setdefault(value, value) if isinstance(value, str) else value)
    # each list is let go as soon as its column is typed
    typed = {name: pd.Series(columns.pop(name), dtype="object").astype(DTYPES[name]) for name in list(columns)}
    frame = pd.DataFrame(typed)
    shared = {name: pd.Series(text, index=frame.index, dtype="str") for name, text in common.items()}
    return frame.assign(**shared)[list(COLUMNS)]


def _rows(
    record: TrialRecord, discarded: Mapping[int, str], names: Mapping[str, Mapping[str | None, str]]
) -> Iterator[dict[str, Any]]:
    trial = record.trial
    row: dict[str, Any] = {"trial": trial.id}
    row |= {name: getattr(trial, name) for name in PLAN_COLUMNS[1:]}
    if record.code not in names[trial.workload]:
        raise unnamed_code(trial.id)
    row["workload"] = names[trial.workload][record.code]
    row |= {name: getattr(record, name) for name in ("state", "reason", "started_utc", "duration_s", "tool_s")}
    empty = {"metric": None, "value": None, "unit": None, "better": None}
    if trial.block in discarded:
        yield row | empty | {"state": "discarded", "reason": f"block {trial.block}: {discarded[trial.block]}"}
        return
    if record.state != "ok" or not record.measurements:
        yield row | empty
        return
    for m in record.measurements:
        yield row | {"metric": m.metric, "value": m.value, "unit": m.unit, "better": m.better}
