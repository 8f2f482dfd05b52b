"""What the machines of an inventory need for studies: what their systems and workloads say, and our own files.

The files are helpers and settings of servers that `native` needs too. They are taken from the image that every guest is
made from, so that the host runs the very same.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from infrabench import registry
from infrabench.core import DesignError, Study, unknown_name
from infrabench.machines import host_cache
from infrabench.machines.sites.inventory import Inventory, Machine
from infrabench.machines.sites.platforms import Say, find_platforms

EVERYWHERE = {"python3": "python3", "timeout": "coreutils"}  # what a host says about itself; the limits of commands
HOST_ROLES = {"server": "server", "near": "server", "client": "client", "far": "client"}  # of a plan -> of an inventory
OURS = re.compile(r"usr/local/bin/ib-[a-z-]+|(?:etc|srv)/infrabench/[A-Za-z0-9_./-]+")
FOLDERS = re.compile(r"srv/infrabench/[a-z]+|var/log/infrabench")  # that its servers write to or read from
LARGEST = 2**24  # bytes of a file


@dataclass(frozen=True, slots=True)
class Needs:
    """What one machine needs.

    `programs`: program or file -> Debian package, perhaps with its oldest version (``clang>=1:17~``), or nothing where
    it comes with the guest image. `modules`: file -> kernel module that makes it. `folders` are to be writable by the
    login. `nofile`: open files that its processes may have. `root`: only a login as root will do. `wanted`: program ->
    who asks for it.
    """

    programs: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    nofile: int = 0
    root: bool = False
    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def package(self, program: str) -> tuple[str, str]:
        """Return the package of a program, and the oldest version that will do (empty: any)."""
        name, _, oldest = self.programs[program].partition(">=")
        return name, oldest

    def packages(self, programs: Sequence[str] | None = None) -> list[str]:
        """Return the packages of programs (default: of all), sorted."""
        chosen = self.programs if programs is None else programs
        return sorted({self.package(each)[0] for each in chosen} - {""})


@dataclass(frozen=True, slots=True)
class SiteNeeds:
    """Machines of an inventory by name, with what each needs; and what the plug-ins or the inventory say nothing of."""

    inventory: Inventory
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
    for kind, given, names in (
        ("system", systems, {name for study in found for name in study.systems}),
        ("workload", workloads, {name for study in found for name in _workloads(study)}),
    ):
        if given is not None and not given:
            raise DesignError(f"no {kind} is named; leave the option out for all of them")
        for name in given or ():
            if name not in names:
                raise unknown_name(f"{kind} of these studies", name, names)
    places = inventory.machines()
    needs: dict[tuple[object, ...], Needs] = {}  # by machine
    called: dict[tuple[object, ...], dict[str, None]] = {}
    untold: list[str] = []
    for study in found:
        for place, part, who in _parts(study, inventory, systems, workloads, untold):
            if each := places.get(place):
                machine = each.address, each.port, each.user, each.gateway
                called.setdefault(machine, {})[place] = None
                needs[machine] = _join(needs.get(machine), part, who)
    title = {machine: " + ".join(same) for machine, same in called.items()}
    machines = {title[machine]: places[next(iter(same))] for machine, same in called.items()}
    named = {title[machine]: each for machine, each in needs.items()}
    return SiteNeeds(inventory, machines, named, tuple(dict.fromkeys(untold)))


def _parts(
    study: Study, inventory: Inventory, systems: Sequence[str] | None, workloads: Sequence[str] | None,
    untold: list[str],
) -> Iterator[tuple[str, Needs, str]]:  # fmt: skip
    """Yield what each system and workload of a study needs, with the place that needs it."""
    chosen = [name for name in study.systems if systems is None or name in systems]
    of_host = {  # with one host the load is made on it too
        role: place if place in inventory.hosts else "server" for role, place in HOST_ROLES.items()
    }
    has_host = on_host = False
    for name in chosen:
        module: Any = registry.system(name)
        if (told := getattr(module, "NEEDS", None)) is None:
            untold.append(f"{name} does not say what it needs of a host")
            continue
        on_host |= getattr(module, "ON_HOST", False)
        if "control" in told and name not in inventory.clusters:
            untold.append(f"the inventory names no machines for {name}")
        modules = dict(getattr(module, "MODULES", {}))
        for role, programs in told.items():
            has_host |= role in of_host
            as_root = role not in of_host or bool(modules)  # clusters, and what has devices of the kernel
            yield of_host.get(role, f"{name}-{role}"), Needs(programs, modules, root=as_root), name
    if has_host:
        yield "server", Needs(folders=(host_cache.FOLDER,), nofile=study.limits.nofile), study.name
    for name in _workloads(study) if chosen else ():
        if workloads is not None and name not in workloads:
            continue
        for role, programs in getattr(registry.workload(name), "PROGRAMS", {}).items():
            # Guests and pods have the tools in their image: the server itself needs them where it is what is measured.
            if role == "client" or on_host:
                yield of_host[role], Needs(programs, nofile=study.limits.nofile), name


def _workloads(study: Study) -> list[str]:
    return list(dict.fromkeys(case.workload for profile in study.profiles.values() for case in profile.cases))


def _join(mine: Needs | None, part: Needs, who: str) -> Needs:
    """Return the needs of a machine together with a part that somebody wants there."""
    mine = mine or Needs(EVERYWHERE, wanted=dict.fromkeys(EVERYWHERE, ("every study",)))
    programs, wanted = dict(mine.programs), dict(mine.wanted)
    for program, package in part.programs.items():
        programs[program] = max(package, programs.get(program, ""), key=len)  # the one with a version says more
        wanted[program] = tuple(dict.fromkeys((*wanted.get(program, ()), who)))
    return Needs(
        programs, {**mine.modules, **part.modules}, tuple(dict.fromkeys((*mine.folders, *part.folders))),
        max(mine.nofile, part.nofile), mine.root or part.root, wanted,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    """A file of ours."""

    path: str
    mode: int
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class GuestFiles:
    """Files and folders of ours; none where the image cannot be made here, and `reason` says why."""

    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()
    reason: str = ""


def load_files(say: Say) -> GuestFiles:
    """Return what is ours in the guest image, which is made first where it is not there yet."""
    image = find_platforms().guest_image(say)
    if image["guest_image"] is None:
        return GuestFiles(reason=image["guest_image_reason"])
    found, folders = {}, set()
    try:
        with tarfile.open(image["guest_image"]["tar"]) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isdir() and FOLDERS.fullmatch(name):
                    folders.add(f"/{name}")
                if member.isfile() and OURS.fullmatch(name) and ".." not in name and member.size <= LARGEST:
                    content = archive.extractfile(member)
                    assert content is not None
                    found[name] = File(f"/{name}", member.mode & 0o777, content.read())
    except (tarfile.TarError, OSError) as error:
        return GuestFiles(reason=f"it cannot be read: {error}")
    return GuestFiles(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))
