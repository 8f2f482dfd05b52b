"""A synthetic session on disk, in the ledger's format, and tables made from plain numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import results, session_data
from infrabench.analysis.tidy import COLUMNS, DTYPES, PLAN_COLUMNS, SCHEMA, check
from infrabench.core import Measurement, Trial, TrialRecord, canonical, digest

# the reference data of the statistics: 10 blocks x 4 systems, row i of each list is block i
DATA_A: dict[str, list[float]] = {
    "native": [100.54, 99.39, 101.35, 98.67, 101.86, 101.8, 101.79, 102.48, 101.97, 102.6],
    "docker": [99.67, 97.27, 98.42, 97.92, 98.57, 100.52, 99.29, 100.72, 105.52, 102.46],
    "lxc": [100.21, 100.07, 100.3, 99.19, 101.33, 101.68, 101.46, 101.24, 101.36, 101.18],
    "lxd": [101.14, 100.99, 100.97, 99.83, 101.69, 102.74, 103.18, 101.5, 101.59, 102.04],
}
SYSTEMS = ("native", "docker", "lxc", "lxd")
EFFECT = {"native": 1.0, "docker": 0.97, "lxc": 0.995, "lxd": 1.03}
MARGINS = {"": 0.02, "copy_B_per_s": 0.01, "latency_p99_s": 0.10}
PRIMARY = (("sysbench-cpu", "events_per_s"), ("web", "requests_per_s"))
NOTHING_MISSING = pd.DataFrame(columns=list(PLAN_COLUMNS))  # every planned trial has a record
NOT_RUN = {"lxd": "the LXD daemon did not answer"}

# workload, scenario, factor, level, then metric: (value on native, unit, better)
Cases = tuple[tuple[str, str, str | None, float | None, dict[str, tuple[float, str, str]]], ...]
CASES: Cases = (
    *(
        ("sysbench-cpu", f"threads={n}", "threads", float(n), {"events_per_s": (900.0 * min(n, 4), "1/s", "higher")})
        for n in (1, 2, 4, 6, 8)
    ),
    ("stream", "default", None, None, {
        "copy_B_per_s": (10.2e9, "B/s", "higher"), "triad_B_per_s": (9.7e9, "B/s", "higher"),
    }),
    ("iozone", "size=128MiB", None, None, {
        "read_B_per_s": (115e6, "B/s", "higher"), "write_B_per_s": (112e6, "B/s", "higher"),
    }),
    *(
        ("web", f"users={n}", "users", float(n), {
            "failed_requests": (0.0, "1", "lower"), "latency_p99_s": (0.012 * n**0.5, "s", "lower"),
            "requests_per_s": (8.0e3, "1/s", "higher"), "total_s": (0.00125 * n, "s", "lower"),
        })
        for n in range(1000, 9000, 1000)
    ),
    ("ftp", "size=16MiB", None, None, {"total_s": (0.71, "s", "lower")}),
    ("mail", "default", None, None, {"messages_per_min": (420.0, "1/min", "higher")}),
)  # fmt: skip


def write_session(
    folder: Path, *, blocks: int = 10, systems: Iterable[str] = SYSTEMS[:3], not_run: Mapping[str, str] = NOT_RUN,
    seed: int = 7, faults: bool = True, skip_last: int = 0, cases: Cases = CASES, effect: Mapping[str, float] = EFFECT,
) -> Path:  # fmt: skip
    """Write a seeded session. With `faults`: docker fails stream throughout and one lxc trial is invalid.

    `skip_last`: leave so many trials at the end of the plan without a record; `effect`: how fast each system is.
    """
    systems = tuple(systems)
    plan = make_plan(blocks, systems, seed, cases)
    (folder / "trials").mkdir(parents=True)
    session = {
        "format": 1, "study": "containers", "title": "Containers", "profile": "quick", "seed": seed, "blocks": blocks,
        "systems": [*systems, *not_run], "baseline": "native", "workloads": sorted({case[0] for case in cases}),
        "site": {"name": "lab", "kind": "lab"}, "not_run": dict(not_run), "margins": dict(MARGINS),
        "primary": [list(p) for p in PRIMARY], "guards": {}, "limits": {}, "parameters": {},
        "parameters_sha256": digest({}, 64), "created_utc": "2026-01-01T00:00:00.000Z",
        "versions": {"infrabench": "0.1.0", "python": "3.11"},
    }  # fmt: skip
    (folder / "session.json").write_text(json.dumps(session, indent=1))
    (folder / "plan.jsonl").write_text("".join(canonical(t.as_json()) + "\n" for t in plan))
    rng = np.random.default_rng(seed)
    weather = rng.normal(0, 0.01, blocks)
    for trial in plan[: len(plan) - skip_last]:
        record = _record(trial, weather[trial.block], rng, faults, effect)
        (folder / "trials" / trial.id).mkdir()
        (folder / "trials" / trial.id / "trial.json").write_text(json.dumps(record.as_json()))
    return folder


def make_plan(blocks: int, systems: tuple[str, ...], seed: int, cases: Cases = CASES) -> list[Trial]:
    plan: list[Trial] = []
    for block in range(blocks):
        cells = [(case, system) for case in cases for system in systems]
        for i in np.random.default_rng([seed, block]).permutation(len(cells)):
            (workload, scenario, factor, level, _), system = cells[i]
            what = {"block": block, "system": system, "workload": workload, "scenario": scenario}
            plan.append(
                Trial(digest(what), block, len(plan), system, workload, scenario, {}, factor, level, seconds=1.0)
            )
    return plan


def _record(
    trial: Trial, weather: float, rng: np.random.Generator, faults: bool, effect: Mapping[str, float]
) -> TrialRecord:
    state, reason = "ok", ""
    if faults and trial.workload == "stream" and trial.system == "docker":
        state, reason = "failed", "measure exited with 1: array too large"
    if faults and (trial.system, trial.block, trial.scenario) == ("lxc", 1, "threads=4"):
        state, reason = "invalid", "steal 0.041 > 0.02"
    metrics = next(case[4] for case in CASES if case[:2] == (trial.workload, trial.scenario))
    measured = []
    for metric, (value, unit, better) in metrics.items():
        speed = effect[trial.system] * np.exp(weather + rng.normal(0, 0.012))
        number = value * speed if better == "higher" else value / speed
        measured.append(Measurement(metric, float(number), unit, better))
    return TrialRecord(
        trial=trial, state=state, reason=reason, duration_s=1.05, tool_s=1.0, steps=(), conditions={},
        started_utc=f"2026-01-01T00:{trial.position // 60 % 60:02d}:{trial.position % 60:02d}.000Z",
        measurements=() if state == "failed" else tuple(measured),
    )  # fmt: skip


def table_of(
    values: Mapping[str, Iterable[float | None]], *, metric: str = "events_per_s", unit: str = "1/s",
    better: str = "higher", workload: str = "sysbench-cpu", scenario: str = "default", session: str = "s",
    blocks_per_deployment: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Return a tidy table of one case: system -> value by block; None is a failed trial.

    `blocks_per_deployment`: every so many blocks all systems are deployed anew; 0: never.
    """
    common = {"session": session, "study": "containers", "site": "lab", "attempt": 0, "workload": workload,
              "scenario": scenario, "factor": None, "level": None, "started_utc": "2026-01-01T00:00:00.000Z",
              "duration_s": 1.0, "tool_s": 1.0}  # fmt: skip
    ok = {"metric": metric, "unit": unit, "better": better, "state": "ok", "reason": ""}
    failed = {"metric": None, "unit": None, "better": None, "state": "failed", "reason": "exited with 1"}
    rows: list[dict[str, Any]] = []
    for column, (system, series) in enumerate(values.items()):
        for block, value in enumerate(series):
            rows.append(common | (failed if value is None else ok))
            rows[-1] |= {"trial": f"{scenario}-{system}-{block}", "block": block, "system": system, "value": value}
            rows[-1] |= {
                "position": block * len(values) + column,
                "deployment": block // (blocks_per_deployment or 10**9),
            }
    return check(pd.DataFrame(rows, columns=list(COLUMNS)).astype(DTYPES))


def levels_of(values: Mapping[float, Mapping[str, Iterable[float | None]]], factor: str, **how: Any) -> pd.DataFrame:
    """Return a tidy table of one case at several levels of a factor: level -> system -> value by block."""
    parts = [
        table_of(of_level, scenario=f"{factor}={level:g}", **how).assign(factor=factor, level=float(level))
        for level, of_level in values.items()
    ]
    return pd.concat(parts, ignore_index=True).astype(DTYPES)


def lose(table: pd.DataFrame, rows: pd.Series, state: str) -> None:
    """Leave the trials of these rows without a value, in another state."""
    table.loc[rows, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    table.loc[rows, ["state", "reason"]] = [state, "interrupted"]


def results_of(session: Path, out: Path) -> results.Results:
    """Return the results of the session in a folder, whose figures and tables go to `out`."""
    found = session_data.open_session(session)
    return results.results(found.data, found.table, found.missing, out)


def results_in(folder: Path, write: Callable[..., Path] = write_session, **how: Any) -> results.Results:
    """Return the results of a session that is written to a folder; figures and tables go to another one in it."""
    return results_of(write(folder / "s", **how), folder / "out")


def read_table(path: Path) -> pd.DataFrame:
    """Return the tidy table in a ``.parquet`` or ``.csv``, in which a text that looks like a formula is quoted."""
    if path.suffix == ".parquet":
        return check(pd.read_parquet(path).reindex(columns=list(COLUMNS)).astype(DTYPES))
    # "null" is a workload's name and "" a reason: only an empty cell of a nullable column is missing.
    empty = {field.name: [""] for field in SCHEMA if field.nullable}
    table = pd.read_csv(path, dtype=DTYPES, keep_default_na=False, na_values=empty)
    for name in [name for name, kind in DTYPES.items() if kind == "str"]:
        table[name] = table[name].str.replace(r"^'(?='*[=+\-@\t\r\n])", "", regex=True)
    return check(table)


def table_rows(shown: results.Shown) -> list[dict[str, str]]:
    """Return the rows of a table that a notebook shows, as its text has them."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.text.splitlines() if line]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
