"""Flows that prove a CNI: packets that take another way, and a policy that does not hold, are found."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import ProvisionError, Result, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.clusters import pods
from infrabench_platforms.clusters.cluster import NODES, Cluster, Kubectl
from infrabench_platforms.systems import _flows, cilium

ROW = "{:>6}: {} {packets} 0 0 0 0 0 0 {} {packets} 0 0 0 0 0 0\n"
NO_ROUTE = b"iperf3: error - unable to connect to server - server may have stopped running: Connection timed out\n"
BUSY = b"iperf3: error - the server is busy running a test. try again later\n"


@dataclass
class Net(LocalHost):
    """Two nodes and their pods: what a flow does to counters, and which flows are let through.

    `carries`: device -> share of the bytes of a flow that it counts. `arrives`: share that reaches the receiver.
    `denied`: what those get who are not let in to the guarded receiver; None: they are let in.
    """

    carries: dict[str, float] = field(default_factory=lambda: {"eth0": 1.05, "flannel.1": 1.02})
    arrives: float = 1.0
    denied: bytes | None = NO_ROUTE
    allowed_fails: bytes = b""
    dies_after: int = 99  # clients that the guarded receiver serves before it is gone
    moved: float = 0.0
    listening: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    served: int = 0
    name: str = "net"
    address: str = "198.18.0.22"

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        role, line = argv[0], " ".join(argv[1:])
        self.asked.append(f"{role}: {line}")
        status, out, err = self._does(role, line)
        return Result(tuple(argv), status, out, err, time.time(), 0.01)

    def _does(self, role: str, line: str) -> tuple[int, bytes, bytes]:
        if role == "mtu":
            return 0, b"1500\n", b""
        if "/proc/net/dev" in line:
            rows = [ROW.format(name, 7, int(share * self.moved), packets=1) for name, share in self.carries.items()]
            return 0, ("Inter-|\n face |\n" + "".join(rows)).encode(), b""
        if "iperf3 -s" in line:
            self.listening.add(role)
        elif "kill" in line:
            self.listening.discard(role)
        elif "iperf3 -c" in line:
            return self._client(role, line)
        return 0, b"", b""

    def _client(self, role: str, line: str) -> tuple[int, bytes, bytes]:
        if "10.0.0.14" in line:
            self.served += 1
            if role == "server" and self.denied is not None:
                return 1, b"", self.denied
            failed = self.allowed_fails if role == "near" else b""
            failed = failed or (NO_ROUTE if self.served > self.dies_after else b"")
            return (1, b"", failed) if failed else (0, b"", b"")
        assert "server" in self.listening
        sent = int(line.split("-n ")[1].split()[0])
        self.moved += sent
        told = {"start": {"tcp_mss_default": 1398}, "end": {"sum_received": {"bytes": sent * self.arrives}}}
        return 0, json.dumps(told).encode(), b""


def targets(net: Net) -> dict[str, Target]:
    addresses = {"server": "10.0.0.11", "near": "10.0.0.12", "far": "10.0.1.13", "server-guarded": "10.0.0.14"}
    made = {
        role: Target(role, net, (role,), address, addresses={"primary": address}) for role, address in addresses.items()
    }
    devices = {"uplink": "eth0", "overlay": "flannel.1"}
    return made | {role: Target(role, net, (role,), devices=devices) for role in ("worker1", "worker2")}


def verified(net: Net, *, enforces: bool = True, joins_nodes: bool = True) -> dict[str, object]:
    found = _flows.verify_network("some-cni", targets(net), enforces=enforces, joins_nodes=joins_nodes)
    assert net.listening == set()  # whatever was shown, no server stays behind
    return found


def test_a_cni_that_carries_and_enforces_is_told_with_its_segment_size() -> None:
    found = verified(Net())
    assert found["mss_bytes"] == 1398
    assert str(found["network_policy"]).startswith("enforced")


@pytest.mark.parametrize(
    ("name", "mss_bytes", "wanted"),
    [("flannel", 1398, 1398), ("flannel-direct", 1398, 1448), ("cilium-mtu1280", 1398, 1178), ("cilium", 1348, 1398)],
)
def test_segments_are_as_long_as_the_network_and_the_cni_make_them(name: str, mss_bytes: int, wanted: int) -> None:
    own, worker = registry.system(name).CNI, replace(targets(Net())["worker1"], prefix=("mtu",))
    if mss_bytes == wanted:
        _flows.verify_segments(own, worker, mss_bytes)
        return
    with pytest.raises(ProvisionError, match=f"{name}: .* {mss_bytes} bytes; .* have to have {wanted}"):
        _flows.verify_segments(own, worker, mss_bytes)


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (
            {"carries": {"eth0": 1.05, "flannel.1": 0.4}},
            r"32000000 bytes .* flannel.1 \(overlay\) of worker1 carried 12800000",
        ),
        (
            {"carries": {"eth0": 0.4, "flannel.1": 1.02}},
            r"32000000 bytes .* eth0 \(uplink\) of worker1 carried 12800000",
        ),
        ({"carries": {"eth0": 1.1, "cilium_vxlan": 1.1}}, r"flannel\.1 \(overlay\) of worker1 carried 0"),
        ({"arrives": 0.3}, "of 32000000 bytes from node to node 9600000 arrived"),
    ],
    ids=["no overlay", "no uplink", "no such device", "lost"],
)
def test_packets_that_take_another_way_or_get_lost_are_found(net: dict[str, Any], said: str) -> None:
    made = Net(**net)
    with pytest.raises(ProvisionError, match=f"some-cni: .*{said}"):
        verified(made)
    assert made.listening == set()


def test_a_policy_that_does_not_hold_is_a_fact_of_a_cni_that_enforces_none() -> None:
    assert str(verified(Net(denied=None), enforces=False)["network_policy"]).startswith("not enforced")


@pytest.mark.parametrize(
    ("net", "enforces", "said"),
    [
        ({"denied": None}, True, "a flow that the network policy denies was let through"),
        ({"allowed_fails": NO_ROUTE}, True, "a flow that the policy allows failed: .*Connection timed out"),
        ({"allowed_fails": NO_ROUTE}, False, "a flow that the policy allows failed: .*Connection timed out"),
        ({"denied": BUSY}, False, "some-cni: a flow that the policy denies: .*the server is busy"),
        # The denied flow cannot connect, and after it the allowed one cannot either: no policy did that.
        ({"dies_after": 1}, False, "a flow that the policy allows failed"),
    ],
    ids=["let through", "nobody let in", "nobody let in by another", "busy", "receiver gone"],
)
def test_flows_that_a_policy_does_not_explain_are_errors(net: dict[str, Any], enforces: bool, said: str) -> None:
    with pytest.raises(ProvisionError, match=said):
        verified(Net(**net), enforces=enforces)


def test_nodes_that_are_not_joined_are_not_asked_for_a_flow() -> None:
    net = Net(carries={})
    assert verified(net, joins_nodes=False)["mss_bytes"] is None
    assert not any(line.startswith("far:") for line in net.asked)


def test_a_client_that_fails_stops_the_server_all_the_same() -> None:
    net = Net()
    broken = {**targets(net), "far": Target("far", LocalHost(), ("false",))}
    with pytest.raises(Exception, match="far localhost exited with 1"):
        _flows.verify_network("some-cni", broken, enforces=True, joins_nodes=True)
    assert net.listening == set()


@dataclass
class Policies(Net):
    """The same with the API of a cluster: a label lets the pod that has it in, at once and for as long as it has it."""

    ignored: bool = False  # policies beside the first one
    kept: bool = False  # who was let in once

    def _does(self, role: str, line: str) -> tuple[int, bytes, bytes]:
        if role != "kubectl":
            return super()._does(role, line)
        if "label pod server" in line:
            named = f"{pods.PEER}=0002" in line
            self.denied = None if (named and not self.ignored) or (self.kept and not named) else NO_ROUTE
        return 0, b"", b""


def add_policies(net: Policies) -> None:
    cni = replace(cilium.FAMILY["cilium"].CNI, name="some-cni", idle_policies=3)
    try:
        _flows.add_policies(Cluster(Kubectl(net, ("kubectl",)), NODES), cni, targets(net))
    finally:
        assert net.listening == set()


def test_the_last_of_many_policies_lets_in_whom_it_names_and_nobody_else() -> None:
    net = Policies()
    add_policies(net)
    assert [line.split()[1] for line in net.asked if line.startswith("kubectl: ")] == ["create", "label", "label"]
    assert net.denied == NO_ROUTE  # as before


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (Policies(ignored=True), "some-cni: after 0 s the last of 3 policies lets nobody in"),
        (Policies(kept=True), "some-cni: server is let in though no policy names it any more"),
    ],
)
def test_policies_that_do_not_hold_are_found(net: Policies, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flows, "SERVICE_S", 0.0)
    with pytest.raises(ProvisionError, match=said):
        add_policies(net)
