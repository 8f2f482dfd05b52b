"""What a host has: asked with commands that change nothing there (apt may renew its own caches, as it always does).

What apt and dpkg print is read here too; it is that of the C locale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from infrabench.core import CommandFailed, Host, ParseError, Result, SiteError
from infrabench.machines.hosts.host import run_checked
from infrabench.machines.sites.prepare.requirements import Needs

INSTALLED = "-f=${Package} ${Architecture} ${Version} ${db:Status-Status}\\n"  # the format that `parse_installed` reads
HALF = {"half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending"}
_NAME = r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9-]+)?"
_LINE = re.compile(rf"^({_NAME}) ([a-z0-9-]+) (\S+) ([a-z-]+)$")
_CHANGE = re.compile(rf"^(Inst|Remv) ({_NAME})(?: \[([^\]]*)\])?(?: \((\S+)[^)]*\))?", re.MULTILINE)
ASK_S = 60.0
SIMULATE_S = 180.0
# Prints a line for each fact, marked, since a login may say things of its own. $1, ...: kind=name of what is needed.
_ASK = r"""
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
say() { printf 'fact: %s\n' "$*"; }
say uid "$(id -u)"
say login "$(id -un)"
if [ "$(id -u)" = 0 ]; then say root yes
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then say root sudo
else say root no; fi
[ ! -r /etc/os-release ] || (. /etc/os-release; say system "${ID:-} ${ID_LIKE:-}"; say title "${PRETTY_NAME:-}")
say machine "$(uname -m)"
say kernel "$(uname -r)"
[ ! -d /run/systemd/system ] || say systemd yes
for list in /var/lib/apt/lists/*_Packages*; do [ ! -e "$list" ] || { say lists yes; break; }; done
! command -v apt-get >/dev/null || say architecture "$(dpkg --print-architecture 2>/dev/null)"
say nofile "$(ulimit -Hn)"
say nr_open "$(cat /proc/sys/fs/nr_open 2>/dev/null)"
for each in "$@"; do
  kind=${each%%=*} name=${each#*=}
  case $kind in
    program) case $name in
      /*) [ -e "$name" ] || say absent "$name" ;;
      *) command -v "$name" >/dev/null || say absent "$name" ;;
    esac ;;
    device) [ -e "$name" ] || say absent "$name" ;;
    folder) { [ -d "$name" ] && [ -w "$name" ]; } || say absent "$name" ;;
  esac
done
say end
"""
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
FAMILY = {"debian", "ubuntu"}


@dataclass(frozen=True, slots=True)
class Change:
    """A package that apt would install, upgrade (`old` and `new`) or remove (`new` empty)."""

    package: str
    old: str
    new: str


def parse_installed(output: str, architecture: str, *, half: bool = False) -> dict[str, str]:
    """Return package -> version of what dpkg holds to be installed; those of another architecture with its name.

    `half`: of what it began to install and did not finish.
    """
    found = {}
    for line in output.splitlines():
        if (match := _LINE.match(line)) and (match[4] in HALF if half else match[4] == "installed"):
            own = match[2] in (architecture, "all")
            found[match[1] if own else f"{match[1]}:{match[2]}"] = match[3]
    return found


def parse_candidates(output: str) -> dict[str, str]:
    """Return package -> version that ``apt-cache policy`` would install; packages without one are left out."""
    found: dict[str, str] = {}
    name = ""
    for line in output.splitlines():
        if match := re.fullmatch(rf"({_NAME}):", line):
            name = match[1]
        elif name and (match := re.fullmatch(r"  Candidate: (\S+)", line)):
            found |= {} if match[1] == "(none)" else {name: match[1]}
    return found


def parse_simulation(output: str) -> tuple[Change, ...]:
    """Return what ``apt-get --simulate`` would change; `ParseError` when it does not say so in the form we know."""
    found = [
        Change(match[2], match[3] or "", (match[4] or "") if match[1] == "Inst" else "")
        for match in _CHANGE.finditer(output)
    ]
    lines = sum(line.startswith(("Inst ", "Remv ")) for line in output.splitlines())
    if lines != len(found) or any(not (each.old or each.new) for each in found):
        raise ParseError("apt-get", "a line that is not understood", output)
    return tuple(found)


def compare_versions(before: Mapping[str, str], after: Mapping[str, str], of: Sequence[str] = ()) -> tuple[Change, ...]:
    """Return how packages changed from `before` to `after`, by name; of all, or of those in `of`."""
    names = sorted({*before, *after} if not of else set(of))
    return tuple(
        Change(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name, "") != after.get(name, "")
    )


@dataclass(frozen=True, slots=True)
class HostSurvey:
    """What a host has, and which of its needs are not met.

    `root`: ``yes``, ``sudo`` (without a password) or ``no``. `absent`: programs, device files and folders. `installed`
    and `candidates` are versions by package, `half` those that were not installed to the end. `lists`: apt has lists of
    packages. `hashes`: path -> SHA-256 of the files of ours that are there.
    """

    root: str
    login: str
    title: str
    kernel: str
    machine: str
    architecture: str
    is_debian: bool
    systemd: bool
    lists: bool
    nofile: float
    nr_open: float
    absent: frozenset[str]
    installed: Mapping[str, str] = field(default_factory=dict)
    half: frozenset[str] = frozenset()
    candidates: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)


def survey_host(host: Host, needs: Needs, files: Sequence[str] = ()) -> HostSurvey:
    """Return what a host has; `files` are paths whose content is asked for. `SiteError` when it does not answer."""
    asked = [
        *(f"program={name}" for name in needs.programs), *(f"device={name}" for name in needs.modules),
        *(f"folder={name}" for name in needs.folders),
    ]  # fmt: skip
    facts = _facts(run_checked(host, ("sh", "-s", *asked), timeout_s=ASK_S, stdin=_ASK.encode(), error=SiteError), host)
    names = {*needs.programs, *needs.modules, *needs.folders}
    architecture = _one(facts, "architecture")
    survey = HostSurvey(
        root=_one(facts, "root") or "no", login=_one(facts, "login"), title=_one(facts, "title") or "unknown system",
        kernel=_one(facts, "kernel"), machine=_one(facts, "machine"), architecture=architecture,
        is_debian=bool(architecture) and bool(FAMILY & set(_one(facts, "system").lower().split())),
        systemd=_one(facts, "systemd") == "yes", lists=_one(facts, "lists") == "yes",
        nofile=_count(_one(facts, "nofile")),
        nr_open=_count(_one(facts, "nr_open")), absent=frozenset(names.intersection(facts.get("absent", ()))),
    )  # fmt: skip
    if not survey.is_debian:
        return survey
    return _with_packages(host, survey, needs, files)


def simulate_install(host: Host, command: Sequence[str]) -> tuple[Change, ...] | str:
    """Return what an ``apt-get`` command would change, or apt's own words where it would not do it."""
    result = host.run((*command, "--simulate"), timeout_s=SIMULATE_S)
    if not result.ok:
        return printable(_text(result, result.stderr or result.stdout))[-600:]
    return parse_simulation(_text(result))


def is_older(host: Host, version: str, floor: str) -> bool:
    """Tell whether a version of a package is older than another, as the host's dpkg compares them."""
    result = host.run(("dpkg", "--compare-versions", version, "lt", floor), timeout_s=ASK_S)
    if result.status not in (0, 1):
        raise SiteError(str(CommandFailed(result, host.name)))
    return result.status == 0


def printable(text: str) -> str:
    """Return what a host said as one line that a terminal may show."""
    return _UNPRINTABLE.sub("?", " ".join(text.split()))


def _with_packages(host: Host, survey: HostSurvey, needs: Needs, files: Sequence[str]) -> HostSurvey:
    listed = run_checked(host, ("dpkg-query", "-W", INSTALLED), timeout_s=ASK_S, error=SiteError)
    wanted = sorted({needs.package(program)[0] for program in needs.programs} - {""})
    policy = ("apt-cache", "policy", *wanted)
    offered = parse_candidates(run_checked(host, policy, timeout_s=ASK_S, error=SiteError)) if wanted else {}
    hashes = {}
    if files:
        told = host.run(("sha256sum", "--", *files), timeout_s=ASK_S)  # ends with 1 where one is not there
        pairs = (line.split("  ", 1) for line in _text(told).splitlines() if re.match(r"[0-9a-f]{64}  /", line))
        hashes = {path: value for value, path in pairs}
    have, half = (parse_installed(listed, survey.architecture, half=each) for each in (False, True))
    return replace(survey, installed=have, half=frozenset(half), candidates=offered, hashes=hashes)


def _facts(output: str, host: Host) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("fact: "):
            key, _, value = line.removeprefix("fact: ").partition(" ")
            facts.setdefault(key, []).append(printable(value))
    if "end" not in facts:
        raise SiteError(f"{host.name}: its answer is not whole. Does its login shell end commands early?")
    return facts


def _one(facts: Mapping[str, list[str]], key: str) -> str:
    return facts.get(key, [""])[0]


def _count(told: str) -> float:
    """Return a limit; one that is not told is no limit that could be seen."""
    return float(told) if re.fullmatch(r"[0-9]{1,18}", told) else float("inf")


def _text(result: Result, data: bytes | None = None) -> str:
    return (result.stdout if data is None else data).decode("utf-8", "replace")
