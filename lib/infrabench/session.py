"""One execution of a study's plan on a site: deploy, check, run the missing trials in order, record each at once.

An interrupted trial (Ctrl-C, kill -9, power) leaves no record and is run when the session goes on: nobody has seen an
outcome, so this is no second try. A trial whose host was lost is recorded as ``aborted``, ends the session, and is not
run again: its outcome may have to do with what it did to the host.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from infrabench import design as designs
from infrabench import ledger, preflight, provenance, registry
from infrabench.core import LedgerError, Site, SiteError, Study, Trial, Workload, canonical, digest
from infrabench.deployments import Fleet, deployed
from infrabench.design import Design
from infrabench.monitor import watching
from infrabench.progress import Estimator, OnProgress
from infrabench.records import read_plan, read_session, read_trial, recorded, verify
from infrabench.trial import Bench, execute

log = logging.getLogger(__name__)

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that stands before the first trial."""

    design: Design
    fleet: Fleet
    workloads: Mapping[str, Workload]
    tools: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, str]  # workload -> reason


def request(
    study: Study, *, profile: str, systems: Sequence[str] | None = None, workloads: Sequence[str] | None = None,
    runs: int | None = None, seed: int | None = None,
) -> Design:  # fmt: skip
    """Return the validated design of a request, with every registered system and workload known by name."""
    names = {case.workload for each in study.profiles.values() for case in each.cases} | set(workloads or ())
    known = set(registry.names("workloads"))
    defaults = {name: registry.workload(name).DEFAULTS for name in sorted(names & known)}
    for name in sorted(names - known):
        registry.workload(name)  # raises: says the nearest names
    return designs.design(
        study, profile=profile, systems=systems, workloads=workloads, runs=runs, seed=seed,
        known_systems=registry.names("systems"), defaults=defaults,
    )  # fmt: skip


class Named(Protocol):
    """What a session keeps of its site: enough to find the session again while the site is not open."""

    name: str
    kind: str


def parameters(study: Study, wanted: Design, site: Site | Named) -> dict[str, Any]:
    """Return what a session is asked to do: two runs with equal parameters are the same session."""
    return json.loads(
        canonical(
            {
                "study": study.name, "profile": wanted.profile, "blocks": wanted.blocks, "seed": wanted.seed,
                "systems": wanted.systems, "workloads": list(dict.fromkeys(case.workload for case in wanted.cases)),
                "cases": [asdict(case) for case in wanted.cases], "baseline": study.baseline,
                "site": {"name": site.name, "kind": site.kind}, "limits": asdict(study.limits),
                "guards": asdict(study.guards), "margins": study.margins, "primary": study.primary,
            }
        )
    )  # fmt: skip


def name_of(wanted: Mapping[str, Any]) -> str:
    """Return the session name of `parameters`: the same request finds the same session again."""
    return f"{wanted['site']['name']}-{wanted['profile']}-{digest(wanted, 8)}"


def run(
    study: Study, site: Site, *, profile: str, systems: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None, runs: int | None = None, seed: int | None = None, folder: Path,
    on_progress: OnProgress | None = None,
) -> Path:  # fmt: skip
    """Run the missing trials of a request (see `design.design`) and return the session folder; see `carry_out`."""
    wanted = request(study, profile=profile, systems=systems, workloads=workloads, runs=runs, seed=seed)
    return carry_out(study, wanted, site, folder=folder, on_progress=on_progress)


def carry_out(
    study: Study, wanted: Design, site: Site, *, folder: Path, on_progress: OnProgress | None = None
) -> Path:
    """Run the missing trials of a session and return its folder; a finished session is returned as it is.

    Parameters
    ----------
    study, wanted
        The study and a design of it.
    site
        Where to run; stays open while this runs.
    folder
        The session folder: made when absent, continued when its parameters are these.
    on_progress
        Called before the first trial and after each one.

    Raises
    ------
    DesignError, SiteError, ProvisionError
        The request cannot be carried out here: found before the first trial.
    LedgerError
        The folder is damaged, belongs to other parameters, or cannot be written.
    SiteError
        A host was lost; what is recorded is safe and running again continues.
    """
    asked = parameters(study, wanted, site)
    if is_complete(folder, asked):
        log.info("%s is complete", folder)
        return folder
    check_folder(wanted, folder)
    with deployed(study, wanted, site, label=folder.name) as fleet:
        ready = _ready(study, wanted, site, fleet)
        planned = designs.trials(ready.design)
        if folder.exists():
            _check_same_set(folder, ready)
        preflight.check_disks(ready.design, fleet.deployments)
        with ledger.opened(folder, _session(study, ready, site, asked), planned) as done:
            provenance.store(folder, site, fleet.deployments, ready.tools)
            _run_trials(study, site, ready, folder, planned, done, on_progress)
    return folder


def is_complete(folder: Path, asked: Mapping[str, Any]) -> bool:
    """Tell whether the session `folder` has every planned trial of these parameters.

    Raises `LedgerError` when it was made with other parameters, or is damaged.
    """
    if not folder.exists():
        return False
    ledger.check_parameters(folder, asked)
    found = verify(folder)
    if found:
        raise LedgerError(f"{folder} is damaged: {'; '.join(found[:5])}. Restore it from a copy")
    return not {trial.id for trial in read_plan(folder)} - recorded(folder)


def check_folder(wanted: Design, folder: Path) -> None:
    """Raise `LedgerError` or `SiteError` when what is still to be recorded cannot be, before anything is started."""
    count = len(wanted.systems) * len(wanted.cases) * wanted.blocks
    left = count - (len(recorded(folder)) if folder.exists() else 0)
    preflight.check_ledger(folder, designs.expected(wanted).ledger_bytes * left // count)


def _ready(study: Study, wanted: Design, site: Site, fleet: Fleet) -> Ready:
    """Check every workload on every system; on this machine alone, a study goes on without what is not installed."""
    kept = designs.without(wanted, systems=tuple(fleet.not_run))
    workloads = {case.workload: registry.workload(case.workload) for case in kept.cases}
    fleet.resume_all()
    refused, tools = preflight.check(kept, site, fleet.deployments, workloads)
    if refused and (wanted.named or site.kind != "local"):
        told = "; ".join(f"{name} on {reason}" for name, reason in refused.items())
        raise SiteError(f"{site.name} cannot run all workloads: {told}. Install what is missing, or name the others")
    for name, reason in refused.items():
        log.warning("workload %s is left out: %s", name, reason)
    kept = designs.without(kept, workloads=tuple(refused))
    if not kept.cases:
        raise SiteError(f"{site.name} can run no workload of study {study.name!r}: {refused}")
    return Ready(kept, fleet, workloads, tools, refused)


def _session(study: Study, ready: Ready, site: Site, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": study.name,
        "title": study.title,
        "profile": ready.design.profile,
        "seed": ready.design.seed,
        "blocks": ready.design.blocks,
        "systems": list(ready.design.systems),
        "workloads": list(dict.fromkeys(case.workload for case in ready.design.cases)),
        "baseline": study.baseline,
        "site": {"name": site.name, "kind": site.kind},
        "not_run": dict(ready.fleet.not_run),
        "left_out": dict(ready.left_out),
        "margins": dict(study.margins),
        "primary": [list(each) for each in study.primary],
        "guards": asdict(study.guards),
        "limits": asdict(study.limits),
        "parameters": asked,
        "parameters_sha256": digest(asked, 64),
        "versions": provenance.of_suite(),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _check_same_set(folder: Path, ready: Ready) -> None:
    """Raise `LedgerError` when other systems or workloads can run now than when the session began."""
    stored = read_session(folder)
    for what, then, now in (
        ("systems", stored["not_run"], ready.fleet.not_run),
        ("workloads", stored["left_out"], ready.left_out),
    ):
        for name in sorted({*then, *now}):
            if (name in then) != (name in now):
                told = f"was left out ({then[name]}), can run now" if name in then else f"cannot run now: {now[name]}"
                raise LedgerError(f"{folder} cannot go on with the same {what}: {name} {told}. Start another session")


def _run_trials(
    study: Study, site: Site, ready: Ready, folder: Path, planned: Sequence[Trial], done: frozenset[str],
    on_progress: OnProgress | None,
) -> None:  # fmt: skip
    estimator = Estimator(planned)
    for trial in planned:
        if trial.id in done:
            estimator.add(read_trial(folder, trial.id))
    report = on_progress or (lambda progress: None)
    report(estimator.now())
    server = site.hosts["server"].name
    fleet = ready.fleet
    cgroups = {name: {server: list(each.facts.get("cgroups", ()))} for name, each in fleet.deployments.items()}
    every = {server: sorted({path for each in cgroups.values() for path in each[server]})}
    roles = {name: preflight.roles(site, each) for name, each in fleet.deployments.items()}
    with watching(list(site.hosts.values()), every) as monitor:
        for trial in planned:
            if trial.id in done:
                continue
            begin = time.monotonic()
            fleet.run_only(trial.system)
            bench = Bench(roles[trial.system], monitor, cgroups[trial.system], study.guards)
            finished = execute(trial, ready.workloads[trial.workload], bench)
            ledger.write_trial(folder, finished.record, finished.blobs)
            report(estimator.add(finished.record, time.monotonic() - begin))
            if finished.fatal is not None:
                raise SiteError(f"{finished.fatal} The session stops here; run it again to go on") from finished.fatal

