"""May two sessions be compared or pooled? Their provenance, key by key: what must be equal, and what is only reported.

Only files of the two sessions are read. A key that must be equal and is not makes the sessions incomparable: they are
refused, or, where somebody asks for it all the same, everything made from them carries a stamp that names the keys.

`FACTS` are what hosts say of themselves, a row each: where it stands, and what it is used for. Of two ``contents.json``
there is one change for each program and each list of packages: the same image stands behind several systems, and hosts
share programs, so a change names all places that it concerns. What one side does not know is no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from infrabench.core import InfrabenchError, SchemaError, canonical
from infrabench.ledger import records
from infrabench.ledger.codes import CODE, known_codes
from infrabench.ledger.fields import PACKAGES

TOOLS = "tools"  # the versions of what the workloads measure with, on the hosts themselves


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact.

    `path` is where a host's facts have it; what cannot be read there has the reason under ``missing``. `parity` is what
    a campaign calls it that asks for it to be equal at all sites. `agree`: trials are compared with each other only
    where all their hosts agree in it. `of_a_lab`: this machine can say it for a lab that is not up, whose nodes run on
    this kernel and these processors. `of_a_node`: the key of a Kubernetes node's ``nodeInfo`` that says it.
    `where_known`: a host that does not tell it, as those of older sessions, is not said to differ in it.
    """

    path: tuple[str, ...]
    parity: str = ""
    agree: bool = False
    of_a_lab: bool = False
    of_a_node: str = ""
    where_known: bool = False


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
    Fact(("kernel_settings", "tcp_congestion_control"), agree=True, where_known=True),
    Fact(("kernel_settings", "numa_balancing"), agree=True, where_known=True),
    Fact(("machine", "smt"), agree=True, where_known=True),
    Fact(("power", "governor"), "governor", agree=True, of_a_lab=True),
    Fact(("power", "intel_no_turbo"), agree=True, of_a_lab=True),
    Fact(("power", "boost"), agree=True, of_a_lab=True),
    Fact(("kernel", "architecture"), "architecture", of_a_lab=True, of_a_node="architecture"),
    *(
        Fact(("versions", name), name)
        for name in ("docker", "containerd", "runc", "lxc", "lxd", "incus", "podman", "crun")
    ),
    *(Fact(("versions", name), name) for name in ("gcc", "python3", "openssh")),
    Fact((), TOOLS),
)
MUST_AGREE = tuple(fact.path for fact in FACTS if fact.agree)
AGREED = tuple(".".join(path) for path in MUST_AGREE)
WHERE_KNOWN = frozenset(".".join(fact.path) for fact in FACTS if fact.where_known)
OPTIONAL = frozenset(f"hosts {key}" for key in WHERE_KNOWN)  # as `between_sites` calls them
PARITY = {fact.parity: fact for fact in FACTS if fact.parity}
# Of a system, beside its tools' versions.
DEPLOYED = ("version", "release", "node_image", "image", "storage", "client", "limits")
# What the trials of two sessions have to share before their numbers are put together.
ASKED = ("study", "baseline", "cases", "limits", "guards", "margins", "primary", "variants")
NOT_HOSTS = ("deployments", "not-run", "site", "suite", records.CONTENTS)
# Different by nature, or said better elsewhere.
IGNORED = (
    *("time_s", "uptime_s", "boot_id", "missing", "load", "address", "name", "cpu.flags", "memory.available_bytes"),
    *("network.veth", "cgroups"),  # names that a kernel or an engine makes up anew each time
    *("clock.offset_s", "clock.max_error_s", "clock.estimated_error_s", "clock.frequency_ppm"),
)
PARTS = ("versions", "components")  # facts of a system that name programs: shown although they are only reported
SAME_MEMORY = 0.01  # a kernel of the same machine finds some bytes more or less
FEW = 4  # packages of a list that are named where not all are asked for
SHORT = 12  # digits of a digest that are shown
MOST_PLACES = 8  # that are named


@dataclass(frozen=True, slots=True)
class Difference:
    """One key whose value is not the same in both sessions; `checked`: it has to be.

    `named`: it says what was measured, and is shown although it is only reported. `packages`: those that differ, each
    with its versions; those of another version first.
    """

    where: str  # a host's name, "controller NAME", "system NAME", "suite", "asked" or "site"; of contents, their places
    key: str
    first: Any
    second: Any
    checked: bool
    named: bool = False
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Between:
    """What differs between sites that are shown side by side, and which of them are one machine."""

    differs: dict[str, dict[str, str]]  # "hosts cpu.model_name" or "docker version" -> site -> value
    one_machine: tuple[tuple[str, ...], ...]  # sites whose hosts cannot be told apart
    stamp: str  # the same in words; empty when there is nothing to say


class NotComparable(InfrabenchError):
    """Sessions whose checked provenance differs."""

    def __init__(self, names: Sequence[str], differences: Sequence[Difference]) -> None:
        some = "; ".join(f"{d.where} {d.key}: {shown(d.first)} / {shown(d.second)}" for d in differences[:8])
        more = f"; and {len(differences) - 8} more" if len(differences) > 8 else ""
        super().__init__(
            f"{' and '.join(names)} are not comparable: {some}{more}. Compare sessions of one host and one set of "
            "versions, or ask for a stamped comparison"
        )


def differences(first: Path, second: Path) -> list[Difference]:
    """Return every difference between two session folders, checked ones first.

    Hosts and systems that only one of them has are differences too. Raises `LedgerError` for a damaged session.
    """
    return _differences(_read(first), _read(second))


def _differences(one: _Provenance, two: _Provenance) -> list[Difference]:
    found = [*_request_differences(one.session, two.session), *_fact_differences(one, two), *_codes(one, two)]
    found += changes(one.contents, two.contents)
    return sorted(found, key=lambda d: not d.checked)


def stamp(folders: Sequence[Path], *, allow: bool = False) -> str:
    """Return the stamp for everything that is made from these sessions together; empty when no two of them differ.

    Raises `NotComparable` when a key that has to be equal is not, and `allow` is false.
    """
    read, keys = cache(_read), set[str]()
    for one, other in combinations(folders, 2):  # what two have in common a third one may lack
        checked = [each for each in _differences(read(one), read(other)) if each.checked]
        if checked and not allow:
            raise NotComparable([one.name, other.name], checked)
        keys |= {f"{each.where} {each.key}" for each in checked}
    return f"Not comparable in the strict sense: the sessions differ in {', '.join(sorted(keys))}." if keys else ""


def between_sites(folders: Mapping[str, Path]) -> Between:
    """Return what differs between the sessions of several sites, site -> session folder; the stamp of what they give.

    Hosts of other sites are other hosts, so nothing of them has to agree; it is told. Two sites are called one machine
    when hosts of theirs have one name and processor, and about the same memory; containers, which have names of their
    own, when they agree in processor, memory to the byte and kernel; clusters, when they have one name.

    Raises `SchemaError` when they are not of one study with one baseline, `NotComparable` when they were asked for
    different things: other parameters of a case, margins, limits, guards, primary metrics.
    """
    measures_alike(list(folders.values()))
    sessions = {name: _read(folder) for name, folder in folders.items()}
    for name, other in combinations(sessions, 2):  # of two that have a case a third one may lack it
        requests = _request_differences(sessions[name].session, sessions[other].session)
        if checked := [each for each in requests if each.checked]:
            raise NotComparable([name, other], checked)
    facts = {name: _of_site(each) for name, each in sessions.items()}
    keys = dict.fromkeys(key for each in facts.values() for key in each)
    differs = {
        key: {name: shown(each.get(key)) for name, each in facts.items()}
        for key in keys
        if len({canonical(each.get(key)) for each in facts.values() if key in each or key not in OPTIONAL}) > 1
    }
    together: dict[Any, list[str]] = {}
    for name, each in sessions.items():
        for mark in _machines(each):
            together.setdefault(mark, []).append(name)
    one = tuple(dict.fromkeys(tuple(each) for each in together.values() if len(each) > 1))
    sentences = [f"One machine measured as {' and '.join(each)}: nothing here speaks of another one." for each in one]
    sentences += [f"Sites differ in {', '.join(differs)}."] if differs else []
    return Between(differs, one, " ".join(sentences))


def measures_alike(folders: Sequence[Path]) -> None:
    """Raise `SchemaError` when the sessions are not of one study with one baseline: no stamp can mend that."""
    for key in ("study", "baseline"):
        values = {str(records.read_session(folder)[key]) for folder in folders}
        if len(values) > 1:
            raise SchemaError(f"sessions of different {key} cannot be put together: {', '.join(sorted(values))}")


def _request_differences(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Difference]:
    then, now = one["parameters"], two["parameters"]
    for key in ASKED:
        if key == "cases":
            yield from _cases(then.get(key, []), now.get(key, []))
        elif canonical(then.get(key) or None) != canonical(now.get(key) or None):
            yield Difference("asked", key, then.get(key), now.get(key), True)
    for key in ("profile", "seed", "blocks", "deployments", "order", "stopping"):
        if one.get(key) != two.get(key):
            yield Difference("asked", key, one.get(key), two.get(key), False)
    absent = [records.not_applicable(each) for each in (one, two)]
    for system, workload, scenario in sorted({*absent[0]} ^ {*absent[1]}):
        why = [each.get((system, workload, scenario)) for each in absent]
        yield Difference(f"system {system}", f"case {workload} {scenario} not run", *why, False)
    if one["site"] != two["site"]:
        yield Difference("site", "name", one["site"]["name"], two["site"]["name"], False)


def _cases(then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    """A case that one session lacks is reported; one whose parameters differ under the same name is not comparable.

    Nor is one in other rounds: a percentile is the mean of those of the rounds.
    """
    old, new = (
        {
            (case["workload"], case["scenario"]): dict(case["params"])
            | ({"rounds": case["rounds"]} if case.get("rounds", 1) > 1 else {})
            for case in cases
        }
        for cases in (then, now)
    )
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield Difference("asked", f"case {' '.join(key)}", old.get(key), new.get(key), key in old and key in new)


class _Provenance(NamedTuple):
    """What a session says of where and with what it was measured; nested facts as flat ones, ``cpu.model_name``.

    Of a cluster behind a kubeconfig no host is asked but the machine that steers, on which nothing is measured: it is
    among the `controllers`, and the site stands for the hosts.
    """

    session: dict[str, Any]
    hosts: dict[str, dict[str, Any]]
    controllers: dict[str, dict[str, Any]]
    systems: dict[str, dict[str, Any]]
    suite: dict[str, Any]
    codes: list[Mapping[str, str]]
    contents: dict[str, Any]  # nothing in sessions of before that was kept


def list_hosts(folder: Path) -> list[str]:
    """Return the hosts that say something of themselves in the session in `folder`, as it began."""
    return [name for name in records.list_provenance(folder) if ".resumed-" not in name and name not in NOT_HOSTS]


def _read(folder: Path) -> _Provenance:
    session = records.read_session(folder)
    deployments = records.read_provenance(folder, records.DEPLOYMENTS)
    hosts = {name: _flat(records.read_provenance(folder, name)) for name in list_hosts(folder)}
    controllers = dict[str, dict[str, Any]]()
    if session["site"]["kind"] == "kubeconfig":
        cluster = session["site"]["name"]
        hosts, controllers = {cluster: {"hostname": cluster}}, hosts
    return _Provenance(
        session, hosts, controllers,
        {name: {**_flat(each["facts"]), **_flat(each["tools"], "tools.")} for name, each in deployments.items()},
        _flat(records.read_provenance(folder, "suite")), known_codes(session, records.read_blocks(folder, CODE)),
        records.read_provenance(folder, records.CONTENTS),
    )  # fmt: skip


def _fact_differences(one: _Provenance, two: _Provenance) -> Iterator[Difference]:
    """Hosts, systems, the suite: a host that one lacks makes sessions incomparable, a system or its tool does not."""
    for where, presence, checked, all_then, all_now in (
        ("", "host", AGREED, one.hosts, two.hosts),
        ("system ", "measured", (*DEPLOYED, "tools"), one.systems, two.systems),
        ("controller ", "there", (), one.controllers, two.controllers),
        ("", "suite", (), {"suite": one.suite}, {"suite": two.suite}),
    ):
        for name in sorted({*all_then, *all_now}):
            then, now = all_then.get(name), all_now.get(name)
            if then is None or now is None:
                yield Difference(where + name, presence, then is not None, now is not None, presence == "host")
                continue
            for key in sorted({*then, *now}):
                if then.get(key) != now.get(key) and not key.startswith(IGNORED):
                    both = not key.startswith("tools.") or (key in then and key in now)
                    both = both and (key not in WHERE_KNOWN or None not in (then.get(key), now.get(key)))
                    is_checked = both and (key in checked or (bool(where) and key.split(".")[0] in checked))
                    is_part = bool(where) and key.split(".")[0] in PARTS
                    yield Difference(where + name, key, then.get(key), now.get(key), is_checked, is_part)


def _codes(one: _Provenance, two: _Provenance) -> Iterator[Difference]:
    """What both have code of has to be made by the same; where one does not say what made it, that is reported."""
    if len(one.codes) != len(two.codes):
        yield Difference("code", "mixture of", len(one.codes), len(two.codes), True)
    for then, now in zip(one.codes, two.codes, strict=False):
        if bool(then) != bool(now):
            yield Difference("code", "known", bool(then), bool(now), False)
        yield from (
            Difference("code", key, then[key], now[key], True) for key in then if then[key] != now.get(key, then[key])
        )


def _of_site(one: _Provenance) -> dict[str, Any]:
    """What the hosts of a session say that has to agree within one, without their names, and what its systems are."""
    found: dict[str, Any] = {
        f"hosts {key}": sorted(
            {str(each.get(key)) for each in one.hosts.values() if key not in WHERE_KNOWN or each.get(key) is not None}
        )
        for key in AGREED
        if key != "hostname"
    }
    found = {key: values for key, values in found.items() if values or key not in OPTIONAL}
    for name, each in one.systems.items():
        deployed = {key: value for key, value in each.items() if key.split(".")[0] in (*DEPLOYED, "tools")}
        found |= {f"{name} {key}": value for key, value in deployed.items()}
    for number, parts in enumerate(one.codes, start=1):
        found |= {f"code {number} {part}": value for part, value in parts.items()}
    return found


def _machines(one: _Provenance) -> set[tuple[Any, ...]]:
    """Marks of the machines behind a session's hosts: equal marks are, as far as hosts say, one machine.

    A machine may get another kernel, which finds a little more or less memory; containers are told by both.
    """
    marks = set[tuple[Any, ...]]()
    for each in one.hosts.values():
        memory, cpu = each.get("memory.total_bytes"), each.get("cpu.model_name")
        if each.get("virtualisation.container"):
            marks.add((cpu, memory, "kernel", each.get("kernel.release")))
        else:
            marks.add((cpu, memory and round(10 * math.log(memory)), "name", each.get("hostname")))  # steps of 10 %
    return marks


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(data, Mapping) and data:
        return {key: value for name, part in data.items() for key, value in _flat(part, f"{prefix}{name}.").items()}
    return {prefix.removesuffix("."): data}


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


def is_same_memory(first: int, second: int) -> bool:
    """Tell whether two kernels that found so many bytes may be of machines with the same memory."""
    return abs(second - first) <= SAME_MEMORY * first


def shown(value: Any) -> str:
    """Return a value of a difference in at most 60 characters."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def describe(each: Difference, *, every: bool = False) -> str:
    """Return both values of a difference in a line: of packages how many differ, and the first of them, or `every`."""
    if not each.packages:
        return f"{shown(each.first)} | {shown(each.second)}"
    count = f"{each.first.split()[0]} and {each.second.split()[0]}, {len(each.packages)} differ"
    if every:
        return f"{count}" + "".join(f"\n            {package}" for package in each.packages)
    left = len(each.packages) - FEW
    return f"{count}: {'; '.join(each.packages[:FEW])}" + (f"; and {left} more (--all lists them)" if left > 0 else "")
