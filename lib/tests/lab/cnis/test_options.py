"""CNIs with an option, as real clusters: each is what its name says, and leads connections where it should."""

from __future__ import annotations

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Guards, Limits, NotRunnable, Site, Trial, default_params
from infrabench.experiment.execution import preflight
from infrabench.experiment.execution.monitor import watching
from infrabench.experiment.execution.trial import Bench, execute
from infrabench_platforms.lab import go_tools, node_groups

SPEC = DeploySpec("test", Limits(memory_bytes=256 * 2**20), "198.18.64.10")
OVERLAYS = {"flannel": "flannel.1", "cilium": "cilium_vxlan"}
# How many rules lead to services.
RULES = "exec 2>&-; iptables-save -t nat | grep -c KUBE-SVC; nft list table ip kube-proxy | grep -c dnat; true"
SERVICES = {"nftables": "kube-proxy (nftables)", "kpr": "the CNI itself, no kube-proxy"}


@pytest.mark.parametrize(
    "name",
    [
        "flannel-direct", "flannel-nftables", "flannel-1000-services", "flannel-nftables-1000-services",
        "cilium-direct", "cilium-nftables", "cilium-kpr", "cilium-1000-services", "cilium-kpr-1000-services",
        "cilium-1000-policies", "flannel-mtu1280", "cilium-mtu1280", "flannel-migrated", "cilium-migrated",
    ],
)  # fmt: skip
def test_an_option_is_what_its_name_says_and_new_connections_are_measured(lab_site: Site, name: str) -> None:
    system, workload = registry.system(name), registry.workload("netperf")
    try:
        go_tools.make((*node_groups.TOOLS, *system.CNI.parts))  # type: ignore[attr-defined]
    except NotRunnable as error:
        pytest.skip(f"not run: {error}")
    cni, _, option = name.partition("-1000-")[0].partition("-")
    with system.deploy(lab_site, SPEC) as made, watching([], {}) as monitor:
        able, targets = made.facts["capabilities"], made.targets
        overlay = {} if option == "direct" else {"overlay": OVERLAYS[cni]}
        assert able["encapsulation"] == ("none" if option == "direct" else "vxlan")
        assert targets["worker1"].devices == {**overlay, "uplink": "eth0"}
        shown = targets["worker1"].check(("ip", "-o", "link"), timeout_s=20).decode()
        assert {device for device in OVERLAYS.values() if device in shown} == set(overlay.values())
        # what the nodes' network carries, less the headers of VXLAN, of IP and TCP, and TCP's time stamp
        carried = 1280 if option == "mtu1280" else 1500
        assert able["mss_bytes"] == carried - (0 if option == "direct" else 50) - 52
        assert able["service"] == SERVICES.get(option, "kube-proxy (iptables)")
        assert able["idle_services"] == (1000 if name.endswith("-1000-services") else 0)
        assert able["idle_policies"] == (1000 if name.endswith("-1000-policies") else 0)
        found = targets["worker1"].check(("sh", "-c", RULES), timeout_s=20).split()
        by_iptables, by_nft = (int(number) > able["idle_services"] for number in found)
        assert (by_iptables, by_nft) == (option not in ("nftables", "kpr"), option == "nftables")
        bench = Bench(preflight.roles(lab_site, made), monitor, {}, Guards(None, None, None, None))
        _measure_agents(name, bench)
        for interface in ("primary", "service"):
            params = {
                **default_params(workload),
                "test": "TCP_CRR",
                "seconds": 1,
                "cpus": "one",
                "interface": interface,
            }
            trial = Trial("0" * 16, 0, 0, name, "netperf", "tcp_crr", params, None, None, 3.0)
            record = execute(trial, workload, bench).record
            assert (record.state, record.reason) == ("ok", ""), interface
            found = {each.metric: each.value for each in record.measurements}
            assert 100 < found["transactions_per_s"] < 100_000


def _measure_agents(name: str, bench: Bench) -> None:
    """Measure what the CNI's programs take: Cilium's agent is one of the large ones, and its operator another."""
    workload = registry.workload("cni-agents")
    params = {**default_params(workload), "seconds": 3.0, "settle_s": 1.0}
    trial = Trial("1" * 16, 0, 0, name, "cni-agents", "idle", params, None, None, 8.0)
    record = execute(trial, workload, bench).record
    assert (record.state, record.reason) == ("ok", "")
    found = {each.metric: each.value for each in record.measurements}
    assert ("operator_memory_B" in found) is name.startswith("cilium")
    assert 2e7 < found["agents_memory_B"] < 2e9
    assert 0 <= found["agents_cpu_percent"] < 100
