"""What trials answer with yes or no: matrices of counts, and what they say, in sentences.

Answers are counted, not averaged: a hash is equal or it is not, and there is no interval of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.results import Results, Shown, absent, kept, listed, paragraph
from infrabench.analysis.tables import Question, notation
from infrabench.core import unknown_name

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


def matrix(found: Results, workload: str = FILES) -> Shown:
    """Return how many trials answered what, by scenario, question and system; written to files."""
    if workload not in QUESTIONS:
        raise unknown_name("workload with answers", workload, QUESTIONS)
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


def _count_tried(found: Results, workload: str) -> pd.Series:
    """Return how many trials of a workload were planned and tried, by scenario and system; a repeat is no other one."""
    rows = found.table[(found.table["workload"] == workload) & (found.table["state"] != "discarded")]
    trials = rows[rows["attempt"] == 0].drop_duplicates(["session", "trial"])
    return trials.groupby(["scenario", "system"], observed=True).size()


def _not_run(found: Results) -> list[str]:
    return [f"{name}: not run: {why}." for name, why in found.data["not_run"].items()]


def _nothing(found: Results, workload: str) -> Shown | None:
    """Return that a workload was not run, or that no trial of it is valid; None where one is."""
    rows = found.table[found.table["workload"] == workload]
    if rows["value"].notna().any():
        return None
    return absent(found, workload) if rows.empty else paragraph(f"{workload}: there is no valid trial in this session.")


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
