"""What a notebook may use: one request, one session, and tables of it. Everything here reads or runs; nothing draws."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any

import pandas as pd

from infrabench import registry
from infrabench.analysis.results import Results
from infrabench.analysis.results import results as analysed
from infrabench.analysis.session_data import Session, open_session, read_stored
from infrabench.core import DesignError, Request, unknown_name
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

MODES = ("load", "run")
# What a loaded session has to be asked for with.
COMPARED = ("study", "profile", "runs", "seed", "deployments", "order", "rounds", "set", "aa")
OPEN = ("order", "rounds", "set")  # of these, those that are asked for


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
    known = [each.name for each in fields(Request)]
    for name in parameters:
        if name not in known:
            raise unknown_name("parameter of a request", name, known)
    return session.resolve(Request(study, **parameters))


def run_or_load(wanted: Design, *, mode: str, site: str = "lab", session: str | None = None) -> Session:
    """Run `wanted` on `site` (``mode="run"``: what is missing of it), or load a recorded session (``mode="load"``).

    `session` names it; None is the session of these parameters, or the one recorded session of the study. A loaded
    session must have the profile, blocks and seed of `wanted`, and its order of trials, rounds and own values where any
    are asked for; fewer systems or workloads narrow its table.

    Raises `Interrupted` when a run is interrupted in a notebook: systems are taken down by then, and to call this again
    goes on; `InfrabenchError` when another ``papermill`` command writes its result into the same file.
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
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
    """Return the drift probes of a session: block, host, position, value (bytes hashed per second), unit."""
    rows = [
        (each["block"], each["host"], each["position"], each["bytes"] / each["seconds"], "B/s")
        for each in read_blocks(session.folder, PROBE)
    ]
    return pd.DataFrame(rows, columns=["block", "host", "position", "value", "unit"])


def contrasts(session: Session) -> pd.DataFrame:
    """Return one row per cell and system against the baseline, by the session's margins (`stats.contrasts`)."""
    data = session.data
    return _contrasts(session.table, data["baseline"], data["margins"], [tuple(each) for each in data["primary"]])


def results(session: Session, out: str = "out") -> Results:
    """Return the analysis of a session; its figures and tables are written below `out` (relative to the checkout)."""
    return analysed(session.data, session.table, session.missing, catalogue.home() / out, probes(session))


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
    return Session(found.folder, data, keep(found.table), keep(found.missing))


def show_log(level: str = "INFO") -> None:
    """Print what the library does (systems made ready, lab started) below the cell that asks for it."""
    # Not to stderr, where notebooks show everything as if it were an error.
    logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True, stream=sys.stdout)
    for name in registry.PACKAGES:
        logging.getLogger(name).setLevel(level)
