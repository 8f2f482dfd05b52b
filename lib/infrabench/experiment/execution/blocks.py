"""What is left to do in a session, block by block: it follows from the records, after any interruption too.

A block is completed or discarded as a whole. An invalid trial is repeated at the end of its own block; nothing else is
ever repeated, its valid partner neither: a treatment would then have two values in a block. A discarded block stays on
disk with its reason, and one more block is added to the plan in its place.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from infrabench.core import Study, Trial, TrialRecord
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design, by_block
from infrabench.experiment.design.orders import order_repeats
from infrabench.ledger.pace import end_s
from infrabench.ledger.records import DISCARDED, LOOK, added_cases
from infrabench.ledger.session_folder import SessionFolder

CLOCK_S = 1.0  # by which a clock may be put right while nobody looks
FINAL = ("target", "n_max", "time")  # reasons of a look after which no block is added


def repeats(block: Sequence[Trial], records: Mapping[str, TrialRecord], most: int, wanted: Design) -> list[Trial]:
    """Return the repeats that are due now, in random order: one for each trial whose last attempt is invalid.

    `block`: its planned trials; `records`: what is recorded, by id; `most`: repeats of one trial. Systems that were
    invalid in one case follow one another again where the order in `wanted` has them do so.
    """
    due = due_repeats(block, records, most)
    if not due:
        return []
    groups = {(case.workload, case.scenario): case.group for case in wanted.cases}
    return order_repeats(
        wanted.order, due, seed=wanted.seed, block=block[0].block, draw=min(trial.attempt for trial in due),
        case=lambda trial: groups[trial.workload, trial.scenario] or (trial.workload, trial.scenario),
        system=lambda trial: trial.system,
    )  # fmt: skip


def due_repeats(block: Sequence[Trial], records: Mapping[str, TrialRecord], most: int) -> list[Trial]:
    """Return the repeats that `repeats` orders, in the order of the plan."""
    due, last = [], block[-1].position
    for trial in block:
        attempt, latest = 0, records.get(trial.id)
        while latest is not None and latest.state == "invalid" and attempt < most:
            attempt += 1
            repeat = trial.repeated(attempt, last)
            latest = records.get(repeat.id)
            if latest is None:
                due.append(repeat)
    return due


def select_unfinished(stored: SessionFolder, study: Study, wanted: Design) -> dict[int, list[Trial]]:
    """Return, by block, the planned trials of every block that is not finished, those that are recorded too."""
    return {
        number: block
        for number, block in by_block(stored.awaited).items()
        if any(trial.id not in stored.records for trial in block)
        or repeats(block, stored.records, study.repeats, wanted)
    }


def is_stopped(stored: SessionFolder) -> bool:
    """Tell whether a look at the intervals has ended the session."""
    return any(each["reason"] in FINAL for each in stored.notes(LOOK))


def is_finished(stored: SessionFolder, study: Study, wanted: Design) -> bool:
    """Tell whether nothing is left: every block is complete, and the stopping rule, if there is one, said stop."""
    if select_unfinished(stored, study, wanted) or select_promised(stored):
        return False
    return wanted.stopping is None or is_stopped(stored)


def discard_interrupted(stored: SessionFolder, study: Study, wanted: Design) -> list[int]:
    """Discard what an interruption has spoilt, add as many blocks to the plan, and return the discarded ones.

    With one deployment: a block that was begun and then left for longer than the study allows. With several: every
    block of a deployment that was begun and not finished, because a deployment cannot be taken up again.
    """
    blocks, unfinished = by_block(stored.awaited), select_unfinished(stored, study, wanted)
    begun = {number for number, block in blocks.items() if any(trial.id in stored.records for trial in block)}
    fresh: dict[int, int] = {}  # an interrupted deployment -> the new one that stands for it
    if wanted.deployments > 1:
        # Whoever discarded one may have been killed before its last block: the rest goes, to the same new one.
        planned = {trial.block: trial.deployment for trial in stored.plan}
        fresh = {planned[each["block"]]: each["adds"][0][1] for each in stored.notes(DISCARDED)}
        deployments = {number: block[0].deployment for number, block in blocks.items()}
        left = {deployments[number] for number in unfinished}
        broken = left & ({deployments[number] for number in begun} | fresh.keys())
        reasons = {number: "its deployment was interrupted" for number, of in deployments.items() if of in broken}
    else:
        reasons = {}
        for number in sorted(begun & unfinished.keys()):
            records = [stored.records[each] for each in attempts(blocks[number], study.repeats, stored.records)]
            last = max(map(end_s, records))
            slept = max(each.conditions.get("clock_stepped_s", 0.0) for each in records)
            gap = datetime.now(UTC).timestamp() - last
            gap = max(gap, slept) if gap >= 0 else gap
            if gap > study.block_gap_s:
                reasons[number] = f"interrupted for {gap:.0f} s, {study.block_gap_s:.0f} s are allowed"
            elif gap < -CLOCK_S:
                reasons[number] = (
                    f"interrupted, and the clock was set back by {-gap:.0f} s or more: for how long cannot be told"
                )
    next_deployment = 1 + max(trial.deployment for trial in stored.plan)
    first, notes = next_number(stored), dict[int, dict[str, Any]]()
    for offset, (number, reason) in enumerate(sorted(reasons.items())):
        old = blocks[number][0].deployment
        if wanted.deployments > 1 and old not in fresh:
            fresh[old], next_deployment = next_deployment, next_deployment + 1
        new = fresh.get(old, old)
        ids = sorted(attempts(blocks[number], study.repeats, stored.records))
        cases = sorted({(trial.workload, trial.scenario) for trial in blocks[number]})
        notes[number] = {"reason": reason, "trials": ids, "adds": [[first + offset, new]]}
        notes[number] |= {"cases": cases} if len(cases) < len(wanted.cases) else {}
    for number, note in notes.items():
        stored.append_block_note(number, DISCARDED, note)
    add_promised(stored, wanted)
    return sorted(notes)


def next_number(stored: SessionFolder) -> int:
    """Return the number of the next block that can be added."""
    return 1 + max(trial.block for trial in stored.plan)


def select_promised(stored: SessionFolder) -> list[tuple[int, int, list[tuple[str, str]]]]:
    """Return the blocks that a discard or a look has promised (``adds``) and that are not there.

    Each is (number, deployment, its cases, of which none stands for all). The writer was killed between its promise and
    the block.
    """
    there = {trial.block for trial in stored.plan}
    return [
        (number, deployment, added_cases(each))
        for each in (*stored.notes(DISCARDED), *stored.notes(LOOK))
        for number, deployment in each["adds"]
        if number not in there
    ]


def add_promised(stored: SessionFolder, wanted: Design) -> None:
    """Add to the plan every block that is promised and not there yet."""
    for number, deployment, cases in select_promised(stored):
        stored.append_block(designs.block(wanted, number, deployment, cases))


def attempts(block: Sequence[Trial], most: int, recorded: Container[str]) -> list[str]:
    """Return the ids of a block's trials, and of up to `most` repeats of each, that are among those `recorded`."""
    ids = [trial.id for trial in block]
    ids += [trial.repeated(attempt, 0).id for trial in block for attempt in range(1, most + 1)]
    return [each for each in ids if each in recorded]
