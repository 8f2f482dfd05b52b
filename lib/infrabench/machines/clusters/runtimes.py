"""A worker's container runtime as data: what a high-level runtime is, and what its configuration is made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from infrabench.core import Host, Machines
from infrabench.machines.clusters.kata import Kata

CNI_CONFIG = "/etc/cni/net.d"
CNI_BIN = "/opt/cni/bin"
PLAIN_CONFIG = "/etc/cni/plain.d"  # holds the cluster's CNI without Multus, for pods of the plain runtime class
HOME = "/etc/infrabench"  # our own files on a worker
METRICS = "127.0.0.1:10260"  # where a runtime tells its own figures
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Raises to 0 what a container's description asks for as out-of-memory score: a process without CAP_SYS_RESOURCE may not
# have less, and CRI-O has no setting that keeps it from asking.
RAISE = 'sed -i \'s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/\' {file}'
Values = Mapping[str, Any]  # of a TOML table: text, truth values, whole numbers, and lists of text


@dataclass(frozen=True, slots=True)
class Runtime:
    """A high-level runtime: the one that kubelet speaks to."""

    name: str  # also of its unit, of its log (`hosts.LOGS`), and of its part of the Go tools
    socket: str  # where kubelet reaches it
    metrics: str  # where its own figures are, as a URL on the worker
    spec: str  # version of the Open Container Initiative's specification that it writes for low-level runtimes
    # Configures and starts it and imports the images of the machines; returns when it answers, else raises
    # `ProvisionError` with the end of its log.
    start: Callable[[RuntimeSetup], None]


@dataclass(frozen=True, slots=True)
class RuntimeSetup:
    """A worker whose runtime is to be set up: what configurations depend on."""

    host: Host
    machines: Machines
    runtime: Runtime
    restricted: bool  # its processes may not lower their out-of-memory score (no CAP_SYS_RESOURCE)
    handlers: tuple[str, ...]  # the low-level runtimes that it shall have (`handlers.HANDLERS`)
    kata: Kata | None = None  # the Kata that is installed there; None where there is none, or it is not asked for


def toml(name: str, values: Values) -> str:
    """Return a TOML table called `name`, which is quoted already where it has to be."""
    # TOML writes these kinds of values as JSON does.
    return "\n".join((f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""))
