"""What a notebook says of the session it shows, as data in its own output.

The report of executed notebooks reads it from there: so it says what the notebook computed, also when the session has
grown since, and nothing is typed or computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.results import Results, base, chosen
from infrabench.analysis.session_data import Session
from infrabench.ledger.records import absences, not_applicable
from infrabench.notebook import api, session_tables

MIME = "application/vnd.infrabench.abstract+json"
FORMAT = 1
# of the table of contrasts: what belongs beside a verdict
VERDICT = ("workload", "scenario", "metric", "system", "n", "ratio", "ratio 95 % CI", "verdict", "margin %",
           "ratio 90 % CI", "p adjusted", "p equivalence adjusted", "verdict without flagged", "reason")  # fmt: skip
RULED_OUT = "ruled out"  # beside a verdict; in abstracts of older notebooks only where it decides nothing
ENDS = ("ratio low", "ratio high")  # of the 95 % interval, unrounded: not in abstracts of older notebooks
TABLES = ("verdicts", "plan", "trials", "reasons", "discarded", "systems_say", "hosts_say")
OTHERS = ("name", "sessions", "site", "versions", "note", "aa", "known", "planned", "recorded", "ok", "not_run")
ASKED = ("study", "title", "profile", "blocks", "deployments", "order", "seed", "systems", "baseline", "created_utc")


def results(session: Session, out: str = "out") -> Results:
    """Return the analysis of a session (`api.results`), and say in the notebook's output which session it is of.

    Figures and tables are written below `out`, relative to the checkout.
    """
    found = api.results(session, out)
    publish(of(session, found))
    return found


def of(session: Session, found: Results) -> dict[str, Any]:
    """Return the abstract of a session: JSON values; numbers that are to be read are text, rounded as in the tables."""
    data, trials = session.data, session.table.drop_duplicates(["session", "trial"])
    first = trials[(trials["attempt"] == 0) & (trials["state"] != "discarded")]
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
        "not_run": {**data["not_run"], **data.get("left_out", {}), **absences(not_applicable(data))},
        "verdicts": _verdicts(found),
        "plan": split(_plan(first, session.missing)),
        "trials": split(session_tables.validity_table(session)),
        "reasons": split(session_tables.reasons_table(session)),
        "discarded": split(session_tables.blocks_table(session)),
        "systems_say": split(session_tables.deployments_table(session)),
        "hosts_say": split(session_tables.provenance_table(session)),
    }


def publish(told: Mapping[str, Any]) -> None:
    """Put an abstract into the output of the notebook's cell that is running; outside a notebook, do nothing."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is not None:
        display({MIME: dict(told), "text/plain": line(told)}, raw=True)


def line(told: Mapping[str, Any]) -> str:
    """Return an abstract in one line: the session, and how much of it there is."""
    return (
        f"{', '.join(told['sessions'])}: {told['study']}, profile {told['profile']}, site {told['site']['name']}; "
        f"{told['recorded']} of {told['planned']} trials, {told['ok']} valid"
    )


def inside(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
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
        and all(isinstance(told[name], dict) for name in (*TABLES, "site", "versions", "not_run"))
        and all(len(row) == len(told[name]["columns"]) for name in TABLES for row in told[name]["rows"])
        and {*VERDICT, "better"} <= set(told["verdicts"]["columns"])
    )


def split(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as columns and rows of text; what is missing is an empty text."""
    text = frame.reset_index() if frame.index.name else frame
    return {
        "columns": [str(name) for name in text.columns],
        "rows": [[_plain(cell) for cell in row] for row in text.astype("object").to_numpy().tolist()],
    }


def _verdicts(found: Results) -> dict[str, Any]:
    rows = chosen(found)
    wanted = [*VERDICT, RULED_OUT]
    made = tables.contrasts_table(rows).reindex(columns=wanted) if len(rows) else pd.DataFrame(columns=wanted)
    ends = {name: list(rows[f"ratio_{name.removeprefix('ratio ')}"].astype(float)) for name in ENDS}
    return split(made.assign(better=list(rows["better"]), **ends))


def _plan(first: pd.DataFrame, missing: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case: how many systems, blocks and trials it has in the plan."""
    trials = pd.concat([first, missing], ignore_index=True)
    cases = trials.groupby(["workload", "scenario"], observed=True)
    counts = cases.agg(systems=("system", "nunique"), blocks=("block", "nunique"), trials=("system", "size"))
    return counts.reset_index()


def _plain(cell: Any) -> str:
    missing = cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))
    return "" if missing else str(cell)
