"""Does the plan of a recorded session follow from what was asked for? The same request is the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infrabench.core import Case, InfrabenchError, Request
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.ledger.records import DISCARDED, LOOK, added_cases, not_applicable
from infrabench.ledger.session_folder import SessionFolder

# What a session says of itself as its parameters do: the analysis would take a default for one that is not there.
REPEATED = (
    "study", "profile", "blocks", "seed", "systems", "workloads", "baseline", "site", "limits", "guards", "margins",
    "primary", "deployments", "order", "stopping", "variants",
)  # fmt: skip


def recorded_design(session: Mapping[str, Any]) -> Design:
    """Return the design of a session from its ``session.json`` alone, whatever its study says today."""
    parameters = session["parameters"]
    whole = Design(
        Request.from_session(session), parameters["blocks"], tuple(parameters["systems"]),
        tuple(Case(**case) for case in parameters["cases"]), parameters["seed"], parameters.get("deployments", 1),
        baseline=parameters["baseline"],
    )  # fmt: skip
    return designs.without(
        whole, systems=tuple(session["not_run"]), workloads=tuple(session["left_out"]), excluded=not_applicable(session)
    )


def check_plan(stored: SessionFolder) -> list[str]:
    """Return what of a session's plan does not follow from the request in ``session.json``, a sentence a block."""
    planned = designs.by_block(stored.plan)
    try:
        design = recorded_design(stored.session)
        expected = designs.by_block(designs.trials(design))
        for note in (*stored.notes(DISCARDED), *stored.notes(LOOK)):
            expected |= {
                number: list(designs.block(design, number, deployment, added_cases(note)))
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
