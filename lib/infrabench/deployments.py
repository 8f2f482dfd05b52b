"""The systems of a session, made ready once, and switched between trials by pausing and resuming them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, DesignError, NotRunnable, Site, Study
from infrabench.design import Design

log = logging.getLogger(__name__)

GUEST_NETWORK = "198.18.64.0/24"  # in the range for benchmarks (RFC 2544); a site may name another
FIRST_GUEST = 10


class Fleet:
    """Deployments by system, which of them run now, and why the other systems are not there."""

    def __init__(self) -> None:
        self.deployments: dict[str, Deployment] = {}
        self.not_run: dict[str, str] = {}
        self._paused: set[str] = set()

    def pause(self, name: str) -> None:
        """Pause a system; one that has nothing to pause, or is paused, stays as it is."""
        pause = self.deployments[name].pause
        if pause is not None and name not in self._paused:
            pause()
            self._paused.add(name)

    def resume(self, name: str) -> None:
        """Resume a system that is paused."""
        resume = self.deployments[name].resume
        if resume is not None and name in self._paused:
            resume()
            self._paused.discard(name)

    def resume_all(self) -> None:
        """Resume every system."""
        for name in self.deployments:
            self.resume(name)

    def run_only(self, name: str) -> None:
        """Let one system run and pause all others; costs nothing when that is so already."""
        for other in self.deployments:
            if other != name:
                self.pause(other)
        self.resume(name)


@contextmanager
def deployed(study: Study, wanted: Design, site: Site, *, label: str) -> Iterator[Fleet]:
    """Make ready every wanted system that can run on `site`, each paused while the next is made; yield them.

    Raises
    ------
    DesignError
        The baseline cannot run here, so there would be nothing to compare with.
    ProvisionError
        A system that can run here could not be made ready.
    """
    network = ip_network(site.facts.get("guest_network", GUEST_NETWORK))
    fleet = Fleet()
    with ExitStack() as stack:
        for number, name in enumerate(wanted.systems):
            system = registry.system(name)
            reason = system.supported(site)
            if reason is None:
                log.info("making %s ready", name)
                spec = DeploySpec(label, study.limits, str(network[FIRST_GUEST + number]))
                try:
                    fleet.deployments[name] = stack.enter_context(system.deploy(site, spec))
                except NotRunnable as error:
                    reason = str(error)
                else:
                    fleet.pause(name)
                    stack.callback(fleet.resume, name)  # an engine may refuse to remove what is paused
            if reason is not None:
                fleet.not_run[name] = reason
                log.warning("%s is not run: %s", name, reason)
                if name == study.baseline:
                    raise DesignError(f"the baseline {name!r} cannot run on {site.name}: {reason}")
        yield fleet
