"""What apt and dpkg print, read; nothing is run here. Output is that of the C locale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infrabench.core import ParseError

INSTALLED = "-f=${Package} ${Architecture} ${Version} ${db:Status-Status}\\n"  # the format that `parse_installed` reads
HALF = {"half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending"}
_NAME = r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9-]+)?"
_LINE = re.compile(rf"^({_NAME}) ([a-z0-9-]+) (\S+) ([a-z-]+)$")
_CHANGE = re.compile(rf"^(Inst|Remv) ({_NAME})(?: \[([^\]]*)\])?(?: \((\S+)[^)]*\))?", re.MULTILINE)


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
