"""Reading a session folder, and checking every byte of it. Nothing here writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError, Trial, TrialRecord
from infrabench.sums import SUMS, read_sums

FORMAT = 1  # of session folders; a later version of the suite may write another
LONG = 200  # a name that was made by damage: no file of ours has one
TMP = ".tmp-"  # what is being written: never counted
SESSION, PLAN, BLOCKS = "session.json", "plan.jsonl", "blocks"
EXTRA, DISCARDED, LOOK, PROBE = "extra", "discarded", "look", "probe"  # what a file in ``blocks/`` says of its block


def read_session(folder: Path) -> dict[str, Any]:
    """Return ``session.json`` of a session folder."""
    path = folder / SESSION
    try:
        data = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error
    if not isinstance(data, dict) or "parameters" not in data:
        raise LedgerError(f"{path} is not a session of infrabench")
    check_format(path, data)
    return data


def check_format(path: Path, session: Mapping[str, Any]) -> None:
    """Raise `LedgerError` when a later version of the suite wrote this ``session.json``: it may mean other things."""
    found = session.get("format", FORMAT)
    if found != FORMAT:
        raise LedgerError(
            f"{path} has the format {str(found)[:40]}, this version of infrabench reads {FORMAT}: take the version "
            "that recorded it, or a later one. Nothing was changed"
        )


def not_applicable(session: Mapping[str, Any]) -> dict[tuple[str, str, str], str]:
    """Return, from ``session.json``, treatments (system, workload, scenario) that did not apply, with the reason."""
    absent = session.get("not_applicable", [])
    return {(each["system"], each["workload"], each["scenario"]): each["reason"] for each in absent}


def absences(absent: Mapping[tuple[str, str, str], str]) -> dict[str, str]:
    """Return, in words, which treatments did not apply, and why: those of one system and one reason together."""
    together: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (system, workload, scenario), reason in absent.items():
        together.setdefault((system, reason), {}).setdefault(workload, []).append(scenario)
    return {
        f"{system}, " + "; ".join(f"{name} {', '.join(scenarios)}" for name, scenarios in found.items()): reason
        for (system, reason), found in together.items()
    }


def read_plan(folder: Path) -> tuple[Trial, ...]:
    """Return the planned trials in order, those of added blocks too; `LedgerError` names the first damaged line."""
    paths = [folder / PLAN, *sorted(folder.glob(f"{BLOCKS}/[!.]*-{EXTRA}.jsonl"))]
    return tuple(trial for path in paths for trial in read_trials_of(path))


def block_file(block: int, what: str, number: int = 0) -> str:
    """Return the name, inside a session, of the file that says `what` about a block."""
    return f"{BLOCKS}/{block:05d}-{what}{f'-{number}' if number else ''}.{'jsonl' if what == EXTRA else 'json'}"


def read_blocks(folder: Path, what: str) -> list[dict[str, Any]]:
    """Return what the session says about its blocks of one kind (`DISCARDED`, `LOOK`, `PROBE`), by block and time."""
    found = []
    # 00007-probe.json came before 00007-probe-1.json
    for path in sorted(folder.glob(f"{BLOCKS}/[!.]*-{what}*.json"), key=lambda p: (p.name[:5], len(p.name), p.name)):
        try:
            found.append(json.loads(read_bytes(path)))
        except (ValueError, RecursionError) as error:
            raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error
    return found


def awaited(folder: Path) -> tuple[Trial, ...]:
    """Return the planned trials in order without those of blocks that were discarded."""
    gone = discarded(folder)
    return tuple(trial for trial in read_plan(folder) if trial.block not in gone)


def discarded(folder: Path) -> dict[int, str]:
    """Return the blocks that were discarded whole, with the reason."""
    return {each["block"]: each["reason"] for each in read_blocks(folder, DISCARDED)}


def planned_as(trial: Trial, planned: Mapping[str, Trial], places: Mapping[tuple[Any, ...], Trial]) -> bool:
    """Tell whether a recorded trial is one of the plan, or the repeat of one.

    `planned`: by id; `places`: by `place`.
    """
    if not trial.attempt:
        return planned.get(trial.id) == trial
    first = places.get(place(trial))
    return first is not None and first.repeated(trial.attempt, trial.position) == trial


def place(trial: Trial) -> tuple[Any, ...]:
    """Return what a trial and its repeats have in common."""
    return trial.block, trial.system, trial.workload, trial.scenario


def read_trials_of(path: Path) -> tuple[Trial, ...]:
    """Return the planned trials of one file in order; `LedgerError` names the first damaged line."""
    planned = []
    for number, text in enumerate(read_bytes(path).decode("utf-8", "replace").splitlines(), start=1):
        try:
            planned.append(Trial.from_json(json.loads(text)))
        except (ValueError, LedgerError, RecursionError) as error:
            raise LedgerError(f"{path}, line {number}: not a trial ({error}); restore it from a copy") from error
    return tuple(planned)


def read_trial(folder: Path, trial_id: str) -> TrialRecord:
    """Return the record of a finished trial."""
    path = folder / "trials" / trial_id / "trial.json"
    try:
        return TrialRecord.from_json(json.loads(read_bytes(path)))
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error
    except LedgerError as error:
        raise LedgerError(f"{path}: {error}; restore it from a copy") from error


def read_trials(folder: Path) -> list[TrialRecord]:
    """Return every record of a session in executed order, repeats and those of discarded blocks too."""
    found = [read_trial(folder, name) for name in recorded(folder)]
    return sorted(found, key=lambda each: (each.trial.position, each.trial.attempt, each.started_utc))


def recorded(folder: Path) -> frozenset[str]:
    """Return the ids of the trials that are there, whole."""
    try:
        return frozenset(entry.name for entry in os.scandir(folder / "trials") if not entry.name.startswith(TMP))
    except OSError as error:
        raise LedgerError(f"{folder} is not a session folder: {error}") from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of `path`; `LedgerError` naming it when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}; restore it from a copy") from error


def unlisted(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Return the whole files that the session's sums do not name yet: the writer was killed just before it did."""
    trials = [f"trials/{name}/{SUMS}" for name in sorted(recorded(folder))]
    others = [f"{sub}/{path.name}" for sub in ("provenance", BLOCKS) for path in sorted(folder.glob(f"{sub}/[!.]*"))]
    return [name for name in trials + others if name not in sums]


def verify(folder: Path) -> list[str]:
    """Return everything that is wrong with a session folder, one sentence each, naming the file; empty when sound.

    What a killed writer leaves (temporary folders, a whole trial not listed yet, a torn last line) is not wrong.
    """
    found: list[str] = []
    try:
        for problem in _problems(folder):
            found.append(problem)  # kept also when the next file cannot be read
    except LedgerError as error:
        found.append(str(error))
    return found


def _problems(folder: Path) -> Iterator[str]:
    sums, _ = read_sums(folder / SUMS)
    for name in (SESSION, PLAN):
        if name not in sums:
            yield f"{folder / SUMS} does not name {name}"
    for name, value in sums.items():
        yield from damage(folder, name, value)
    for name in unlisted(folder, sums):
        if not name.startswith("trials/"):
            try:
                [json.loads(text) for text in _documents(folder / name)]
            except ValueError as error:
                yield f"{folder / name} is not JSON: {error}"
    read_session(folder)
    plan = read_plan(folder)
    known, places = {trial.id: trial for trial in plan}, {place(trial): trial for trial in plan}
    for trial_id in sorted(recorded(folder)):
        yield from _trial_problems(folder, trial_id, known, places)


def _documents(path: Path) -> list[bytes]:
    data = read_bytes(path)
    return data.splitlines() if path.suffix == ".jsonl" else [data]


def _trial_problems(
    folder: Path, trial_id: str, plan: Mapping[str, Trial], places: Mapping[tuple[Any, ...], Trial]
) -> Iterator[str]:
    own = folder / "trials" / trial_id
    try:
        sums, torn = read_sums(own / SUMS)
        damaged = [problem for name, value in sums.items() for problem in damage(own, name, value)]
        yield from damaged
        extra = sorted({path.name for path in own.iterdir()} - {*sums, SUMS})
        if extra or torn:
            yield f"{own} holds {extra[0]}, which its {SUMS} does not name" if extra else f"{own / SUMS} is cut off"
        if damaged or extra or torn:
            return
        trial = read_trial(folder, trial_id).trial
        if trial.id != trial_id or not planned_as(trial, plan, places):
            if trial_id in plan:
                yield f"{own / 'trial.json'} records another trial than the plan has under {trial_id}"
            else:
                yield f"{own}: the plan knows no such trial"
    except LedgerError as error:
        yield str(error)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # damage can make a name that no file can have
        return False


def damage(folder: Path, name: str, value: str) -> Iterator[str]:
    """Yield what is wrong with the file `name` of a folder, whose sum has to be `value`; nothing when it is sound."""
    path = folder / name
    if name.startswith("/") or ".." in Path(name).parts:
        yield f"{folder / SUMS} names {name!r}, which is outside the folder"
    elif not _is_file(path):
        yield f"{folder / name[:LONG]} is missing, and {SUMS} names it"
    elif sha256(read_bytes(path)).hexdigest() != value:
        yield f"{path} is damaged: its SHA-256 is not the one in {SUMS}"
