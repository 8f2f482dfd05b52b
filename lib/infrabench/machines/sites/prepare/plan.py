"""What a host has, and the commands that make it ready for what it needs: the same ones are shown and run.

A host is asked with a script that changes nothing there (apt may renew its own caches, as it always does). Nothing that
is there is upgraded unless that is asked for, and nothing is ever removed: what would take that is told, and not done.
Servers that a package brings are masked first: trials start their own, and none may run beside them.
"""

from __future__ import annotations

import io
import platform
import re
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from infrabench.core import CommandFailed, Host, ParseError, SiteError
from infrabench.machines.hosts.host import run_checked
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs

ASK_S, SIMULATE_S = 60.0, 180.0
NEVER = float("inf")  # a limit that a host does not tell is none that could be seen
LIMITS = "/etc/security/limits.d/infrabench.conf"
# Environment: ask nothing, and restart no service of the host (Ubuntu's needrestart would).
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "apt-get", "-o", "DPkg::Lock::Timeout=120")
_KEEP = ("-o", "Dpkg::Options::=--force-confold")  # configuration files of the host stay as they are
# Folders that are there keep their owners and modes: the archive holds files alone.
_UNPACK = ("tar", "--extract", "--directory=/", "--no-same-owner", "--preserve-permissions", "--touch", "--file=-")
# Package -> units that it would start by itself.
STAYS_OFF: Mapping[str, tuple[str, ...]] = {
    "apache2": ("apache2.service", "apache-htcacheclean.service"), "vsftpd": ("vsftpd.service",),
    "postfix": ("postfix.service",), "lxc": ("lxc-net.service",), "iperf3": ("iperf3.service",),
    "netperf": ("netperf.service",), "mariadb-server": ("mariadb.service",),
    "redis-server": ("redis-server.service",),
}  # fmt: skip
APART = {"docker.io": "docker-cli"}  # package -> one that has its program where apt offers it: from Debian 13 on
UNKNOWN = "Are its lists up to date (--update), and is its component in its sources (Debian's contrib, non-free)?"
_CHANGE = re.compile(r"(Inst|Remv) ([a-z0-9][a-z0-9+.:-]*)(?: \[([^\]]*)\])?(?: \((\S+)[^)]*\))?.*")
# Prints a line for each fact, marked, since a login may say things of its own. $1, ...: kind=name of what is needed.
_ASK = r"""
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
say() { printf 'fact: %s\n' "$*"; }
say login "$(id -un)"
if [ "$(id -u)" = 0 ]; then say root yes
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then say root sudo
else say root no; fi
(. /etc/os-release 2>/dev/null && say title "${PRETTY_NAME:-}" && say system "${ID:-} ${ID_LIKE:-}")
say machine "$(uname -m)"
say kernel "$(uname -r)"
[ ! -d /run/systemd/system ] || say systemd yes
for list in /var/lib/apt/lists/*_Packages*; do [ ! -e "$list" ] || { say lists yes; break; }; done
say nofile "$(ulimit -Hn)"
say nr_open "$(cat /proc/sys/fs/nr_open 2>/dev/null)"
packages='' policy=''
for each in "$@"; do
  name=${each#*=}
  case $each in
    package=*) packages="$packages $name" ;;
    file=*) [ ! -f "$name" ] || say file "$(sha256sum -- "$name")" ;;
    folder=*) { [ -d "$name" ] && [ -w "$name" ]; } || say absent "$name" ;;
    *=/*) ls -d $name >/dev/null 2>&1 || say absent "$name" ;;  # a pattern, perhaps
    *) command -v "$name" >/dev/null || say absent "$name" ;;
  esac
done
! command -v apt-get >/dev/null || {
  say architecture "$(dpkg --print-architecture)"
  dpkg-query -W -f='fact: package ${Package} ${Architecture} ${Version} ${db:Status-Status}\n' || exit 1
  [ -z "$packages" ] || policy=$(apt-cache policy $packages) || exit 1
  printf '%s\n' "$policy" | awk '
    /^[^ ]/ { sub(/:$/, ""); name = $1 }
    $1 == "Candidate:" && $2 != "(none)" { print "fact: offer", name, $2 }'
}
say end
"""


@dataclass(frozen=True, slots=True)
class HostSurvey:
    """What a host has, and which of its needs are not met.

    `root`: ``yes``, ``sudo`` (without a password) or ``no``. `architecture` is that of its packages, empty where they
    are neither Debian's nor Ubuntu's. `lists`: apt has lists of packages. `absent`: programs, device files and folders.
    `installed` and `offered` are versions by package, `half` those that were not installed to the end. `hashes`:
    path -> SHA-256 of the files of ours that are there.
    """

    root: str
    login: str
    title: str
    kernel: str
    machine: str
    architecture: str
    systemd: bool
    lists: bool
    nofile: float
    nr_open: float
    absent: frozenset[str]
    installed: Mapping[str, str]
    half: frozenset[str]
    offered: Mapping[str, str]
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A package that is installed, upgraded (`old` and `new`) or removed (no `new`), and who wants it.

    Of what a host needs, `new` is also empty while apt has no lists. `optional`: newer than what is there, which will
    do.
    """

    package: str
    old: str
    new: str
    wanted: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a preparation: words, never a shell's text; it reads an archive of `files` where there are any."""

    argv: tuple[str, ...]
    files: tuple[File, ...] = ()

    @property
    def stdin(self) -> bytes:
        """What it reads: the same for the same files."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for each in self.files:
                member = tarfile.TarInfo(each.path.lstrip("/"))
                member.size, member.mode = len(each.data), each.mode
                tar.addfile(member, io.BytesIO(each.data))
        return packed.getvalue() if self.files else b""

    def __str__(self) -> str:
        paths = ", ".join(each.path for each in self.files)
        return shlex.join(self.argv) + (f"  # reads {len(self.stdin)} bytes: {paths}" if paths else "")


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A host with what it needs and what of ours is brought to it, then what is to be done there, then what was.

    `upgrade`: packages that are there may be upgraded. `update`: bring apt's lists up to date in any case; `updates`:
    they are brought up to date first, and versions are not known before. `problems` are needs that stay unmet;
    `refusals` are upgrades that nothing needs and that cannot be. `after`: what the host had last, None when it did not
    answer. `error`: it was given up.
    """

    name: str
    host: Host
    needs: Needs
    ours: GuestFiles
    upgrade: bool = False
    update: bool = False
    survey: HostSurvey | None = None  # None: it could not be asked
    packages: tuple[Change, ...] = ()
    depends: int = 0  # further packages that come with them
    commands: tuple[Command, ...] = ()
    problems: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    updates: bool = False
    done: tuple[Command, ...] = ()
    after: HostSurvey | None = None
    error: str = ""

    @property
    def by_hand(self) -> bool:
        """Whether root is needed and not had."""
        return self.survey is not None and self.survey.root == "no" and bool(self.commands)

    @property
    def is_incomplete(self) -> bool:
        """Whether its commands bring what it needs, and not only newer lists and newer packages."""
        newer = self.updates + bool(self.packages)  # the commands that do so
        return not all(each.optional for each in self.packages) or len(self.commands) > newer

    @property
    def left(self) -> tuple[str, ...]:
        """Needs that are unmet once the commands have run, if they can be run at all."""
        by_hand = self.by_hand and self.is_incomplete
        return (*self.problems, *(("an administrator has to run its commands",) if by_hand else ()))

    @property
    def ok(self) -> bool:
        return not self.error and not self.left

    @property
    def changed(self) -> tuple[Change, ...]:
        """Packages whose version is another than before, by name."""
        if self.survey is None or self.after is None:
            return ()
        before, after = self.survey.installed, self.after.installed
        names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        return tuple(Change(name, before.get(name, ""), after.get(name, "")) for name in names)

    @property
    def written(self) -> tuple[str, ...]:
        """Files of ours that are others than before, by path."""
        if self.survey is None or self.after is None:
            return ()
        return tuple(sorted(dict(self.after.hashes.items() - self.survey.hashes.items())))


def printable(text: str) -> str:
    """Return what a host said as one line that a terminal may show."""
    return re.sub(r"[^\x20-\x7e]", "?", " ".join(text.split()))


def survey_host(plan: HostPlan) -> HostSurvey:
    """Return what a host has; `SiteError` when it does not answer."""
    needs, files = plan.needs, (*(each.path for each in plan.ours.files), LIMITS)
    questions = {"program": needs.programs, "device": needs.modules, "folder": needs.folders, "file": files,
             "package": [each for name in needs.packages() for each in (name, APART.get(name)) if each]}  # fmt: skip
    words = [f"{kind}={name}" for kind, names in questions.items() for name in names]
    output = run_checked(plan.host, ("sh", "-s", *words), timeout_s=ASK_S, stdin=_ASK.encode(), error=SiteError)
    facts: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("fact: "):
            key, _, value = line.removeprefix("fact: ").partition(" ")
            facts.setdefault(key, []).append(printable(value))
    if "end" not in facts:
        raise SiteError(f"{plan.host.name}: its answer is not whole. Does its login shell end commands early?")
    one = {key: values[0] for key, values in facts.items()}
    is_debian = not {"debian", "ubuntu"}.isdisjoint(one.get("system", "").lower().split())
    architecture = one.get("architecture", "") if is_debian else ""
    installed, half = dict[str, str](), set[str]()
    for each in facts.get("package", ()):
        if architecture and len(each.split()) == 4:
            name, of, version, status = each.split()
            called = name if of in (architecture, "all") else f"{name}:{of}"
            if status == "installed":
                installed[called] = version
            elif status not in ("not-installed", "config-files"):
                half.add(called)
    digests = [each.split(maxsplit=1) for each in facts.get("file", ()) if re.match(r"[0-9a-f]{64} /", each)]
    nofile, nr_open = (
        float(limit) if re.fullmatch(r"[0-9]{1,18}", limit := one.get(key, "")) else NEVER
        for key in ("nofile", "nr_open")
    )
    wanted = {*needs.programs, *needs.modules, *needs.folders}
    return HostSurvey(
        root=one.get("root", "no"), login=one.get("login", ""), title=one.get("title") or "unknown system",
        kernel=one.get("kernel", ""), machine=one.get("machine", ""), architecture=architecture,
        systemd="systemd" in facts, lists="lists" in facts, nofile=nofile, nr_open=nr_open,
        absent=frozenset(wanted.intersection(facts.get("absent", ()))), installed=installed, half=frozenset(half),
        offered=dict(each.split() for each in facts.get("offer", ()) if each.count(" ") == 1),
        hashes={path: value for value, path in digests},
    )  # fmt: skip


def make_plan(plan: HostPlan, survey: HostSurvey, *, updated: bool = False) -> HostPlan:
    """Return what is to be done on a host that has this; `updated`: apt's lists were just brought up to date."""
    needs, problems, refusals = plan.needs, list[str](), list[str]()
    if not survey.architecture:
        if survey.absent:
            names = needs.packages([each for each in needs.programs if each in survey.absent])
            lacks = f". Install what these are on Debian: {' '.join(names)}" if names else ""
            problems.append(f"it is {survey.title}: packages are installed on Debian and Ubuntu only{lacks}")
        return replace(plan, survey=survey, problems=tuple(problems), after=survey)
    if needs.root and survey.root != "yes":
        problems.append(
            f"clusters and storage are made as root, and the login is {survey.login}: log in as root, or with "
            "sudo: true"
        )
    packages, depends = _lacking_packages(plan, survey, updated, problems), 0
    updates = not updated and (plan.update or (bool(packages) and not survey.lists))
    if not updates:
        packages, depends = _harmless_packages(plan, packages, problems, refusals)
    names = [each.package for each in packages]
    units = [unit for name in names if name not in survey.installed for unit in STAYS_OFF.get(name, ())]
    folders = [folder for folder in needs.folders if folder in survey.absent]
    owner = () if survey.root == "yes" else (f"--owner={survey.login}",)
    files = _lacking_files(plan, survey, problems)
    modules = [module for device, module in needs.modules.items() if device in survey.absent]
    steps = (
        (updates, (*_APT, "update")),
        (units and survey.systemd, ("systemctl", "mask", *units)),
        (names, _install(names, plan.upgrade)),
        (folders, ("install", "--directory", "--mode=755", *owner, *folders)),
        (files, _UNPACK),
        (modules, ("modprobe", "--all", *modules)),
    )
    as_root = ("sudo", "-n") if survey.root == "sudo" else ()
    commands = [Command((*as_root, *argv), files if argv is _UNPACK else ()) for needed, argv in steps if needed]
    return replace(
        plan, survey=survey, packages=tuple(packages), depends=depends, commands=tuple(commands),
        problems=tuple(problems), refusals=tuple(refusals), updates=updates, after=survey,
    )  # fmt: skip


def _lacking_packages(plan: HostPlan, survey: HostSurvey, updated: bool, problems: list[str]) -> list[Change]:
    """Return the packages that are to be installed or upgraded; what cannot be is added to `problems`."""
    needs, found = plan.needs, list[Change]()

    def older(version: str, floor: str) -> bool:
        """Tell whether a version is older than another, as the host's dpkg compares them."""
        result = plan.host.run(("dpkg", "--compare-versions", version, "lt", floor), timeout_s=ASK_S)
        if result.status not in (0, 1):
            raise SiteError(str(CommandFailed(result, plan.host.name)))
        return result.status == 0

    for name in needs.packages():
        programs = [program for program in needs.programs if needs.package(program)[0] == name]
        have, new = survey.installed.get(name, ""), survey.offered.get(name, "")
        absent = [program for program in programs if program in survey.absent or name in survey.half]
        floor = max((needs.package(program)[1] for program in programs), key=len)
        stale = bool(have and floor) and older(have, floor)
        newer = bool(have and new) and new != have and not older(new, have)
        if not (absent or stale or (newer and plan.upgrade)):
            continue
        wanted = tuple(dict.fromkeys(each for program in absent or programs for each in needs.wanted.get(program, ())))
        who = ", ".join(wanted)
        apart = APART.get(name, "")
        if absent and apart not in survey.installed and (offered := survey.offered.get(apart)):
            found.append(Change(apart, "", offered, wanted))
            if have:
                continue
        if have and not (newer and plan.upgrade):
            what = f"is older than the {floor} that" if stale else f"has no {', '.join(absent)}, which"
            problems.append(f"{name} {have} {what} {who} needs" + (": --upgrade allows a newer one" * newer))
        elif new and floor and older(new, floor):
            problems.append(f"{name}: apt offers {new}, and {who} needs {floor} or later")
        elif not new and (updated or (survey.lists and not plan.update)):
            problems.append(f"{name}: apt knows no such package (for {who}). {UNKNOWN}")
        else:
            found.append(Change(name, have, new, wanted, optional=not (absent or stale)))
    return found


def _harmless_packages(
    plan: HostPlan, packages: list[Change], problems: list[str], refusals: list[str]
) -> tuple[list[Change], int]:
    """Return those that apt would only install, and how many more come along.

    Why each other is not is added to `problems`, or to `refusals` where what is there will do.
    """
    if not packages:
        return [], 0
    names = [each.package for each in packages]
    # Asked as if packages might go: apt then says which.
    words = [word for word in _install(names, plan.upgrade) if word != "--no-remove"]
    result = plan.host.run((*words, "--simulate"), timeout_s=SIMULATE_S)
    changes = parse_simulation(result.stdout.decode("utf-8", "replace")) if result.ok else ()
    removed = ", ".join([each.package for each in changes if not each.new][:10])
    upgraded = ", ".join([f"{each.package} {each.old} -> {each.new}" for each in changes if each.new and each.old][:10])
    if not result.ok:
        said = printable((result.stderr or result.stdout).decode("utf-8", "replace"))
        reason = f"is refused by apt: {said[-600:]}"
    elif removed:
        reason = f"would remove {removed}: take other systems or workloads, or remove it yourself"
    elif upgraded and not plan.upgrade:
        reason = f"would upgrade what is there: {upgraded}. --upgrade allows it"
    else:
        return packages, sum(each.package not in names for each in changes)
    if len(packages) > 1:
        good = [each for each in packages if _harmless_packages(plan, [each], problems, refusals)[0]]
        if len(good) < len(packages):
            return _harmless_packages(plan, good, problems, refusals)
    wanted = f" (for {', '.join(packages[0].wanted)})" if len(packages) == 1 else ""  # else only all of them together
    told = refusals if all(each.optional for each in packages) else problems
    told.append(f"installing {' '.join(names)}{wanted} {reason}")
    return [], 0


def _install(names: Sequence[str], upgrade: bool) -> tuple[str, ...]:
    keep = () if upgrade else ("--no-upgrade",)
    return (*_APT, *_KEEP, "install", "--yes", "--no-install-recommends", "--no-remove", *keep, *names)


def parse_simulation(output: str) -> tuple[Change, ...]:
    """Return what ``apt-get --simulate`` would change; `ParseError` when it does not say so in the form we know."""
    found = []
    for line in output.splitlines():
        if line.startswith(("Inst ", "Remv ")):
            match = _CHANGE.fullmatch(line)
            if not match or not (match[3] or match[4]):
                raise ParseError("apt-get", "a line that is not understood", output)
            found.append(Change(match[2], match[3] or "", (match[4] or "") if match[1] == "Inst" else ""))
    return tuple(found)


def _lacking_files(plan: HostPlan, survey: HostSurvey, problems: list[str]) -> tuple[File, ...]:
    """Return the files of ours that are not there as they should be; what cannot be brought is added to `problems`."""
    needs, files, reason = plan.needs, list(plan.ours.files), plan.ours.reason
    if files and survey.machine != platform.machine():
        reason = f"its programs are for {platform.machine()}, not for {survey.machine}: steer from such a machine"
        files = []
    ours = [program for program in needs.programs if not needs.programs[program] and program in survey.absent]
    if ours and reason:
        problems.append(f"{', '.join(ours)} come with the guest image, and {reason}")
    if survey.nr_open < needs.nofile:
        has = f"its kernel allows {survey.nr_open:.0f} open files"
        problems.append(f"{has}, {needs.nofile} are needed: raise fs.nr_open")
    elif survey.root != "yes" and survey.nofile < needs.nofile:  # root may raise its own
        limit = File(LIMITS, 0o644, f"{survey.login} - nofile {needs.nofile}\n".encode())
        if survey.hashes.get(LIMITS) == limit.sha256:
            has = f"the login has {survey.nofile:.0f}"
            problems.append(f"{LIMITS} allows {needs.nofile} open files and {has}: does its SSH server use PAM?")
        files.append(limit)
    return tuple(each for each in files if survey.hashes.get(each.path) != each.sha256)
