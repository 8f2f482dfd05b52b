"""Reading raw output again: does it still say what was recorded? A mended parser needs no new runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from infrabench import registry
from infrabench.core import Capture, LedgerError, NotAsClaimed, ParseError, Result, TrialRecord, Workload
from infrabench.experiment.execution.trial import parse_trial
from infrabench.experiment.provenance.code import digests_of, parser_definitions
from infrabench.ledger.checksums import SUMS
from infrabench.ledger.codes import CODE, known_codes, trial_code, unnamed_code
from infrabench.ledger.files import read_file
from infrabench.ledger.records import BLOCKS, LOOK, PLAN, RECORD, note_files, parse_plan, read_trials
from infrabench.ledger.session_folder import SessionFolder

READABLE = ("ok", "invalid", "unparsable")  # the states of trials whose tool ended well


@dataclass(frozen=True)
class RawOutputCheck:
    """What today's parsers make of the raw output of a session, compared with what was recorded; one sentence each."""

    differences: tuple[str, ...]  # trials whose state or recorded metrics come out otherwise, or not at all
    new_metrics: tuple[str, ...]  # metrics that no recorded trial of their workload has, and another parser gives


def compare(folder: Path) -> RawOutputCheck:
    """Parse the raw output of every trial of a session and compare the result with the record.

    A recorded metric that is missing now is a difference. A metric that no recorded trial of its workload has is one
    that the parser has learnt since, which contradicts no record: it is reported apart from the differences. But where
    the record was made with the very parser of now, that parser had it too, and it is missing in the record.
    """
    records = list(read_trials(folder))
    session = SessionFolder(folder)
    codes = known_codes(session.session, session.notes(CODE))

    @cache
    def is_of_now(name: str, code: str) -> bool:
        """Whether trials of a workload with this code were read by the parser of now."""
        part = f"parser {name}"
        then = {parts[part] for parts in codes if part in parts and trial_code(session.session, parts, name) == code}
        return bool(then) and then == set(digests_of({part: parser_definitions(name)}).values())

    last = _last_attempts(records)
    known: dict[str, set[str]] = {}
    for then in records:
        known.setdefault(then.trial.workload, set()).update(each.metric for each in then.measurements)
    found: list[str] = []
    learnt: Counter[tuple[str, str]] = Counter()
    workload = cache(registry.workload)  # of every trial it would be looked for anew
    for then in records:
        now = reparse_record(folder, then, workload, repeated=then.trial.attempt < last[_treatment(then)])
        trial, metrics = then.trial, known[then.trial.workload]
        new = [each.metric for each in now.measurements if metrics and each.metric not in metrics]
        if new and not is_of_now(trial.workload, then.code):
            learnt.update((trial.workload, metric) for metric in new)
            now = replace(now, measurements=tuple(each for each in now.measurements if each.metric in metrics))
        if (then.measurements, then.state) != (now.measurements, now.state):
            where = f"trial {trial.id} ({trial.system}, {trial.workload}, {trial.scenario}, block {trial.block})"
            found.append(f"{where}: recorded {_outcome_text(then)}, read again {_outcome_text(now)}")
    added = (f"new metric: {name} {metric}, of {count} trials" for (name, metric), count in learnt.items())
    return RawOutputCheck(tuple(found), tuple(added))


def reparse_record(
    folder: Path, record: TrialRecord, workload: Callable[[str], Workload], *, repeated: bool = False
) -> TrialRecord:
    """Return `record` with what its raw output says to the parser of now; `workload`: see `registry.workload`.

    One that was `repeated` stays invalid: its repeat stands for it, and a block has each treatment once.
    """
    if record.state not in READABLE:
        return record
    try:
        found = parse_trial(workload(record.trial.workload), record.trial, capture(folder, record).steps)
    except NotAsClaimed as error:
        return replace(record, measurements=(), state="invalid", reason=str(error))
    except ParseError as error:
        return replace(record, measurements=(), state="unparsable", reason=str(error))
    if record.measurements:
        return replace(record, measurements=found)
    # it was the output that spoke against the trial; what the guards said of it stays
    for state in ("failed", "invalid"):
        if guarded := record.conditions.get(state):
            return replace(record, measurements=found, state=state, reason="; ".join(guarded))
    if repeated:
        return replace(
            record, measurements=found, reason=f"{record.reason}; read again it is valid, and its repeat counts"
        )
    return replace(record, measurements=found, state="ok", reason="")


def _last_attempts(records: Iterable[TrialRecord]) -> dict[tuple[int, str, str, str], int]:
    last: dict[tuple[int, str, str, str], int] = {}
    for each in records:
        last[_treatment(each)] = max(each.trial.attempt, last.get(_treatment(each), 0))
    return last


def _treatment(record: TrialRecord) -> tuple[int, str, str, str]:
    return record.trial.block, record.trial.system, record.trial.workload, record.trial.scenario


def capture(folder: Path, record: TrialRecord) -> Capture:
    """Return the raw outcome of a recorded trial, as its parser saw it."""
    own = f"trials/{record.trial.id}"

    def stream(name: str) -> bytes:
        return read_file(folder, f"{own}/{name}") if os.path.lexists(f"{folder}/{own}/{name}") else b""

    steps = {
        step["name"]: Result(
            tuple(step["argv"]), step["status"], stream(f"{step['name']}.stdout"), stream(f"{step['name']}.stderr"),
            step["started_s"], step["duration_s"], step["timed_out"],
        )
        for step in record.steps
    }  # fmt: skip
    return Capture(steps, record.trial.params)


def write(folder: Path, destination: Path) -> Path:
    """Write a new session to `destination`: the raw output of `folder`, measured by the parsers of now.

    Its codes have these parsers: trials that other parsers alone told apart are of one code in it. A look that shared
    out a time is marked: it was made by other values. Raises `LedgerError` where `destination` was begun with other
    parsers.
    """
    original = SessionFolder(folder)
    then, notes = original.session, original.notes(CODE)
    codes = known_codes(then, notes)
    parsers = digests_of({part: parser_definitions(name) for part, name in _parsers(codes).items()})
    begun = then | ({CODE: _parsed_by(parsers, then[CODE])} if CODE in then else {})
    planned = parse_plan(folder / PLAN, read_file(folder, PLAN))
    with SessionFolder(destination).opened(begun, planned) as copy:
        if copy.session.get(CODE) != begun.get(CODE):
            raise LedgerError(f"{destination} was begun with other parsers; name another folder")
        for path in sorted(path for part in ("provenance", BLOCKS) for path in folder.glob(f"{part}/[!.]*")):
            name = path.relative_to(folder).as_posix()
            if not (destination / name).exists():
                data = read_file(folder, name)
                if path in note_files(folder, CODE):
                    note = json.loads(data)
                    data = (
                        json.dumps(note | {"parts": _parsed_by(parsers, note["parts"])}, sort_keys=True).encode()
                        + b"\n"
                    )
                elif path in note_files(folder, LOOK) and "budget" in (note := json.loads(data)):
                    data = json.dumps(note | {"reparsed": True}, sort_keys=True).encode() + b"\n"
                copy.append_file(name, data)
        workload, records = cache(registry.workload), list(read_trials(folder))
        last = _last_attempts(records)
        for record in records:
            if record.trial.id not in copy.records:
                own = f"trials/{record.trial.id}"
                names = {path.name for path in (folder / own).iterdir()} - {RECORD, SUMS}
                blobs = {name: read_file(folder, f"{own}/{name}") for name in sorted(names)}
                code = _code_now(then, codes, parsers, record)
                repeated = record.trial.attempt < last[_treatment(record)]
                now = reparse_record(folder, record, workload, repeated=repeated)
                copy.append_trial(replace(now, code=code), blobs)
    return destination


def _parsers(codes: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return part -> workload of every parser that the codes of a session name."""
    parts = {part: part.partition(" ") for parts in codes for part in parts}
    return {part: workload for part, (kind, _, workload) in parts.items() if kind == "parser"}


def _parsed_by(parsers: Mapping[str, str], parts: Mapping[str, str]) -> dict[str, str]:
    return {part: parsers.get(part, value) for part, value in parts.items()}


def _code_now(
    session: Mapping[str, Any], codes: Iterable[Mapping[str, str]], parsers: Mapping[str, str], record: TrialRecord
) -> str:
    """Return the code of a recorded trial with the parser of now in it."""
    name = record.trial.workload
    now = {trial_code(session, parts, name): trial_code(session, _parsed_by(parsers, parts), name) for parts in codes}
    if record.code not in now:
        raise unnamed_code(record.trial.id)
    return now[record.code]


def _outcome_text(record: TrialRecord) -> str:
    values = ", ".join(f"{m.metric} = {m.value:.6g} {m.unit}" for m in record.measurements)
    return f"{record.state} ({values or record.reason})"
