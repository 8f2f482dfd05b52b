"""Session folder -> one typed table: one row per (trial, metric).

Only files are read, as plain JSON, so a session recorded elsewhere is analysed with no host, container engine or
cluster at hand. A trial that is not ``ok`` keeps its one row, without metric or value: it is counted, never averaged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infrabench.core import STATES, UNITS, LedgerError, SchemaError, TrialRecord
from infrabench.records import check_format, discarded, place, planned_as, read_plan
from infrabench.sums import SUMS, read_sums

SCHEMA = pa.schema(
    [
        pa.field("session", pa.string(), nullable=False),
        pa.field("study", pa.string(), nullable=False),
        pa.field("site", pa.string(), nullable=False),
        pa.field("trial", pa.string(), nullable=False),
        pa.field("block", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("deployment", pa.int64(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("system", pa.string(), nullable=False),
        pa.field("workload", pa.string(), nullable=False),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("factor", pa.string()),
        pa.field("level", pa.float64()),
        pa.field("metric", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("unit", pa.string()),
        pa.field("better", pa.string()),
        pa.field("state", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("started_utc", pa.string(), nullable=False),
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("tool_s", pa.float64(), nullable=False),
    ]
)
COLUMNS = tuple(SCHEMA.names)
DTYPES = {f.name: {pa.string(): "str", pa.int64(): "int64"}.get(f.type, "float64") for f in SCHEMA}
SESSION_KEYS = ("study", "baseline", "site", "systems", "margins")
PLAN_COLUMNS = (
    *("trial", "block", "position", "deployment", "attempt", "system", "workload", "scenario", "factor", "level"),
)


def read_session(session_dir: Path) -> dict[str, Any]:
    """Return ``session.json`` of a session folder.

    Raises `LedgerError` when the file is absent, is not JSON or lacks a key that the analysis needs.
    """
    path = Path(session_dir) / "session.json"
    data = _read_json(path)
    check_format(path, data)
    absent = [key for key in SESSION_KEYS if key not in data]
    if absent:
        raise LedgerError(f"{session_dir}/session.json lacks {', '.join(absent)}; was it written by another version?")
    return data


def tidy(session_dir: Path) -> pd.DataFrame:
    """Return the tidy table of a session in executed order, the metrics of a trial by name.

    A trial of a block that was discarded whole is there without its values, in state ``discarded``.

    Parameters
    ----------
    session_dir
        Folder with ``session.json``, ``plan.jsonl`` and ``trials/<id>/trial.json``. Planned trials without a
        record are not in the table; `missing` lists them.

    Raises
    ------
    LedgerError
        A file is damaged, or a trial is recorded that the plan does not know.
    SchemaError
        A measurement has an unknown unit, no finite value, or appears twice.
    """
    folder = Path(session_dir)
    session = read_session(folder)
    common = {"session": folder.resolve().name, "study": session["study"], "site": session["site"]["name"]}
    gone = discarded(folder)
    table = _columns(common, (row for record in _records(folder) for row in _rows(record, gone)))
    # repeats share the last position of their block
    order = ["position", "attempt", "started_utc", "trial", "metric"]
    table = table.sort_values(order, kind="stable", ignore_index=True)
    return check(table)


def missing(session_dir: Path) -> pd.DataFrame:
    """Return the planned trials that have no record yet, one row each, in planned order.

    What was left of a discarded block is not missing: another block stands for it.
    """
    folder = Path(session_dir)
    gone = discarded(folder)
    absent = [
        trial
        for trial in read_plan(folder)
        if trial.block not in gone and not (folder / "trials" / trial.id / "trial.json").is_file()
    ]
    rows = [(t.id, *(getattr(t, name) for name in PLAN_COLUMNS[1:])) for t in absent]
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
    _check_closed(table, "state", STATES)
    _check_closed(table, "unit", UNITS)
    _check_closed(table, "better", ("higher", "lower"))
    measured = table["metric"].notna()
    _refuse(table, measured & ~np.isfinite(table["value"]), "a metric without a finite value")
    _refuse(table, measured & (table["unit"].isna() | table["better"].isna()), "a metric without unit or direction")
    _refuse(table, table["value"].notna() & (~measured | (table["state"] != "ok")), "a value outside an ok measurement")
    _refuse(table, table.duplicated(["session", "trial", "metric"]), "the same metric twice")
    one_unit(table)
    return table


def one_unit(table: pd.DataFrame) -> None:
    """Raise `SchemaError` when a metric of a workload has more than one unit or direction."""
    measured = table[table["metric"].notna()]
    kinds = measured.groupby(["workload", "metric"], observed=True)[["unit", "better"]].nunique()
    for workload, metric in kinds.index[(kinds > 1).any(axis=1)]:
        raise SchemaError(f"tidy table: {workload} {metric} has more than one unit or direction")


def write_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a tidy table to ``path`` (``.parquet`` or ``.csv``) and return the path."""
    check(table)
    path = Path(path)
    if path.suffix not in (".parquet", ".csv"):
        raise SchemaError(f"{path}: a tidy table is written as .parquet or .csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # half a table looks like one of fewer trials
    try:
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pandas(table, schema=SCHEMA, preserve_index=False), part)
        else:
            table.to_csv(part, index=False, lineterminator="\n")
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path


def read_table(path: Path) -> pd.DataFrame:
    """Return the tidy table stored by `write_table`, equal in every type and value."""
    path = Path(path)
    if path.suffix == ".parquet":
        return check(pq.read_table(path).to_pandas().reindex(columns=list(COLUMNS)).astype(DTYPES))
    if path.suffix != ".csv":
        raise SchemaError(f"{path}: a tidy table is read from .parquet or .csv")
    # "null" is a workload's name and "" a reason: only an empty cell of a nullable column is missing.
    empty = {field.name: [""] for field in SCHEMA if field.nullable}
    text = pd.read_csv(path, dtype=DTYPES, keep_default_na=False, na_values=empty)
    return check(text)


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


def _records(folder: Path) -> Iterator[TrialRecord]:
    plan = read_plan(folder)
    known, places = {trial.id: trial for trial in plan}, {place(trial): trial for trial in plan}
    for path in sorted(folder.glob("trials/[!.]*/trial.json")):
        try:
            _check_sum(path)
            record = TrialRecord.from_json(_read_json(path))
        except LedgerError as error:
            raise LedgerError(f"{path}: {error}") from error
        if record.trial.id != path.parent.name or not planned_as(record.trial, known, places):
            if path.parent.name in known:
                raise LedgerError(f"{path}: the recorded trial is not the one that the plan names {path.parent.name}")
            raise LedgerError(f"{path}: the plan knows no such trial; do not mix sessions in one folder")
        yield record


def _check_sum(path: Path) -> None:
    """Raise `LedgerError` when a record is not the one that was written: a digit of it may have changed."""
    if (path.parent / SUMS).exists():
        sums, _ = read_sums(path.parent / SUMS)
        if sums.get(path.name) != hashlib.sha256(path.read_bytes()).hexdigest():
            raise LedgerError("it is damaged: its SHA-256 is not the recorded one. Restore it from a copy")


def _rows(record: TrialRecord, gone: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    trial = record.trial
    row: dict[str, Any] = {"trial": trial.id}
    row |= {name: getattr(trial, name) for name in PLAN_COLUMNS[1:]}
    row |= {name: getattr(record, name) for name in ("state", "reason", "started_utc", "duration_s", "tool_s")}
    empty = {"metric": None, "value": None, "unit": None, "better": None}
    if trial.block in gone:
        yield row | empty | {"state": "discarded", "reason": f"block {trial.block}: {gone[trial.block]}"}
        return
    if record.state != "ok" or not record.measurements:
        yield row | empty
        return
    for m in record.measurements:
        yield row | {"metric": m.metric, "value": m.value, "unit": m.unit, "better": m.better}


def _check_closed(table: pd.DataFrame, column: str, known: Any) -> None:
    _refuse(table, table[column].notna() & ~table[column].isin(list(known)), f"an unknown {column}")


def _refuse(table: pd.DataFrame, wrong: pd.Series, what: str) -> None:
    if wrong.any():
        first: Mapping[Any, Any] = table.loc[wrong].iloc[0].to_dict()
        where = f"trial {first['trial']} ({first['workload']}, {first['scenario']}, {first['system']})"
        shown = {name: first[name] for name in ("metric", "value", "unit", "better", "state")}
        raise SchemaError(f"tidy table: {where} has {what}: {shown}; {int(wrong.sum())} such rows")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is not JSON: {error}; restore it from a copy") from error
    if not isinstance(data, dict):
        raise LedgerError(f"{path} is not a JSON object")
    return data
