"""Trials, planned and recorded, and their JSON: one text for equal data, whose digest is an id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeVar

from infrabench.core.errors import LedgerError
from infrabench.core.names import is_label, is_name
from infrabench.core.studies import MOST_ROUNDS
from infrabench.core.workloads import Measurement

T = TypeVar("T")


def canonical(data: Any) -> str:
    """Return the one JSON text of `data`: sorted keys, no spaces, so that equal data have equal bytes."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any, length: int = 16) -> str:
    """Return the first `length` hex digits of the SHA-256 of `canonical(data)`."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class Trial:
    """One planned execution of one treatment in one block.

    `attempt` is 0 for a trial of the plan; an invalid trial is repeated at the end of its block as attempt 1, 2, ...
    with a position of its own.
    """

    id: str
    block: int  # 0-based
    position: int  # 0-based order over the whole session
    system: str
    workload: str
    scenario: str
    params: Mapping[str, Any]
    factor: str | None
    level: float | None
    seconds: float
    deployment: int = 0  # 0-based: which replicate of making every system ready
    attempt: int = 0
    rounds: int = 1  # runs of the tool, which alternate with those of the other systems of the case

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if (name, value) != ("rounds", 1)}

    @staticmethod
    def from_json(data: Any) -> Trial:
        """Rebuild a trial from parsed JSON; `LedgerError` when keys are missing or unknown, or hold something else."""
        trial = _rebuilt(Trial, data)
        if not is_name(trial.id):
            raise LedgerError(f"id is {trial.id[:60]!r}, which cannot be the name of a trial's folder")
        for what in ("system", "workload", "scenario"):
            check_label(what, getattr(trial, what))
        if not 1 <= trial.rounds <= MOST_ROUNDS:
            raise LedgerError(f"rounds is {trial.rounds}, not a number from 1 to {MOST_ROUNDS}")
        return trial

    def repeated(self, attempt: int, position: int) -> Trial:
        """Return this trial's repeat number `attempt` (1, 2, ...), which stands at the end of its block."""
        return replace(self, id=digest([self.id, attempt]), attempt=attempt, position=position)


def trial_id(study: str, seed: int, trial: Trial) -> str:
    """Return the id of a planned trial: the digest of what identifies it."""
    rounds = [trial.rounds] if trial.rounds > 1 else []
    return digest([study, seed, trial.block, trial.system, trial.workload, trial.scenario, trial.params, *rounds])


# `discarded` is never stored with a trial: the analysis gives it to all trials of a block that was discarded whole.
STATES = ("ok", "failed", "invalid", "timeout", "unparsable", "aborted", "discarded")
LOST_STATES = ("failed", "timeout", "unparsable", "aborted")  # that ended without a value, by what the system did
State = Literal["ok", "failed", "invalid", "timeout", "unparsable", "aborted", "discarded"]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """``trial.json``: everything about a finished trial but its raw bytes, which lie beside it.

    Raw output of step S is in ``S.stdout`` and ``S.stderr`` (absent when empty).
    """

    trial: Trial
    state: State
    reason: str  # empty when ok
    started_utc: str  # ISO 8601 with milliseconds, controlling machine
    duration_s: float  # whole trial, harness included
    tool_s: float  # time inside measure steps
    steps: tuple[Mapping[str, Any], ...]  # name, role, phase, argv, status, timed_out, started_s, duration_s
    measurements: tuple[Measurement, ...]
    conditions: Mapping[str, Any]  # what the guards and monitors saw, by host: never a metric
    ended_utc: str = ""  # as `started_utc`, by the same clock; empty in sessions recorded before it was kept
    code: str = ""  # digest of the code that made it, see `ledger.codes`; empty in sessions recorded before it was kept

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"trial": self.trial.as_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialRecord:
        """Rebuild a record from parsed ``trial.json``; `LedgerError` when keys are missing or unknown."""
        try:
            parts = dict(data)
            parts["trial"] = Trial.from_json(parts["trial"])
            parts["measurements"] = tuple(_rebuilt(Measurement, each) for each in parts["measurements"])
            for each in parts["measurements"]:
                check_label("metric", each.metric)
            parts["steps"] = tuple(parts["steps"])
            for step in parts["steps"]:
                check_label("name of a step", step["name"])
                if not all(isinstance(word, str) for word in step.get("argv", ())):
                    raise LedgerError(f"the words of step {step['name']} are not all text")
            record = _rebuilt(TrialRecord, parts)
        except (KeyError, TypeError, ValueError, AttributeError, LedgerError) as error:
            raise LedgerError(f"trial.json does not have the fields of a trial record: {error}") from error
        if record.state not in STATES:
            raise LedgerError(f"trial.json has the unknown state {record.state!r}; known are {', '.join(STATES)}")
        return record


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,), "State": (str,), "int": (int,), "float": (int, float), "Trial": (Trial,),
    "str | None": (str, NoneType), "float | None": (int, float, NoneType), "Mapping[str, Any]": (dict,),
}  # fmt: skip


def check_label(what: str, name: object) -> None:
    """Raise `LedgerError` unless `name` can be what a system, workload, scenario, metric or step is called."""
    if not is_label(name) or ("/" in str(name) and what == "name of a step"):
        raise LedgerError(f"{what} is {str(name)[:60]!r}, which cannot be what one is called")


def _rebuilt(kind: type[T], data: Any) -> T:
    """Return the dataclass `kind` from parsed JSON; a field that holds something else is a `LedgerError`."""
    try:
        value = kind(**data)
    except TypeError as error:
        raise LedgerError(str(error)) from error
    for name, called in _checked_fields(kind):
        found = data.get(name, MISSING)
        # JSON has integers without end, and no column that holds them.
        is_odd = isinstance(found, bool) or (isinstance(found, int) and abs(found) >= 2**63)
        if found is not MISSING and (is_odd or not isinstance(found, _KINDS[called])):
            raise LedgerError(f"{name} is {str(found)[:60]!r}, not {called}")
    return value


@cache
def _checked_fields(kind: type) -> tuple[tuple[str, str], ...]:
    """Return the fields of a dataclass that JSON may have wrong, and what each may hold."""
    return tuple((each.name, str(each.type)) for each in fields(kind) if str(each.type) in _KINDS)
