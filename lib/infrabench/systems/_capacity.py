"""How many pods a node holds at once: by the kubelet's own limit, by addresses, and by memory."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from infrabench.core import ProvisionError, Target
from infrabench.machines.clusters.cluster import Kubectl

MIB = 2**20
LABEL = "infrabench-population"  # of the pods that are made to fill the node
RESERVED_B = 2048 * MIB  # for the rest of the machine: pods of other systems that are frozen, page cache, tools
# What a pod costs beside its limit and what is free, in steps: so the next deployment finds the same number.
COST_STEP, FREE_STEP = 16 * MIB, 1024 * MIB
# Used by the node's cgroup, bytes: anonymous and shared memory (a virtual machine's may be either), and the kernel's.
_MEMORY = """
import json, os
def fields(path):
    return {key: int(value) for key, value in (line.split()[:2] for line in open(path))}
top = "/sys/fs/cgroup/memory"
if os.path.exists(top + "/memory.stat"):
    found = fields(top + "/memory.stat")
    kernel = int(open(top + "/memory.kmem.usage_in_bytes").read())
    used = found["total_rss"] + found["total_shmem"] + kernel
else:
    found = fields("/sys/fs/cgroup/memory.stat")
    names = ("slab", "kernel_stack", "pagetables", "percpu")
    used = found["anon"] + found["shmem"] + found.get("kernel", sum(found.get(name, 0) for name in names))
print(json.dumps({"used_B": used}))
"""
MEMORY = ("python3", "-c", _MEMORY)


@dataclass(frozen=True, slots=True)
class Free:
    """Memory of a node in bytes: what is available, and what its cgroup uses where that can be read."""

    available_bytes: int
    used_bytes: int | None

    @staticmethod
    def now(targets: Mapping[str, Target]) -> Free:
        """Return what the conductor sees of the node, whose memory is the node's, and what the node says itself."""
        shown = targets["conductor"].check(("cat", "/proc/meminfo"), timeout_s=30).decode()
        available = next(line.split()[1] for line in shown.splitlines() if line.startswith("MemAvailable:"))
        command = targets["worker1"].lifecycle.get("memory") if "worker1" in targets else None
        used = None
        if command:
            used = json.loads(targets["worker1"].check(command, timeout_s=30))["used_B"]
        return Free(int(available) * 1024, used)


def fits(kubectl: Kubectl, node: str, before: Free, after: Free, limit_bytes: int) -> tuple[int, str]:
    """Return how many pods the node holds at once, and what bounds that.

    Parameters
    ----------
    before, after
        Memory before and after the first pod was made.
    limit_bytes
        Memory limit of a pod: each may use all of it.
    """
    found = kubectl.get("node", node)
    others = [
        pod
        for pod in kubectl.get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")["items"]
        if pod["status"].get("phase") in ("Pending", "Running") and LABEL not in pod["metadata"].get("labels", {})
    ]
    most = int(found["status"]["allocatable"]["pods"])
    bounds = {f"the kubelet takes {most}, and {len(others)} others are there": most - len(others)}
    if found["spec"].get("podCIDR"):
        network = ip_network(found["spec"]["podCIDR"])
        used = sum(not pod["spec"].get("hostNetwork") for pod in others)
        bounds[f"addresses of {network}"] = network.num_addresses - 3 - used  # network, gateway, broadcast
    cost = before.available_bytes - after.available_bytes
    if before.used_bytes is not None and after.used_bytes is not None:
        cost = after.used_bytes - before.used_bytes
    each = limit_bytes + COST_STEP * max(1, math.ceil(cost / COST_STEP))
    free = (before.available_bytes - RESERVED_B) // FREE_STEP * FREE_STEP
    words = f"memory: {free / 2**30:.0f} GiB free for them, {math.ceil(each / MIB)} MiB each"
    bounds[words] = free // each
    reason, count = min(bounds.items(), key=lambda bound: bound[1])
    if count < 1:
        raise ProvisionError(f"{node} has no room for a pod: {reason}")
    return count, reason
