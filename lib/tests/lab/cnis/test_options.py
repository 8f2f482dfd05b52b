"""CNIs with an option, as real clusters: each is what its name says, and leads connections where it should."""

from __future__ import annotations

import shutil

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Limits, ProvisionError, Site
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.clusters.hosts import uplink
from infrabench_platforms.systems import host
from tests.support.lab_trials import build_tools, run_trial, values

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
    system = registry.system(name)
    build_tools(system.CNI.parts)
    cni, _, option = name.partition("-1000-")[0].partition("-")
    with system.deploy(lab_site, SPEC) as made:
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
        # what the CNI's programs take: Cilium's agent is one of the large ones, and its operator another
        took = values(run_trial(lab_site, made, "cni-agents", seconds=3.0, settle_s=1.0).record)
        assert ("operator_memory_B" in took) is name.startswith("cilium")
        assert 2e7 < took["agents_memory_B"] < 2e9
        assert 0 <= took["agents_cpu_percent"] < 100
        for interface in ("primary", "service"):
            asked = {"test": "TCP_CRR", "seconds": 1, "cpus": "one", "interface": interface}
            rates = values(run_trial(lab_site, made, "netperf", **asked).record)
            assert 100 < rates["transactions_per_s"] < 100_000


@pytest.mark.skipif(not shutil.which("ip"), reason="not run: no ip here")
def test_the_uplink_is_the_device_with_the_nodes_address() -> None:
    assert uplink(LocalHost()) == "lo"
    with pytest.raises(ProvisionError, match=r"x: 0 devices have the address 203\.0\.113\.7"):
        uplink(LocalHost("x", "203.0.113.7"))
    with pytest.raises(ProvisionError, match="0 devices"):  # a prefix of an address is another address
        uplink(LocalHost("x", "127.0.0"))


@pytest.mark.skipif(not shutil.which("ip"), reason="not run: no ip here")
def test_one_host_alone_has_no_other_node() -> None:
    with host.deploy(OpenSite("local", "local", {"server": LocalHost()}), SPEC) as made:
        assert set(made.targets) == {"server", "near", "worker1"}
    assert host.supported(OpenSite("x", "kubeconfig", {})) is not None
