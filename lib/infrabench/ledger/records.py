"""Reading a session folder, and checking every byte of it. Nothing here writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from infrabench.core import LedgerError, Trial, TrialRecord
from infrabench.ledger.codes import CODE
from infrabench.ledger.fields import (
    check_contents,
    check_deployments,
    check_note,
    check_session,
    disagreements,
    load_json,
    parse_json,
)
from infrabench.ledger.files import SUMS, TMP, list_files, parse_sums, read_file

FORMAT = 1  # of session folders; a later version of the suite may write another
LONG = 200  # a name that was made by damage: no file of ours has one
SESSION, PLAN, BLOCKS, RECORD = "session.json", "plan.jsonl", "blocks", "trial.json"
EXTRA, DISCARDED, LOOK, PROBE = "extra", "discarded", "look", "probe"  # what a file in ``blocks/`` says of its block
NOTES = (DISCARDED, LOOK, PROBE, CODE)
DEPLOYMENTS = "deployments"  # the provenance of systems; that of a host has its name
CONTENTS = "contents"  # packages and programs: see `experiment.provenance.collect`
LARGEST_LISTED = 2**30  # bytes of everything but trials: it is in memory at once
Read = Callable[[Path, str], bytes]
T = TypeVar("T")


def read_session(folder: Path, read: Read = read_file) -> dict[str, Any]:
    """Return ``session.json`` of a session folder; `read`: what returns the bytes of a file in it, by name."""
    return parse_session(folder / SESSION, read(folder, SESSION))


def parse_session(path: Path, content: bytes) -> dict[str, Any]:
    """Return what the bytes of a ``session.json`` say; errors name `path`."""
    data = parse_json(path, content)
    if not isinstance(data, dict) or "parameters" not in data:
        raise LedgerError(f"{path} is not a session of infrabench")
    if (form := data.get("format", FORMAT)) != FORMAT:  # in a later version it may mean other things
        raise LedgerError(
            f"{path} has the format {str(form)[:40]}, this version of infrabench reads {FORMAT}: take the version "
            "that recorded it, or a later one. Nothing was changed"
        )
    check_session(path, data)
    return data


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


def read_plan(folder: Path, read: Read = read_file) -> tuple[Trial, ...]:
    """Return the planned trials in order, those of added blocks too; `LedgerError` names the first damaged line."""
    files = [folder / PLAN, *sorted(folder.glob(f"{BLOCKS}/[!.]*-{EXTRA}.jsonl"))]
    return tuple(trial for path in files for trial in parse_plan(path, read(folder, _name_in(folder, path))))


def block_file(block: int, what: str, number: int = 0) -> str:
    """Return the name, inside a session, of the file that says `what` about a block."""
    return f"{BLOCKS}/{block:05d}-{what}{f'-{number}' if number else ''}.{'jsonl' if what == EXTRA else 'json'}"


def read_blocks(folder: Path, what: str, read: Read = read_file) -> list[dict[str, Any]]:
    """Return what the session says about its blocks of one kind (`DISCARDED`, `LOOK`, `PROBE`), by block and time."""
    found = []
    for path in note_files(folder, what):
        found.append(parse_json(path, read(folder, _name_in(folder, path))))
        check_note(path, found[-1])
    return found


def note_files(folder: Path, what: str) -> list[Path]:
    """Return the files that say `what` about blocks, by block and time."""
    # 00007-probe.json came before 00007-probe-1.json
    return sorted(folder.glob(f"{BLOCKS}/[!.]*-{what}*.json"), key=lambda p: (p.name[:5], len(p.name), p.name))


def added_cases(note: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the cases (workload, scenario) of the blocks that a note adds; none: they hold every case."""
    return [(workload, scenario) for workload, scenario in note.get("cases", ())]


def describe_added(note: Mapping[str, Any]) -> str:
    """Return, in words, how many blocks a note adds, and of which cases where not of all."""
    of = ", ".join(" ".join(case) for case in added_cases(note))
    return f"{len(note['adds'])} blocks added{f' of {of}' if of else ''}"


def planned_as(trial: Trial, planned: Mapping[str, Trial], places: Mapping[tuple[Any, ...], Trial]) -> bool:
    """Tell whether a recorded trial is of the plan (`planned`: by id), or the repeat of one that is (by `place`)."""
    if not trial.attempt:
        return planned.get(trial.id) == trial
    first = places.get(place(trial))
    return first is not None and first.repeated(trial.attempt, trial.position) == trial


def place(trial: Trial) -> tuple[Any, ...]:
    """Return what a trial and its repeats have in common."""
    return trial.block, trial.system, trial.workload, trial.scenario


def parse_plan(path: Path, content: bytes) -> tuple[Trial, ...]:
    """Return the planned trials that the bytes of a file list; errors name `path`."""
    planned = []
    for number, text in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        try:
            planned.append(Trial.from_json(load_json(text.encode())))
        except (ValueError, LedgerError, RecursionError) as error:
            raise LedgerError(f"{path}, line {number}: not a trial ({error}); restore it from a copy") from error
    return tuple(planned)


def read_trial(folder: Path, trial_id: str) -> TrialRecord:
    """Return the record of a finished trial."""
    path = folder / "trials" / trial_id / RECORD
    return parse_record(path, read_file(folder, f"trials/{trial_id}/{RECORD}"))


def read_provenance(folder: Path, name: str) -> dict[str, Any]:
    """Return what ``provenance/NAME.json`` of a session says, nothing where there is no such file."""
    path = folder / "provenance" / f"{name}.json"
    if not os.path.lexists(path):
        return {}
    data = parse_json(path, read_file(folder, _name_in(folder, path)))
    if not isinstance(data, dict):
        raise LedgerError(f"{path} holds a {type(data).__name__}, not fields; restore it from a copy")
    if name.partition(".")[0] == DEPLOYMENTS:
        check_deployments(path, data)
    if name.partition(".")[0] == CONTENTS:
        check_contents(path, data)
    return data


def list_provenance(folder: Path) -> list[str]:
    """Return the names of the files in ``provenance/``, without ``.json``, in alphabetical order."""
    return sorted(path.stem for path in folder.glob("provenance/[!.]*.json"))


def parse_record(path: Path, content: bytes) -> TrialRecord:
    """Return the record that the bytes of a ``trial.json`` hold; errors name `path`."""
    data = parse_json(path, content)
    try:
        return TrialRecord.from_json(data)
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


def _name_in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def unlisted(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Return the whole files that the session's sums do not name yet: the writer was killed just before it did."""
    trials = [f"trials/{name}/{SUMS}" for name in sorted(recorded(folder))]
    others = [f"{sub}/{path.name}" for sub in ("provenance", BLOCKS) for path in sorted(folder.glob(f"{sub}/[!.]*"))]
    return [name for name in (SESSION, PLAN, *trials, *others) if name not in sums]


@dataclass
class Contents:
    """Everything of a session folder but raw output: what `read_contents` has read, each file once."""

    session: dict[str, Any] = field(default_factory=dict)
    plan: list[Trial] = field(default_factory=list)  # in order, those of added blocks too
    plan_sha256: str = ""  # of ``plan.jsonl``
    notes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of blocks, by kind
    records: dict[str, TrialRecord] = field(default_factory=dict)  # by trial id
    damaged_sums: list[str] = field(default_factory=list)  # of what is wrong: with the list of sums alone


def verify(folder: Path) -> list[str]:
    """Return everything that is wrong with a session folder, one sentence each, naming the file; empty when sound.

    What a killed writer leaves (temporary folders, a whole trial not listed yet, a torn last line) is not wrong.
    """
    return read_contents(folder)[1]


def read_contents(folder: Path) -> tuple[Contents, list[str]]:
    """Read every file of a session once; return what they say, whole where nothing is wrong, and what is wrong."""
    contents, found = Contents(), list[str]()
    try:
        for problem in _problems(folder, contents):
            found.append(problem)  # kept also when the next file cannot be read
    except LedgerError as error:
        found.append(str(error))
    return contents, found


def _problems(folder: Path, contents: Contents) -> Iterator[str]:
    names, foreign = list_files(folder)
    yield from foreign
    if foreign:
        return  # nothing behind a link is read
    sums, torn = parse_sums(folder / SUMS, read_file(folder, SUMS), contents.damaged_sums)
    absent = [f"{folder / SUMS} does not name {name}" for name in (SESSION, PLAN) if name not in sums]
    if absent and (torn or not sums):
        contents.damaged_sums.append(f"{folder / SUMS} is empty, or cut off before its first files")
    if contents.damaged_sums:  # they are named by a line that is one no more
        contents.damaged_sums += absent
    yield from contents.damaged_sums or absent
    files: dict[str, bytes] = {}
    for name, value in sums.items():
        yield from damage(folder, name, value, files)
        if sum(map(len, files.values())) > LARGEST_LISTED:
            raise LedgerError(f"{folder} holds more beside its trials than any session; it is not read")
    unnamed = unlisted(folder, sums)
    for name in unnamed:
        if not name.startswith("trials/"):
            files[name] = read_file(folder, name)
            for text in files[name].splitlines() if name.endswith(".jsonl") else [files[name]]:
                parse_json(folder / name, text)
    known_names = {SUMS, *sums, *unnamed}
    for name in names:
        if name not in known_names and not name.startswith("trials/"):
            yield f"{folder} holds {name}, which its {SUMS} does not name"

    def read(folder: Path, name: str) -> bytes:
        return files[name] if name in files else read_file(folder, name)

    contents.session, contents.plan = read_session(folder, read), [*read_plan(folder, read)]
    contents.plan_sha256 = sha256(read(folder, PLAN)).hexdigest()
    contents.notes = {what: read_blocks(folder, what, read) for what in NOTES}
    known, places = {trial.id: trial for trial in contents.plan}, {place(trial): trial for trial in contents.plan}
    for trial_id in sorted(recorded(folder)):
        own = folder / "trials" / trial_id
        try:
            record = yield from _checked_record(own, read(folder, f"trials/{trial_id}/{SUMS}"), known, places)
        except LedgerError as error:
            yield str(error)
        else:
            if record is not None:
                contents.records[trial_id] = record
    faults = disagreements(contents.session, contents.plan, contents.records.values(), contents.notes[CODE])
    yield from (f"{folder / SESSION}: {each}" for each in faults)


def _checked_record(
    own: Path, listed: bytes, plan: Mapping[str, Trial], places: Mapping[tuple[Any, ...], Trial]
) -> Generator[str, None, TrialRecord | None]:
    """Yield what is wrong with the folder of a trial, whose sums are `listed`; return its record when it is sound."""
    sums, torn = parse_sums(own / SUMS, listed)
    files: dict[str, bytes] = {}
    damaged = [
        problem
        for name, value in sums.items()
        for problem in damage(own, name, value, files if name == RECORD else None)
    ]
    yield from damaged
    extra = sorted({*os.listdir(own)} - {*sums, SUMS})
    if extra or torn:
        yield f"{own} holds {extra[0]}, which its {SUMS} does not name" if extra else f"{own / SUMS} is cut off"
    if damaged or extra or torn:
        return None
    record = parse_record(own / RECORD, files[RECORD] if RECORD in files else read_file(own, RECORD))
    if record.trial.id != own.name or not planned_as(record.trial, plan, places):
        if own.name in plan:
            yield f"{own / RECORD} records another trial than the plan has under {own.name}"
        else:
            yield f"{own}: the plan knows no such trial"
        return None
    return record


def read_records(folder: Path, plan: Iterable[Trial]) -> Iterator[TrialRecord]:
    """Yield every record of a session, without its raw output, by trial id.

    Raises `LedgerError` for the first one that is damaged, or that the plan does not know.
    """
    known, places = {trial.id: trial for trial in plan}, {place(trial): trial for trial in plan}
    for name in sorted(_look(os.listdir, folder / "trials") or ()):
        own = folder / "trials" / name
        path = own / RECORD
        if name.startswith("."):  # a trial gets its name when it is whole
            continue
        if _look(os.stat, path) is None:
            raise LedgerError(f"{path} is missing; restore it from a copy")
        content = read_file(folder, f"trials/{name}/{RECORD}")
        if os.path.lexists(own / SUMS):
            sums, _ = parse_sums(own / SUMS, read_file(folder, f"trials/{name}/{SUMS}"))
            if sums.get(RECORD) != sha256(content).hexdigest():
                raise LedgerError(f"{path}: it is damaged: its SHA-256 is not the recorded one. Restore it from a copy")
        record = parse_record(path, content)
        if record.trial.id != name or not planned_as(record.trial, known, places):
            if name in known:
                raise LedgerError(f"{path}: the recorded trial is not the one that the plan names {name}")
            raise LedgerError(f"{path}: the plan knows no such trial; do not mix sessions in one folder")
        yield record


def _look(look: Callable[[Path], T], path: Path) -> T | None:
    """Return what a look at `path` finds, None where nothing is there: what cannot be looked at is not missing."""
    try:
        return look(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from error


def damage(folder: Path, name: str, value: str, contents: MutableMapping[str, bytes] | None = None) -> Iterator[str]:
    """Yield what is wrong with the file `name`, whose sum has to be `value`; what it holds is kept in `contents`."""
    if name.startswith("/") or ".." in name.split("/"):
        yield f"{folder / SUMS} names {name!r}, which is outside the folder"
    elif not os.path.lexists(f"{folder}/{name}"):  # also for a name that no file can have, made by damage
        yield f"{folder / name[:LONG]} is missing, and {SUMS} names it"
    else:
        try:
            content = read_file(folder, name)
        except LedgerError as error:
            yield str(error)
            return
        if contents is not None:
            contents[name] = content
        if sha256(content).hexdigest() != value:
            yield f"{folder / name} is damaged: its SHA-256 is not the one in {SUMS}"
