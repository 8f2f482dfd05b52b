"""A real Slurm in the lab: a controller and up to three compute nodes, from Debian's packages.

The nodes see folders of this machine where they are, as those of a cluster see a file system that they share, so a
campaign's engine on the controller hands them jobs like on any other Slurm. Each node is a system container on this
machine's kernel: its processors are those of the others too, so such sites take turns.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import Host, Machines, ProvisionError, wait
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.host import run_checked
from infrabench_platforms.lab import images, node_groups, nodes
from infrabench_platforms.lab.nodes import QUEUE
from infrabench_platforms.lab.shell import Say

NAME = "slurm"
KEY = "/etc/munge/munge.key"
IDLE_S = 60.0
PARTITION = "bench"
# Whole nodes only; processes are followed through /proc, as a container has no cgroup tree of its own to give away.
CONFIG = """\
ClusterName=lab
SlurmctldHost={controller}({address})
SlurmUser=slurm
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/backfill
ReturnToService=2
SlurmdTimeout=20
KillWait=30
MinJobAge=600
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# Its daemon looks for cgroups although nothing here uses them; of this kind it needs none to be there.
CGROUPS = "CgroupPlugin=cgroup/v1\n"

log = logging.getLogger(__name__)


@contextmanager
def open_cluster(size: int, shared: Sequence[Path], say: Say = log.info) -> Iterator[Machines]:
    """Yield a Slurm cluster of `size` nodes, idle: ``queue`` is the controller, ``node1`` and on compute.

    `shared` are folders that all of them see where they are, and may write to. What is left of an earlier one is
    removed first, and all of it at the end.
    """
    machines = node_groups.boot(NAME, QUEUE[: 1 + size], images.make("slurm", say), {}, shared=shared)
    addresses = {role: host.address for role, host in machines.hosts.items()}
    munge = secrets.token_bytes(1024)
    try:
        parallel.run_all(lambda role: _start_daemons(machines.hosts[role], role, addresses, munge), list(addresses))
        _wait_until_idle(machines.hosts[QUEUE[0]], list(addresses)[1:])
        yield machines
    finally:
        node_groups.close_group(NAME, machines.hosts)


def config(addresses: Mapping[str, str]) -> str:
    """Return slurm.conf: all nodes have the processors of this machine, and a job takes a whole one."""
    rows = [
        f"NodeName={role} NodeAddr={address} CPUs={os.cpu_count()} State=UNKNOWN"
        for role, address in addresses.items()
        if role != QUEUE[0]
    ]
    return CONFIG.format(controller=QUEUE[0], address=addresses[QUEUE[0]], nodes="\n".join(rows), partition=PARTITION)


def _start_daemons(host: Host, role: str, addresses: Mapping[str, str], munge: bytes) -> None:
    """Configure Slurm on a node and start the node's daemons."""
    names = "".join(f"{address} {each}\n" for each, address in addresses.items())
    host.put(f"127.0.0.1 localhost\n{names}".encode(), "/etc/hosts")
    host.put(config(addresses).encode(), "/etc/slurm/slurm.conf")
    host.put(CGROUPS.encode(), "/etc/slurm/cgroup.conf")
    host.put(munge, KEY, 0o400)
    daemon = "slurmctld" if role == QUEUE[0] else "slurmd"
    for argv in (("chown", "munge:munge", KEY), ("systemctl", "start", "munge.service", f"{daemon}.service")):
        run_checked(host, argv, timeout_s=nodes.READY_S)


def _wait_until_idle(controller: Host, waited: Sequence[str]) -> None:
    """Return when every node takes jobs; `ProvisionError` with what Slurm says of them when one does not."""
    said = list[str]()

    def are_idle() -> bool:
        answer = controller.run(("sinfo", "--noheader", "--Node", "--format=%N %t"), timeout_s=20)
        said[:] = [(answer.stdout + answer.stderr).decode("utf-8", "replace").strip()]
        states = dict(line.split() for line in answer.stdout.decode("utf-8", "replace").splitlines())
        return all(states.get(name) == "idle" for name in waited)

    if not wait.until(are_idle, IDLE_S, pause_s=0.5):
        raise ProvisionError(f"the lab's Slurm is not ready after {IDLE_S:.0f} s: {said[0]}")
