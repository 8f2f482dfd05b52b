"""A session's trials as files for other tools: R, a database, a spreadsheet. One table, whatever the form.

Beside ``NAME.csv`` lies ``NAME.csv.datapackage.json``, a Data Package of the Frictionless standard, version 1: the data
dictionary (`columns.DICTIONARY`), how each metric is averaged, the counts of trials by state, size and SHA-256. Parquet
has all but the last two in its schema too.

Everything in them is in the session, or in the dictionary: neither path, nor time, nor name of this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infrabench.analysis.columns import AVERAGES, DICTIONARY, FORMS, table_schema
from infrabench.analysis.session_data import Session
from infrabench.analysis.spreadsheets import write_csv
from infrabench.analysis.tidy import SCHEMA, check
from infrabench.core import DesignError, unknown_name
from infrabench.ledger import catalogue, ledger
from infrabench.ledger.records import SESSION
from infrabench.stats.table import kinds

ROWS = 20_000  # that are in memory a second time while they are written
PACKAGE = ".datapackage.json"  # behind the name of the file that it describes
MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "jsonl": "application/jsonl"}
FORMULAS = "A text that a spreadsheet would take for a formula has an apostrophe before it."


def export(session: Session, form: str = "csv", file: str | Path | None = None) -> Path:
    """Write the trials of a session, or of several pooled ones, in one of `columns.FORMS`; return the file.

    >>> export(open_session("lab-quick-debian13-containers"), "parquet", "rounds.parquet")  # doctest: +SKIP

    Without `file` it is ``out/export/SESSION.FORM`` in the checkout; pooled sessions need one. A file that is there is
    replaced, whole or not at all. Values are in SI base units, unrounded; a trial without a value has a row too.

    Raises `DesignError` for an unknown form, or a file that is a folder or would lie in a session.
    """
    if form not in FORMS:
        raise unknown_name("form of an export", form, FORMS)
    if file is None and "pooled" in session.data:
        raise DesignError("several sessions have no name as one: name the file that they are written to")
    path = catalogue.home() / "out/export" / f"{session.folder.resolve().name}.{form}" if file is None else Path(file)
    if path.is_dir():
        raise DesignError(f"{path} is a folder: name a file in it")
    if inside := [folder for folder in path.resolve().parents if (folder / SESSION).is_file()]:
        raise DesignError(f"{inside[0]} is a session, which holds nothing but what was recorded: name another file")
    check(session.table)
    about = describe_data(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # half a table looks like one of fewer trials
    try:
        if form == "csv":
            write_csv(session.table, part)
        elif form == "parquet":
            _write_parquet(session.table, part, about)
        else:
            with part.open("w", encoding="utf-8") as text:
                text.writelines(f"{line}\n" for line in _render_rows(session.table))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    package = describe_file(path, form, about)
    ledger.replace_file(package_of(path), json.dumps(package, indent=1, ensure_ascii=False).encode() + b"\n")
    return path


def package_of(file: Path) -> Path:
    """Return the file that describes an exported one."""
    return file.with_name(file.name + PACKAGE)


def describe_data(session: Session) -> dict[str, Any]:
    """Return what the rows do not say.

    The baseline, trials by state, planned ones without a record, the stamp, and how each metric is averaged.
    """
    data = session.data
    states = session.table.drop_duplicates(["session", "trial"])["state"].value_counts().sort_index()
    return {
        "sessions": data.get("pooled") or [session.folder.resolve().name],
        "study": data["study"], "baseline": data["baseline"],
        "trials": {str(state): int(count) for state, count in states.items()}, "missing": len(session.missing),
        "stamp": data.get("stamp") or "", "metrics": describe_metrics(session.table),
    }  # fmt: skip


def describe_metrics(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each metric of each workload: unit, direction, kind, and by which mean its trials are averaged.

    A plain mean of rates is not the mean of the analysis where every trial does the same work.
    """
    columns = ["workload", "metric", "unit", "better"]
    measured = table[table["metric"].notna()].drop_duplicates(["workload", "scenario", "metric"])
    rows = measured.assign(kind=kinds(measured))[[*columns, "kind", "scenario"]]
    scenarios = rows.groupby([*columns, "kind"])["scenario"].agg(lambda names: sorted(set(names))).rename("scenarios")
    return [row | {"average": AVERAGES[row["kind"]]} for row in scenarios.reset_index().to_dict("records")]


def describe_file(path: Path, form: str, about: dict[str, Any]) -> dict[str, Any]:
    """Return the Data Package of a written table."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Version 1 calls only a CSV file tabular; readers of other forms look at `format`.
    profiles = ("tabular-data-package", "tabular-data-resource") if form == "csv" else ("data-package", "data-resource")
    text = " ".join(
        each for each in ("One row a trial and metric.", FORMULAS * (form == "csv"), about["stamp"]) if each
    )
    resource = {
        "name": "trials", "path": path.name, "profile": profiles[1], "format": form, "mediatype": MEDIA_TYPES[form],
        "encoding": "utf-8", "bytes": path.stat().st_size, "hash": f"sha256:{digest}", "description": text,
        "schema": table_schema(),
    }  # fmt: skip
    title = f"Trials of {', '.join(about['sessions'])}"
    return {"profile": profiles[0], "title": title, "resources": [resource], "infrabench": about}


def _write_parquet(table: pd.DataFrame, path: Path, about: dict[str, Any]) -> None:
    fields = [
        field.with_metadata({"description": column.meaning, **({"unit": column.unit} if column.unit else {})})
        for field, column in zip(SCHEMA, DICTIONARY, strict=True)
    ]
    schema = pa.schema(fields, {"infrabench": json.dumps(about, ensure_ascii=False)})
    with pq.ParquetWriter(path, schema) as writer:
        for rows in _batches(table):
            writer.write_table(rows.cast(schema))


def _render_rows(table: pd.DataFrame) -> Iterator[str]:
    for rows in _batches(table):  # in ASCII: some readers take more than a line feed for the end of a line
        yield from map(json.dumps, rows.to_pylist())


def _batches(table: pd.DataFrame) -> Iterator[pa.Table]:
    for start in range(0, len(table), ROWS):
        yield pa.Table.from_pandas(table.iloc[start : start + ROWS], schema=SCHEMA, preserve_index=False)
