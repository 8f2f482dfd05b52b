"""The jobs of a campaign, one study on one site each, and what they take: trials, time and disk, and which run at once.

The name of a job's session follows from the campaign alone. The same rules that Snakemake is given (`Plan.holds`,
`Plan.limits`) make the schedule that is foretold here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from infrabench import registry
from infrabench.core import DesignError, InfrabenchError, LedgerError, Study
from infrabench.experiment.campaign.file import LOST, PROFILE, Campaign, Site
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design, Expectation
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import words
from infrabench.ledger import catalogue
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import SESSION, read_session
from infrabench.ledger.session_folder import SessionFolder

MIB = 2**20
HERE = "here"  # the resource of this machine's attention: all of it for a site that is this machine
State = Literal["complete", "partial", "missing"]


@dataclass(frozen=True)
class Job:
    """One study on one site: `label` is the study's label in the campaign, `folder` its session's."""

    label: str
    site: Site
    study: Study
    wanted: Design
    folder: Path

    @property
    def id(self) -> str:
        """Return what nothing else in the campaign is called: a part of file names."""
        return f"{self.site.label}.{self.label}"

    @property
    def session_parameters(self) -> dict[str, Any]:
        """Return the parameters of the session, as its ledger keeps them."""
        return session.parameters(self.study, self.wanted, self.site)


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a job's session is, as its ledger says; `spent`: the share of its time, where it shares out one."""

    state: State
    done: int
    planned: int
    spent: float | None = None

    @property
    def left(self) -> float:
        """Return the share of its trials that are missing, or of its time that is left."""
        return 1 - (self.done / max(1, self.planned) if self.spent is None else self.spent)


def list_jobs(campaign: Campaign, known: Mapping[str, Site]) -> tuple[list[Job], list[str]]:
    """Return the jobs on the sites that are `known`, by site in the order of the file, and what is wrong.

    Jobs of one site stand together, its studies in the order of the file.
    """
    wanted, wrong = dict[str, tuple[Study, Design]](), list[str]()
    for label, entry in campaign.studies.items():
        where = campaign.where("studies", label)
        try:
            wanted[label] = request(entry.study or label, entry.parameters())
        except DesignError as error:
            wrong.append(f"{where}: {error}")
        unknown = [name for name in entry.sites or () if name not in campaign.sites]
        wrong += [f"{where}.sites: there is no site {name!r} in this campaign" for name in unknown]
    jobs = []
    for site in known.values():
        for label, entry in campaign.studies.items():
            if label in wanted and site.label in (entry.sites or campaign.sites):
                # Labels have no dot: what is called alike is one job.
                name = f"{campaign.name}.{site.label}.{label}"
                jobs.append(_job(label, site, name, *wanted[label]))
    idle = known.keys() - {job.site.label for job in jobs} if not wrong else set()
    return jobs, wrong + [f"{campaign.where('sites', label)}: no study runs on it" for label in sorted(idle)]


def initial_stand(job: Job) -> Stand:
    """Return how far a job is that is not begun."""
    return Stand("missing", 0, designs.count_trials(job.wanted))


def read_stand(job: Job) -> Stand:
    """Return how far a job is; `LedgerError` when its session is damaged, or was made with other parameters."""
    if not (job.folder / SESSION).is_file():
        return initial_stand(job)
    stored = SessionFolder(job.folder)
    complete = session.is_complete(stored, job.study, job.wanted, job.session_parameters)
    done = sum(trial.id in stored.records for trial in stored.awaited)
    rule, spent = job.wanted.stopping, None
    if rule is not None and rule.target is None and rule.budget_s:
        spent = min(1.0, measure_pace(stored.records.values()).spent_s / rule.budget_s)
    return Stand("complete" if complete else "partial", done, len(stored.awaited), spent)


def job_spec(job: Job, out: str) -> dict[str, Any]:
    """Return, as data, what `rebuild_job` and the job's process need; figures and tables are written below `out`."""
    parameters = job.wanted.request.given()
    return {
        "id": job.id,
        "request": parameters,
        "site": {"label": job.site.label, "target": job.site.target, "name": job.site.name, "kind": job.site.kind},
        "notebook": str(_notebook(job.study)),
        "notebook_parameters": {**{k: v for k, v in parameters.items() if k != "study"}, "mode": "run", "out": out},
    }


def rebuild_job(data: Mapping[str, Any]) -> Job:
    """Return the job of what `job_spec` returned."""
    parameters = dict(data["request"])
    study, wanted = request(parameters.pop("study"), parameters)
    return _job(data["id"].partition(".")[2], Site(**data["site"]), parameters["session"], study, wanted)


def request(name: str, parameters: Mapping[str, Any]) -> tuple[Study, Design]:
    """Return the study called `name`, and what is asked of it; `DesignError` for what it has not."""
    study = registry.study(name)
    if not (notebook := _notebook(study)).is_file():
        raise DesignError(f"study {study.name!r} has no notebook {notebook}, which a campaign runs")
    wanted = session.request(study, **{"profile": PROFILE, **parameters})
    return session.study_of(wanted), wanted


def _notebook(study: Study) -> Path:
    return catalogue.home() / "notebooks" / f"{study.name}.ipynb"


def _job(label: str, site: Site, name: str, study: Study, wanted: Design) -> Job:
    wanted = replace(wanted, request=replace(wanted.request, site=site.target, session=name))
    folder = runs.folder_for(study, wanted, site)
    if site.kind == LOST:
        with suppress(LedgerError, KeyError):  # its session knows what it was called
            measured = read_session(folder)["site"]
            site = replace(site, name=measured["name"], kind=measured["kind"])
    return Job(label, site, session.at(study, site), wanted, folder)


def one_line(error: InfrabenchError) -> str:
    """Return what an error says, on one line, for a file."""
    return " ".join(str(error).split())


@dataclass(frozen=True)
class Plan:
    """The jobs of a campaign and how far each is.

    `shares`: sites that are measured one at a time; `alone`: sites on this machine, which steers the others;
    `without`: sites that are left out of this start.
    """

    campaign: str
    jobs: Sequence[Job]
    stands: Mapping[str, Stand]
    shares: tuple[frozenset[str], ...] = ()
    alone: frozenset[str] = field(default_factory=frozenset)
    without: frozenset[str] = field(default_factory=frozenset)

    @property
    def sites(self) -> list[str]:
        """Return the sites that have a job, in the order of the file."""
        return list(dict.fromkeys(job.site.label for job in self.jobs))

    def holds(self, job: Job, at_once: int) -> dict[str, int]:
        """Return how much of each resource a job holds while it runs: its site's, its groups', and this machine's."""
        label = job.site.label
        resources = {f"site_{self.sites.index(label)}": 1}
        resources |= {f"share_{number}": 1 for number, group in enumerate(self.shares) if label in group}
        if job.site.steered_here:
            resources[HERE] = at_once if label in self.alone else 1
        return resources

    def limits(self, at_once: int) -> dict[str, int]:
        """Return how much there is of each resource: one of each but this machine's attention."""
        every = {name: 1 for job in self.jobs for name in self.holds(job, at_once)}
        return every | ({HERE: at_once} if HERE in every else {})

    def apart(self, a: str, b: str) -> bool:
        """Tell whether two sites are never measured at the same time."""
        return a == b or bool({a, b} & self.alone) or any({a, b} <= group for group in self.shares)

    def seconds(self, job: Job) -> float:
        """Return how long the trials of a job that are missing are expected to take, with making ready."""
        if self.stands[job.id].state == "complete" or job.site.label in self.without:
            return 0.0
        ready_s = _ready_s(job)
        return ready_s + (cost(job).seconds - ready_s) * self.stands[job.id].left

    def most_seconds(self, job: Job) -> float:
        """Return how long a job is expected to take where it adds as many blocks as its precision may ask for."""
        rule, ready_s = job.wanted.stopping, _ready_s(job)
        if rule is None or rule.target is None or self.stands[job.id].state == "complete":
            return self.seconds(job)
        first_s = cost(job).seconds - ready_s
        blocks_s = first_s * rule.most / job.wanted.blocks
        return ready_s + (blocks_s if rule.budget_s is None else min(blocks_s, max(first_s, rule.budget_s)))


@dataclass(frozen=True, slots=True)
class Slot:
    """When a job is expected to run, in seconds from the start."""

    job: Job
    begin_s: float
    end_s: float


def _ready_s(job: Job) -> float:
    return job.wanted.deployments * job.study.ready_s(job.wanted.systems)


def cost(job: Job) -> Expectation:
    """Return what a job costs from its first trial to its last."""
    return designs.expected_study_cost(job.study, job.wanted)


def schedule(planned: Plan, at_once: int) -> list[Slot]:
    """Return when each job that is not complete is expected to run, as the engine starts them.

    A job begins as soon as those before it on its site are done and what it holds is free; of several that could, the
    one that stands first in the plan.
    """
    waiting = [job for job in planned.jobs if planned.seconds(job) > 0]
    free, running, slots, now = planned.limits(at_once), list[Slot](), list[Slot](), 0.0
    while waiting or running:
        busy = {slot.job.site.label for slot in running}
        for job in list(waiting):
            wanted, label = planned.holds(job, at_once), job.site.label
            if label not in busy and all(free[name] >= much for name, much in wanted.items()):
                for name, much in wanted.items():
                    free[name] -= much
                running.append(Slot(job, now, now + planned.seconds(job)))
                waiting.remove(job)
            busy.add(label)  # later jobs of a site wait for the earlier ones
        ended = min(running, key=lambda slot: slot.end_s)
        running.remove(ended)
        slots.append(ended)
        now = ended.end_s
        for name, much in planned.holds(ended.job, at_once).items():
            free[name] += much
    return sorted(slots, key=lambda slot: slot.begin_s)


def ledger_bytes(planned: Plan) -> int:
    """Return the space that the missing trials of all jobs take on this machine's disk."""
    jobs = [job for job in planned.jobs if job.site.label not in planned.without]
    return int(sum(cost(job).ledger_bytes * planned.stands[job.id].left for job in jobs))


def lines(planned: Plan, at_once: int) -> Iterator[str]:
    """Yield the plan in words: each site with its studies, what is never measured at the same time, and the whole."""
    slots = {slot.job.id: slot for slot in schedule(planned, at_once)}
    jobs, sites = format_count(len(planned.jobs), "job"), format_count(len(planned.sites), "site")
    yield f"campaign {planned.campaign}: {jobs} on {sites}"
    for label in planned.sites:
        own = [job for job in planned.jobs if job.site.label == label]
        most = max(cost(job).target_bytes for job in own) / MIB
        yield (
            f"{label} ({own[0].site.kind} {own[0].site.name}): about {words(sum(map(planned.seconds, own)))}, "
            f"up to {most:.0f} MiB inside a target"
        )
        for job in own:
            yield f"  {_describe_job(planned, job, slots.get(job.id))}"
    for group in planned.shares:
        yield f"one at a time, for they share a machine, a switch or storage: {', '.join(sorted(group))}"
    if planned.alone and len(planned.sites) > 1:
        yield f"alone, for this machine steers the others: {', '.join(sorted(planned.alone))}"
    if not slots:
        yield "nothing is left to measure"
        return
    total = sum(planned.seconds(job) for job in planned.jobs)
    wall = max(slot.end_s for slot in slots.values())
    most = max(sum(b.begin_s <= a.begin_s < b.end_s for b in slots.values()) for a in slots.values())
    free = shutil.disk_usage(catalogue.home()).free
    yield (
        f"in all about {words(wall)} ({words(total)} of measuring, {most} at once at the most), "
        f"besides analysis; {ledger_bytes(planned) / MIB:.0f} MiB recorded, {free / MIB:.0f} MiB free here"
    )


def format_count(number: int, what: str) -> str:
    """Return a number of things in words: ``1 site``, ``3 sites``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _describe_job(planned: Plan, job: Job, slot: Slot | None) -> str:
    stand, wanted = planned.stands[job.id], job.wanted
    blocks = format_count(wanted.blocks, "block")
    trials = f"{format_count(stand.planned, 'trial')} in {blocks} ({', '.join(wanted.systems)})"
    if slot is None:
        return f"{job.label}: {'complete' if stand.state == 'complete' else 'left out'}, {trials}"
    done = f", {stand.done} of them there" if stand.done else ""
    return (
        f"{job.label}: {wanted.profile}, {trials}{done}, about {words(planned.seconds(job))}, "
        f"from {words(slot.begin_s)} on"
    )
