"""What ``session.json`` says of a session, and whether a session that goes on is still the one that was begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infrabench import design as designs
from infrabench import provenance
from infrabench.core import LedgerError, Site, Study, digest
from infrabench.records import FORMAT, not_applicable, read_session
from infrabench.runner import Ready


def of(study: Study, ready: Ready, site: Site, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of ``session.json``; `asked`: the session's parameters."""
    return {
        "format": FORMAT,
        "study": study.name,
        "title": study.title,
        "profile": ready.design.profile,
        "seed": ready.design.seed,
        "blocks": ready.design.blocks,
        "deployments": ready.design.deployments,
        "order": ready.design.order,
        "stopping": None if ready.design.stopping is None else asdict(ready.design.stopping),
        "aa": ready.design.aa,
        "variants": asked["variants"],
        "known": [list(each) for each in study.known],
        "systems": list(ready.design.systems),
        "workloads": designs.workloads(ready.design),
        "baseline": study.baseline,
        "site": {"name": site.name, "kind": site.kind},
        "not_run": dict(ready.fleet.not_run),
        "left_out": dict(ready.left_out),
        "not_applicable": [
            {"system": system, "workload": workload, "scenario": scenario, "reason": reason}
            for (system, workload, scenario), reason in ready.not_applicable.items()
        ],
        "margins": dict(study.margins),
        "primary": [list(each) for each in study.primary],
        "guards": asdict(study.guards),
        "limits": asdict(study.limits),
        "parameters": asked,
        "parameters_sha256": digest(asked, 64),
        "versions": provenance.of_suite(),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def as_begun(folder: Path, ready: Ready) -> Ready:
    """Return `ready` without the treatments that the session left out when it began, whether they could run now or not.

    (How many pods fit, for one, drifts.) Raises `LedgerError` when other systems or workloads can run now than then, or
    a treatment cannot that could.
    """
    stored = read_session(folder)
    for what, then, now in (
        ("systems", stored["not_run"], ready.fleet.not_run),
        ("workloads", stored["left_out"], ready.left_out),
        ("treatments", _worded(not_applicable(stored)), _worded(ready.not_applicable)),
    ):
        for name in sorted({*then, *now}):
            if (name in then) != (name in now) and (name in now or what != "treatments"):
                told = f"was left out ({then[name]}), can run now" if name in then else f"cannot run now: {now[name]}"
                raise LedgerError(f"{folder} cannot go on with the same {what}: {name} {told}. Start another session")
    absent = not_applicable(stored)
    return replace(ready, design=designs.without(ready.design, excluded=absent), not_applicable=absent)


def _worded(absent: Mapping[designs.Treatment, str]) -> dict[str, str]:
    return {f"{workload} {scenario} on {system}": why for (system, workload, scenario), why in absent.items()}
