"""From what a host needs and what it has to the commands that make it ready: the same ones are shown and run.

Nothing that is there is upgraded unless that is asked for, and nothing is ever removed: what would take that is told,
and not done. Servers that a package brings are masked first: trials start their own, and none may run beside them.

The suite's own files of a guest, helpers and settings of servers that `native` needs too, are taken from the image that
every guest is made from, so that the host runs the very same.
"""

from __future__ import annotations

import io
import re
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from infrabench.core import InfrabenchError
from infrabench.machines.sites.prepare.requirements import Needs
from infrabench.machines.sites.prepare.survey import Change, HostSurvey

APT_S = 900.0
STEP_S = 60.0
LIMITS = "/etc/security/limits.d/infrabench.conf"
# Environment: ask nothing, and restart no service of the host (Ubuntu's needrestart would).
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "apt-get", "-o", "DPkg::Lock::Timeout=120")
_KEEP = ("-o", "Dpkg::Options::=--force-confold")  # configuration files of the host stay as they are
# Package -> units that it would start by itself.
STAYS_OFF: Mapping[str, tuple[str, ...]] = {
    "apache2": ("apache2.service", "apache-htcacheclean.service"), "vsftpd": ("vsftpd.service",),
    "postfix": ("postfix.service",), "lxc": ("lxc-net.service",), "iperf3": ("iperf3.service",),
    "netperf": ("netperf.service",), "mariadb-server": ("mariadb.service",),
}  # fmt: skip
OURS = re.compile(r"usr/local/bin/ib-[a-z-]+|(?:etc|srv)/infrabench/[A-Za-z0-9_./-]+")
FOLDERS = re.compile(r"srv/infrabench/[a-z]+|var/log/infrabench")  # that its servers write to or read from
LARGEST = 2**24  # bytes of a file
UNKNOWN = "Are its lists up to date (--update), and is its component in its sources (Debian's contrib, non-free)?"
Simulate = Callable[[Sequence[str]], "tuple[Change, ...] | str"]
Older = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class File:
    """A file of ours: its content comes from the guest image, so that all systems use the same."""

    path: str
    mode: int
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a preparation: words, never a shell's text; `stdin` is what it reads."""

    argv: tuple[str, ...]
    timeout_s: float = STEP_S
    stdin: bytes = b""
    holds: tuple[str, ...] = ()  # paths of the files in what it reads

    def __str__(self) -> str:
        told = f"  # reads {len(self.stdin)} bytes: {', '.join(self.holds)}" if self.stdin else ""
        return shlex.join(self.argv) + told


@dataclass(frozen=True, slots=True)
class Package:
    """A package that is to be installed, or upgraded, and who wants it; `new` is empty until apt's lists are there."""

    name: str
    old: str
    new: str
    wanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What is to be done on a host. `problems` are needs that stay unmet; `by_hand`: root is needed and not had."""

    survey: HostSurvey
    packages: tuple[Package, ...] = ()
    depends: int = 0  # further packages that come with them
    commands: tuple[Command, ...] = ()
    problems: tuple[str, ...] = ()
    by_hand: bool = False
    updates: bool = False  # apt's lists are brought up to date first: versions are not known before

    @property
    def unmet(self) -> tuple[str, ...]:
        """What the commands will not mend, if they can be run at all."""
        return (*self.problems, *(("an administrator has to run its commands",) if self.by_hand else ()))


@dataclass(frozen=True, slots=True)
class Options:
    """`upgrade`: packages that are there may be upgraded. `update`: bring apt's lists up to date in any case."""

    upgrade: bool = False
    update: bool = False


@dataclass
class _Draft:
    commands: list[Command] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def make_plan(
    needs: Needs, survey: HostSurvey, files: Sequence[File], *, options: Options, simulate: Simulate, older: Older,
    no_files: str = "", made_for: str = "", updated: bool = False,
) -> HostPlan:  # fmt: skip
    """Return the plan for a host.

    `files` are ours for it, programs for machines `made_for`; `no_files` is why there are none where some are needed.
    `updated`: apt's lists were just brought up to date.
    """
    if not survey.is_debian:
        if not survey.absent:
            return HostPlan(survey)
        packages = sorted({needs.package(each)[0] for each in survey.absent & needs.programs.keys()} - {""})
        told = f"it is {survey.title}: packages are installed on Debian and Ubuntu only"
        lacks = f". Install what these are on Debian: {' '.join(packages)}" if packages else ""
        return HostPlan(survey, problems=(told + lacks,))
    draft = _Draft()
    if needs.root and survey.root != "yes":
        draft.problems.append(f"clusters and storage are made as root, and the login is {survey.login}: log in as root")
    packages, updates = _select_packages(needs, survey, options, older, updated, draft)
    depends = 0
    as_root = ("sudo", "-n") if survey.root == "sudo" else ()
    if packages:
        packages, depends = _install(packages, survey, updates, as_root, options, simulate, draft)
    elif updates:
        draft.commands.append(Command((*as_root, *_APT, "update"), APT_S))
    if files and survey.machine != made_for:
        files, no_files = (), f"its programs are for {made_for}, not for {survey.machine}: steer from such a machine"
    limits, reason = _make_limit(needs, survey)
    draft.problems += [reason] if reason else []
    _folders_and_files(needs, survey, (*files, *limits), no_files, as_root, draft)
    if modules := [module for device, module in needs.modules.items() if device in survey.absent]:
        draft.commands.append(Command((*as_root, "modprobe", "--all", *modules)))
    by_hand = survey.root == "no" and bool(draft.commands)
    return HostPlan(
        survey, tuple(packages), depends, tuple(draft.commands), tuple(draft.problems), by_hand,
        updates and bool(draft.commands),
    )  # fmt: skip


def _select_packages(
    needs: Needs, survey: HostSurvey, options: Options, older: Older, updated: bool, draft: _Draft
) -> tuple[list[Package], bool]:
    """Return the packages that are lacking, and whether apt's lists have to be brought up to date for them."""
    programs: dict[str, list[str]] = {}
    for program in needs.programs:
        programs.setdefault(needs.package(program)[0], []).append(program)
    programs.pop("", None)
    found: list[Package] = []
    for name, mine in sorted(programs.items()):
        have, new = survey.installed.get(name, ""), survey.candidates.get(name, "")
        absent = [program for program in mine if program in survey.absent or name in survey.half]
        floor = max((needs.package(program)[1] for program in mine), key=len)
        stale = bool(have and floor) and older(have, floor)
        newer = bool(have and new) and new != have and not older(new, have)
        if not (absent or stale or (newer and options.upgrade)):
            continue
        who = tuple(dict.fromkeys(each for program in absent or mine for each in needs.wanted.get(program, ())))
        told = ", ".join(who)
        if have and not (newer and options.upgrade):
            what = f"is older than the {floor} that" if stale else f"has no {', '.join(absent)}, which"
            draft.problems.append(f"{name} {have} {what} {told} needs" + (": --upgrade allows a newer one" * newer))
        elif new and floor and older(new, floor):
            draft.problems.append(f"{name}: apt offers {new}, and {told} needs {floor} or later")
        elif not new and (updated or (survey.lists and not options.update)):
            draft.problems.append(f"{name}: apt knows no such package (for {told}). {UNKNOWN}")
        else:
            found.append(Package(name, have, new, who))
    return found, not updated and (options.update or (bool(found) and not survey.lists))


def _install(
    packages: list[Package], survey: HostSurvey, updates: bool, as_root: tuple[str, ...], options: Options,
    simulate: Simulate, draft: _Draft,
) -> tuple[list[Package], int]:  # fmt: skip
    """Add the commands that install packages; return which ones, and how many more come along.

    Packages that would take more than installing are told instead, with why.
    """
    along = 0
    if updates:
        draft.commands.append(Command((*as_root, *_APT, "update"), APT_S))
    else:
        packages, along = _check_packages(packages, options, simulate, draft)
    names = [each.name for each in packages]
    units = [unit for name in names if name not in survey.installed for unit in STAYS_OFF.get(name, ())]
    if units and survey.systemd:
        draft.commands.append(Command((*as_root, "systemctl", "mask", *units)))
    if names:
        draft.commands.append(Command((*as_root, *_installing(names, options)), APT_S))
    return packages, along


def _installing(names: Sequence[str], options: Options) -> tuple[str, ...]:
    keep = () if options.upgrade else ("--no-upgrade",)
    return (*_APT, *_KEEP, "install", "--yes", "--no-install-recommends", "--no-remove", *keep, *names)


def _check_packages(
    packages: list[Package], options: Options, simulate: Simulate, draft: _Draft
) -> tuple[list[Package], int]:  # fmt: skip
    """Return the packages that apt would only install, and how many more come along; the problem of each other one."""
    reason, along = _simulate_install(packages, options, simulate)
    if not reason:
        return packages, along
    reasons = {each.name: _simulate_install([each], options, simulate)[0] for each in packages}
    good = [each for each in packages if not reasons[each.name]]
    again, along = _simulate_install(good, options, simulate) if good and len(good) < len(packages) else ("", 0)
    if len(good) == len(packages) or again:  # only together they would
        draft.problems.append(f"installing {' '.join(each.name for each in good)} {again or reason}")
        good, along = [], 0
    draft.problems += [
        f"installing {name} (for {', '.join(each.wanted)}) {reasons[name]}"
        for each in packages for name in [each.name] if reasons[name]
    ]  # fmt: skip
    return good, along


def _simulate_install(packages: Sequence[Package], options: Options, simulate: Simulate) -> tuple[str, int]:
    """Return why apt's own simulation stands against installing packages (empty: nothing), and how many come along."""
    names = [each.name for each in packages]
    # Asked as if packages might go: apt then says which.
    told = simulate([word for word in _installing(names, options) if word != "--no-remove"])
    if isinstance(told, str):
        return f"is refused by apt: {told}", 0
    if removed := [each.package for each in told if not each.new]:
        return f"would remove {', '.join(removed[:10])}: take other systems or workloads, or remove it yourself", 0
    upgraded = [f"{each.package} {each.old} -> {each.new}" for each in told if each.old]
    if upgraded and not options.upgrade:
        return f"would upgrade what is there: {', '.join(upgraded[:10])}. --upgrade allows it", 0
    return "", sum(1 for each in told if each.package not in names)


def _folders_and_files(
    needs: Needs, survey: HostSurvey, files: Sequence[File], no_files: str, as_root: tuple[str, ...], draft: _Draft
) -> None:
    if folders := [folder for folder in needs.folders if folder in survey.absent]:
        owner = () if survey.root == "yes" else (f"--owner={survey.login}",)
        draft.commands.append(Command((*as_root, "install", "--directory", "--mode=755", *owner, *folders)))
    ours = [program for program in needs.programs if not needs.programs[program] and program in survey.absent]
    if ours and no_files:
        draft.problems.append(f"{', '.join(ours)} come with the guest image, and {no_files}")
    if other := [each for each in files if survey.hashes.get(each.path) != each.sha256]:
        # Folders that are there keep their owners and modes: the archive holds files alone.
        argv = ("tar", "--extract", "--directory=/", "--no-same-owner", "--preserve-permissions", "--touch", "--file=-")
        paths = tuple(each.path for each in other)
        draft.commands.append(Command((*as_root, *argv), stdin=_archive(other), holds=paths))


def _archive(files: Sequence[File]) -> bytes:
    """Return an archive of the files, the same for the same ones."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for each in files:
            member = tarfile.TarInfo(each.path.lstrip("/"))
            member.size, member.mode = len(each.data), each.mode
            tar.addfile(member, io.BytesIO(each.data))
    return packed.getvalue()


def _make_limit(needs: Needs, survey: HostSurvey) -> tuple[tuple[File, ...], str]:
    """Return the file that allows the login as many open files as are needed, or why none would help."""
    if survey.nr_open < needs.nofile:
        return (), f"its kernel allows {survey.nr_open:.0f} open files, {needs.nofile} are needed: raise fs.nr_open"
    if survey.root == "yes" or survey.nofile >= needs.nofile:  # root may raise its own
        return (), ""
    file = File(LIMITS, 0o644, f"{survey.login} - nofile {needs.nofile}\n".encode())
    if survey.hashes.get(LIMITS) == file.sha256:
        told = f"{LIMITS} allows {needs.nofile} open files and the login has {survey.nofile:.0f}"
        return (), f"{told}: does its SSH server use PAM?"
    return (file,), ""


@dataclass(frozen=True, slots=True)
class GuestFiles:
    """Files and folders of ours; none where the image cannot be made here, and `reason` says why."""

    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()
    reason: str = ""


def read_files(tar: Path) -> GuestFiles:
    """Return what is ours in the guest image's archive."""
    found, folders = {}, set()
    with tarfile.open(tar) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir() and FOLDERS.fullmatch(name):
                folders.add(f"/{name}")
            if not member.isfile() or not OURS.fullmatch(name) or ".." in name or member.size > LARGEST:
                continue
            content = archive.extractfile(member)
            assert content is not None
            found[name] = File(f"/{name}", member.mode & 0o777, content.read())
    return GuestFiles(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))


def load_files(say: Callable[[str], None]) -> GuestFiles:
    """Return what is ours, with the image made first where it is not there yet."""
    from infrabench.machines.lab import images  # needs the tools of the lab

    try:
        return read_files(images.make("guest", say).tar)
    except (InfrabenchError, tarfile.TarError, OSError) as error:
        return GuestFiles(reason=f"it cannot be made here: {str(error).strip().splitlines()[-1]}")
