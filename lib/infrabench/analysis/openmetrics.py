"""The tidy table as an OpenMetrics exposition, version 1.0.0: what Prometheus, and Grafana through it, read.

A metric is a family of gauges, ``infrabench_latency_p95_seconds``; the trials of a treatment are a series, each trial a
sample at the time at which it began. A series has no label for block or trial, for each would have one sample then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import pandas as pd

from infrabench.core import SchemaError
from infrabench.stats.table import kinds

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


def render(table: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the exposition of a tidy table; the samples of a series stand together, by time.

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
