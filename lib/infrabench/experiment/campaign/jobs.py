"""The jobs of a campaign: one study on one site each, with a session whose name follows from the campaign alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from infrabench import registry
from infrabench.core import DesignError, InfrabenchError, Study
from infrabench.experiment.campaign.file import PROFILE, Campaign
from infrabench.experiment.campaign.sites import Site
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue
from infrabench.ledger.records import SESSION
from infrabench.ledger.session_folder import SessionFolder

State = Literal["complete", "partial", "missing"]


@dataclass(frozen=True)
class Job:
    """One study on one site: `label` is the study's label in the campaign, `folder` its session's."""

    label: str
    site: Site
    study: Study
    wanted: Design
    folder: Path
    notebook: Path

    @property
    def id(self) -> str:
        """Return what nothing else in the campaign is called: a part of file names."""
        return f"{self.site.label}.{self.label}"

    @property
    def session(self) -> str:
        """Return the name of its session."""
        assert self.wanted.request.session is not None
        return self.wanted.request.session

    @property
    def session_parameters(self) -> dict[str, Any]:
        """Return the parameters of the session, as its ledger keeps them."""
        return session.parameters(self.study, self.wanted, self.site)


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a job's session is, as its ledger says."""

    state: State
    done: int
    planned: int


def of(campaign: Campaign, known: Mapping[str, Site]) -> tuple[list[Job], list[str]]:
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


def stand(job: Job) -> Stand:
    """Return how far a job is; `LedgerError` when its session is damaged, or was made with other parameters."""
    planned = job.wanted.blocks * len(designs.treatments(job.wanted))
    if not (job.folder / SESSION).is_file():
        return Stand("missing", 0, planned)
    stored = SessionFolder(job.folder)
    complete = session.is_complete(stored, job.study, job.wanted, job.session_parameters)
    done = sum(trial.id in stored.records for trial in stored.awaited)
    return Stand("complete" if complete else "partial", done, len(stored.awaited))


def spec(job: Job, out: str) -> dict[str, Any]:
    """Return, as data, what `rebuild` and the job's process need; its figures and tables are written below `out`."""
    parameters = job.wanted.request.given()
    return {
        "id": job.id,
        "request": parameters,
        "site": {"label": job.site.label, "target": job.site.target, "name": job.site.name, "kind": job.site.kind},
        "notebook": str(job.notebook),
        "notebook_parameters": {**{k: v for k, v in parameters.items() if k != "study"}, "mode": "run", "out": out},
    }


def rebuild(data: Mapping[str, Any]) -> Job:
    """Return the job of what `spec` returned."""
    asked = dict(data["request"])
    study, wanted = request(asked.pop("study"), asked)
    return _job(data["id"].partition(".")[2], Site(**data["site"]), asked["session"], study, wanted)


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
    at = session.at(study, site)
    wanted = replace(wanted, request=replace(wanted.request, site=site.target, session=name))
    folder = runs.folder_for(at, wanted, runs.SiteName(site.name, site.kind))
    return Job(label, site, at, wanted, folder, _notebook(study))


def reason(error: InfrabenchError) -> str:
    """Return what an error says, on one line, for a file."""
    return " ".join(str(error).split())
