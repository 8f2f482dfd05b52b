"""What the machines of an inventory need for a study: asked of its systems and workloads, which say it in `NEEDS`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infrabench import registry
from infrabench.core import DesignError, Study, unknown_name
from infrabench.machines import host_cache
from infrabench.machines.sites.inventory import Inventory, Machine

EVERYWHERE = {"python3": "python3", "timeout": "coreutils"}  # what a host says about itself; the limits of commands
HOST_ROLES = {"server": "server", "near": "server", "client": "client", "far": "client"}  # of a plan -> of an inventory
EVERY = "every study"


@dataclass(frozen=True, slots=True)
class Needs:
    """What one machine needs.

    `programs`: program or file -> Debian package, perhaps with its oldest version (``clang>=1:17~``), or nothing where
    it comes with the guest image. `modules`: file -> kernel module that makes it. `folders` are to be writable by the
    login. `nofile`: open files that its processes may have. `root`: only a login as root will do. `wanted`: program ->
    who asks for it.
    """

    programs: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    nofile: int = 0
    root: bool = False
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def package(self, program: str) -> tuple[str, str]:
        """Return the package of a program, and the oldest version that will do (empty: any)."""
        name, _, oldest = self.programs[program].partition(">=")
        return name, oldest


@dataclass(frozen=True, slots=True)
class SiteNeeds:
    """Machines by name, with what each needs; and what the plug-ins or the inventory say nothing of."""

    machines: Mapping[str, Machine]
    needs: Mapping[str, Needs]
    untold: tuple[str, ...]


def collect_needs(
    inventory: Inventory, studies: Sequence[str], systems: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
) -> SiteNeeds:  # fmt: skip
    """Return what the machines of an inventory need for studies, or for these systems and workloads of theirs.

    A machine that has several places is there once, under all its names. `DesignError` for a name that no study has.
    """
    found = [registry.study(name) for name in studies]
    _check("system", systems, [name for study in found for name in study.systems])
    _check("workload", workloads, [case.workload for study in found for case in _cases(study)])
    places = inventory.machines()
    needs: dict[str, Needs] = {}
    untold: list[str] = []
    for study in found:
        for place, part, who in _parts(study, inventory, systems, workloads, untold):
            mine = needs.setdefault(place, Needs(dict(EVERYWHERE), wanted=dict.fromkeys(EVERYWHERE, (EVERY,))))
            needs[place] = _join_needs(mine, part, who)
    return _merge_places(places, needs, tuple(dict.fromkeys(untold)))


def _parts(
    study: Study, inventory: Inventory, systems: Sequence[str] | None, workloads: Sequence[str] | None,
    untold: list[str],
) -> Iterable[tuple[str, Needs, str]]:  # fmt: skip
    """Return what each system and workload of a study needs, with the place that needs it."""
    chosen = [name for name in study.systems if systems is None or name in systems]
    if not chosen:
        return
    on_host = False
    for name in chosen:
        module: Any = registry.system(name)
        told: Mapping[str, Mapping[str, str]] | None = getattr(module, "NEEDS", None)
        if told is None:
            untold.append(f"{name} does not say what it needs of a host")
            continue
        on_host |= getattr(module, "ON_HOST", False)
        if "control" in told and name not in inventory.clusters:
            untold.append(f"the inventory names no machines for {name}")
        modules = dict(getattr(module, "MODULES", {}))
        for role, programs in told.items():
            if role not in HOST_ROLES:
                if name in inventory.clusters:
                    yield f"{name}-{role}", Needs(dict(programs), modules, root=True), name
                continue
            # What has devices of the kernel is made as root, as clusters are.
            yield _host(role, inventory), Needs(dict(programs), modules, root=bool(modules)), name
    limits = Needs(folders=(host_cache.FOLDER,), nofile=study.limits.nofile)
    if any(role in HOST_ROLES for name in chosen for role in getattr(registry.system(name), "NEEDS", {})):
        yield "server", limits, study.name
    for name in dict.fromkeys(case.workload for case in _cases(study)):
        if workloads is not None and name not in workloads:
            continue
        for role, programs in getattr(registry.workload(name), "PROGRAMS", {}).items():
            # Guests and pods have the tools in their image: the server itself needs them where it is what is measured.
            if role == "client" or on_host:
                yield _host(role, inventory), Needs(dict(programs), nofile=study.limits.nofile), name


def _host(role: str, inventory: Inventory) -> str:
    """Return the host that has a role of a plan: with one host the load is made on it too."""
    place = HOST_ROLES[role]
    return place if place in inventory.hosts else "server"


def _join_needs(mine: Needs, part: Needs, who: str) -> Needs:
    wanted = dict(mine.wanted)
    for program in part.programs:
        wanted[program] = tuple(dict.fromkeys((*wanted.get(program, ()), *part.wanted.get(program, (who,)))))
    programs = dict(mine.programs)
    for program, package in part.programs.items():
        if len(package) >= len(programs.get(program, "")):  # the one with a version says more
            programs[program] = package
    return Needs(
        programs, mine.modules | part.modules, tuple(dict.fromkeys((*mine.folders, *part.folders))),
        max(mine.nofile, part.nofile), mine.root or part.root, wanted,
    )  # fmt: skip


def _merge_places(places: Mapping[str, Machine], needs: Mapping[str, Needs], untold: tuple[str, ...]) -> SiteNeeds:
    """Return the machines that need something; one that has several places is asked once, for all of them."""
    names: dict[tuple[str, int, str, str | None], list[str]] = {}
    for place in needs:
        if place in places:
            each = places[place]
            names.setdefault((each.address, each.port, each.user, each.gateway), []).append(place)
    machines: dict[str, Machine] = {}
    joined: dict[str, Needs] = {}
    for same in names.values():
        called = " + ".join(same)
        machines[called] = places[same[0]]
        joined[called] = Needs()
        for place in same:
            joined[called] = _join_needs(joined[called], needs[place], place)
    return SiteNeeds(machines, joined, untold)


def _cases(study: Study) -> Iterable[Any]:
    return [case for profile in study.profiles.values() for case in profile.cases]


def _check(kind: str, given: Sequence[str] | None, known: Sequence[str]) -> None:
    if given is not None and not given:
        raise DesignError(f"no {kind} is named; leave the option out for all of them")
    for name in given or ():
        if name not in known:
            raise unknown_name(f"{kind} of these studies", name, set(known))
