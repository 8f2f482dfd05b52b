"""What the storage notebook shows beside means: counts of answers, in matrices and sentences, and the course of trials.

Answers are counted, not averaged: a hash is equal or it is not, and there is no interval of that. A workload whose
trials have a course says how it is read from their raw output (``timeline(capture)``); metrics are one number of it
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any

import pandas as pd

from infrabench import registry
from infrabench.analysis import figures, tables
from infrabench.analysis.results import Results, Shown, absent, base, kept, listed, paragraph
from infrabench.analysis.session_data import Session
from infrabench.analysis.tables import Question, notation
from infrabench.core import DesignError, check_known
from infrabench.experiment.execution.reparse import capture
from infrabench.experiment.provenance import labels
from infrabench.ledger.records import read_trials
from infrabench.notebook.session_figures import show_figure

FILES, REQUESTS = "integrity", "fio-4k"
QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    FILES: (
        Question("intact_before", "files with the right hash before", "share"),
        Question("intact_degraded", "files with the right hash without the lost disk", "share"),
        Question("found_by_read", "damage found by reading half of the files", "flag"),
        Question("found_by_light_scrub", "damage found by the light scrub", "flag"),
        Question("found_by_deep_scrub", "damage found by the deep scrub", "flag"),
        Question("repaired", "no damage left after the repair", "flag"),
        Question("intact_after", "files with the right hash after", "share"),
        Question("lost_files", "files that cannot be read after", "count"),
        Question("silently_wrong_files", "files read with a wrong hash and no error", "count"),
    ),
    REQUESTS: (Question("steady", "rate the same from beginning to end", "flag"),),
}
# What the files of a trial came to, the worst first.
WRONG, LOST, LESS, SAME = (
    "files were read with another content and without an error",
    "files were lost, and reading them said so",
    "not all files came back",
    "every file came back as it was written",
)
UNSTEADY = 0.10  # share of trials that were not steady beyond which all were too short

SAMPLES = ("session", "trial", "block", "deployment", "system", "scenario", "series", "at_s", "value", "unit")
EVENTS = (*SAMPLES[:6], "event", "at_s")
# By workload: the event at 0, the same as a sentence, and the others that are marked.
COURSES = MappingProxyType({"rebuild": ("replaced", "the disk was replaced", ("lost", "noticed", "clean"))})


def matrix(found: Results, workload: str = FILES) -> Shown:
    """Return how many trials answered what, by scenario, question and system; written to files."""
    check_known("workload with answers", [workload], QUESTIONS)
    if nothing := _nothing(found, workload):
        return nothing
    scenarios, systems = _scenarios(found, workload), found.systems
    matrix = tables.matrix_table(found.table, workload, QUESTIONS[workload], scenarios=scenarios, systems=systems)
    return kept(found, matrix, f"answers-{workload}", f"{found.data['title']} {workload}: counts are of trials.")


def outcomes(found: Results) -> Shown:
    """Return, in one sentence for each scenario and system, what became of the files."""
    if nothing := _nothing(found, FILES):
        return nothing
    trials = found.table[(found.table["workload"] == FILES) & found.table["value"].notna()]
    names = ["scenario", "system"]
    answers = trials.pivot_table("value", [*names, "session", "trial"], "metric", observed=True)
    grouped = answers.apply(_outcome, axis=1).groupby(names, observed=True)
    counts, lines = {key: rows.value_counts() for key, rows in grouped}, []
    tried = _count_tried(found, FILES).groupby(names, observed=True).sum()
    for scenario, system in product(_scenarios(found, FILES), found.systems):
        if (of := int(tried.get((scenario, system), 0))) == 0:
            continue
        n = counts.get((scenario, system), pd.Series(dtype=int))
        parts = [f"in {n[name]} of {of} trials {name}" for name in (WRONG, LOST, LESS, SAME) if name in n]
        parts += [f"{of - n.sum()} of {of} trials ended without an answer"] if n.sum() < of else []
        lines.append(f"{scenario}, {system}: {'; '.join(parts)}.")
    return listed(lines + _not_run(found))


def settled(found: Results) -> Shown:
    """Return in how many trials the rate was steady, by system, and whether the runs were long enough."""
    if nothing := _nothing(found, REQUESTS):
        return nothing
    rows = found.table[(found.table["workload"] == REQUESTS) & (found.table["metric"] == "steady")]
    tried, lines = _count_tried(found, REQUESTS).groupby("system", observed=True).sum(), []
    for system in found.systems:
        values = rows.loc[rows["system"] == system, "value"].dropna()
        of = int(tried.get(system, 0))
        if values.empty:
            lines += [f"{system}: {of} of {of} trials ended without a rate."] if of else []
            continue
        share = float((values != 1).mean())
        word = "too short to be called steady" if share > UNSTEADY else "long enough"
        steady = f"{int((values == 1).sum())} of {len(values)} trials were steady; {notation.short(100 * share)} % not"
        without = of - len(values)
        lost = f" ({without} more ended without a rate)" if without else ""
        lines.append(f"{system}: {steady}{lost}, with {100 * UNSTEADY:g} % allowed: the runs are {word}.")
    return listed(lines + _not_run(found))


def courses(session: Session, workload: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return samples and events of every valid trial of a workload: columns `SAMPLES` and `EVENTS`, one row each.

    Times are seconds after the event at 0. Raises `ParseError` where raw output does not say what it should, and
    `DesignError` for a workload whose trials have no course.
    """
    module: Any = registry.workload(workload)
    if not hasattr(module, "timeline"):
        raise DesignError(f"trials of {workload} have no course; those of {', '.join(COURSES)} have")
    rows = session.table[(session.table["workload"] == workload) & (session.table["state"] == "ok")]
    valid = set(zip(rows["session"], rows["trial"], strict=True))
    samples: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    for folder in session.folders:
        names, of = labels.of(folder), folder.resolve().name
        for record in read_trials(folder):
            trial = record.trial
            if (of, trial.id) in valid:
                seen = module.timeline(capture(folder, record))
                system = names.get(trial.system, trial.system)
                key = (of, trial.id, trial.block, trial.deployment, system, trial.scenario)
                samples += [(*key, each.series, each.at_s, each.value, each.unit) for each in seen.samples]
                events += [(*key, name, at_s) for name, at_s in seen.events.items()]
    return pd.DataFrame(samples, columns=list(SAMPLES)), pd.DataFrame(events, columns=list(EVENTS))


def timeline(found: Results, session: Session, workload: str, scenarios: Sequence[str] = ()) -> Shown:
    """Return the courses of a workload's trials as a figure with its caption; written as PDF, SVG, PNG and side-car.

    `scenarios`: those to draw, side by side; all by default. Those that the session does not have are left out.
    """
    if nothing := _nothing(found, workload):
        return nothing
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
    zero, origin, shown = COURSES[workload]
    draw = partial(
        figures.timeline, samples, events, workload=workload, zero=zero, origin=origin, shown=shown,
        systems=found.systems,
    )  # fmt: skip
    ran = [name for name in found.systems if name not in found.data["not_run"]]
    without = [f"{name}: no valid trial." for name in ran if name not in set(samples["system"])]
    note = " ".join(filter(None, [*_not_run(found), *without, base(found)]))
    parameters = {
        "kind": "timeline", "workload": workload, "scenarios": wanted, "study": found.data["study"],
        "profile": found.data["profile"], "seed": found.data["seed"], "systems": found.systems,
    }  # fmt: skip
    name = f"timeline-{workload}" + ("" if wanted == order else f"-{'-'.join(wanted)}".replace(" ", "-"))
    return show_figure(draw, found.folder / "figures" / found.name, name, samples, parameters, note)


def _count_tried(found: Results, workload: str) -> pd.Series:
    """Return how many trials of a workload were planned and tried, by scenario and system; a repeat is no other one."""
    rows = found.table[(found.table["workload"] == workload) & (found.table["state"] != "discarded")]
    trials = rows[rows["attempt"] == 0].drop_duplicates(["session", "trial"])
    return trials.groupby(["scenario", "system"], observed=True).size()


def _not_run(found: Results) -> list[str]:
    return [f"{name}: not run: {why}." for name, why in found.data["not_run"].items()]


def _nothing(found: Results, workload: str) -> Shown | None:
    """Return that a workload was not run, or that no trial of it is valid; None where one is."""
    values = found.table.loc[found.table["workload"] == workload, "value"]
    return None if values.notna().any() else absent(found, workload)


def _scenarios(found: Results, workload: str) -> list[str]:
    """Return the scenarios in the order in which the study names them."""
    cases = found.data.get("parameters", {}).get("cases", [])
    named = [case["scenario"] for case in cases if case["workload"] == workload]
    return list(dict.fromkeys([*named, *found.table.loc[found.table["workload"] == workload, "scenario"]]))


def _outcome(trial: pd.Series) -> str:
    if trial["silently_wrong_files"] > 0:
        return WRONG
    if trial["lost_files"] > 0:
        return LOST
    intact = [trial[name] for name in ("intact_before", "intact_degraded", "intact_after") if name in trial.index]
    return SAME if all(share == 1 for share in intact if not pd.isna(share)) else LESS
