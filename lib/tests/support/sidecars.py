"""Figures made again beside those that are kept: the same figures, of the same data, with the same captions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

KEPT = ROOT / "figures"


def compare(made: Path, *studies: str) -> None:
    """Fail unless the folders of these studies (and of their views) below `made` hold what is kept.

    Numbers may differ by 1e-9: two machines may round a last digit differently. Bytes of pictures are not compared,
    nor the exact hash of the data: the digest of its columns is.
    """
    kept, new = {name: _near(car) for name, car in _cars(KEPT, studies).items()}, _cars(made, studies)
    assert kept, f"no figure of {', '.join(studies)} is kept in {KEPT}: make figures"
    assert sorted(new) == sorted(kept), "make figures makes other figures than those that are kept"
    for name, car in new.items():
        assert car == kept[name], f"{name} differs from the one that is kept: make figures, and look at it"


def _cars(folder: Path, studies: tuple[str, ...]) -> dict[str, Any]:
    """Side-cars by folder and name; a view of a study, ``cnis-ways``, belongs to it, no other session of it."""
    found = {}
    for path in sorted(folder.glob("*/*.json")):
        if any(_belongs(path.parent.name, study) for study in studies):
            car = json.loads(path.read_text(encoding="utf-8"))
            del car["data"]["csv_sha256"], car["made_with"]
            car["files"] = sorted(car["files"])
            found[path.relative_to(folder).as_posix()] = car
    return found


def _belongs(name: str, study: str) -> bool:
    others = name.startswith(f"{study}-aa-") or name == f"{study}-papers"
    return name == study or (name.startswith(f"{study}-") and not others)


def _near(data: Any) -> Any:
    """Return the same with every number taken for near enough."""
    if isinstance(data, dict):
        return {key: _near(value) for key, value in data.items()}
    return pytest.approx(data, rel=1e-9, abs=1e-12) if isinstance(data, float) else data
