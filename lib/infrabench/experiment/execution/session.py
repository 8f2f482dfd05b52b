"""One execution of a study's plan on a site: deploy, check, run the missing trials in order, record each at once.

What is left follows from the records (`blocks`) and is done block by block (`runner`). An interrupted trial (Ctrl-C,
kill -9, power) leaves no record and is run when the session goes on: nobody has seen an outcome, so this is no second
try. A trial whose host was lost is recorded as ``aborted``, ends the session, and is not run again: its outcome may
have to do with what it did to the host.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from infrabench import registry
from infrabench.core import (
    Case,
    DesignError,
    Guards,
    LedgerError,
    NotRunnable,
    Request,
    Site,
    SiteError,
    Study,
    Target,
    canonical,
    plan_steps,
    share_out,
)
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import blocks, preflight
from infrabench.experiment.execution.deployments import Fleet, deployed
from infrabench.experiment.execution.progress import OnProgress
from infrabench.experiment.execution.reparse import REPEATED
from infrabench.experiment.execution.runner import LookAt, Ready, Runner, end_orphans
from infrabench.experiment.provenance import code, collect
from infrabench.ledger import catalogue
from infrabench.ledger.codes import CODE
from infrabench.ledger.records import FORMAT, absences, not_applicable
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.marks import sweeping
from infrabench.machines.sites import redaction

log = logging.getLogger(__name__)


def request(study: Study, **parameters: Any) -> Design:
    """Return the design of a request of `study`, made of `parameters` (see `core.Request`)."""
    return resolve(Request(study.name, **parameters), study)


def resolve(request: Request, study: Study | None = None) -> Design:
    """Return the design of a request, with every registered system and workload known by name.

    `study`: None for the registered one of that name. A profile that is a file (`profile_file`) is sought in the
    working folder, then in the checkout; the request of the design names it without its ending.
    """
    study = registry.study(request.study) if study is None else study
    own = {name.partition(".")[0] for name in request.set or ()}
    if isinstance(request.profile, str) and request.profile.endswith((".yml", ".yaml")):
        from infrabench.experiment.design import profile_file  # pydantic is loaded for this alone

        path = Path(os.path.expanduser(request.profile))  # Path's own raises for a user who is not known
        path = path if path.is_file() else catalogue.home() / path
        name, profile = profile_file.read_profile(path, study, lambda workload: registry.workload(workload).PARAMS)
        study = replace(study, profiles={**study.profiles, name: profile})
        request, own = replace(request, profile=name), own | {case.workload for case in profile.cases}
    names = {case.workload for each in study.profiles.values() for case in each.cases} | {*(request.workloads or ())}
    known = set(registry.names("workloads"))
    declared = {name: registry.workload(name).PARAMS for name in sorted(names & known)}
    for name in sorted(names - known):
        registry.workload(name)  # raises: says the nearest names
    wanted = designs.design(study, request, registry.names("systems"), declared)
    return replace(
        wanted, cases=tuple(_fit_rounds(case, request) if case.workload in own else case for case in wanted.cases)
    )


def _fit_rounds(case: Case, request: Request) -> Case:
    """Return a case of own values with as many of its rounds as its workload can be cut into with them.

    `DesignError` for values that the workload refuses together, before anything is made ready. What hangs on the system
    at hand is found where its targets are known.
    """
    from infrabench.machines.hosts.host import LocalHost  # needs Fabric; reading sessions does not

    workload = registry.workload(case.workload)
    life = dict.fromkeys(("create", "exec", "remove", "address"), ("true",))
    roles = {role: Target(role, LocalHost(), lifecycle=life) for role in ("server", "client")}
    for rounds in range(case.rounds, 0, -1):
        try:
            plan_steps(workload, share_out(case.params, workload.PARAMS, rounds), roles)
        except NotRunnable:
            break
        except DesignError as error:
            if rounds == 1 or request.rounds is not None:
                raise DesignError(f"{case.workload} {case.scenario}: {error}") from error
        else:
            return replace(case, rounds=rounds)
    return case


def study_of(wanted: Design) -> Study:
    """Return the study of a design: with the design's baseline; for an A/A design of one system under two labels."""
    return designs.study_of(registry.study(wanted.study), wanted, registry.names("systems"))


def baseline_text(wanted: Design) -> str:
    """Return the end of a sentence about `wanted` that names its baseline, where that is not the study's."""
    usual = designs.twins(registry.study(wanted.study), wanted.request.aa, registry.names("systems")).baseline
    return f"; compared with {wanted.baseline}" if wanted.baseline not in ("", usual) else ""


class Named(Protocol):
    """What a session keeps of its site: enough to find the session again while the site is not open."""

    name: str
    kind: str


def at(study: Study, site: Site | Named) -> Study:
    """Return `study` as it can be run at `site`: through a kubeconfig, without what is asked of the measured machines.

    Only this machine could be asked then, and how busy it is says nothing of a cluster's nodes: no guard may make a
    trial invalid for it, and no drift is probed.
    """
    if site.kind != "kubeconfig":
        return study
    return replace(study, guards=Guards(None, None, None, None), probe_s=0.0)


def parameters(study: Study, wanted: Design, site: Site | Named) -> dict[str, Any]:
    """Return what a session is asked to do: two runs with equal parameters are the same session."""
    return json.loads(
        canonical(
            {
                "study": study.name, "profile": wanted.profile, "blocks": wanted.blocks, "seed": wanted.seed,
                "systems": wanted.systems, "workloads": designs.workloads(wanted),
                "cases": [case.as_json() for case in wanted.cases], "baseline": study.baseline,
                "site": {"name": site.name, "kind": site.kind}, "limits": asdict(study.limits),
                "guards": asdict(study.guards), "margins": study.margins, "primary": study.primary,
                "deployments": wanted.deployments, "order": wanted.order, "repeats": study.repeats,
                "stopping": None if wanted.stopping is None else asdict(wanted.stopping),
                "variants": {name: asdict(each) for name, each in study.variants.items() if name in wanted.systems},
                **({} if wanted.request.rounds is None else {"rounds": wanted.request.rounds}),
                **({} if wanted.request.set is None else {"set": wanted.request.set}),
            }
        )
    )  # fmt: skip


def carry_out(
    study: Study, wanted: Design, named: Named, opening: AbstractContextManager[Site], *, stored: SessionFolder,
    on_progress: OnProgress | None = None, look: LookAt | None = None,
) -> None:  # fmt: skip
    """Run the missing trials of a session; for a finished session, the site that is `named` is not even opened.

    `wanted` is a design of `study` (see `study_of`, `at`). `stored` is made when its folder is absent, and continued
    when its parameters are these. `on_progress` is called before the first trial and after each one. `look`, which a
    design with a stopping rule needs, says how wide the intervals are.

    Raises
    ------
    DesignError, SiteError, ProvisionError
        The request cannot be carried out here: found before the first trial. A `SiteError` later: a host was lost; what
        is recorded is safe and running again continues.
    LedgerError
        The folder is damaged, belongs to other parameters, cannot be written, or another run has it.
    """
    asked = parameters(study, wanted, named)
    if is_complete(stored, study, wanted, asked):
        for system, reason in stored.session["not_run"].items():
            since = stored.session["created_utc"][:10]
            log.info("%s could not run on %s and is not tried again here: %s", system, since, reason)
        stored.finalize()
        log.info("%s is complete; give another session name to measure anew", stored.path)
        return
    if wanted.stopping is not None and look is None:
        raise DesignError("a design that adds blocks needs a look at its intervals")
    check_folder(study, wanted, stored)
    with opening as site, stored.claimed(), sweeping() as sweeper:
        end_orphans(site, sweeper)
        first = True
        while first or not blocks.is_finished(stored, study, wanted):
            begun_s = time.monotonic()
            with deployed(study, wanted, site, label=stored.path.name) as fleet:
                ready = _ready(study, wanted, site, fleet)
                if stored.exists():
                    ready = keep_begun_design(stored, ready)
                preflight.check_disks(ready.design, fleet.deployments)
                suite = collect.of_suite()
                stored.begin(describe_session(study, ready, asked, suite), designs.trials(ready.design))
                untested = preflight.untested(ready.tools, ready.workloads)
                for system, tools in untested.items():
                    for name, sentence in tools.items():
                        log.warning("%s on %s: %s", name, system, sentence)
                roles = {name: preflight.roles(site, each) for name, each in fleet.deployments.items()}
                programs = collect.tools_by_role(ready.workloads)
                content = collect.collect_contents(site, fleet.deployments, roles, programs)
                for sentence in (*preflight.compare_tools(ready.tools), *preflight.compare_servers(content)):
                    log.warning("%s", sentence)
                hosts = collect.store(
                    stored, site, fleet.deployments, ready.tools, untested, fleet.evidence, suite, content
                )
                for sentence in preflight.describe_speed(hosts) if first else ():
                    log.warning("%s (docs/own-hosts.md, 4)", sentence)
                if first:
                    blocks.add_promised(stored, ready.design)
                    blocks.discard_interrupted(stored, study, ready.design)
                left = blocks.select_unfinished(stored, study, wanted)
                code.append_code(stored, study, wanted, min(left, default=blocks.next_number(stored)))
                # The first time, what is made once (an image, a build) is among it.
                expected_s = study.ready_s(ready.design.systems) if first else time.monotonic() - begun_s
                ready = replace(ready, next_s=expected_s)
                Runner(study, site, ready, stored, sweeper, on_progress, look).one_deployment()
            first = False


def describe_session(
    study: Study, ready: Ready, asked: Mapping[str, Any], suite: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """Return the content of ``session.json``; `asked`: the session's `parameters`; `suite`: see `collect.of_suite`."""
    return {
        **{name: asked[name] for name in REPEATED},
        "format": FORMAT,
        "title": study.title,
        "aa": ready.design.request.aa,
        "known": [list(each) for each in study.known],
        "systems": list(ready.design.systems),
        "workloads": designs.workloads(ready.design),
        "not_run": dict(ready.fleet.not_run),
        "left_out": dict(ready.left_out),
        "not_applicable": [
            {"system": system, "workload": workload, "scenario": scenario, "reason": reason}
            for (system, workload, scenario), reason in ready.not_applicable.items()
        ],
        "parameters": asked,
        "versions": dict(suite),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        CODE: code.code_parts(study, ready.design),
    }


def keep_begun_design(stored: SessionFolder, ready: Ready) -> Ready:
    """Return `ready` without the treatments that the session left out when it began, whether they could run now or not.

    (How many pods fit, for one, drifts.) Raises `LedgerError` when other systems or workloads can run now than then, or
    a treatment cannot that could.
    """
    absent = not_applicable(stored.session)
    absent_then, absent_now = (
        {f"{workload} {scenario} on {system}": why for (system, workload, scenario), why in each.items()}
        for each in (absent, ready.not_applicable)
    )
    for what, then, now in (
        ("systems", stored.session["not_run"], ready.fleet.not_run),
        ("workloads", stored.session["left_out"], ready.left_out),
        ("treatments", absent_then, absent_now),
    ):
        for name in sorted({*then, *now}):
            if (name in then) != (name in now) and (name in now or what != "treatments"):
                change = f"was left out ({then[name]}), can run now" if name in then else f"cannot run now: {now[name]}"
                raise LedgerError(
                    f"{stored.path} cannot go on with the same {what}: {name} {change}. Start another session"
                )
    return replace(ready, design=designs.without(ready.design, excluded=absent), not_applicable=absent)


def is_complete(stored: SessionFolder, study: Study, wanted: Design, asked: Mapping[str, Any]) -> bool:
    """Tell whether a session has nothing left to do; `LedgerError` when it is damaged, or of other parameters."""
    if not stored.exists():
        return False
    stored.check_parameters(asked)
    if faults := stored.verify():
        raise LedgerError(f"{stored.path} is damaged: {'; '.join(faults[:5])}. Restore it from a copy")
    return blocks.is_finished(stored, study, wanted)


def check_folder(study: Study, wanted: Design, stored: SessionFolder) -> None:
    """Raise when what is still to be recorded cannot be, before anything is started.

    `LedgerError` or `SiteError`: no room; `LedgerError` or `DesignError`: see `code.check_code`.
    """
    if stored.exists():
        code.check_code(stored, study, wanted)
    share = len(blocks.select_unfinished(stored, study, wanted)) / wanted.blocks if stored.exists() else 1.0
    preflight.check_ledger(stored.path, int(designs.expected_study_cost(study, wanted).ledger_bytes * share))


def _ready(study: Study, wanted: Design, site: Site, fleet: Fleet) -> Ready:
    """Check every workload on every system; on this machine alone, a study goes on without what is not installed.

    A treatment that its system has no place for is left out anywhere; a workload named by hand has to have one.
    """
    kept = designs.without(wanted, systems=tuple(fleet.not_run))
    workloads = {case.workload: registry.workload(case.workload) for case in kept.cases}
    fleet.resume_all()
    checked = preflight.check(kept, site, fleet.deployments, workloads)
    refused, tools = redaction.deep(checked.refused, site.private), checked.versions  # reasons are shown, and kept
    absent = {treatment: redaction.text(why, site.private) for treatment, why in checked.not_applicable.items()}
    kept = designs.without(kept, workloads=tuple(refused), excluded=absent)
    there = designs.workloads(kept)
    placeless, by_name = dict[str, str](), wanted.request.workloads is not None
    for (system, name, _), why in absent.items():
        if name not in there:
            placeless.setdefault(name, f"{system}: {why}")
    must = {**refused, **(placeless if by_name else {})}
    if must and (by_name or site.kind != "local"):
        reasons = "; ".join(f"{name} on {reason}" for name, reason in must.items())
        raise SiteError(f"{site.name} cannot run all workloads: {reasons}. Install what is missing, or name the others")
    for name, reason in refused.items():
        log.warning("workload %s is left out: %s", name, reason)
    for treatments, reason in absences(absent).items():
        log.warning("%s: not run: %s", treatments, reason)
    if not kept.cases:
        raise SiteError(f"{site.name} can run no workload of study {study.name!r}: {refused | placeless}")
    return Ready(kept, fleet, workloads, tools, refused, absent)
