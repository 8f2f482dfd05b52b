"""From a number to what a tool printed: the values of a session's trials by block, each with its raw output.

A trial's page is text: what was run, how it ended, the values that the parser found, and below them every output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from infrabench.analysis.session_data import Session
from infrabench.analysis.tables import notation
from infrabench.ledger.checksums import SUMS
from infrabench.ledger.records import RECORD
from infrabench.publish.report.answers import make_anchor

MONITOR = "monitor-"  # begins the name of what was sampled beside a trial
LONGEST = 100_000  # bytes of one output that are shown
RULE = "=" * 78


class TrialValue(NamedTuple):
    """A trial in a table: its value as text, or its state; its id; the address of its raw output, empty without."""

    text: str
    trial: str
    href: str


@dataclass(frozen=True)
class BlockTable:
    """The values of one metric of one case: a row for each block, a list of trials for each system."""

    anchor: str
    title: str
    systems: tuple[str, ...]
    rows: tuple[tuple[int, tuple[tuple[TrialValue, ...], ...]], ...]


def list_outputs(trial: Path) -> list[Path]:
    """Return the files in a trial's folder that a tool wrote."""
    return [
        path
        for path in sorted(trial.iterdir())
        if path.name not in (SUMS, RECORD) and not path.name.startswith(MONITOR)
    ]


def make_tables(session: Session, outputs: Mapping[str, str]) -> Iterator[BlockTable]:
    """Yield the values of every case by block: of its primary metrics, or of its first one where none is primary.

    `outputs`: the address of a trial's raw output, by its id, of those that are here.
    """
    primary = {tuple(each) for each in session.data["primary"]}
    for (workload, scenario), case in session.table.groupby(["workload", "scenario"], sort=False, observed=True):
        metrics = list(dict.fromkeys(case["metric"].dropna()))
        chosen = [name for name in metrics if (workload, name) in primary] or metrics[:1]
        words = f"{workload}{'' if scenario == 'default' else f', {scenario}'}"
        for metric in chosen or [""]:
            of_metric = case[case["metric"] == metric]
            # a trial without a value has no metric, but a state
            rows = pd.concat([of_metric, case[~case["trial"].isin(of_metric["trial"])].drop_duplicates("trial")])
            scale = notation.scale(of_metric["value"], str(of_metric["unit"].iloc[0]) if len(of_metric) else "")
            cells: dict[int, dict[str, list[TrialValue]]] = {}
            for row in rows.sort_values(["block", "attempt"], kind="stable").itertuples(index=False):
                has_value = row.metric == metric and not pd.isna(row.value)
                text = notation.number(row.value / scale.factor) if has_value else row.state
                value = TrialValue(text, row.trial, outputs.get(row.trial, ""))
                cells.setdefault(int(row.block), {}).setdefault(row.system, []).append(value)
            shown = [name for name in session.data["systems"] if any(name in block for block in cells.values())]
            yield BlockTable(
                make_anchor(str(workload), str(scenario)),
                f"{words}: {notation.metric_title(metric)}{scale.label}" if metric else words, tuple(shown),
                tuple((block, tuple(tuple(of.get(name, ())) for name in shown)) for block, of in sorted(cells.items())),
            )  # fmt: skip


def render_trial(session: str, trial: Path) -> str:
    """Return a trial as text: what was run, how it ended, its measurements, and what the tool wrote."""
    record = json.loads((trial / RECORD).read_text(encoding="utf-8"))
    of = record["trial"]
    lines = [
        f"Trial {of['id']} of session {session}",
        f"{of['system']}, {of['workload']}, {of['scenario']}; block {of['block']}, position {of['position']}",
        f"{record['state']}{': ' + record['reason'] if record['reason'] else ''}; started {record['started_utc']}",
        "",
        *(f"{each['metric']} = {each['value']!r} {each['unit']}" for each in record["measurements"]),
    ]
    for step in record.get("steps", []):
        end = "timed out" if step["timed_out"] else f"status {step['status']}, {step['duration_s']:.3f} s"
        lines += [RULE, f"step {step['name']}, {step['phase']}, at {step['role']}: {end}"]
        lines.append(" ".join(map(json.dumps, step["argv"])))
    for path in list_outputs(trial):
        data = path.read_bytes()
        more = f", the first {LONGEST} of them" if len(data) > LONGEST else ""
        lines += [RULE, f"{path.name}: {len(data)} bytes{more}", data[:LONGEST].decode("utf-8", "replace")]
    return "\n".join(lines) + "\n"
