"""What single trials saw in their course, from their raw output: as a table, and as a figure.

A workload that has such a course says how it is read (``timeline(capture)``); metrics are one number of it each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import pandas as pd

from infrabench import registry
from infrabench.analysis import figures
from infrabench.analysis.results import Results, Shown, absent, base, paragraph
from infrabench.analysis.session_data import Session
from infrabench.core import DesignError
from infrabench.experiment.execution.reparse import capture
from infrabench.experiment.provenance import labels
from infrabench.ledger.records import read_trials
from infrabench.notebook.session_figures import show_figure

SAMPLES = ("session", "trial", "block", "deployment", "system", "scenario", "series", "at_s", "value", "unit")
EVENTS = (*SAMPLES[:6], "event", "at_s")
# By workload: the event at 0, the same as a sentence, and the others that are marked.
TOLD = MappingProxyType({"rebuild": ("replaced", "the disk was replaced", ("lost", "noticed", "clean"))})


def courses(session: Session, workload: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return samples and events of every valid trial of a workload: columns `SAMPLES` and `EVENTS`, one row each.

    Times are seconds after the event at 0. Raises `ParseError` where raw output does not say what it should, and
    `DesignError` for a workload whose trials have no course.
    """
    module: Any = registry.workload(workload)
    if not hasattr(module, "timeline"):
        raise DesignError(f"trials of {workload} have no course; those of {', '.join(TOLD)} have")
    names, valid = labels.of(session.folder), _valid(session, workload)
    samples: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    for record in read_trials(session.folder):
        trial = record.trial
        if trial.id in valid:
            seen = module.timeline(capture(session.folder, record))
            system = names.get(trial.system, trial.system)
            key = (session.folder.name, trial.id, trial.block, trial.deployment, system, trial.scenario)
            samples += [(*key, each.series, each.at_s, each.value, each.unit) for each in seen.samples]
            events += [(*key, name, at_s) for name, at_s in seen.events.items()]
    return pd.DataFrame(samples, columns=list(SAMPLES)), pd.DataFrame(events, columns=list(EVENTS))


def figure(found: Results, session: Session, workload: str, scenarios: Sequence[str] = ()) -> Shown:
    """Return the courses of a workload's trials as a figure with its caption; written as PDF, SVG, PNG and side-car.

    `scenarios`: those to draw, side by side; all by default. Those that the session does not have are left out.
    """
    if not _valid(session, workload):
        if not (found.estimates["workload"] == workload).any():
            return absent(found, workload)
        return paragraph(f"{workload}: there is no valid trial to draw the course of in this session.")
    samples, events = courses(session, workload)
    order = list(dict.fromkeys(found.estimates.loc[found.estimates["workload"] == workload, "scenario"]))
    wanted = [name for name in order if not scenarios or name in scenarios]
    samples, events = (
        each[each["scenario"].isin(wanted)].sort_values(
            "scenario", key=lambda names: names.map(wanted.index), kind="stable"
        )
        for each in (samples, events)
    )
    if samples.empty:
        return paragraph(f"{workload}: {', '.join(scenarios)}: no valid trial in this session.")
    zero, origin, shown = TOLD[workload]
    draw = partial(
        figures.timeline, samples, events, workload=workload, zero=zero, origin=origin, shown=shown,
        systems=found.systems,
    )  # fmt: skip
    gone, drawn = found.data["not_run"], set(samples["system"])
    notes = [f"{name} not run: {why}." for name, why in gone.items()]
    notes += [f"{name}: no valid trial." for name in found.systems if name not in drawn and name not in gone]
    note = " ".join(filter(None, [*notes, base(found)]))
    parameters = {
        "kind": "timeline", "workload": workload, "scenarios": wanted, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
    }  # fmt: skip
    name = f"timeline-{workload}" + ("" if wanted == order else f"-{'-'.join(wanted)}".replace(" ", "-"))
    return show_figure(draw, found.folder / "figures" / found.name, name, samples, parameters, note)


def _valid(session: Session, workload: str) -> set[str]:
    rows = session.table
    return set(rows.loc[(rows["workload"] == workload) & (rows["state"] == "ok"), "trial"])
