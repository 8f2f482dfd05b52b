"""`docs/trial.schema.json` describes the ``trial.json`` that is written: its fields, and every one recorded."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest

from infrabench.core import STATES, UNITS, Measurement, Step, Trial, TrialRecord
from infrabench.core.names import NAME
from infrabench.core.studies import MOST_ROUNDS
from infrabench.ledger import catalogue
from tests.support.analysis_fixtures import write_session
from tests.support.places import ROOT

SCHEMA = json.loads((ROOT / "docs/trial.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)
OF_CLASS = {TrialRecord: SCHEMA, Trial: SCHEMA["$defs"]["Trial"], Measurement: SCHEMA["$defs"]["Measurement"]}
# What a field holds by its annotation, in the words of JSON Schema.
KINDS = {
    "str": "string", "int": "integer", "float": "number", "str | None": ["string", "null"],
    "float | None": ["number", "null"], "Mapping[str, Any]": "object", "tuple[Mapping[str, Any], ...]": "array",
    "tuple[Measurement, ...]": "array", "Trial": "object",
}  # fmt: skip


def recorded(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the content of each ``trial.json`` of a recorded session."""
    with tarfile.open(catalogue.recorded()[name]) as archive:
        for member in archive:
            if member.name.endswith("/trial.json"):
                yield member.name, json.load(archive.extractfile(member))  # type: ignore[arg-type]


def test_it_is_a_schema_of_its_standard_and_names_no_host() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"].startswith("urn:uuid:")


@pytest.mark.parametrize("kind", OF_CLASS, ids=lambda kind: kind.__name__)
def test_it_has_the_fields_of_the_dataclass_that_is_written(kind: type) -> None:
    schema = OF_CLASS[kind]
    declared = fields(kind)
    assert list(schema["properties"]) == [each.name for each in declared]
    assert schema["required"] == [each.name for each in declared if each.default is MISSING]
    assert schema["additionalProperties"] is False
    for each in declared:
        told = schema["properties"][each.name]
        told = {**SCHEMA["$defs"].get(told.get("$ref", "").removeprefix("#/$defs/"), {}), **told}
        if "enum" not in told and "anyOf" not in told:
            assert told["type"] == KINDS[str(each.type)], each.name


def test_what_is_one_of_several_is_one_of_the_same() -> None:
    assert SCHEMA["properties"]["state"]["enum"] == [state for state in STATES if state != "discarded"]  # never stored
    defined = SCHEMA["$defs"]
    assert set(defined["Measurement"]["properties"]["unit"]["enum"]) == UNITS
    assert defined["Trial"]["properties"]["rounds"]["maximum"] == MOST_ROUNDS
    assert defined["Trial"]["properties"]["id"]["pattern"] == f"^{NAME.pattern}$"
    assert tuple(defined["Step"]["properties"]["phase"]["enum"]) == get_args(get_type_hints(Step)["phase"])
    now = {key for _, data in recorded("lab-quick-2026-11-rounds") for key in data["conditions"]["server"]}
    assert set(defined["Host"]["properties"]) == now


@pytest.mark.parametrize(
    "name", sorted(path.name.partition(".tar")[0] for path in (ROOT / "data/recorded").glob("[!d]*/*.tar.xz"))
)
def test_every_recorded_trial_is_valid(name: str) -> None:
    """All but those of another release of Debian, below ``debian12``, which have successors."""
    trials = list(recorded(name))
    assert trials
    assert [
        f"{path}: {fault.json_path} {fault.message}" for path, data in trials for fault in CHECK.iter_errors(data)
    ] == []


def test_trials_that_failed_are_valid(tmp_path: Any) -> None:
    states = set()
    for path in write_session(tmp_path / "s", blocks=2).glob("trials/*/trial.json"):
        data = json.loads(path.read_text())
        jsonschema.validate(data, SCHEMA)
        states.add(data["state"])
    assert states == {"ok", "failed", "invalid"}


def change(path: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    """Return what puts `value` at a place of a document, ``a.b.0``; None takes it out."""

    def apply(data: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            data = data[int(step) if step.isdigit() else step]
        if value is None:
            del data[last]
        else:
            data[last] = value

    return apply


@pytest.mark.parametrize(
    "spoil",
    [
        change("state", "discarded"), change("state", "failed"), change("reason", "why"), change("measurements", []),
        change("duration_s", "1 s"), change("duration_s", -1), change("started_utc", "2026-01-01 00:00:00"),
        change("started_utc", None), change("more", 1), change("trial.block", 1.5), change("trial.block", 2**63),
        change("trial.rounds", 0), change("trial.id", "../x"), change("trial.system", ""), change("trial.more", 1),
        change("measurements.0.unit", "MB/s"), change("measurements.0.better", "bigger"),
        change("measurements.0.value", "12"), change("measurements.0.value", None), change("steps.0.argv", "ls -l"),
        change("steps.0.phase", "warmup"), change("steps.0.attempts", None), change("conditions.server", "busy"),
        change("conditions.server.steal_share", "none"), change("ended_utc", "later"),
    ],
)  # fmt: skip
def test_a_wrong_trial_is_not_valid(spoil: Callable[[dict[str, Any]], Any]) -> None:
    _, data = next(recorded("lab-quick-2026-11-rounds"))
    assert CHECK.is_valid(data)
    spoil(data)
    assert not CHECK.is_valid(data)
