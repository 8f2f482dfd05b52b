"""What this machine could run, system by system, asked without making or starting anything.

A system that is said to run may still be refused when it is made: whether a node's kernel has VXLAN, say, only a node
can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infrabench import registry
from infrabench.core import DeploySpec, InfrabenchError, NotRunnable, Site, Study, System
from infrabench.machines.lab import prebuild
from infrabench.machines.lab.availability import Enough, LabAhead
from infrabench.machines.sites.site import open_local


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why a system could not run in the lab here, and on this host itself (None: it could); what is made first."""

    lab: str | None
    local: str | None
    first: tuple[str, ...]


def check_systems(study: Study, systems: Sequence[str], disk_bytes: int, made: dict[str, bool]) -> dict[str, Outlook]:
    """Return the outlook of each system of a study; `disk_bytes`: most space that one of its trials needs.

    `made` begins empty, and keeps from study to study what is known of the Go tools.
    """
    found, local = {}, open_local(make=False)
    for number, label in enumerate(systems):
        name = study.variants[label].system if label in study.variants else label
        system = registry.system(name)
        spec = DeploySpec("outlook", study.limits, "", disk_bytes, len(systems) - number)
        first: tuple[str, ...] = ()
        try:
            lab = LabAhead(made=made)
        except NotRunnable as error:
            in_lab: str | None = str(error)
        else:
            in_lab = _find_obstacle(system, lab, spec)
            first = tuple(dict.fromkeys(lab.first)) if in_lab is None else ()
        found[label] = Outlook(in_lab, _find_obstacle(system, local), first)
    return found


def seconds(first: Sequence[str]) -> float:
    """Return about how long it takes, once, to make all of `Outlook.first` on two cores, besides downloads."""
    return prebuild.seconds(list(dict.fromkeys(first)))


def _find_obstacle(system: System, site: Site, spec: DeploySpec | None = None) -> str | None:
    """Return None, or why the system cannot run there; with `spec` it is asked up to where it would make something."""
    try:
        reason = system.supported(site)
        if reason is None and spec is not None:
            with system.deploy(site, spec):
                pass
    except Enough:
        return None
    except InfrabenchError as error:
        return str(error)
    return reason
