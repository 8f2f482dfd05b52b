"""Carrying out a request on a site: the one way that the command line and notebooks share."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import Study, digest
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import session
from infrabench.experiment.execution.progress import OnProgress
from infrabench.ledger import catalogue
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.interrupts import raise_once

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteName:
    """Name and kind of a site that is not open."""

    name: str
    kind: str


def resolved(spec: str) -> str:
    """Return `spec`, and for ``auto`` the best site that this user has here."""
    from infrabench.machines.sites.site import resolve  # needs Fabric; reading sessions does not

    return resolve(spec)


def site_name(spec: str) -> SiteName:
    """Return name and kind of the site `spec` without opening it; `SiteError` when there is no such site."""
    from infrabench.machines.sites.site import name_and_kind  # needs Fabric; reading sessions does not

    return SiteName(*name_and_kind(spec))


def folder_for(study: Study, wanted: Design, site: session.Named) -> Path:
    """Return the session folder of a request: the same request finds the same folder, unless it names another."""
    name = wanted.request.session
    if name is not None:
        catalogue.check_name(name)
        if os.sep in name:
            return Path(name)
    chosen = name or f"{site.name}-{wanted.profile}-{digest(session.parameters(study, wanted, site), 8)}"
    return catalogue.home() / "data" / "runs" / study.name / chosen


def carry_out(
    wanted: Design, *, on_progress: OnProgress | None = None, look: session.LookAt | None = None,
) -> SessionFolder:  # fmt: skip
    """Run `wanted` on the site that its request names, and return its session.

    The site is not even opened for a session that is complete.
    """
    site = resolved(wanted.request.site)
    known = site_name(site)
    study = session.at(session.study_of(wanted), known)
    stored = SessionFolder(folder_for(study, wanted, known))
    if session.is_complete(stored, study, wanted, session.parameters(study, wanted, known)):
        begun = stored.session
        for system, reason in begun["not_run"].items():
            since = begun["created_utc"][:10]
            log.info("%s could not run on %s and is not tried again here: %s", system, since, reason)
        log.info("%s is complete; give another session name to measure anew", stored.path)
        return stored
    session.check_folder(study, wanted, stored)
    from infrabench.machines.sites.site import open_site

    with raise_once(log.info), open_site(site, log.info, session=stored.path.name) as opened:
        session.carry_out(study, wanted, opened, stored=stored, on_progress=on_progress, look=look)
    return stored
