"""The systems of a session, made ready once, and switched between trials by pausing and resuming them.

A label of the study may be a variant of a system (`core.Variant`): it shares that system's deployment, and what its
effect needs is switched on when it begins to be measured and off when another label does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from ipaddress import ip_network

from infrabench import registry
from infrabench.core import CommandFailed, Deployment, DeploySpec, NotRunnable, ProvisionError, Site, Study, Variant
from infrabench.experiment.design.design import Design
from infrabench.machines.sites import redaction

log = logging.getLogger(__name__)

GUEST_NETWORK = "198.18.64.0/24"  # in the range for benchmarks (RFC 2544); a site may name another
FIRST_GUEST = 10
CGROUPS = "{cgroups}"


class Fleet:
    """Deployments by label, which of them run now, and why the other systems are not there."""

    def __init__(self, site: Site, variants: Mapping[str, Variant]) -> None:
        self.deployments: dict[str, Deployment] = {}
        self.not_run: dict[str, str] = {}
        self.evidence: dict[str, str] = {}  # of those, what was left to say beyond the reason
        self._site, self._variants = site, variants
        self._made: dict[str, Deployment] = {}
        self._paused: set[str] = set()
        self._entered: str | None = None

    def add(self, system: str, made: Deployment, labels: tuple[str, ...]) -> None:
        """Add the deployment of a system, under every label that stands for it."""
        self._made[system] = made
        for label in labels:
            variant = self._variants.get(label)
            if variant is None:
                self.deployments[label] = made
                continue
            targets = {
                role: replace(each, prefix=(*each.prefix, *variant.prefix)) for role, each in made.targets.items()
            }
            facts = {**made.facts, "variant": asdict(variant)}
            self.deployments[label] = replace(made, system=label, targets=targets, facts=facts, pause=None, resume=None)

    def system(self, label: str) -> str:
        """Return the system that a label stands for."""
        return self._variants[label].system if label in self._variants else label

    def pause(self, system: str) -> None:
        """Pause a system; one that has nothing to pause, or is paused, stays as it is."""
        if (pause := self._made[system].pause) is not None and system not in self._paused:
            pause()
            self._paused.add(system)

    def resume(self, system: str) -> None:
        """Resume a system that is paused."""
        if (resume := self._made[system].resume) is not None and system in self._paused:
            resume()
            self._paused.discard(system)

    def resume_all(self) -> None:
        """Resume every system."""
        for system in self._made:
            self.resume(system)

    def run_only(self, label: str) -> None:
        """Let one system run as `label` and pause all others; costs nothing when that is so already."""
        wanted = self.system(label)
        for other in self._made:
            if other != wanted:
                self.pause(other)
        self.resume(wanted)
        if self._entered != label:
            self.leave()
            self._entered = label  # before its commands: what they half did is undone too
            self._switch(label, "enter")

    def leave(self) -> None:
        """Switch off what the label that was measured last had switched on."""
        label, self._entered = self._entered, None
        if label is not None:
            self._switch(label, "leave")

    def left_behind(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Leave at the end; what went wrong before is more worth telling than that this fails too."""
        try:
            self.leave()
        except ProvisionError as second:
            if error is None:
                raise
            log.warning("%s", second)

    def _switch(self, label: str, when: str) -> None:
        variant = self._variants.get(label)
        for role, argv in getattr(variant, when) if variant else ():
            folders = self.deployments[label].facts.get("cgroups", ())
            full = [part for arg in argv for part in (folders if arg == CGROUPS else (arg,))]
            result = self._site.hosts[role].run(full, timeout_s=30)
            if not result.ok:
                raise ProvisionError(
                    f"cannot {when} {label}: {CommandFailed(result, self._site.hosts[role].name)}. Its effect is "
                    "switched on and off as root: take the lab, or hosts with a root login"
                )


@contextmanager
def deployed(study: Study, wanted: Design, site: Site, *, label: str) -> Iterator[Fleet]:
    """Make ready every wanted system that can run on `site`, each paused while the next is made; yield them.

    Raises `NotRunnable` when the baseline cannot run here, so that there would be nothing to compare with, and
    `ProvisionError` when a system that can run here could not be made ready.
    """
    network = ip_network(site.facts.get("guest_network", GUEST_NETWORK))
    fleet = Fleet(site, study.variants)
    with ExitStack() as stack:
        names = list(dict.fromkeys(fleet.system(each) for each in wanted.systems))
        disk_bytes = max((case.disk_bytes for case in wanted.cases), default=0)
        two_nodes = any(case.params.get("placement") == "two-nodes" for case in wanted.cases)
        for number, name in enumerate(names):
            labels = tuple(each for each in wanted.systems if fleet.system(each) == name)
            system = registry.system(name)
            reason, evidence = system.supported(site), ""
            if reason is None:
                log.info("making %s ready", name)
                address = str(network[FIRST_GUEST + number])
                spec = DeploySpec(label, study.limits, address, disk_bytes, len(names) - number, two_nodes)
                try:
                    fleet.add(name, stack.enter_context(system.deploy(site, spec)), labels)
                except NotRunnable as error:
                    reason, evidence = str(error), error.evidence
                else:
                    fleet.pause(name)
                    stack.callback(fleet.resume, name)  # an engine may refuse to remove what is paused
            if reason is not None:
                reason = redaction.text(reason, site.private)  # it is shown, and kept
                fleet.not_run |= dict.fromkeys(labels, reason)
                if evidence:
                    fleet.evidence |= dict.fromkeys(labels, evidence)
                log.warning("%s is not run: %s", name, reason)
                if study.baseline in labels:
                    raise NotRunnable(
                        f"the baseline {study.baseline!r} cannot run on {site.name}: {reason}. Name systems that can: "
                        "where the study's baseline is not among them, the first is what the others are compared with"
                    )
        stack.push(fleet.left_behind)
        yield fleet
