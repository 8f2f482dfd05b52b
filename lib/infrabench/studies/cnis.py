"""cnis: what does Cilium in place of Flannel, under Multus, do to throughput, latency, loss, CPU and set-up time?

After one paper that set both side by side by hand. Added to it: the round-trip latency that it calls by that name and
does not report; loss at rates that are stated; CPU time by byte beside its share of the CPUs; pods without Multus;
Multus' second interface, services and policies; and two points of reference, the nodes themselves (`host`) and a bridge
that joins the pods of one node only (`bridge`). A scenario that a system has no place for is left out for that system.

The profile `factors` asks what a CNI's options change: routes in place of VXLAN (`-direct`), kube-proxy by nftables in
place of iptables (`-nftables`), no kube-proxy at all (`cilium-kpr`); and whether they change both CNIs alike.
`services` asks it on a cluster where others have a thousand services (`-1000-services`) or policies (`-1000-policies`),
with what the CNI's programs take while nobody uses the network. `migrated` asks whether it matters that the same nodes
had the other CNI before; `load` has more and more requests under way at once; `long` has what the paper prints,
for 30 s.

A scenario is named ``PROTOCOL WAY PLACEMENT``; without a way it is the first interface of a pod that Multus made, each
end on a processor of its own (``free``: where the scheduler puts it; ``one-cpu``: both on one, which shows the length
of the path with the least noise). The mean of the round trip is the primary one: netperf's percentiles are of a
histogram whose steps are a microsecond at the least, and twenty of these are a round trip.
`seconds` of a case is what one trial takes on two cores of a virtual machine, its readings and the thawing of its
cluster included: it only serves the estimate of the plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from infrabench.core import Case, Guards, Limits, Profile, Study

MIB = 2**20
MBIT = 10**6
NODE, NODES = "same-node", "two-nodes"
OUTSTANDING = (1, 2, 3, 4, 6, 8, 16, 32)  # requests under way at once, where that is swept
WAYS: dict[str, dict[str, Any]] = {
    "": {}, "second": {"interface": "second"}, "service": {"interface": "service"}, "plain": {"multus": False},
    "policy": {"policy": True}, "free": {"cpus": "free"}, "one-cpu": {"cpus": "one"},
    "service one-cpu": {"interface": "service", "cpus": "one"}, "policy one-cpu": {"policy": True, "cpus": "one"},
    **{f"outstanding={count}": {"outstanding": count} for count in OUTSTANDING},
}  # fmt: skip
RATES = {"100M": 100 * MBIT, "1G": 1000 * MBIT, "max": 0}  # what UDP offers, bit/s; 0: as much as it can
AROUND_S = 0.75  # readings, server and commands around a tool
CRR_S = 4.6  # netperf sleeps for most of it before it connects anew each time
POD_S = 2.7  # making and removing a pod; a second longer through Multus than without it


def _tcp(place: str, way: str = "", *, streams: int = 1, seconds: int = 1) -> Case:
    name = "tcp" if streams == 1 else f"tcp-{streams}"
    return _case("iperf3", name, place, way, seconds, streams=streams, seconds=seconds)


def _udp(place: str, rate: str, *, seconds: int = 1) -> Case:
    given = {"protocol": "udp", "rate_bit_per_s": RATES[rate], "seconds": seconds}
    return _case("iperf3", f"udp-{rate}", place, "", seconds, **given)


def _rr(protocol: str, place: str, way: str = "", *, seconds: int = 1) -> Case:
    return _case("netperf", f"{protocol}_rr", place, way, seconds, test=f"{protocol.upper()}_RR", seconds=seconds)


def _crr(place: str, way: str, *, seconds: int = 1) -> Case:
    return _case("netperf", "tcp_crr", place, way, seconds + CRR_S, test="TCP_CRR", seconds=seconds)


def _case(workload: str, name: str, place: str, way: str, took: float, **given: Any) -> Case:
    scenario = " ".join(part for part in (name, way, place) if part)
    return Case(
        workload, scenario, {"placement": place, "cpus": "apart", **WAYS[way], **given}, seconds=took + AROUND_S
    )


def _agents(seconds: float, settle_s: float, took: float) -> Case:
    return Case("cni-agents", "idle", {"seconds": seconds, "settle_s": settle_s}, seconds=took)


PODS = (
    Case("pod-network", "multus", {"multus": True}, seconds=POD_S),
    Case("pod-network", "plain", {"multus": False}, seconds=POD_S),
)
STREAMS = (_tcp(NODE), _tcp(NODES), *(_tcp(NODES, way) for way in ("second", "service", "plain", "policy")))
OF_THE_PAPER = ("flannel", "cilium", "bridge", "host")  # and two points of reference
OPTIONS = (
    "flannel-direct", "flannel-nftables", "flannel-1000-services", "flannel-nftables-1000-services",
    "cilium-direct", "cilium-nftables", "cilium-kpr", "cilium-1000-services", "cilium-kpr-1000-services",
    "cilium-1000-policies", "flannel-mtu1280", "cilium-mtu1280", "flannel-migrated", "cilium-migrated",
)  # fmt: skip
SMOKE = Profile(
    blocks=2,
    systems=OF_THE_PAPER,
    cases=(
        *STREAMS,
        _udp(NODES, "100M"),
        _rr("tcp", NODES),
        _rr("tcp", NODES, "one-cpu"),
        _rr("udp", NODES),
        _agents(1.0, 0.0, 2.0),
        *PODS,
    ),
)
# More blocks on the same clusters say little more about CNIs: each cluster is one deployment, and those count.
QUICK = Profile(
    blocks=12,
    deployments=6,
    systems=("flannel", "cilium", "host"),
    cases=(
        *STREAMS,
        *(_udp(place, rate) for place in (NODE, NODES) for rate in ("100M", "max")),
        _rr("tcp", NODE),
        _rr("tcp", NODES),
        _rr("tcp", NODES, "one-cpu"),
        *PODS,
    ),
)
# What a CNI can be told to do, one option at a time: what is joined how, and who leads to services. A new connection is
# where the latter is paid for; a stream pays once.
FACTORS = Profile(
    blocks=12,
    deployments=6,
    systems=(
        "flannel", "flannel-direct", "flannel-nftables",
        "cilium", "cilium-direct", "cilium-nftables", "cilium-kpr",
    ),
    cases=(
        _tcp(NODES),
        _tcp(NODES, "service"),
        _rr("tcp", NODES, "one-cpu"),
        _crr(NODES, "one-cpu"),
        _crr(NODES, "service one-cpu"),
    ),
)  # fmt: skip
# Who leads to services, on a cluster where others have a thousand of them; and a thousand policies.
SERVICES = Profile(
    blocks=12,
    deployments=6,
    systems=(
        "flannel", "flannel-1000-services", "flannel-nftables", "flannel-nftables-1000-services",
        "cilium", "cilium-1000-services", "cilium-kpr", "cilium-kpr-1000-services", "cilium-1000-policies",
    ),
    cases=(
        _rr("tcp", NODES, "service one-cpu"),
        _crr(NODES, "one-cpu"),
        _crr(NODES, "service one-cpu"),
        _crr(NODES, "policy one-cpu"),
        _agents(10.0, 5.0, 25.0),
    ),
)  # fmt: skip
# Does it matter that the nodes had the other CNI before, as they had in the paper?
MIGRATED = Profile(
    blocks=12,
    deployments=6,
    systems=("flannel", "flannel-migrated", "cilium", "cilium-migrated"),
    cases=(_tcp(NODE), _tcp(NODES), _udp(NODES, "max"), _rr("tcp", NODES, "one-cpu"), _crr(NODES, "service one-cpu")),
)
# Load to the knee: with more requests under way more are answered in a second, until each only waits longer.
LOAD = Profile(
    blocks=12,
    deployments=6,
    systems=("flannel", "cilium", "host"),
    cases=tuple(
        replace(_rr("tcp", NODES, f"outstanding={count}"), factor="outstanding", level=count) for count in OUTSTANDING
    ),
)
# What the paper prints, with streams and datagrams as long as its profile has them: each deployment has one block.
LONG = Profile(
    blocks=6,
    deployments=6,
    systems=("flannel", "cilium"),
    cases=tuple(
        case
        for place in (NODE, NODES)
        for case in (_tcp(place, seconds=30), *(_udp(place, rate, seconds=30) for rate in ("1G", "max")))
    ),
)
PAPER = Profile(
    blocks=30,
    deployments=6,
    systems=OF_THE_PAPER,
    cases=(
        *(_tcp(place, streams=streams, seconds=30) for place in (NODE, NODES) for streams in (1, 4)),
        *(_tcp(place, way, seconds=30) for way in ("service", "plain", "policy", "free") for place in (NODE, NODES)),
        _tcp(NODES, "second", seconds=30),
        *(_udp(place, rate, seconds=30) for place in (NODE, NODES) for rate in RATES),
        *(_rr(protocol, place, seconds=30) for protocol in ("tcp", "udp") for place in (NODE, NODES)),
        *(_rr("tcp", NODES, way, seconds=30) for way in ("second", "service", "plain", "one-cpu", "free")),
        _agents(30.0, 5.0, 65.0),
        *PODS,
    ),
)
PROFILES = {
    "smoke": SMOKE, "quick": QUICK, "factors": FACTORS, "services": SERVICES, "migrated": MIGRATED, "load": LOAD,
    "long": LONG, "paper": PAPER,
}  # fmt: skip
# What the points of reference have no place for: the nodes have no pods, and the bridge joins no two of them.
OF_PODS = {"second", "service", "plain", "policy", "multus", "idle"}
CASES = {(case.workload, case.scenario) for profile in PROFILES.values() for case in profile.cases}
PLACELESS = {
    "host": {case for case in CASES if OF_PODS & {*case[1].split()}},
    "bridge": {case for case in CASES if NODES in case[1]},
}

STUDY = Study(
    name="cnis",
    title="What does Cilium cost or save, compared with Flannel, under Multus?",
    baseline="flannel",
    systems=(*OF_THE_PAPER, *OPTIONS),
    profiles=PROFILES,
    # Of one pod. No CPU list: what a CNI does is done by the nodes' kernel and daemons, outside any pod.
    limits=Limits(memory_bytes=512 * MIB),
    primary=(("iperf3", "throughput_bit_per_s"), ("netperf", "latency_mean_s"), ("iperf3", "cpu_s_per_B")),
    margins={
        "": 0.05,  # throughput, CPU, mean and median of the latency
        **dict.fromkeys(("latency_p90_s", "latency_p99_s", "setup_s", "teardown_s"), 0.10),
        **dict.fromkeys(("agents_cpu_percent", "operator_cpu_percent"), 0.20),
        **dict.fromkeys(("jitter_s", "loss_percent", "retransmits"), 0.20),
    },
    # A thawed cluster catches up on its own timers: for a moment more of its threads are ready to run than there are
    # processors. That is the system's own load and not a neighbour's. Pods have no CPU quota that could throttle them.
    guards=Guards(runnable_per_cpu=8.0, throttled_periods=None),
    deploy_s=45.0,  # a cluster of three nodes with a CNI that is told something
    placeless=PLACELESS,
    deploys_s={
        "host": 1.0, **dict.fromkeys(("bridge", "flannel", "cilium"), 35.0),
        **dict.fromkeys(("flannel-migrated", "cilium-migrated"), 72.0),  # two are made
        **dict.fromkeys((name for name in OPTIONS if "-1000-" in name), 70.0),
    },
)  # fmt: skip
