"""May two sessions be compared or pooled? Their provenance, key by key: what must be equal, and what is only reported.

Only files of the two sessions are read. A key that must be equal and is not makes the sessions incomparable: they are
refused, or, where somebody asks for it all the same, everything made from them carries a stamp that names the keys.

`FACTS` are what hosts say of themselves, a row each: where it stands, and what it is used for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError, SchemaError, canonical
from infrabench.ledger.codes import CODE, known_codes
from infrabench.ledger.records import list_provenance, not_applicable, read_blocks, read_provenance, read_session

TOOLS = "tools"  # the versions of what the workloads measure with, on the hosts themselves


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact.

    `path` is where a host's facts have it; what cannot be read there has the reason under ``missing``. `parity` is what
    a campaign calls it that asks for it to be equal at all sites. `agree`: trials are compared with each other only
    where all their hosts agree in it. `of_a_lab`: this machine can say it for a lab that is not up, whose nodes run on
    this kernel and these processors. `of_a_node`: the key of a Kubernetes node's ``nodeInfo`` that says it.
    """

    path: tuple[str, ...]
    parity: str = ""
    agree: bool = False
    of_a_lab: bool = False
    of_a_node: str = ""


FACTS = (
    Fact(("hostname",), agree=True),
    Fact(("kernel", "release"), "kernel", agree=True, of_a_lab=True, of_a_node="kernelVersion"),
    Fact(("cpu", "model_name"), "cpu", agree=True, of_a_lab=True),
    Fact(("cpu", "usable_cpus"), "processors", agree=True),
    Fact(("memory", "total_bytes"), "memory", agree=True),
    Fact(("distribution", "PRETTY_NAME"), "distribution", agree=True, of_a_node="osImage"),
    Fact(("cgroup", "version"), "cgroup", agree=True),
    Fact(("kernel_settings", "clock_source"), agree=True),
    Fact(("kernel_settings", "transparent_huge_pages"), agree=True),
    Fact(("power", "governor"), "governor", agree=True, of_a_lab=True),
    Fact(("kernel", "architecture"), "architecture", of_a_lab=True, of_a_node="architecture"),
    *(Fact(("versions", name), name) for name in ("docker", "containerd", "runc", "lxc", "lxd", "podman", "crun")),
    *(Fact(("versions", name), name) for name in ("gcc", "python3", "openssh")),
    Fact((), TOOLS),
)
MUST_AGREE = tuple(fact.path for fact in FACTS if fact.agree)
PARITY = {fact.parity: fact for fact in FACTS if fact.parity}
DEPLOYED = ("version", "image", "storage", "limits")  # the same of a system, beside its tools' versions


# What the trials of two sessions have to share before their numbers are put together.
ASKED = ("study", "baseline", "cases", "limits", "guards", "margins", "primary", "variants")
NOT_HOSTS = ("deployments", "not-run", "site", "suite")
# Different by nature, or said better elsewhere.
IGNORED = (
    *("time_s", "uptime_s", "boot_id", "missing", "load", "address", "name", "cpu.flags", "memory.available_bytes"),
    *("network.veth", "cgroups"),  # names that a kernel or an engine makes up anew each time
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One key whose value is not the same in both sessions; `checked`: it has to be."""

    where: str  # a host's name, "system NAME", "suite", "asked" or "site"
    key: str
    first: Any
    second: Any
    checked: bool


@dataclass(frozen=True, slots=True)
class Between:
    """What differs between sites that are shown side by side, and which of them are one machine."""

    differs: dict[str, dict[str, str]]  # "hosts cpu.model_name" or "docker version" -> site -> value
    one_machine: tuple[tuple[str, ...], ...]  # sites whose hosts cannot be told apart
    stamp: str  # the same in words; empty when there is nothing to say


class NotComparable(InfrabenchError):
    """Sessions whose checked provenance differs. Carries the differences."""

    def __init__(self, names: Sequence[str], differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        told = "; ".join(f"{d.where} {d.key}: {shown(d.first)} / {shown(d.second)}" for d in differences[:8])
        more = f"; and {len(differences) - 8} more" if len(differences) > 8 else ""
        super().__init__(
            f"{' and '.join(names)} are not comparable: {told}{more}. Compare sessions of one host and one set of "
            "versions, or ask for a stamped comparison"
        )


def differences(first: Path, second: Path) -> list[Difference]:
    """Return every difference between two session folders, checked ones first.

    Hosts and systems that only one of them has are differences too. Raises `LedgerError` for a damaged session.
    """
    found = [
        *_request_differences(first, second),
        *_hosts(first, second),
        *_systems(first, second),
        *_suite(first, second),
        *_codes(first, second),
    ]
    return sorted(found, key=lambda d: not d.checked)


def stamp(folders: Sequence[Path], *, allow: bool = False) -> str:
    """Return the stamp for everything that is made from these sessions together; empty when nothing differs.

    Raises
    ------
    NotComparable
        A key that has to be equal is not, and `allow` is false.
    """
    first, *others = folders
    checked = [(other, [d for d in differences(first, other) if d.checked]) for other in others]
    for other, found in checked:
        if found and not allow:
            raise NotComparable([first.name, other.name], found)
    keys = sorted({f"{d.where} {d.key}" for _, found in checked for d in found})
    return f"Not comparable in the strict sense: the sessions differ in {', '.join(keys)}." if keys else ""


def between_sites(folders: Mapping[str, Path]) -> Between:
    """Return what differs between the sessions of several sites, site -> session folder; the stamp of what they give.

    Hosts of other sites are other hosts, so nothing of them has to agree; it is told. Two sites are called one machine
    when their hosts agree in processor, memory to the byte and kernel, and are containers or have one name.

    Raises
    ------
    SchemaError
        They are not of one study with one baseline.
    NotComparable
        They were asked for different things: other parameters of a case, margins, limits, guards, primary metrics.
    """
    names = list(folders)
    measures_alike(list(folders.values()))
    for name in names[1:]:
        asked = [each for each in _request_differences(folders[names[0]], folders[name]) if each.checked]
        if asked:
            raise NotComparable([names[0], name], asked)
    said = {name: _of_site(folder) for name, folder in folders.items()}
    keys = dict.fromkeys(key for each in said.values() for key in each)
    differs = {
        key: {name: shown(each.get(key)) for name, each in said.items()}
        for key in keys
        if len({canonical(each.get(key)) for each in said.values()}) > 1
    }
    together: dict[Any, list[str]] = {}
    for name, folder in folders.items():
        for mark in _machines(folder):
            together.setdefault(mark, []).append(name)
    one = tuple(dict.fromkeys(tuple(each) for each in together.values() if len(each) > 1))
    told = [f"One machine measured as {' and '.join(each)}: nothing here speaks of another one. " for each in one]
    told += [f"Sites differ in {', '.join(differs)}. "] if differs else []
    return Between(differs, one, "".join(told).strip())


def measures_alike(folders: Sequence[Path]) -> None:
    """Raise `SchemaError` when the sessions are not of one study with one baseline: no stamp can mend that."""
    for key in ("study", "baseline"):
        values = {str(read_session(folder)[key]) for folder in folders}
        if len(values) > 1:
            raise SchemaError(f"sessions of different {key} cannot be put together: {', '.join(sorted(values))}")


def _request_differences(first: Path, second: Path) -> Iterator[Difference]:
    one, two = read_session(first), read_session(second)
    then, now = one["parameters"], two["parameters"]
    for key in ASKED:
        if key == "cases":
            yield from _cases(then.get(key, []), now.get(key, []))
        elif canonical(then.get(key) or None) != canonical(now.get(key) or None):
            yield Difference("asked", key, then.get(key), now.get(key), True)
    for key in ("profile", "seed", "blocks", "deployments", "order", "stopping"):
        if one.get(key) != two.get(key):
            yield Difference("asked", key, one.get(key), two.get(key), False)
    absent = [not_applicable(each) for each in (one, two)]
    for system, workload, scenario in sorted({*absent[0]} ^ {*absent[1]}):
        key, told = (system, workload, scenario), [each.get((system, workload, scenario)) for each in absent]
        yield Difference(f"system {system}", f"case {' '.join(key[1:])} not run", *told, False)
    if one["site"] != two["site"]:
        yield Difference("site", "name", one["site"]["name"], two["site"]["name"], False)


def _cases(then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    """A case that one session lacks is reported; one whose parameters differ under the same name is not comparable."""
    old, new = ({(c["workload"], c["scenario"]): c["params"] for c in cases} for cases in (then, now))
    for key in sorted({*old, *new}):
        both = key in old and key in new
        if old.get(key) != new.get(key):
            yield Difference("asked", f"case {' '.join(key)}", old.get(key), new.get(key), both)


def _hosts(first: Path, second: Path) -> Iterator[Difference]:
    then, now = _host_files(first), _host_files(second)
    for name in sorted({*then, *now}):
        if name not in then or name not in now:
            yield Difference(name, "host", name in then, name in now, True)
            continue
        checked = {".".join(path) for path in MUST_AGREE}
        yield from _compared(name, _flat(then[name]), _flat(now[name]), checked)


def _systems(first: Path, second: Path) -> Iterator[Difference]:
    then, now = (read_provenance(folder, "deployments") for folder in (first, second))
    for name in sorted({*then, *now}):
        where = f"system {name}"
        if name not in then or name not in now:
            yield Difference(where, "measured", name in then, name in now, False)
            continue
        one, two = _deployed(then[name]), _deployed(now[name])
        checked = {key for key in {*one, *two} if key.split(".")[0] in (*DEPLOYED, "tools")}
        both = {key for key in checked if not key.startswith("tools.") or (key in one and key in two)}
        yield from _compared(where, one, two, both)


def _deployed(system: Mapping[str, Any]) -> dict[str, Any]:
    return {**_flat(system["facts"]), **_flat(system["tools"], "tools.")}


def _suite(first: Path, second: Path) -> Iterator[Difference]:
    yield from _compared("suite", *(_flat(read_provenance(folder, "suite")) for folder in (first, second)), set())


def _codes(first: Path, second: Path) -> Iterator[Difference]:
    """What both have code of has to be made by the same; where one does not say what made it, that is reported."""
    then, now = (known_codes(read_session(folder), read_blocks(folder, CODE)) for folder in (first, second))
    if len(then) != len(now):
        yield Difference("code", "mixture of", len(then), len(now), True)
    for one, two in zip(then, now, strict=False):
        if bool(one) != bool(two):
            yield Difference("code", "known", bool(one), bool(two), False)
        yield from (
            Difference("code", key, one[key], two[key], True) for key in one if one[key] != two.get(key, one[key])
        )


def _compared(where: str, then: Mapping[str, Any], now: Mapping[str, Any], checked: set[str]) -> Iterator[Difference]:
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key) and not key.startswith(IGNORED):
            yield Difference(where, key, then.get(key), now.get(key), key in checked)


def _of_site(folder: Path) -> dict[str, Any]:
    """What the hosts of a session say that has to agree within one, without their names, and what its systems are."""
    hosts = [_flat(each) for each in _host_files(folder).values()]
    keys = [".".join(path) for path in MUST_AGREE if path != ("hostname",)]
    found: dict[str, Any] = {f"hosts {key}": sorted({str(each.get(key)) for each in hosts}) for key in keys}
    for name, each in read_provenance(folder, "deployments").items():
        deployed = _deployed(each).items()
        found |= {f"{name} {key}": value for key, value in deployed if key.split(".")[0] in (*DEPLOYED, "tools")}
    for number, parts in enumerate(known_codes(read_session(folder), read_blocks(folder, CODE)), start=1):
        found |= {f"code {number} {part}": value for part, value in parts.items()}
    return found


def _machines(folder: Path) -> set[tuple[Any, ...]]:
    """Marks of the machines behind a session's hosts: equal marks are, as far as hosts say, one machine."""
    marks = set()
    for each in map(_flat, _host_files(folder).values()):
        own = None if each.get("virtualisation.container") else each.get("hostname")
        marks.add((own, each.get("cpu.model_name"), each.get("memory.total_bytes"), each.get("kernel.release")))
    return marks


def _host_files(folder: Path) -> dict[str, dict[str, Any]]:
    names = [name for name in list_provenance(folder) if ".resumed-" not in name]
    return {name: read_provenance(folder, name) for name in names if name not in NOT_HOSTS}


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(data, Mapping) and data:
        return {key: value for name, part in data.items() for key, value in _flat(part, f"{prefix}{name}.").items()}
    return {prefix.removesuffix("."): data}


def shown(value: Any) -> str:
    """Return a value of a difference in at most 60 characters."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
