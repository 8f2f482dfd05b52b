"""What a notebook may use: one request, one session, and tables of it. Everything here reads or runs; nothing draws."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

from infrabench import registry
from infrabench.analysis.results import Results, alone
from infrabench.analysis.results import results as analysed
from infrabench.analysis.session_data import Session, open_session, read_stored
from infrabench.core import DesignError, Request, check_known, unknown_name
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import OnProgress, bar, in_notebook
from infrabench.experiment.provenance import labels
from infrabench.ledger import catalogue
from infrabench.ledger.codes import LABEL
from infrabench.ledger.records import PROBE, read_blocks
from infrabench.notebook import plan_tables
from infrabench.stats.contrasts import contrasts as _contrasts
from infrabench.stats.events import COUNT, SHARE
from infrabench.stats.losses import LOST
from infrabench.stats.table import BLOCK, kinds
from infrabench.stats.verdicts import NOT_COMPARABLE, resolution_step, undithered

MODES = ("load", "run")
# What a loaded session has to be asked for with.
COMPARED = ("study", "profile", "runs", "seed", "deployments", "order", "rounds", "set", "aa")
OPEN = ("runs", "deployments", "order", "rounds", "set")  # of these, those that are asked for
NAMES = ("workload", "metric", "scenario", "system")
OTHERWISE = {
    COUNT: "counts are compared exactly, not by their means",
    SHARE: "shares are compared by their difference",
}
NO_PLAIN = "no contrast of this session rests on complete blocks and printed digits alone"


def request(study: str, **parameters: Any) -> Design:
    """Return the design of a notebook's parameters, those of `core.Request`; None means what the study says.

    >>> wanted = request("containers", profile="quick", systems=["native", "docker"], runs=30)

    Lists may also come as text, ``["native", "docker"]`` or ``native,docker``: papermill hands them over so.
    `precision` (relative half-width, 0.02 = 2 %) adds blocks to the 30 until every primary cell's interval is that
    narrow, at `most` so many. `minutes` are shared out: a few blocks of every case, then more where intervals are too
    wide for their margins; with a precision they end its search. `set` has own values of workloads' parameters,
    ``{"web.users": [100, 1000], "sysbench-cpu.threads": "1:8"}``: each combination is a scenario. `aa` names a system
    to measure under two labels.
    """
    check_known("parameter of a request", parameters, [each.name for each in fields(Request)])
    return session.resolve(Request(study, **parameters))


def run_or_load(wanted: Design, *, mode: str, site: str = "lab", session: str | None = None) -> Session:
    """Run `wanted` on `site` (``mode="run"``: what is missing of it), or load a recorded session (``mode="load"``).

    `session` names it; None is the session of these parameters, or the one recorded session of the study. A loaded
    session must have the profile and seed of `wanted`, and its blocks, deployments, order of trials, rounds and own
    values where any are asked for; fewer systems or workloads narrow its table.

    Raises `Interrupted` when a run is interrupted in a notebook: systems are taken down by then, and to call this again
    goes on; `InfrabenchError` when another ``papermill`` command writes its result into the same file.
    """
    check_known("mode", [mode], MODES)
    watch: Callable[[str], AbstractContextManager[OnProgress]] = bar
    if in_notebook():
        from infrabench.notebook import headless, live  # papermill and IPython are loaded only where somebody looks

        headless.claim_output()
        watch = live.shown
    wanted = replace(wanted, request=replace(wanted.request, site=site, session=session))
    if mode == "run":
        look = plan_tables.look_of(wanted)
        with watch(f"{wanted.study} {wanted.profile}") as show:
            return read_stored(runs.carry_out(wanted, on_progress=show, look=look))
    found = open_session(catalogue.find(wanted.study, session))
    recorded, asked = Request.from_session(found.data), designs.complete(wanted)
    for name in (each for each in COMPARED if each not in OPEN or getattr(wanted.request, each) is not None):
        then, now = getattr(recorded, name), getattr(asked, name)
        if then != now:
            raise DesignError(f"{found.folder} has {name} {then!r}, not {now!r}; mode='run' measures that")
    return _narrowed(found, wanted)


def probes(session: Session) -> pd.DataFrame:
    """Return the drift probes of a session, or of each that is pooled.

    Columns session, block, host, position, value (bytes hashed per second) and unit.
    """
    rows = [
        (folder.resolve().name, each["block"], each["host"], each["position"], each["bytes"] / each["seconds"], "B/s")
        for folder in session.folders
        for each in read_blocks(folder, PROBE)
    ]
    return pd.DataFrame(rows, columns=["session", "block", "host", "position", "value", "unit"])


def contrasts(session: Session) -> pd.DataFrame:
    """Return one row per cell and system against the baseline, by the session's margins (`stats.contrasts`)."""
    data = session.data
    return _contrasts(session.table, data["baseline"], data["margins"], [tuple(each) for each in data["primary"]])


def choose_contrast(found: Results, workload: str = "", metric: str = "", scenario: str = "", system: str = "") -> Any:
    """Return the first contrast of these names, primary metrics first as declared, as a row of `Results.contrasts`.

    >>> contrast = ib.choose_contrast(results, "stream", "triad_B_per_s", system="lxc")

    It is one whose interval is Fieller's of the pairs and nothing else, so that it can be worked through: not of counts
    and shares, not with lost trials, and not where rounding widens it. Raises `DesignError` for a name that the session
    has not, and where no contrast of the names is of that kind. Without names there is always a row: without an
    interval where the session has none to work through, and then its ``reason`` says why.
    """
    rows, given = found.contrasts, dict(zip(NAMES, (workload, metric, scenario, system), strict=True))
    rows = rows.assign(kind=kinds(rows, found.table)) if len(rows) else rows
    for name, value in given.items():
        if value and not (rows[name] == value).any():
            raise unknown_name(name, value, set(rows[name]))
        rows = rows[rows[name] == value] if value else rows
    declared = {tuple(each): place for place, each in enumerate(found.data["primary"])}
    place = [declared.get(key, len(declared)) for key in zip(rows["workload"], rows["metric"], strict=True)]
    why = ""
    for row in rows.assign(place=place).sort_values("place", kind="stable").itertuples():
        unlike = _explain_unlike(found, row)
        if not unlike:
            return row
        why = why or unlike
    if any(given.values()):
        raise DesignError(f"{', '.join(filter(None, given.values()))} cannot be worked through: {why}")
    reason = f"{NO_PLAIN}: {why}" if why else alone(found).text
    words = {"workload": "", "metric": "", "scenario": "no scenario", "system": "no system", "reason": reason}
    words |= {"baseline": found.data["baseline"], "verdict": NOT_COMPARABLE, "better": "", "flags": ""}
    return next(found.contrasts.reindex([-1]).assign(**words).itertuples())


def _explain_unlike(found: Results, row: Any) -> str:
    """Return what but Fieller's interval of the pairs has made a contrast; nothing where that is all."""
    if row.kind in OTHERWISE:
        return OTHERWISE[row.kind]
    if LOST in row.flags or not np.isfinite(row.ratio_low):
        return str(row.reason or row.flags)
    case = found.table[(found.table[list(NAMES[:3])] == [getattr(row, name) for name in NAMES[:3]]).all(axis=1)]
    blocks = case.dropna(subset="value").pivot(index=BLOCK, columns="system", values="value")  # noqa: PD010
    values = blocks[[row.system, row.baseline]].dropna().to_numpy()
    coarse = undithered(resolution_step(values.reshape(-1)), values.std(axis=0, ddof=1).min())
    return "it is printed so coarsely that rounding widens its interval" if coarse else ""


def results(session: Session, out: str = "out", view: str = "") -> Results:
    """Return the analysis of a session; its figures and tables are written below `out` (relative to the checkout).

    They are in folders STUDY, or STUDY-VIEW where a notebook shows a second session of the study.
    """
    data = {**session.data, "view": view} if view else session.data
    return analysed(data, session.table, session.missing, catalogue.home() / out, probes(session))


def _narrowed(found: Session, wanted: Design) -> Session:
    names = labels.of(found.folder)
    systems, workloads = {names.get(name, name) for name in wanted.systems}, {case.workload for case in wanted.cases}

    def keep(frame: pd.DataFrame) -> pd.DataFrame:
        named = frame["workload"].str.split(LABEL, regex=False).str[0].isin(workloads)
        return frame[frame["system"].isin(systems) & named].reset_index(drop=True)

    every = found.data.get("not_applicable", [])
    absent = [each for each in every if each["system"] in systems and each["workload"] in workloads]
    data = found.data | {"not_applicable": absent}
    baseline = names.get(wanted.baseline, wanted.baseline)
    if baseline not in ("", data["baseline"]):  # known effects are ratios to the baseline that it was made with
        data |= {"baseline": baseline, "known": []}
    return replace(found, data=data, table=keep(found.table), missing=keep(found.missing))


def show_log(level: str = "INFO") -> None:
    """Print what the library does (systems made ready, lab started) below the cell that asks for it."""
    # Not to stderr, where notebooks show everything as if it were an error.
    logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True, stream=sys.stdout)
    for name in registry.PACKAGES:
        logging.getLogger(name).setLevel(level)
