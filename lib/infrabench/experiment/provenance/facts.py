"""Facts that hosts say of themselves, a row each: where they are, and what they are used for."""

from __future__ import annotations

from dataclasses import dataclass

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
