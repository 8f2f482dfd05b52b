"""What a session says about itself, as tables: validity, reasons, hosts, systems, paths; and as the abstract of it all.

The abstract is data in a notebook's own output. The report of executed notebooks reads it from there: so it says what
the notebook computed, also when the session has grown since, and nothing is typed or computed twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.results import Results, base, chosen, explain_none
from infrabench.analysis.session_data import Session
from infrabench.core import STATES, canonical
from infrabench.experiment.provenance import labels
from infrabench.experiment.provenance.comparability import list_hosts
from infrabench.ledger import records
from infrabench.notebook import api
from infrabench.notebook.plan_tables import describe_enough
from infrabench.workloads._counters import CLAIM

MIME = "application/vnd.infrabench.abstract+json"
FORMAT = 1
# of the table of contrasts: what belongs beside a verdict
VERDICT = ("workload", "scenario", "metric", "system", "n", "ratio", "ratio 95 % CI", "verdict", "margin %",
           "ratio 90 % CI", "p adjusted", "p equivalence adjusted", "verdict without flagged", "reason")  # fmt: skip
RULED_OUT = "ruled out"  # beside a verdict; in abstracts of older notebooks only where it decides nothing
ENDS = ("ratio low", "ratio high")  # of the 95 % interval, unrounded: not in abstracts of older notebooks
TABLES = ("verdicts", "plan", "trials", "reasons", "discarded", "systems_say", "hosts_say")
OTHERS = ("name", "sessions", "site", "versions", "note", "aa", "known", "planned", "recorded", "ok", "not_run",
          "none")  # fmt: skip
ASKED = ("study", "title", "profile", "blocks", "deployments", "order", "seed", "systems", "baseline", "created_utc")
HELD = ("ok", "checked", "another path")  # numbers of trials that claim a path
DEVICES = ("carried", "quiet", "on the nodes")
ALL = "all"  # in the place of sessions' names: every one that is pooled


def validity_table(session: Session) -> pd.DataFrame:
    """Return trials by state, one row per system and workload, with planned trials that are missing and not run."""
    trials = session.table.drop_duplicates(["session", "trial"])
    counts = pd.crosstab([trials["system"], trials["workload"]], trials["state"])
    counts = counts.reindex(columns=list(STATES), fill_value=0)
    absent = session.missing.groupby(["system", "workload"], observed=True).size()
    counts = counts.join(absent.rename("missing"), how="outer").fillna(0).astype(int).reset_index()
    notes: dict[tuple[str, str], dict[str, None]] = {}  # of tools whose version no test of their parser has
    for folder in session.folders:
        names = labels.of(folder)
        for system, each in records.read_provenance(folder, records.DEPLOYMENTS).items():
            for name, told in each.get("untested", {}).items():
                notes.setdefault((names.get(system, system), name), {})[told] = None
    pairs = zip(counts["system"], counts["workload"], strict=True)
    counts["note"] = ["; ".join(notes.get(pair, ())) for pair in pairs]
    left = [(name, "all", f"not run: {reason}") for name, reason in session.data["not_run"].items()]
    left += [("all", name, f"not run: {reason}") for name, reason in session.data.get("left_out", {}).items()]
    together: dict[tuple[str, str, str], list[str]] = {}  # scenarios that do not apply, those of one reason together
    for (system, workload, scenario), reason in records.not_applicable(session.data).items():
        together.setdefault((system, workload, reason), []).append(scenario)
    left += [(name, of, f"{', '.join(found)}: not run: {why}") for (name, of, why), found in together.items()]
    rows = pd.DataFrame(left, columns=["system", "workload", "note"])
    merged = pd.concat([counts, rows], ignore_index=True) if left else counts
    numbers = [*STATES, "missing"]
    return merged.fillna(dict.fromkeys(numbers, 0)).astype(dict.fromkeys(numbers, "int64"))


def reasons_table(session: Session) -> pd.DataFrame:
    """Return why trials are not ok: one row per system, workload, state and reason, with how often."""
    bad = session.table[session.table["state"] != "ok"].drop_duplicates(["session", "trial"])
    keys = ["system", "workload", "scenario", "state", "reason"]
    return bad.groupby(keys, observed=True).size().rename("trials").reset_index()


def size_table(session: Session) -> pd.DataFrame:
    """Return why the session has the size it has: one row per look of its stopping rule, or that the size was fixed.

    Of pooled sessions each has its rows.
    """
    rows = [{"session": folder.name, **row} for folder in session.folders for row in _describe_size(folder)]
    unused = {name for name in ("no width counts", "have enough") if not any(row.get(name) for row in rows)}
    unused |= {"session"} if len(session.folders) == 1 else set()
    return pd.DataFrame([{name: value for name, value in row.items() if name not in unused} for row in rows])


def _describe_size(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of `size_table` of the session in a folder."""
    data, looks = records.read_session(folder), records.read_blocks(folder, records.LOOK)
    none_yet = "fixed before the first trial" if not data.get("stopping") else "no look yet"
    return [
        {
            "blocks": each["n"], "widest half-width %": round(100 * max(each["widths"].values(), default=np.nan), 2),
            "of": max(each["widths"], key=each["widths"].get, default=""),
            "then": f"stopped: {each['reason']}" if each["reason"] else records.describe_added(each),
            "no width counts": "; ".join(dict.fromkeys(each.get("unequal", {}).values())),
            "have enough": describe_enough(each),
        }
        for each in looks
    ] or [{"blocks": data["blocks"], "then": none_yet}]  # fmt: skip


def blocks_table(session: Session) -> pd.DataFrame:
    """Return the blocks that were discarded whole, with the reason and how many of their trials had been recorded.

    Of pooled sessions, which number their blocks alike, with the session.
    """
    rows = [
        {"session": folder.name, "block": each["block"], "reason": each["reason"], "trials": len(each["trials"])}
        for folder in session.folders
        for each in records.read_blocks(folder, records.DISCARDED)
    ]
    one = len(session.folders) == 1
    return pd.DataFrame(rows, columns=[*([] if one else ["session"]), "block", "reason", "trials"])


def provenance_table(session: Session) -> pd.DataFrame:
    """Return what the hosts say about themselves: one row per field, one column per host; empty where they do not.

    Of pooled sessions as `_tabulate_sessions` says.
    """
    return _tabulate_sessions(session, _read_hosts)


def deployments_table(session: Session) -> pd.DataFrame:
    """Return what the systems say about themselves: one row per field, one column per system.

    Of pooled sessions as `_tabulate_sessions` says.
    """
    return _tabulate_sessions(session, _read_systems)


def _read_hosts(folder: Path) -> dict[str, dict[str, Any]]:
    hosts = {name: _flat(records.read_provenance(folder, name)) for name in list_hosts(folder)}
    left_out = ("missing.", "cpu.flags", "time_s")
    return {
        name: {field: value for field, value in each.items() if not field.startswith(left_out)}
        for name, each in hosts.items()
    }


def _read_systems(folder: Path) -> dict[str, dict[str, Any]]:
    names = labels.of(folder)
    return {
        names.get(name, name): _flat({**each["facts"], "tools": each["tools"], "untested": each.get("untested", {})})
        for name, each in records.read_provenance(folder, records.DEPLOYMENTS).items()
    }


def _tabulate_sessions(session: Session, read: Callable[[Path], dict[str, dict[str, Any]]]) -> pd.DataFrame:
    """Return what hosts, or systems, say of themselves: one row per field, one column each.

    Of pooled sessions a field has one row, of `ALL`, where all that have the host or system tell the same, and else a
    row for each answer, with the sessions that give it. Where some lack a column, the first row says which have it.
    """
    told = [(folder.name, read(folder)) for folder in session.folders]
    columns = list(dict.fromkeys(name for _, each in told for name in each))
    fields = dict.fromkeys(field for _, each in told for one in each.values() for field in one)
    rows: list[dict[str, Any]] = []
    if any(len(each) < len(columns) for _, each in told):
        measured = {name: [place for place, each in told if name in each] for name in columns}
        places = {name: ALL if len(each) == len(told) else ", ".join(each) for name, each in measured.items()}
        rows.append({"field": "in sessions", "session": "", **places})
    for field in fields:
        answers = [(place, {name: one.get(field) for name, one in each.items()}) for place, each in told]
        every = {name: value for _, values in answers for name, value in values.items()}
        apart: dict[str, tuple[list[str], dict[str, Any]]] = {}
        for place, values in answers:
            apart.setdefault(canonical(values), ([], values))[0].append(place)
        if all(canonical({name: every[name] for name in values}) == said for said, (_, values) in apart.items()):
            apart = {"": ([ALL], every)}
        rows += [
            {"field": field, "session": ", ".join(of), **values}
            for of, values in apart.values()
            if any(value is not None for value in values.values())
        ]
    frame = pd.DataFrame(rows, columns=["field", "session", *columns], dtype="object").set_index("field")
    return frame if len(told) > 1 else frame.drop(columns="session")


def capabilities_table(session: Session) -> pd.DataFrame:
    """Return what the systems can do, as was seen when they were made ready: one row per capability, one column each.

    Where a system says several things, because it was made ready several times, all are shown. The last row counts how
    often it said them. Empty where no system says any.
    """
    said: dict[str, list[dict[str, Any]]] = {}
    for folder in session.folders:
        known = labels.of(folder)
        for file in (name for name in records.list_provenance(folder) if name.startswith(records.DEPLOYMENTS)):
            for name, each in records.read_provenance(folder, file).items():
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
    rows: dict[tuple[str, str, str], tuple[Counter[str], dict[str, set[str]]]] = {}
    for folder in session.folders:
        names = labels.of(folder)
        for record in records.read_trials(folder):
            words = [part for step in record.steps for part in step["argv"] if part.startswith(CLAIM)]
            claims = [json.loads(word.removeprefix(CLAIM)) for word in words]
            if not claims:
                continue
            trial, ok = record.trial, record.state == "ok"
            devices = next((each["devices"] for each in claims if "device" in each), {})
            nodes = {f"{each['node']} {name}" for each in claims if "node" in each for name in each["devices"].values()}
            key = (names.get(trial.system, trial.system), trial.workload, trial.scenario)
            counts, seen = rows.setdefault(key, (Counter(), {name: set() for name in DEVICES}))
            another = record.state == "invalid" and not record.conditions.get("invalid")
            counts.update(dict(zip(HELD, map(int, (ok, ok and bool(devices or nodes), another)), strict=True)))
            seen["carried"] |= {name for name, carries in devices.items() if carries}
            seen["quiet"] |= {name for name, carries in devices.items() if not carries}
            seen["on the nodes"] |= nodes
    table = [
        (*key, *(counts[name] for name in HELD), *(", ".join(sorted(seen[name])) for name in DEVICES))
        for key, (counts, seen) in sorted(rows.items())
    ]
    return pd.DataFrame(table, columns=["system", "workload", "scenario", *HELD, *DEVICES])


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {prefix.removesuffix("."): ", ".join(map(str, data)) if isinstance(data, list) else data}
    return {key: value for name, part in data.items() for key, value in _flat(part, f"{prefix}{name}.").items()}


def results(session: Session, out: str = "out", view: str = "") -> Results:
    """Return the analysis of a session (`api.results`), and say in the notebook's output which session it is of."""
    from IPython import get_ipython
    from IPython.display import display

    found = api.results(session, out, view)
    if get_ipython() is not None:
        abstract = make_abstract(session, found)
        line = (
            f"{', '.join(abstract['sessions'])}: {abstract['study']}, profile {abstract['profile']}, "
            f"site {abstract['site']['name']}; {abstract['recorded']} of {abstract['planned']} trials, "
            f"{abstract['ok']} valid"
        )
        display({MIME: abstract, "text/plain": line}, raw=True)
    return found


def make_abstract(session: Session, found: Results) -> dict[str, Any]:
    """Return the abstract of a session: JSON values; numbers that are to be read are text, rounded as in the tables."""
    data, trials = session.data, session.table.drop_duplicates(["session", "trial"])
    first = trials[(trials["attempt"] == 0) & (trials["state"] != "discarded")]
    every = pd.concat([first, session.missing], ignore_index=True)
    every["block"] = every.groupby(["session", "block"]).ngroup()  # sessions number their blocks alike
    cases = every.groupby(["workload", "scenario"], observed=True)
    plan = cases.agg(systems=("system", "nunique"), blocks=("block", "nunique"), trials=("system", "size"))
    rows, wanted = chosen(found), [*VERDICT, RULED_OUT]
    verdicts = tables.contrasts_table(rows).reindex(columns=wanted) if len(rows) else pd.DataFrame(columns=wanted)
    ends = {name: list(rows[f"ratio_{name.removeprefix('ratio ')}"].astype(float)) for name in ENDS}
    return {
        "format": FORMAT,
        **{key: data.get(key) for key in ASKED},
        "name": found.name,
        "sessions": sorted(set(map(str, trials["session"]))) or [session.folder.name],
        "site": dict(data["site"]),
        "versions": {key: value for key, value in (data.get("versions") or {}).items() if value is not None},
        "note": base(found),
        "aa": data.get("aa") or "",
        "known": bool(data.get("known")),
        "planned": len(first) + len(session.missing),
        "recorded": len(first),
        "ok": int((trials["state"] == "ok").sum()),
        "not_run": {**data["not_run"], **data.get("left_out", {}), **records.absences(records.not_applicable(data))},
        "none": "" if len(rows) else explain_none(found),
        "verdicts": split(verdicts.assign(better=list(rows["better"]), **ends)),
        "plan": split(plan.reset_index()),
        "trials": split(validity_table(session)),
        "reasons": split(reasons_table(session)),
        "discarded": split(blocks_table(session)),
        "systems_say": split(deployments_table(session)),
        "hosts_say": split(provenance_table(session)),
    }


def find_abstracts(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the abstracts among the outputs of a notebook's cells, each session and view once; the last one counts.

    One that another version wrote, or that somebody edited, is none.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for told in (output.get("data", {}).get(MIME) for output in outputs):
        if isinstance(told, dict) and _is_one(told):
            found[(told["name"], *told["sessions"])] = told
    return list(found.values())


def _is_one(told: Mapping[str, Any]) -> bool:
    lists = ("sessions", "systems")
    return (
        told.get("format") == FORMAT
        and {*ASKED, *OTHERS, *TABLES} <= told.keys()
        and all(isinstance(told[name], list) for name in lists)
        and bool(told["sessions"])
        and all(isinstance(told[name], int) for name in ("planned", "recorded", "ok"))
        and all(isinstance(told[name], dict) for name in (*TABLES, "site", "versions", "not_run"))
        and all(len(row) == len(told[name]["columns"]) for name in TABLES for row in told[name]["rows"])
        and {*VERDICT, "better"} <= set(told["verdicts"]["columns"])
    )


def split(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as columns and rows of text; what is missing is an empty text."""
    text = (frame.reset_index() if frame.index.name else frame).astype("object")
    text = text.where(text.notna(), "").astype("str")
    return {"columns": [str(name) for name in text.columns], "rows": text.to_numpy().tolist()}
