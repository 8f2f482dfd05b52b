"""Flows that prove a network before anything is measured on it: the path that packets take, and a policy's effect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infrabench.core import CommandFailed, ProvisionError, Target

PORT = 5201
PROBE_BYTES = 32_000_000  # the client ends with the last megabytes still on their way
ALLOWED_S = 20.0  # a policy takes effect a moment after its pod has come
NO_WAY = b"unable to connect"  # what iperf3 says when its packets are dropped or refused, and for nothing else
LISTEN = ("sh", "-c", 'iperf3 -s -D -p "$1" -I /tmp/infrabench-flow.pid && sleep 0.2', "sh", str(PORT))
SILENCE = ("sh", "-c", "kill $(tr -d '\\0' </tmp/infrabench-flow.pid); rm -f /tmp/infrabench-flow.pid")


def verified(system: str, targets: Mapping[str, Target], *, enforces: bool, joins_nodes: bool) -> dict[str, Any]:
    """Return what the flows showed: ``mss_bytes`` between nodes (None where they are not joined), ``network_policy``.

    Raises `ProvisionError` when traffic between nodes does not cross the device that encapsulates, or a policy is not
    enforced by a CNI that enforces them.
    """
    mss_bytes = _crosses(system, targets) if joins_nodes else None
    return {"mss_bytes": mss_bytes, "network_policy": _policy(system, targets, enforces)}


def _crosses(system: str, targets: Mapping[str, Target]) -> int:
    server, far = targets["server"], targets["far"]
    workers = [targets["worker1"], targets["worker2"]]
    server.check(LISTEN, timeout_s=20)
    try:
        before = [_carried(worker) for worker in workers]
        address = server.addresses["primary"]
        argv = ("iperf3", "-c", address, "-p", str(PORT), "-n", str(PROBE_BYTES), "-J")
        told = json.loads(far.check(argv, timeout_s=60))
        after = [_carried(worker) for worker in workers]
    finally:
        server.run(SILENCE, timeout_s=20)
    received = int(told["end"]["sum_received"]["bytes"])  # the client ends when it has sent: not all may have come
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
    return int(told["start"]["tcp_mss_default"])


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
    argv = (
        "iperf3", "-c", guarded.addresses["primary"], "-p", str(PORT), "-n", "1000", "--connect-timeout", "1500",
    )  # fmt: skip
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
