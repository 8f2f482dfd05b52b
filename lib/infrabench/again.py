"""How far a session is, and with which parameters of its notebook it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench import blocks, design, ledger, registry, session
from infrabench.core import InfrabenchError
from infrabench.records import LOOK, awaited, read_blocks, read_session, recorded

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


@dataclass(frozen=True, slots=True)
class State:
    """How far a session is: `word` is running, complete or interrupted; blocks that are whole, of those planned."""

    word: str
    done: int
    planned: int
    whole: int
    blocks: int


def state(folder: Path) -> State:
    """Return how far the session in `folder` is; it may grow while this looks."""
    data, plan, done = read_session(folder), awaited(folder), recorded(folder)
    by_block = blocks.by_block(plan)
    whole = sum(all(trial.id in done for trial in block) for block in by_block.values())
    missing = sum(trial.id not in done for trial in plan)
    looked = any(each["reason"] in blocks.FINAL for each in read_blocks(folder, LOOK))
    due = bool(missing or blocks.promised(folder) or (data.get("stopping") and not looked))
    word = RUNNING if ledger.is_being_written(folder) else INTERRUPTED if due else COMPLETE
    return State(word, len(plan) - missing, len(plan), whole, len(by_block))


def parameters(folder: Path) -> dict[str, Any] | None:
    """Return what to set in the notebook of its study so that it goes on with this session, the rest by default.

    None where the notebook cannot: an A/A session, or a profile or study that is not known any more.
    """
    data = read_session(folder)
    asked = data["parameters"]
    try:
        usual = session.request(registry.study(data["study"]), profile=data["profile"])
    except InfrabenchError:
        return None
    if data.get("aa") or data.get("known"):
        return None
    given: dict[str, Any] = {"mode": "run", "profile": data["profile"]}
    for name, then, otherwise in (
        ("runs", asked["blocks"], usual.blocks),
        ("systems", asked["systems"], list(usual.systems)),
        ("workloads", asked["workloads"], design.workloads(usual)),
        ("seed", asked["seed"], usual.seed),
        ("deployments", asked.get("deployments", 1), usual.deployments),
        ("order", asked.get("order", "random"), usual.order),
    ):
        if then != otherwise:
            given[name] = then
    rule: Mapping[str, Any] | None = asked.get("stopping")
    if rule:
        hours = None if rule["budget_s"] is None else rule["budget_s"] / 3600
        given |= {"precision": rule["target"], "most": rule["most"]} | ({} if hours is None else {"hours": hours})
    site = asked["site"]
    given["site"] = site["name"] if site["kind"] in ("lab", "local") else f"the {site['kind']} of {site['name']}"
    return given | {"session": folder.name}


def lines(given: Mapping[str, Any]) -> str:
    """Return parameters as one types them into a notebook's cell, ``mode = "run"; runs = 2``."""
    return "; ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
