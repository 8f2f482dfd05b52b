"""What ``session.json`` says of a session, and whether a session that goes on is still the one that was begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from infrabench.core import LedgerError, Site, Study
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution.runner import Ready
from infrabench.ledger.records import FORMAT, not_applicable
from infrabench.ledger.session_folder import SessionFolder


def of(
    study: Study, ready: Ready, site: Site, asked: Mapping[str, Any], suite: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """Return the content of ``session.json``; `asked`: the session's parameters; `suite`: see `collect.of_suite`."""
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
        "versions": dict(suite),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def as_begun(stored: SessionFolder, ready: Ready) -> Ready:
    """Return `ready` without the treatments that the session left out when it began, whether they could run now or not.

    (How many pods fit, for one, drifts.) Raises `LedgerError` when other systems or workloads can run now than then, or
    a treatment cannot that could.
    """
    session = stored.session
    for what, then, now in (
        ("systems", session["not_run"], ready.fleet.not_run),
        ("workloads", session["left_out"], ready.left_out),
        ("treatments", _worded(not_applicable(session)), _worded(ready.not_applicable)),
    ):
        for name in sorted({*then, *now}):
            if (name in then) != (name in now) and (name in now or what != "treatments"):
                change = f"was left out ({then[name]}), can run now" if name in then else f"cannot run now: {now[name]}"
                raise LedgerError(
                    f"{stored.path} cannot go on with the same {what}: {name} {change}. Start another session"
                )
    absent = not_applicable(session)
    return replace(ready, design=designs.without(ready.design, excluded=absent), not_applicable=absent)


def _worded(absent: Mapping[designs.Treatment, str]) -> dict[str, str]:
    return {f"{workload} {scenario} on {system}": why for (system, workload, scenario), why in absent.items()}
