"""CITATION.cff is what the Citation File Format 1.2.0 asks for, by its own schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.support.places import ROOT

SCHEMA = json.loads((Path(__file__).parent / "citation-1.2.0.schema.json").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_it_is_valid() -> None:
    assert "/1.2.0/" in SCHEMA["$id"]
    jsonschema.validate(CITATION, SCHEMA)


@pytest.mark.parametrize("wrong", [{"license": "Apache 2"}, {"authors": []}, {"doi": "none"}, {"surprise": 1}])
def test_the_schema_finds_what_is_wrong(wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(CITATION | wrong, SCHEMA)


def test_it_has_the_packages_version_and_licence() -> None:
    project = tomllib.loads((ROOT / "lib/pyproject.toml").read_text())["project"]
    assert CITATION["version"] == project["version"]
    assert CITATION["license"] == project["license"]
