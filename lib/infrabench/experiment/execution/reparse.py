"""Recorded sessions once more: does raw output still say what was recorded, does the plan follow from the request?

A mended parser needs no new runs; and the same request is the same plan.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from infrabench import registry
from infrabench.core import (
    Capture,
    Case,
    InfrabenchError,
    LedgerError,
    NotAsClaimed,
    ParseError,
    Request,
    Result,
    TrialRecord,
    Workload,
)
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution.trial import parse_trial
from infrabench.experiment.provenance.code import digests_of, parser_definitions
from infrabench.ledger import records
from infrabench.ledger.codes import CODE, known_codes, trial_code, unnamed_code
from infrabench.ledger.files import SUMS, read_file
from infrabench.ledger.session_folder import SessionFolder

READABLE = ("ok", "invalid", "unparsable")  # the states of trials whose tool ended well
# What a session says of itself as its parameters do: the analysis would take a default for one that is not there.
REPEATED = (
    "study", "profile", "blocks", "seed", "systems", "workloads", "baseline", "site", "limits", "guards", "margins",
    "primary", "deployments", "order", "stopping", "variants",
)  # fmt: skip


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
    every, session = records.read_trials(folder), SessionFolder(folder)
    codes = known_codes(session.session, session.notes(CODE))

    @cache
    def is_of_now(name: str, code: str) -> bool:
        """Whether trials of a workload with this code were read by the parser of now."""
        part = f"parser {name}"
        then = {parts[part] for parts in codes if part in parts and trial_code(session.session, parts, name) == code}
        return bool(then) and then == set(digests_of({part: parser_definitions(name)}).values())

    known: dict[str, set[str]] = {}
    for then in every:
        known.setdefault(then.trial.workload, set()).update(each.metric for each in then.measurements)
    found: list[str] = []
    learnt: Counter[tuple[str, str]] = Counter()
    for then, now in _reparse_all(folder, every):
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


def _reparse_all(
    folder: Path, every: Sequence[TrialRecord], left_out: Container[str] = ()
) -> Iterator[tuple[TrialRecord, TrialRecord]]:
    """Yield each record but those `left_out`, by their ids, and what `reparse_record` makes of it."""
    workload, last = cache(registry.workload), dict[tuple[Any, ...], int]()  # it would be looked for anew each time
    for each in every:
        place = records.place(each.trial)
        last[place] = max(each.trial.attempt, last.get(place, 0))
    for each in every:
        if each.trial.id not in left_out:
            repeated = each.trial.attempt < last[records.place(each.trial)]
            yield each, reparse_record(folder, each, workload, repeated=repeated)


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
    planned = records.parse_plan(folder / records.PLAN, read_file(folder, records.PLAN))
    with SessionFolder(destination).opened(begun, planned) as copy:
        if copy.session.get(CODE) != begun.get(CODE):
            raise LedgerError(f"{destination} was begun with other parsers; name another folder")
        for path in sorted(path for part in ("provenance", records.BLOCKS) for path in folder.glob(f"{part}/[!.]*")):
            name = path.relative_to(folder).as_posix()
            if not (destination / name).exists():
                data, changed = read_file(folder, name), dict[str, Any]()
                if path in records.note_files(folder, CODE):
                    changed = {"parts": _parsed_by(parsers, json.loads(data)["parts"])}
                elif path in records.note_files(folder, records.LOOK) and "budget" in json.loads(data):
                    changed = {"reparsed": True}
                if changed:
                    data = json.dumps(json.loads(data) | changed, sort_keys=True).encode() + b"\n"
                copy.append_file(name, data)
        for record, now in _reparse_all(folder, records.read_trials(folder), frozenset(copy.records)):
            own = f"trials/{record.trial.id}"
            names = {path.name for path in (folder / own).iterdir()} - {records.RECORD, SUMS}
            blobs = {name: read_file(folder, f"{own}/{name}") for name in sorted(names)}
            copy.append_trial(replace(now, code=_code_now(then, codes, parsers, record)), blobs)
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


def recorded_design(session: Mapping[str, Any]) -> Design:
    """Return the design of a session from its ``session.json`` alone, whatever its study says today."""
    parameters = session["parameters"]
    whole = Design(
        Request.from_session(session), parameters["blocks"], tuple(parameters["systems"]),
        tuple(Case(**case) for case in parameters["cases"]), parameters["seed"], parameters.get("deployments", 1),
        baseline=parameters["baseline"],
    )  # fmt: skip
    left_out = {"systems": tuple(session["not_run"]), "workloads": tuple(session["left_out"])}
    return designs.without(whole, **left_out, excluded=records.not_applicable(session))


def check_plan(stored: SessionFolder) -> list[str]:
    """Return what of a session's plan does not follow from the request in ``session.json``, a sentence a block."""
    planned = designs.by_block(stored.plan)
    try:
        design = recorded_design(stored.session)
        expected = designs.by_block(designs.trials(design))
        for note in (*stored.notes(records.DISCARDED), *stored.notes(records.LOOK)):
            expected |= {
                number: list(designs.block(design, number, deployment, records.added_cases(note)))
                for number, deployment in note["adds"]
                if number in planned  # its writer may have been killed between the promise and the block
            }
    except (InfrabenchError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        return [f"{stored.path}: no plan follows from what session.json says was asked for: {error!r}"]
    parameters = stored.session["parameters"]
    faults = [
        f"{stored.path}: its {name} is missing, which its parameters have"
        for name in REPEATED
        if name in parameters and name not in stored.session
    ]
    faults += [
        f"{stored.path}: its {name} are not those that were asked for, without what it says was left out"
        for name, left in (("systems", design.systems), ("workloads", designs.workloads(design)))
        if name in stored.session and stored.session[name] != [*left]
    ]
    return faults + [
        f"{stored.path}: block {number} of the plan is not the one that follows from what was asked for"
        for number in sorted({*planned, *expected})
        if planned.get(number) != expected.get(number)
    ]
