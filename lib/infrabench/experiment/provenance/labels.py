"""How a system is called wherever its figures appear: what must not be overlooked is part of its name.

A system whose deployment says that it was emulated is measured with an emulator's speed; one whose engine ran in user
space is not the one of that name in a kernel. A note elsewhere is lost as soon as somebody copies a table, so the label
itself says it, from the opening of a session onward.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infrabench.ledger.records import DEPLOYMENTS, list_provenance, read_provenance

QUALIFIER = "qualifier"  # the fact that holds a system's word: what it must not be shown without
EMULATED = "emulated"  # the same as a fact of its own, true or false


def of(folder: Path) -> dict[str, str]:
    """Return, by system, the label of every system of a session that is not called by its plain name.

    One deployment that says so is enough: its values are among those that are averaged.
    """
    words: dict[str, dict[str, None]] = {}
    for part in (each for each in list_provenance(folder) if each.startswith(DEPLOYMENTS)):
        for name, each in read_provenance(folder, part).items():
            facts = each.get("facts", {})
            own = [EMULATED] * (facts.get(EMULATED) is True) + ([str(facts[QUALIFIER])] if facts.get(QUALIFIER) else [])
            words.setdefault(name, {}).update(dict.fromkeys(own))
    return {name: f"{name} ({', '.join(own)})" for name, own in words.items() if own}


def renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return ``session.json`` with its systems called by their labels; what was asked for keeps the plain names."""

    def label(name: str) -> str:
        return names.get(name, name)

    changed: dict[str, Any] = {
        "systems": [label(name) for name in data["systems"]],
        "baseline": label(data["baseline"]),
        "not_run": {label(name): why for name, why in data.get("not_run", {}).items()},
        "not_applicable": [{**each, "system": label(each["system"])} for each in data.get("not_applicable", [])],
        "variants": {label(name): each for name, each in (data.get("variants") or {}).items()},
        "known": [[label(name), *rest] for name, *rest in data.get("known", [])],
    }
    return {**data, **{key: value for key, value in changed.items() if key in data}}
