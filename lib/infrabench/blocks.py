"""What is left to do in a session, block by block: read from its folder, so that it is the same after any interruption.

A block is completed or discarded as a whole. An invalid trial is repeated at the end of its own block; nothing else is
ever repeated. A discarded block stays on disk with its reason, and one more block is added to the plan in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infrabench import design as designs
from infrabench import ledger
from infrabench.core import Study, Trial, TrialRecord
from infrabench.design import Design
from infrabench.orders import shuffled
from infrabench.records import (
    DISCARDED,
    LOOK,
    awaited,
    read_blocks,
    read_plan,
    read_trial,
    recorded,
)

CLOCK_S = 1.0  # by which a clock may be put right while nobody looks
FINAL = ("target", "n_max", "time")  # reasons of a look after which no block is added


def by_block(trials: Iterable[Trial]) -> dict[int, list[Trial]]:
    """Return trials by block, both in the order they come."""
    found: dict[int, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.block, []).append(trial)
    return found


def repeats(block: Sequence[Trial], records: Mapping[str, TrialRecord], most: int, seed: int) -> list[Trial]:
    """Return the repeats that are due now, in random order: one for each trial whose last attempt is invalid.

    `block`: its planned trials; `records`: what is recorded, by id; `most`: repeats of one trial.
    """
    due, last = [], block[-1].position
    for trial in block:
        attempt, latest = 0, records.get(trial.id)
        while latest is not None and latest.state == "invalid" and attempt < most:
            attempt += 1
            again = trial.repeated(attempt, last)
            latest = records.get(again.id)
            if latest is None:
                due.append(again)
    order = shuffled(len(due), seed=seed, block=block[0].block, draw=min((t.attempt for t in due), default=0))
    return [due[i] for i in order]


def due(folder: Path, study: Study, wanted: Design) -> dict[int, list[Trial]]:
    """Return, by block, the planned trials of every block that is not finished, those that are recorded too."""
    done = recorded(folder)
    left = {}
    for number, block in by_block(awaited(folder)).items():
        if any(trial.id not in done for trial in block) or repeats(
            block, of_block(folder, block, done, study.repeats), study.repeats, wanted.seed
        ):
            left[number] = block
    return left


def of_block(folder: Path, block: Sequence[Trial], done: frozenset[str], most: int) -> dict[str, TrialRecord]:
    """Return the records of a block by id, repeats too."""
    names = [trial.repeated(attempt, 0).id for trial in block for attempt in range(1, most + 1)]
    return {name: read_trial(folder, name) for name in [*(trial.id for trial in block), *names] if name in done}


def is_finished(folder: Path, study: Study, wanted: Design) -> bool:
    """Tell whether nothing is left: every block is complete, and the stopping rule, if there is one, said stop."""
    if due(folder, study, wanted) or promised(folder):
        return False
    return wanted.stopping is None or any(each["reason"] in FINAL for each in read_blocks(folder, LOOK))


def discard_interrupted(folder: Path, study: Study, wanted: Design) -> list[int]:
    """Discard what an interruption has spoilt, add as many blocks to the plan, and return the discarded ones.

    With one deployment: a block that was begun and then left for longer than the study allows. With several: every
    block of a deployment that was begun and not finished, because a deployment cannot be taken up again.
    """
    blocks, done = by_block(awaited(folder)), recorded(folder)
    begun = {number for number, block in blocks.items() if any(trial.id in done for trial in block)}
    open_ = begun & due(folder, study, wanted).keys()
    if wanted.deployments > 1:
        deployments = {number: block[0].deployment for number, block in blocks.items()}
        left = {deployments[number] for number in due(folder, study, wanted)}
        broken = left & {deployments[number] for number in begun}
        reasons = {number: "its deployment was interrupted" for number, of in deployments.items() if of in broken}
    else:
        gaps = {number: _gap_s(folder, blocks[number], done, study.repeats) for number in sorted(open_)}
        reasons = {
            number: f"interrupted for {gap:.0f} s, {study.block_gap_s:.0f} s are allowed"
            if gap > 0
            else f"interrupted, and the clock was set back by {-gap:.0f} s or more: for how long cannot be told"
            for number, gap in gaps.items()
            if not -CLOCK_S <= gap <= study.block_gap_s
        }
    deployment = 1 + max(block[0].deployment for block in by_block(read_plan(folder)).values())
    fresh: dict[int, int] = {}  # an interrupted deployment -> the new one that stands for it
    first, words = next_number(folder), dict[int, dict[str, Any]]()
    for offset, (number, reason) in enumerate(sorted(reasons.items())):
        old = blocks[number][0].deployment
        new = fresh.setdefault(old, deployment + len(fresh)) if wanted.deployments > 1 else old
        ids = sorted(of_block(folder, blocks[number], done, study.repeats))
        words[number] = {"reason": reason, "trials": ids, "adds": [[first + offset, new]]}
    for number, told in words.items():
        ledger.say_of_block(folder, number, DISCARDED, told)
    add_promised(folder, wanted)
    return sorted(words)


def next_number(folder: Path) -> int:
    """Return the number of the next block that can be added."""
    return 1 + max(trial.block for trial in read_plan(folder))


def promised(folder: Path) -> list[tuple[int, int]]:
    """Return the blocks (number, deployment) that a discard or a look has promised (``adds``) and that are not there.

    The writer was killed between its promise and the block.
    """
    there = {trial.block for trial in read_plan(folder)}
    said = [*read_blocks(folder, DISCARDED), *read_blocks(folder, LOOK)]
    return [(number, deployment) for each in said for number, deployment in each["adds"] if number not in there]


def add_promised(folder: Path, wanted: Design) -> None:
    """Add to the plan every block that is promised and not there yet."""
    for number, deployment in promised(folder):
        ledger.add_block(folder, designs.block(wanted, number, deployment))


def _gap_s(folder: Path, block: Sequence[Trial], done: frozenset[str], most: int) -> float:
    """Return the seconds since the last trial of the block ended."""
    records = of_block(folder, block, done, most).values()
    last = max(datetime.fromisoformat(each.started_utc).timestamp() + each.duration_s for each in records)
    return datetime.now(UTC).timestamp() - last
