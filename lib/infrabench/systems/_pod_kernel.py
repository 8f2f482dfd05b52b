"""What a pod says of the kernel that it is on: proof of which low-level runtime made it, and on what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infrabench.core import Limits, NotRunnable, ProvisionError
from infrabench.machines.clusters import pods
from infrabench.machines.clusters.kubectl import Kubectl

FIRST = "pod-001"
NODE = ("kubeletVersion", "containerRuntimeVersion", "kernelVersion", "osImage")
ISOLATION = {
    "runc": "namespaces and cgroups of the node's kernel", "crun": "namespaces and cgroups of the node's kernel",
    "runsc": "a kernel in user space (gVisor)", "kata": "a virtual machine",
}  # fmt: skip
OWN_KERNEL = ("runsc", "kata")
# What a processor says of the hypervisor below (CPUID leaf 0x40000000), as their documentation gives it.
EMULATED = "TCGTCGTCGTCG"
HYPERVISORS = {"KVMKVMKVM": "KVM", EMULATED: "emulation by QEMU (TCG)", "Microsoft Hv": "Hyper-V"}
# Kata's virtual machine has the container's limit in a cgroup of its own; gVisor shows none inside.
SHOWS_LIMIT = ("runc", "crun", "kata")


@dataclass(frozen=True, slots=True)
class Inside:
    """What is shown of it as capabilities, and whether its processor is emulated."""

    told: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False


def inspect(kubectl: Kubectl, limits: Limits, low: str, node: Mapping[str, str]) -> Inside:
    """Return what the first pod says; `node` is the node's ``nodeInfo``.

    Raises `ProvisionError` when it contradicts what makes its pods: a kernel of the node where there should be another
    one, another kernel where it should be the node's, another memory limit than was asked for.
    """
    facts = read_facts(kubectl)
    kernel, mine = facts["kernel"], node["kernelVersion"]
    if (kernel != mine) is not (low in OWN_KERNEL):
        how = "the node's own" if kernel == mine else "not the node's"
        raise ProvisionError(f"{low} does not make the pods: their kernel {kernel} is {how} ({mine})")
    limit = facts["memory_limit_B"]
    if limit is not None and limit != limits.memory_bytes and low in SHOWS_LIMIT:
        raise ProvisionError(f"the pods' memory limit is {limit}, not {limits.memory_bytes} bytes")
    signature = facts["hypervisor"]
    isolation = ISOLATION[low]
    if low == "kata":
        isolation += f": {HYPERVISORS.get(signature or '', signature or 'its processor does not say which')}"
    told = {
        "isolation": isolation,
        "kernel": kernel if low in OWN_KERNEL else f"{kernel} (the node's)",
        "cpus": str(facts["cpus"]),
        "memory_limit": f"{limit // 2**20} MiB" if limit is not None else "not told inside",
    }
    return Inside(told, low == "kata" and signature == EMULATED)


def read_facts(kubectl: Kubectl) -> Mapping[str, Any]:
    """Return what ``ib-pods facts`` says in the first pod."""
    prefix = kubectl.exec_prefix(pods.NAMESPACE, FIRST)
    result = kubectl.host.run((*prefix, "ib-pods", "facts"), timeout_s=60)
    if not result.ok:
        told = result.stderr.decode("utf-8", "replace").strip()[-300:]
        raise NotRunnable(f"nothing can be run in its pods: {told}")
    return json.loads(result.stdout)
