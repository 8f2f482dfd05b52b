"""A session's trials as files for other tools: R, a database, Grafana. One table, whatever the form.

Beside ``NAME.csv`` lies ``NAME.csv.datapackage.json``, a Data Package of the Frictionless standard, version 1: the data
dictionary (`columns.DICTIONARY`), how each metric is averaged, the counts of trials by state, size and SHA-256. Parquet
has all but the last two in its schema too. OpenMetrics says of itself what it holds.

Everything in them is in the session, or in the dictionary: neither path, nor time, nor name of this machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infrabench.analysis.columns import AVERAGES, DICTIONARY, FORMS, table_schema
from infrabench.analysis.session_data import Session
from infrabench.analysis.spreadsheets import write_csv
from infrabench.analysis.tidy import SCHEMA, check, replacement
from infrabench.core import DesignError, SchemaError, unknown_name
from infrabench.ledger import catalogue, ledger
from infrabench.ledger.records import SESSION
from infrabench.stats.table import kinds

ROWS = 20_000  # that are in memory a second time while they are written
PACKAGE = ".datapackage.json"  # behind the name of the file that it describes
MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "jsonl": "application/jsonl"}
FORMULAS = "A text that a spreadsheet would take for a formula has an apostrophe before it."
PREFIX = "infrabench_"
# Unit of a value -> how names of our metrics end that say it themselves, and what it is called in OpenMetrics.
UNIT_NAMES = {
    "1": ("", ""), "s": ("_s", "seconds"), "B": ("_B", "bytes"), "%": ("_percent", "percent"),
    "B/s": ("_B_per_s", "bytes_per_second"), "bit/s": ("_bit_per_s", "bits_per_second"),
    "1/s": ("_per_s", "per_second"), "1/min": ("_per_min", "per_minute"), "s/B": ("_s_per_B", "seconds_per_byte"),
    "W": ("_W", "watts"), "K": ("_K", "kelvins"),
}  # fmt: skip
TREATMENT = ("study", "site", "session", "deployment", "system", "workload", "scenario")
MEASURED = (*TREATMENT, "metric", "better")
COUNTED = (*TREATMENT, "state")  # labels of the family that has every trial, whatever became of it
DURATION = f"{PREFIX}trial_duration_seconds"


def export(session: Session, form: str = "csv", file: str | Path | None = None) -> Path:
    """Write the trials of a session, or of several pooled ones, in one of `columns.FORMS`; return the file.

    >>> export(open_session("lab-quick-debian13-containers"), "parquet", "rounds.parquet")  # doctest: +SKIP

    Without `file` it is ``out/export/SESSION.FORM`` in the checkout; pooled sessions need one. A file that is there is
    replaced, whole or not at all. Values are in SI base units, unrounded; a trial without a value has a row too.

    Raises `DesignError` for an unknown form, or a file that is a folder or would lie in a session; `SchemaError` for
    times or names that OpenMetrics cannot have.
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
    with replacement(path) as part:
        if form == "csv":
            write_csv(session.table, part)
        elif form == "parquet":
            _write_parquet(session.table, part, about)
        else:
            render = render_openmetrics if form == "openmetrics" else _render_rows
            with part.open("w", encoding="utf-8") as text:
                text.writelines(f"{line}\n" for line in render(session.table))
    if form in MEDIA_TYPES:
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
    found = rows.groupby([*columns, "kind"], sort=True)["scenario"].agg(lambda names: sorted(set(names))).reset_index()
    renamed = found.rename(columns={"scenario": "scenarios"})
    return [row | {"average": AVERAGES[row["kind"]]} for row in renamed.to_dict("records")]


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


def render_openmetrics(table: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the exposition of a tidy table in OpenMetrics 1.0.0, which Prometheus reads.

    A metric is a family of gauges, ``infrabench_latency_p95_seconds``; the trials of a treatment are a series, each
    trial a sample at the time at which it began, by time. A series has no label for block or trial, for each would have
    one sample then.

    Raises `SchemaError` when a trial has no time in UTC, when two trials of a series began in the same millisecond, or
    when metrics of different units would have one name.
    """
    times = pd.to_datetime(table["started_utc"], format="ISO8601", utc=True, errors="coerce")
    if times.isna().any():
        first = table[times.isna()].iloc[0]
        raise SchemaError(f"trial {first['trial']} began at {first['started_utc'][:60]!r}, which is no time")
    timed = table.assign(time_ms=times.dt.as_unit("ms").astype("int64"))
    trials = timed.drop_duplicates(["session", "trial"])
    yield from _family(DURATION, "seconds", "Time that a trial took, harness included.", trials, "duration_s", COUNTED)
    measured = timed[timed["metric"].notna()]
    names = [_family_name(*pair) for pair in zip(measured["metric"], measured["unit"], strict=True)]
    for name, rows in measured.assign(family=names, kind=kinds(measured)).groupby("family", sort=True):
        metrics, units, sorts = (sorted(set(rows[column])) for column in ("metric", "unit", "kind"))
        if name == DURATION or len(units) > 1:
            which = f"{', '.join(metrics)} in {', '.join(units)}"
            raise SchemaError(f"{which}: not one metric that may be called {name}; csv, parquet and jsonl have all")
        text = f"Metric {', '.join(metrics)} of a trial in {units[0]} ({', '.join(sorts)}), when the trial began."
        yield from _family(str(name), UNIT_NAMES[units[0]][1], text, rows, "value", MEASURED)
    yield "# EOF"


def _family_name(metric: str, unit: str) -> str:
    ending, called = UNIT_NAMES[unit]
    stem = re.sub(r"[^a-zA-Z0-9_]", "_", metric.removesuffix(ending))
    return f"{PREFIX}{stem}{called and f'_{called}'}"


def _family(name: str, unit: str, text: str, rows: pd.DataFrame, column: str, labels: tuple[str, ...]) -> Iterator[str]:
    """Yield a family of gauges: `column` of each row under the labels of the row."""
    yield f"# TYPE {name} gauge"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {_escape(text)}"
    for key, series in rows.groupby(list(labels), sort=True):
        pairs = ",".join(f'{label}="{_escape(str(each))}"' for label, each in zip(labels, key, strict=True))
        series = series.sort_values("time_ms", kind="stable")
        if series["time_ms"].duplicated().any():
            trial = series[series["time_ms"].duplicated()]["trial"].iloc[0]
            raise SchemaError(
                f"trial {trial} began in the same millisecond as another one of {name}: OpenMetrics has one value for "
                "a time; csv, parquet and jsonl have both"
            )
        for value, time_ms in zip(series[column], series["time_ms"], strict=True):
            yield f"{name}{{{pairs}}} {float(value)!r} {Decimal(time_ms).scaleb(-3)}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
