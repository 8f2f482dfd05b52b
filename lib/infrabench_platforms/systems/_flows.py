"""Flows that prove a CNI before anything is measured: the path that packets take, and what policies let through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infrabench.core import CommandFailed, ProvisionError, Target, wait
from infrabench_platforms.clusters import pods
from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.cni import CNI

FLOW_PORT = 5201
PROBE_BYTES = 32_000_000  # the client ends with the last megabytes still on their way
VXLAN_BYTES = 50  # of outer Ethernet, IP and UDP and of VXLAN itself, before a packet
HEADER_BYTES = 52  # of IP and TCP, with TCP's time stamp
SERVICE_S = 60.0  # a thousand of them at once
ALLOWED_S = 20.0  # a policy takes effect a moment after its pod has come
NO_WAY = b"unable to connect"  # what iperf3 says when its packets are dropped or refused, and for nothing else
LISTEN = ("sh", "-c", 'iperf3 -s -D -p "$1" -I /tmp/infrabench-flow.pid && sleep 0.2', "sh", str(FLOW_PORT))
SILENCE = ("sh", "-c", "kill $(tr -d '\\0' </tmp/infrabench-flow.pid); rm -f /tmp/infrabench-flow.pid")


def verify_network(system: str, targets: Mapping[str, Target], *, enforces: bool, joins_nodes: bool) -> dict[str, Any]:
    """Return what the flows showed: ``mss_bytes`` between nodes (None where they are not joined), ``network_policy``.

    Raises `ProvisionError` when traffic between nodes does not cross the device that encapsulates, the service does not
    lead to its pod, or a policy is not enforced by a CNI that enforces them.
    """
    for name in ("service", "idle"):
        if name in targets["server"].addresses:
            _reach_service(system, targets, name)
    mss_bytes = _send_across(system, targets) if joins_nodes else None
    return {"mss_bytes": mss_bytes, "network_policy": _policy(system, targets, enforces)}


def verify_segments(cni: CNI, worker: Target, mss_bytes: int) -> None:
    """Raise `ProvisionError` unless segments between nodes are as long as their network, the CNI and its tunnel allow.

    A tunnel where there should be none, or an option that did not take effect, changes their length.
    """
    shown = worker.check(("cat", f"/sys/class/net/{worker.devices['uplink']}/mtu"), timeout_s=20)
    expected = (cni.mtu_bytes or int(shown)) - (VXLAN_BYTES if cni.overlay else 0) - HEADER_BYTES
    if mss_bytes != expected:
        raise ProvisionError(
            f"{cni.name}: TCP's segments between nodes have {mss_bytes} bytes; with encapsulation {cni.encapsulation} "
            f"on a network of {cni.mtu_bytes or int(shown)} bytes they have to have {expected}"
        )


def add_policies(cluster: Cluster, cni: CNI, targets: Mapping[str, Target]) -> None:
    """Make policies that select the guarded pod, and see that the last one lets in whom it names and nobody else."""
    policies = pods.idle_policies(cni.idle_policies, "server-guarded")
    cluster.kubectl.create(policies)
    guarded, stranger = targets["server-guarded"], targets["server"]
    label = ("label", "pod", stranger.role, f"--namespace={pods.NAMESPACE}")
    argv = _flow(guarded.addresses["primary"])

    def is_let_in() -> bool:
        return stranger.run(argv, timeout_s=ALLOWED_S).ok

    guarded.check(LISTEN, timeout_s=20)
    try:
        cluster.kubectl.check(*label, f"{pods.PEER}={cni.idle_policies - 1:04d}")
        if not wait.until(is_let_in, SERVICE_S, pause_s=0.5):
            raise ProvisionError(
                f"{cni.name}: after {SERVICE_S:.0f} s the last of {len(policies)} policies lets nobody in"
            )
        cluster.kubectl.check(*label, f"{pods.PEER}-")
        if not wait.until(lambda: not is_let_in(), SERVICE_S, pause_s=0.5):
            raise ProvisionError(f"{cni.name}: {stranger.role} is let in though no policy names it any more")
    finally:
        guarded.run(SILENCE, timeout_s=20)


def _send_across(system: str, targets: Mapping[str, Target]) -> int:
    server, far = targets["server"], targets["far"]
    workers = [targets["worker1"], targets["worker2"]]
    server.check(LISTEN, timeout_s=20)
    try:
        before = [_carried(worker) for worker in workers]
        address = server.addresses["primary"]
        argv = ("iperf3", "-c", address, "-p", str(FLOW_PORT), "-n", str(PROBE_BYTES), "-J")
        report = json.loads(far.check(argv, timeout_s=60))
        after = [_carried(worker) for worker in workers]
    finally:
        server.run(SILENCE, timeout_s=20)
    received = int(report["end"]["sum_received"]["bytes"])  # the client ends when it has sent: not all may have come
    if received < PROBE_BYTES / 2:
        raise ProvisionError(f"{system}: of {PROBE_BYTES} bytes from node to node {received} arrived")
    for worker, first, last in zip(workers, before, after, strict=True):
        for use, device in worker.devices.items():
            moved = last.get(device, 0) - first.get(device, 0)
            if moved < received:
                raise ProvisionError(
                    f"{system}: {received} bytes went from node to node, but {device} ({use}) of {worker.role} "
                    f"carried {moved}: the CNI does not carry the packets"
                )
    return int(report["start"]["tcp_mss_default"])


def _reach_service(system: str, targets: Mapping[str, Target], name: str) -> None:
    server, client = targets["server"], targets.get("far", targets["near"])
    argv = _flow(server.addresses[name])
    server.check(LISTEN, timeout_s=20)
    try:
        # Whoever leads to it hears of a new service a moment later.
        tried = wait.until(lambda: client.run(argv, timeout_s=ALLOWED_S).ok, SERVICE_S, pause_s=0.5)
    finally:
        server.run(SILENCE, timeout_s=20)
    if not tried:
        raise ProvisionError(f"{system}: after {SERVICE_S:.0f} s the address {name} still does not lead to its pod")


def _flow(address: str) -> tuple[str, ...]:
    """Return the command of a short flow to an address; it fails within seconds where there is no way."""
    return ("iperf3", "-c", address, "-p", str(FLOW_PORT), "-n", "1000", "--connect-timeout", "1500")


def _carried(worker: Target) -> dict[str, int]:
    """Return bytes received and sent by device."""
    rows = worker.check(("cat", "/proc/net/dev"), timeout_s=30).decode().splitlines()[2:]
    counted = {}
    for row in rows:
        device, _, numbers = row.partition(":")
        fields = numbers.split()
        counted[device.strip()] = int(fields[0]) + int(fields[8])
    return counted


def _policy(system: str, targets: Mapping[str, Target], enforces: bool) -> str:
    guarded, stranger, friend = targets["server-guarded"], targets["server"], targets["near"]
    guarded.check(LISTEN, timeout_s=20)
    argv = _flow(guarded.addresses["primary"])
    try:
        _let_in(system, friend, argv)
        tried = stranger.run(argv, timeout_s=ALLOWED_S)
        if not tried.ok:
            if NO_WAY not in tried.stdout + tried.stderr:
                raise ProvisionError(f"{system}: a flow that the policy denies: {CommandFailed(tried, stranger.role)}")
            _let_in(system, friend, argv)  # the receiver is still there: it was the policy that refused
    finally:
        guarded.run(SILENCE, timeout_s=20)
    if not tried.ok:
        return "enforced: a flow that it denies was refused"
    if enforces:
        raise ProvisionError(f"{system}: a flow that the network policy denies was let through")
    return "not enforced: a flow that it denies was let through"


def _let_in(system: str, friend: Target, argv: tuple[str, ...]) -> None:
    result = friend.run(argv, timeout_s=ALLOWED_S)
    if not result.ok:
        raise ProvisionError(f"{system}: a flow that the policy allows failed: {CommandFailed(result, friend.role)}")
