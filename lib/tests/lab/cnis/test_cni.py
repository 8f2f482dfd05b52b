"""What CNIs do alike, without a cluster: addresses, counters, devices, whose namespace it is; the roles of `host`."""

from __future__ import annotations

import shutil

import pytest

from infrabench.core import ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.clusters.hosts import uplink
from infrabench_platforms.systems import host
from tests.unit.systems.test_cni import SPEC


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
