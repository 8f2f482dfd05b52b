"""What a notebook may use: one request, one session, and tables of it. Everything here reads or runs; nothing draws."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench import design as designs
from infrabench import labels, planned, registry, runs, session
from infrabench.analysis import Results
from infrabench.analysis import results as analysed
from infrabench.comparability import measures_alike, stamp
from infrabench.core import LONGEST_NAME, DesignError, Study, unknown_name
from infrabench.design import Design
from infrabench.progress import OnProgress, bar, in_notebook
from infrabench.records import PROBE, not_applicable, read_blocks, read_session
from infrabench.stats.contrasts import contrasts as _contrasts
from infrabench.stats.estimates import estimates as _estimates
from infrabench.tidy import missing, tidy

MODES = ("load", "run")
# What a loaded session has to be asked for with, and what one that does not say it was made with.
COMPARED = {"study": None, "profile": None, "blocks": None, "seed": None, "deployments": 1, "order": "random", "aa": ""}
MIB = 2**20


@dataclass(frozen=True)
class Session:
    """A recorded session: its folder, ``session.json``, tidy table, and planned trials without a record.

    Systems are called by their labels in all of them (see `labels`).
    """

    folder: Path
    data: dict[str, Any]
    table: pd.DataFrame
    missing: pd.DataFrame


def study(name: str) -> Study:
    """Return the study called `name`; `DesignError` with the nearest names when there is none."""
    return registry.study(name)


def request(
    study: str, *, profile: str, runs: int | None = None, systems: Sequence[str] | str | None = None,
    workloads: Sequence[str] | str | None = None, seed: int | None = None, deployments: int | None = None,
    order: str = "random", precision: float | None = None, most: int | None = None, hours: float | None = None,
    aa: str = "",
) -> Design:  # fmt: skip
    """Return the validated design of a notebook's parameters; None means what the study says.

    Lists may also come as text, ``["native", "docker"]`` or ``native,docker``: papermill hands them over so.
    `precision` (relative half-width, 0.02 = 2 %) adds blocks to the 30 until every primary cell's interval is that
    narrow, at `most` so many and for so many `hours`. `aa` names a system to measure under two labels.
    """
    return session.request(
        registry.study(study), profile=profile, runs=runs, systems=listed(systems), workloads=listed(workloads),
        seed=seed, deployments=deployments, order=order, stopping=designs.stopping(precision, most, hours), aa=aa,
    )  # fmt: skip


def run_or_load(wanted: Design, *, mode: str, site: str = "lab", session: str | None = None) -> Session:
    """Run `wanted` on `site` (``mode="run"``: what is missing of it), or load a recorded session (``mode="load"``).

    `session` names it; None is the session of these parameters, or the one recorded session of the study. A loaded
    session must have the profile, blocks and seed of `wanted`; fewer systems or workloads narrow its table.

    Raises `Interrupted` when a run is interrupted in a notebook: systems are taken down by then, and to call this again
    goes on.
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    if mode == "run":
        look = planned.look_of(wanted)
        with _shown(f"{wanted.study} {wanted.profile}") as show:
            return open_session(runs.carry_out(wanted, site=site, name=session, on_progress=show, look=look))
    found = open_session(runs.find(wanted.study, session))
    for key, otherwise in COMPARED.items():
        then, asked = found.data.get(key, otherwise), getattr(wanted, key)
        if then != asked:
            raise DesignError(f"{found.folder} has {key} {then!r}, not {asked!r}; mode='run' measures that")
    return _narrowed(found, wanted)


def open_session(folder: str | Path) -> Session:
    """Return the session in `folder`, or in an archive made by `archive.pack`."""
    path = runs.find(None, str(folder))
    names = labels.of(path)
    table, absent = (frame.assign(system=frame["system"].replace(names)) for frame in (tidy(path), missing(path)))
    return Session(path, labels.renamed(read_session(path), names), table, absent)


def pool(names: Sequence[str | Path], *, stamped: bool = False) -> Session:
    """Return several sessions of one study as one: each is a deployment of its own, and so the unit of analysis.

    Raises
    ------
    SchemaError
        The sessions are of different studies or baselines.
    NotComparable
        Their checked provenance differs; with `stamped` they are pooled all the same, and every figure and table says
        what differs.
    """
    parts = [open_session(name) for name in names]
    folders = [part.folder for part in parts]
    measures_alike(folders)
    told = stamp(folders, allow=stamped)
    data = together([part.data for part in parts], [folder.name for folder in folders], told)
    table = pd.concat([part.table for part in parts], ignore_index=True)
    absent = pd.concat([part.missing for part in parts], ignore_index=True)
    return Session(folders[0], data, table, absent)


def together(data: Sequence[Mapping[str, Any]], names: Sequence[str], stamped: str) -> dict[str, Any]:
    """Return what several sessions of one study say of themselves as one ``session.json``, with the stamp of `pool`."""
    every = dict(data[0])
    every["systems"] = list(dict.fromkeys(name for each in data for name in each["systems"]))
    every["not_run"] = {name: why for each in data for name, why in each["not_run"].items()}
    everywhere = [not_applicable(each) for each in data]
    every["not_applicable"] = [
        dict(zip(("system", "workload", "scenario", "reason"), (*key, reason), strict=True))
        for key, reason in everywhere[0].items()
        if all(key in each for each in everywhere)
    ]
    every["blocks"] = sum(each["blocks"] for each in data)
    every["pooled"], every["stamp"] = list(names), stamped
    return every


def probes(session: Session) -> pd.DataFrame:
    """Return the drift probes of a session: block, host, position, value (bytes hashed per second), unit."""
    rows = [
        (each["block"], each["host"], each["position"], each["bytes"] / each["seconds"], "B/s")
        for each in read_blocks(session.folder, PROBE)
    ]
    return pd.DataFrame(rows, columns=["block", "host", "position", "value", "unit"])


def estimates(session: Session) -> pd.DataFrame:
    """Return one row per cell: counts by state, mean, median and their intervals (`stats.estimates`)."""
    return _estimates(session.table, session.missing)


def contrasts(session: Session) -> pd.DataFrame:
    """Return one row per cell and system against the baseline, by the session's margins (`stats.contrasts`)."""
    data = session.data
    return _contrasts(session.table, data["baseline"], data["margins"], [tuple(each) for each in data["primary"]])


def results(session: Session, out: str = "out") -> Results:
    """Return the analysis of a session; its figures and tables are written below `out` (relative to the checkout)."""
    return analysed(session.data, session.table, session.missing, runs.home() / out, probes(session))


def _shown(title: str) -> AbstractContextManager[OnProgress]:
    if not in_notebook():
        return bar(title)
    from infrabench import live  # IPython and the figures are loaded only where somebody looks

    return live.shown(title)


def _narrowed(found: Session, wanted: Design) -> Session:
    names = labels.of(found.folder)
    systems, workloads = {names.get(name, name) for name in wanted.systems}, {case.workload for case in wanted.cases}

    def keep(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["system"].isin(systems) & frame["workload"].isin(workloads)].reset_index(drop=True)

    absent = [
        each
        for each in found.data.get("not_applicable", [])
        if each["system"] in systems and each["workload"] in workloads
    ]
    data = found.data | {"not_applicable": absent}
    baseline = names.get(wanted.baseline, wanted.baseline)
    if baseline not in ("", data["baseline"]):  # known effects are ratios to the baseline that it was made with
        data |= {"baseline": baseline, "known": []}
    return Session(found.folder, data, keep(found.table), keep(found.missing))


def listed(names: Sequence[str] | str | None) -> Sequence[str] | None:
    """Return a list of names that may have come as text, ``["native", "docker"]`` or ``native,docker``."""
    if not isinstance(names, str):
        return names
    if not names.strip().startswith("["):
        return [part.strip() for part in names.split(",") if part.strip()]
    try:
        return list(json.loads(names))
    except (ValueError, TypeError, RecursionError) as error:
        shown = names[:LONGEST_NAME]
        raise DesignError(f'not a list of names: {shown!r}; write ["native", "docker"] or native,docker') from error


def show_log(level: str = "INFO") -> None:
    """Print what the library does (systems made ready, lab started) below the cell that asks for it."""
    # Not to stderr, where notebooks show everything as if it were an error.
    logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True, stream=sys.stdout)
    logging.getLogger("infrabench").setLevel(level)
