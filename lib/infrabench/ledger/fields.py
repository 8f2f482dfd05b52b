"""What the JSON of a session must look like: who reads it, or makes a path of a name in it, does not look once more.

And whether its parts agree: what was asked for, what it says of itself, its plan and its records. Sums tell that a file
is as it was written; this tells that files belong together, also where sums were mended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError, Trial, TrialRecord, digest, trial_id
from infrabench.core.names import is_label, is_name
from infrabench.ledger.codes import code_labels
from infrabench.ledger.files import LARGEST_DOCUMENT

Check = Callable[[Any], bool]
PACKAGES = "packages"
MADE_BY_ANALYSIS = ("pooled", "view")  # keys that no recorded session has


def parse_json(path: Path, content: bytes) -> Any:
    """Return what the bytes of a JSON file say; `LedgerError` naming `path` when they are none, or too many."""
    try:
        return load_json(content)
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error


def load_json(content: bytes) -> Any:
    """Return what a JSON text says; `ValueError` or `RecursionError` for what no session has."""
    if len(content) > LARGEST_DOCUMENT:
        raise ValueError(f"a text of {len(content)} bytes, which no session has")
    data = json.loads(content)
    if b"\\ud" in content.lower():  # half of a pair is no text: no file can be written with it, nor a figure drawn
        json.dumps(data, ensure_ascii=False).encode()
    return data


def check_session(path: Path, data: Mapping[str, Any]) -> None:
    """Raise `LedgerError` naming the field of a ``session.json`` that holds something else than such a field does."""
    for part in (data, data["parameters"]):  # they share names, and a name has one meaning
        _check(path, part, SESSION_FIELDS)
    own = [key for key in MADE_BY_ANALYSIS if key in data]
    if own:
        raise LedgerError(f"{path} has the field {own[0]}, which only an analysis gives itself: it was edited")


def check_present(path: Path, data: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `LedgerError` when a ``session.json`` lacks one of the fields `names`, which is read next."""
    absent = [name for name in names if name not in data]
    if absent:
        raise LedgerError(f"{path} lacks {', '.join(absent)}; was it written by another version?")


def check_note(path: Path, data: Any) -> None:
    """Raise `LedgerError` when what a session says about a block is not what its readers expect."""
    what = path.stem.split("-")[1]
    _check(path, data, NOTE_FIELDS[what], required=True)
    _check(path, data, OPTIONAL_NOTE_FIELDS.get(what, {}))


def check_deployments(path: Path, data: Any) -> None:
    """Raise `LedgerError` when ``deployments.json`` does not say facts and tools of each system."""
    is_deployment = _may_have(facts=_is_fields, tools=_is_fields, untested=_is_map(_is_text, _is_text))
    _check(path, {"content": data}, {"content": _is_map(is_label, is_deployment)})


def check_contents(path: Path, data: Any) -> None:
    """Raise `LedgerError` when ``contents.json`` does not say packages and programs of places."""
    program = _has(path=_is_text, sha256=_is_text)
    programs = _has(programs=_is_map(_is_text, program), missing=_is_map(_is_text, _is_text))
    packages = _may_have(packages=_or_none(_is_text), image=_is_flag)
    places = _is_map(_is_text, lambda value: programs(value) and packages(value))
    fields: dict[str, Check] = {
        PACKAGES: _is_map(_is_text, _is_list(lambda line: _is_text(line) and len(line.split()) == 3)),
        "hosts": places, "systems": _is_map(is_label, _has(targets=places, hosts=places)),
    }  # fmt: skip
    _check(path, data, fields, required=True)


def _check(path: Path, data: Any, fields: Mapping[str, Check], *, required: bool = False) -> None:
    if not isinstance(data, dict):
        raise LedgerError(f"{path} holds a {type(data).__name__}, not fields; restore it from a copy")
    for name, check in fields.items():
        if name not in data and required:
            raise LedgerError(f"{path} lacks {name}; restore it from a copy")
        if name in data and not check(data[name]):
            shown = repr(data[name])[:60]
            raise LedgerError(f"{path}: {name} is {shown}, which no session has; restore it from a copy")


def _is(kind: type) -> Check:
    return lambda value: isinstance(value, kind)


_is_text, _is_flag, _is_fields = _is(str), _is(bool), _is(dict)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(of: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _is_row(*of: Check) -> Check:
    """Return the check of a list that has one value for each of these."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(of)
        and all(check(each) for check, each in zip(of, value, strict=True))
    )


def _is_map(key: Check, of: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(key, value)) and all(map(of, value.values()))


def _has(**fields: Check) -> Check:
    """Return the check of an object that has these fields, and maybe more."""
    return lambda value: isinstance(value, dict) and all(key in value and of(value[key]) for key, of in fields.items())


def _may_have(**fields: Check) -> Check:
    """Return the check of an object in which these fields, where it has them, are such."""
    return lambda value: isinstance(value, dict) and all(of(value[key]) for key, of in fields.items() if key in value)


def _or_none(of: Check) -> Check:
    return lambda value: value is None or of(value)


_are_cases = _is_list(_is_row(is_label, is_label))  # workload, scenario; workload, metric
_are_blocks = _is_list(_is_row(_is_count, _is_count))  # number, deployment
_is_cost = _is_row(is_label, is_label, _is_number)  # workload, scenario, seconds that a block of them takes
SESSION_FIELDS: Mapping[str, Check] = {
    "study": is_name,
    "title": _is_text,
    "profile": is_label,
    "aa": lambda value: value in ("", None) or is_label(value),
    "seed": _is_count,
    "blocks": _is_count,
    "deployments": _is_count,
    "order": is_label,
    "stopping": _or_none(_is_map(_is_text, _or_none(_is_number))),
    "variants": _or_none(_is_map(is_label, _is_fields)),
    "known": _is_list(lambda value: isinstance(value, list) and len(value) > 1 and is_label(value[0])),
    "systems": _is_list(is_label),
    "workloads": lambda value: _is_list(is_label)(value) or _is_map(is_label, lambda _: True)(value),
    "baseline": lambda value: value == "" or is_label(value),
    "site": _has(name=_is_text, kind=_is_text),  # a data set, which makes folders of it, checks it
    "not_run": _is_map(is_label, _is_text),
    "left_out": _is_map(is_label, _is_text),
    "not_applicable": _is_list(_has(system=is_label, workload=is_label, scenario=is_label, reason=_is_text)),
    "margins": _is_map(_is_text, _is_number),
    "primary": _are_cases,
    "parameters": _is_fields,
    "stamp": _is_text,
    "versions": _is_fields,
    "created_utc": _is_text,
    "code": _is_map(_is_text, _is_text),
    "set": _is_map(_is_text, _is_list(lambda value: isinstance(value, bool | int | float | str))),
}  # fmt: skip
NOTE_FIELDS: Mapping[str, Mapping[str, Check]] = {
    "discarded": {"block": _is_count, "reason": _is_text, "trials": _is_list(_is_text), "adds": _are_blocks},
    "look": {
        "block": _is_count, "n": _is_count, "widths": _is_map(_is_text, _or_none(_is_number)), "reason": _is_text,
        "adds": _are_blocks,
    },
    "probe": {
        "block": _is_count, "host": is_label, "position": _is_count, "bytes": _is_number, "seconds": _is_number,
    },
    "code": {"block": _is_count, "after": _is_text, "parts": _is_map(_is_text, _is_text)},
}  # fmt: skip
_is_budget = _has(left_s=_is_number, most=_is_count, costs_s=_is_list(_is_cost), contrasts=_is_list(_has(
    workload=is_label, scenario=is_label, metric=is_label, system=is_label, pairs=_is_count, need=_or_none(_is_number),
    why=_is_text,
)))  # fmt: skip
OPTIONAL_NOTE_FIELDS: Mapping[str, Mapping[str, Check]] = {
    "discarded": {"cases": _are_cases},
    "look": {
        "unequal": _is_map(_is_text, _is_text), "cases": _are_cases, "budget": _is_budget,
        "reparsed": lambda value: value is True,
    },
}  # fmt: skip
REDUCED = ("systems", "workloads")  # a session may have fewer than were asked for


def disagreements(
    session: Mapping[str, Any], plan: Iterable[Trial], records: Collection[TrialRecord],
    codes: Sequence[Mapping[str, Any]],
) -> Iterator[str]:  # fmt: skip
    """Yield what does not agree, one sentence each; `codes`: the notes on other code."""
    parameters = session["parameters"]
    if not isinstance(parameters, dict):
        yield "its parameters are no mapping of names to values"
        return
    if session.get("parameters_sha256") != digest(parameters, 64):
        yield "its parameters are not those that the session was begun with (parameters_sha256)"
    for name in sorted({*session} & {*parameters}):
        then, now = parameters[name], session[name]
        if name in REDUCED and isinstance(then, list) and isinstance(now, list):
            then = [each for each in then if each in now]
        if then != now:
            yield f"its {name} is not the one of its parameters"
    for name, left in (("systems", "not_run"), ("workloads", "left_out")):
        if unasked := sorted({*session.get(left, {})} - {*parameters[name]}) if name in parameters else []:
            yield f"its {left} names {', '.join(unasked)}, which its parameters have not"
    if {"study", "seed"} <= {*parameters}:
        for trial in plan:
            if trial.id != trial_id(parameters["study"], parameters["seed"], trial):
                yield f"the plan's trial {trial.id} (block {trial.block}) has the id of another one"
    known = code_labels(session, codes, {record.trial.workload for record in records})
    for record in records:
        if record.code not in known[record.trial.workload]:
            yield f"trial {record.trial.id} was made with code, or parameters, that the session does not name"
