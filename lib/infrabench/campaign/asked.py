"""Asking every site, all at once and for seconds only: is it there, on which machines, and what has to be equal?"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import resources
from itertools import combinations
from typing import Any

from infrabench import inventory as inventories
from infrabench import kubeconfig, provenance, registry
from infrabench.campaign.places import Site
from infrabench.core import Host, InfrabenchError, ParseError, SiteError, Target, unknown_name
from infrabench.host import LocalHost
from infrabench.inventory import Inventory
from infrabench.kubeconfig import Kubeconfig

ANSWER_S = 10.0
# Hosts whose kernels started at the same time to this run on one kernel, whatever they are called. Readings on one
# machine agree to a microsecond; of two that are switched on in the same minute, one pair in half a million is so near.
ONE_KERNEL_NS = 50_000
# What ``parity`` may name -> where a host's facts have it.
FACTS: Mapping[str, tuple[str, str]] = {
    "kernel": ("kernel", "release"), "architecture": ("kernel", "architecture"), "cpu": ("cpu", "model_name"),
    "processors": ("cpu", "usable_cpus"), "memory": ("memory", "total_bytes"),
    "distribution": ("distribution", "PRETTY_NAME"), "cgroup": ("cgroup", "version"),
    "governor": ("power", "governor"),
    **{name: ("versions", name) for name in ("docker", "containerd", "runc", "lxc", "lxd")},
    **{name: ("versions", name) for name in ("gcc", "python3", "openssh")},
}  # fmt: skip
TOOLS = "tools"  # the versions of what the workloads measure with, on the hosts themselves
# What this machine can say for a lab that is not up: its nodes run on this kernel and these processors.
OF_A_LAB = ("kernel", "architecture", "cpu", "governor")
OF_NODES = {"kernel": "kernelVersion", "distribution": "osImage", "architecture": "architecture"}


@dataclass(frozen=True)
class Answer:
    """What a site said: what is wrong with it, when each machine's kernel started (role -> ns), and facts by role."""

    label: str
    wrong: str = ""
    kernels: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # what -> role -> value
    silent: Mapping[str, str] = field(default_factory=dict)  # what -> why it cannot be said


def check_parity(names: Sequence[str]) -> None:
    """Raise `DesignError` for a name that ``parity`` cannot have."""
    for name in names:
        if name not in (*FACTS, TOOLS):
            raise unknown_name("name in parity", name, (*FACTS, TOOLS))


def all_of(
    sites: Collection[Site], systems: Collection[str], workloads: Collection[str], parity: Sequence[str]
) -> dict[str, Answer]:
    """Return the answer of every site by label; they are asked at the same time, and none for longer than seconds."""
    with ThreadPoolExecutor(max(1, len(sites))) as pool:
        answers = pool.map(lambda site: _answer(site, systems, workloads, parity), sites)
    return {each.label: each for each in answers}


def this_kernel() -> int:
    """Return when the kernel of this machine started, in Unix nanoseconds."""
    return _born(LocalHost())


def one_kernel(a: int, b: int) -> bool:
    """Tell whether kernels that started at these times, in nanoseconds, are one."""
    return abs(a - b) <= ONE_KERNEL_NS


def common_kernels(answers: Mapping[str, Answer]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the pairs of sites that have a kernel, and so a machine, in common, with its role in each."""
    common = {}
    for a, b in combinations(answers.values(), 2):
        for role, kernel in a.kernels.items():
            other = next((name for name, its in b.kernels.items() if one_kernel(its, kernel)), None)
            if other is not None:
                common[a.label, b.label] = (role, other)
                break
    return common


def unequal(answers: Mapping[str, Answer], parity: Sequence[str]) -> list[str]:
    """Return, in words, what was to be equal and is not, or cannot be said, by role."""
    told = []
    for what in parity:
        silent = {each.label: each.silent[what] for each in answers.values() if what in each.silent}
        told += [f"parity: {what} of {label}: {why}" for label, why in silent.items()]
        said = {each.label: each.facts[what] for each in answers.values() if what in each.facts}
        for role in dict.fromkeys(role for values in said.values() for role in values):
            values = {label: found[role] for label, found in said.items() if role in found}
            if len(set(values.values())) > 1:
                shown = ", ".join(f"{label} {value}" for label, value in values.items())
                told.append(f"parity: {what} ({role}) differs: {shown}")
    return told


def _answer(site: Site, systems: Collection[str], workloads: Collection[str], parity: Sequence[str]) -> Answer:
    try:
        if isinstance(site.read, Inventory):
            return _of_hosts(site, site.read, systems, workloads, parity)
        if isinstance(site.read, Kubeconfig):
            return _of_cluster(site, site.read, parity)
        if not site.steered_here:
            why = "what a job of the engine finds itself on cannot be asked before the job"
            return Answer(site.label, silent=dict.fromkeys(parity, why))
        return _of_this_machine(site, workloads, parity)
    except InfrabenchError as error:
        return Answer(site.label, str(error))


def _of_hosts(
    site: Site, inventory: Inventory, systems: Collection[str], workloads: Collection[str], parity: Sequence[str]
) -> Answer:
    gateways, hosts = inventories.everyone(inventory, systems)
    with ExitStack() as stack:
        for host in (*gateways.values(), *hosts.values()):
            stack.callback(host.close)
        kernels = {role: _born(host) for role, host in hosts.items()}
        facts = dict[str, dict[str, str]]()
        for role, host in hosts.items():
            for what, value in _facts(host, workloads if role in inventory.hosts else (), parity):
                facts.setdefault(what, {})[role] = value
    return Answer(site.label, kernels=kernels, facts=facts)


def _of_cluster(site: Site, config: Kubeconfig, parity: Sequence[str]) -> Answer:
    here = LocalHost()
    command = kubeconfig.answering(config, here)
    silent = {what: "a cluster does not say it of its nodes" for what in parity if what not in OF_NODES}
    if len(silent) == len(parity):
        return Answer(site.label, silent=silent)
    nodes = json.loads(_text(here, *command, "get", "nodes", "-o", "json"))["items"]
    infos = [each["status"]["nodeInfo"] for each in nodes]
    said = {what: ", ".join(sorted({info[OF_NODES[what]] for info in infos})) for what in parity if what in OF_NODES}
    return Answer(site.label, facts={what: {"server": value} for what, value in said.items()}, silent=silent)


def _of_this_machine(site: Site, workloads: Collection[str], parity: Sequence[str]) -> Answer:
    here = LocalHost()
    silent: dict[str, str] = {}
    if site.kind == "lab":
        from infrabench.lab.shell import require  # the lab's tools are needed only where it is used

        require()
        silent = {what: "its nodes can be asked when it is up" for what in parity if what not in OF_A_LAB}
    asked = [what for what in parity if what not in silent]
    facts = {what: {"server": value} for what, value in _facts(here, workloads, asked)}
    return Answer(site.label, kernels={"server": this_kernel()}, facts=facts, silent=silent)


def _facts(host: Host, workloads: Collection[str], parity: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not parity:
        return
    found: dict[str, Any] = provenance.of_host(host)
    for what in parity:
        if what == TOOLS:
            yield from ((TOOLS, _tools(host, workloads)) for _ in range(bool(workloads)))
        else:
            group, key = FACTS[what]
            value = found.get(group, {}).get(key)
            yield what, "nothing" if value is None else str(value)


def _tools(host: Host, workloads: Collection[str]) -> str:
    """Return the versions of the workloads' tools that are on the host."""
    target, found = Target(host.name, host, address=host.address), []
    for name in sorted(workloads):
        try:
            found.append(f"{name} {registry.workload(name).version(target)}")
        except (InfrabenchError, ParseError):  # it is not there, or is made where it is used
            found.append(f"{name} not there")
    return ", ".join(found)


def _born(host: Host) -> int:
    script = resources.files("infrabench").joinpath("probes/born.py").read_text()
    return int(_text(host, "python3", "-c", script))


def _text(host: Host, *argv: str) -> str:
    result = host.run(argv, timeout_s=ANSWER_S)
    if not result.ok:
        said = result.stderr.decode("utf-8", "replace").strip()[-200:]
        raise SiteError(f"{host.name}: {argv[0]} {result.ending}: {said}")
    return result.stdout.decode("utf-8", "replace").strip()
