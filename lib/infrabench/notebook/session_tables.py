"""What a session says about itself, as tables: validity, reasons, hosts, systems, paths."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.session_data import Session
from infrabench.core import STATES
from infrabench.experiment.provenance import labels
from infrabench.experiment.provenance.comparability import NOT_HOSTS
from infrabench.ledger.records import (
    DEPLOYMENTS,
    DISCARDED,
    LOOK,
    describe_added,
    list_provenance,
    not_applicable,
    read_blocks,
    read_provenance,
    read_trials,
)
from infrabench.notebook.budget_tables import describe_enough

CLAIM = "INFRABENCH_CLAIM="  # begins the argument of a step that says which path its trial claims


def validity_table(session: Session) -> pd.DataFrame:
    """Return trials by state, one row per system and workload, with planned trials that are missing and not run."""
    trials = session.table.drop_duplicates("trial")
    counts = pd.crosstab([trials["system"], trials["workload"]], trials["state"])
    counts = counts.reindex(columns=list(STATES), fill_value=0)
    absent = session.missing.groupby(["system", "workload"], observed=True).size()
    counts = counts.join(absent.rename("missing"), how="outer").fillna(0).astype(int).reset_index()
    names = labels.of(session.folder)
    notes = {  # of tools whose version no test of their parser has
        (names.get(system, system), name): told
        for system, each in read_provenance(session.folder, DEPLOYMENTS).items()
        for name, told in each.get("untested", {}).items()
    }
    counts["note"] = [notes.get(pair, "") for pair in zip(counts["system"], counts["workload"], strict=True)]
    left = [(name, "all", f"not run: {reason}") for name, reason in session.data["not_run"].items()]
    left += [("all", name, f"not run: {reason}") for name, reason in session.data.get("left_out", {}).items()]
    left += _not_applicable(session)
    rows = pd.DataFrame(left, columns=["system", "workload", "note"])
    merged = pd.concat([counts, rows], ignore_index=True) if left else counts
    numbers = [*STATES, "missing"]
    return merged.fillna(dict.fromkeys(numbers, 0)).astype(dict.fromkeys(numbers, "int64"))


def reasons_table(session: Session) -> pd.DataFrame:
    """Return why trials are not ok: one row per system, workload, state and reason, with how often."""
    bad = session.table[session.table["state"] != "ok"].drop_duplicates("trial")
    keys = ["system", "workload", "scenario", "state", "reason"]
    return bad.groupby(keys, observed=True).size().rename("trials").reset_index()


def size_table(session: Session) -> pd.DataFrame:
    """Return why the session has the size it has: one row per look of its stopping rule, or that the size was fixed."""
    rows = [
        {
            "blocks": each["n"], "widest half-width %": round(100 * max(each["widths"].values(), default=np.nan), 2),
            "of": max(each["widths"], key=each["widths"].get, default=""),
            "then": f"stopped: {each['reason']}" if each["reason"] else describe_added(each),
            "no width counts": "; ".join(dict.fromkeys(each.get("unequal", {}).values())),
            "have enough": describe_enough(each),
        }
        for each in read_blocks(session.folder, LOOK)
    ]  # fmt: skip
    unused = {name for name in ("no width counts", "have enough") if not any(row[name] for row in rows)}
    rows = [{name: value for name, value in row.items() if name not in unused} for row in rows]
    told = "fixed before the first trial" if not session.data.get("stopping") else "no look yet"
    return pd.DataFrame(rows or [{"blocks": session.data["blocks"], "then": told}])


def blocks_table(session: Session) -> pd.DataFrame:
    """Return the blocks that were discarded whole, with the reason and how many of their trials had been recorded."""
    rows = [
        {"block": each["block"], "reason": each["reason"], "trials": len(each["trials"])}
        for each in read_blocks(session.folder, DISCARDED)
    ]
    return pd.DataFrame(rows, columns=["block", "reason", "trials"])


def provenance_table(session: Session) -> pd.DataFrame:
    """Return what the hosts say about themselves: one row per field, one column per host; empty where they do not."""
    hosts = [name for name in list_provenance(session.folder) if name not in NOT_HOSTS and ".resumed-" not in name]
    columns = {name: _flat(read_provenance(session.folder, name)) for name in hosts}
    frame = pd.DataFrame(columns).rename_axis("field")
    if frame.empty:  # no host said anything
        return frame
    return frame[~frame.index.str.startswith(("missing.", "cpu.flags", "time_s"))]


def deployments_table(session: Session) -> pd.DataFrame:
    """Return what the systems say about themselves: one row per field, one column per system."""
    data = read_provenance(session.folder, DEPLOYMENTS)
    names = labels.of(session.folder)
    columns = {
        names.get(name, name): _flat({**each["facts"], "tools": each["tools"], "untested": each.get("untested", {})})
        for name, each in data.items()
    }  # fmt: skip
    return pd.DataFrame(columns).rename_axis("field")


def capabilities_table(session: Session) -> pd.DataFrame:
    """Return what the systems can do, as was seen when they were made ready: one row per capability, one column each.

    Where a system says several things, because it was made ready several times, all are shown. The last row counts how
    often it said them. Empty where no system says any.
    """
    said: dict[str, list[dict[str, Any]]] = {}
    known = labels.of(session.folder)
    for file in (name for name in list_provenance(session.folder) if name.startswith(DEPLOYMENTS)):
        for name, each in read_provenance(session.folder, file).items():
            if each["facts"].get("capabilities"):
                said.setdefault(known.get(name, name), []).append(_flat(each["facts"]["capabilities"]))
    names = dict.fromkeys(key for each in said.values() for one in each for key in one)
    columns = {
        system: {key: " / ".join(dict.fromkeys(str(one.get(key, "")) for one in each)) for key in names}
        | {"made ready and checked (times)": str(len(each))}
        for system, each in said.items()
    }
    rows = [*names, "made ready and checked (times)"] if columns else []
    return pd.DataFrame(columns, index=rows).fillna("").rename_axis("capability")


def paths_table(session: Session) -> pd.DataFrame:
    """Return how many trials were held against the path that they claim: one row per system, workload and scenario.

    ``ok``: trials that count; ``checked``: those of them whose device counters were read and agreed with the claim;
    ``another path``: trials that are invalid because they did not. ``carried``: devices of the server that had to carry
    the traffic; ``quiet``: those that must not; ``on the nodes``: devices that were read there. Workloads that claim no
    path are not in it.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    known = labels.of(session.folder)
    for record in read_trials(session.folder):
        claims = [json.loads(part.removeprefix(CLAIM)) for step in record.steps for part in step["argv"] if
                  part.startswith(CLAIM)]  # fmt: skip
        devices = next((each["devices"] for each in claims if "device" in each), {})
        nodes = {f"{each['node']} {name}" for each in claims if "node" in each for name in each["devices"].values()}
        if claims:
            system = known.get(record.trial.system, record.trial.system)
            key = (system, record.trial.workload, record.trial.scenario)
            row = rows.setdefault(key, {"ok": 0, "checked": 0, "another path": 0, "carried": set(), "quiet": set(),
                                        "on the nodes": set()})  # fmt: skip
            row["ok"] += record.state == "ok"
            row["checked"] += record.state == "ok" and bool(devices or nodes)
            row["another path"] += record.state == "invalid" and not record.conditions.get("invalid")
            row["carried"] |= {name for name, carries in devices.items() if carries}
            row["quiet"] |= {name for name, carries in devices.items() if not carries}
            row["on the nodes"] |= nodes
    names = ["system", "workload", "scenario"]
    table = [
        dict(zip(names, key, strict=True))
        | {name: ", ".join(sorted(told)) if isinstance(told, set) else told for name, told in row.items()}
        for key, row in sorted(rows.items())
    ]
    return pd.DataFrame(table, columns=[*names, "ok", "checked", "another path", "carried", "quiet", "on the nodes"])


def _not_applicable(session: Session) -> list[tuple[str, str, str]]:
    """Return (system, workload, note) of the treatments that were not run, those of one reason together."""
    scenarios: dict[tuple[str, str, str], list[str]] = {}
    for (system, workload, scenario), reason in not_applicable(session.data).items():
        scenarios.setdefault((system, workload, reason), []).append(scenario)
    return [(name, of, f"{', '.join(found)}: not run: {why}") for (name, of, why), found in scenarios.items()]


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {prefix.removesuffix("."): ", ".join(map(str, data)) if isinstance(data, list) else data}
    return {key: value for name, part in data.items() for key, value in _flat(part, f"{prefix}{name}.").items()}
