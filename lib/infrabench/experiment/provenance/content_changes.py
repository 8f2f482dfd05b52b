"""What two ``contents.json`` say differently: one change for each program and each list of packages.

The same image stands behind several systems, and hosts share programs, so a change names all places that it concerns.
What one side does not know is no change: sessions of before that was kept have no such file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PACKAGES = "packages"
SHORT = 12  # digits of a digest that are shown
MOST_PLACES = 8  # that are named


@dataclass(frozen=True, slots=True)
class Difference:
    """One key whose value is not the same in both sessions; `checked`: it has to be.

    `named`: it says what was measured, and is shown although it is only reported. `packages`: those that differ, each
    with its versions; those of another version first.
    """

    where: str  # a host's name, "system NAME", "suite", "asked" or "site"; of contents, their places
    key: str
    first: Any
    second: Any
    checked: bool
    named: bool = False
    packages: tuple[str, ...] = ()


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Return what differs between the contents of two sessions, or of two runs of one, at the places that both have.

    Checked are programs, and packages of images that were made for it. Packages of a host of one's own are not: it has
    many that no trial touches, and those that count are told by their programs.
    """
    one, two = _places(then), _places(now)
    programs: dict[tuple[str, str, str, bool], list[str]] = {}
    lists: dict[tuple[str, str, bool], list[str]] = {}
    for name in (each for each in one if each in two):
        old, new = one[name], two[name]
        for program in sorted({*old["programs"], *new["programs"]}):
            first, second = _total(old, program), _total(new, program)
            if first and second and first != second:
                checked = program in old["programs"] and program in new["programs"]
                programs.setdefault((program, first, second, checked), []).append(name)
        digests = old.get(PACKAGES), new.get(PACKAGES)
        if all(digests) and digests[0] != digests[1]:
            lists.setdefault((*digests, bool(old.get("image") and new.get("image"))), []).append(name)
    found = [
        Difference(_join(places), f"program {program}", first, second, checked, named=True)
        for (program, first, second, checked), places in programs.items()
    ]
    for (first, second, checked), places in lists.items():
        rows = then.get(PACKAGES, {}).get(first, []), now.get(PACKAGES, {}).get(second, [])
        summary = [f"{len(each)} {digest[:SHORT]}" for each, digest in zip(rows, (first, second), strict=True)]
        packages = tuple(differing_packages(*rows))
        found.append(Difference(_join(places), PACKAGES, *summary, checked, named=True, packages=packages))
    return found


def differing_packages(then: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield the packages that differ between two lists, ``NAME VERSION | VERSION``: first those that are in both.

    >>> list(differing_packages(["a 1 all", "b 1 amd64"], ["b 2 amd64", "c 1 all"]))
    ['b 1 | 2', 'a 1 | nothing', 'c nothing | 1']
    """
    old, new = ({(name, arch): version for name, version, arch in map(str.split, each)} for each in (then, now))
    names = [name for name, _ in {**old, **new}]
    for key in sorted({**old, **new}, key=lambda each: (each not in old or each not in new, each)):
        first, second = old.get(key, "nothing"), new.get(key, "nothing")
        if first != second:
            name = key[0] if names.count(key[0]) == 1 else ":".join(key)
            yield f"{name} {first} | {second}"


def _total(place: Mapping[str, Any], program: str) -> str:
    """Return the checksum of a program as it is shown, or why there is none; empty where nobody asked for it."""
    if program in place["programs"]:
        return str(place["programs"][program]["sha256"])[:SHORT]
    return str(place["missing"].get(program, ""))


def _places(contents: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = {f"host {name}": place for name, place in contents.get("hosts", {}).items()}
    for system, made in contents.get("systems", {}).items():
        found |= {system if role == "server" else f"{system} {role}": each for role, each in made["targets"].items()}
        found |= {f"{system} on {name}": each for name, each in made["hosts"].items()}
    return found


def _join(places: Sequence[str]) -> str:
    more = len(places) - MOST_PLACES
    return ", ".join(places[:MOST_PLACES]) + (f" and {more} more" if more > 0 else "")
