"""What systems leave on the real lab: nothing of theirs, and everything of others."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys

import pytest

from infrabench import registry
from infrabench.core import DeploySpec, Limits, ProvisionError, Site

NAMES = registry.study("containers").systems
SPEC = DeploySpec("test", Limits(cpus="0", memory_bytes=512 * 2**20, nofile=5000), "198.18.64.10")

# A session that was killed: it deploys and is gone, with nothing torn down.
_KILLED = """
import os, signal, sys
from infrabench_platforms import lab; from infrabench import registry
from infrabench.core import DeploySpec, Limits
from infrabench.machines.sites.site import OpenSite
site = OpenSite("lab", "lab", {node.role: lab.nodes.host(node) for node in lab.NODES}, lab.facts())
spec = DeploySpec("killed", Limits(cpus="0", memory_bytes=512 * 2**20, nofile=5000), "198.18.64.10")
with registry.system(sys.argv[1]).deploy(site, spec) as made:
    made.pause and made.pause()
    os.kill(os.getpid(), signal.SIGKILL)
"""

_LEFT = {
    "native": "ip netns; ip -br link | grep ib-native; ls -d /run/infrabench/native /sys/fs/cgroup/*/infrabench-native",
    "docker": "docker ps -aq; docker network ls -q --filter label=infrabench",
    "lxc": "lxc-ls -P /var/lib/lxc -1 | grep -v infrabench-base; ls -d /sys/fs/cgroup/*/*infrabench-*lxc",
    "podman": "podman ps -aq; ip netns; ip -br link | grep ib-podman; ls -d /sys/fs/cgroup/*/libpod_parent/libpod-*",
    "lxd": "lxc list -f csv -c n | grep infrabench; ls -d /sys/fs/cgroup/*/*infrabench-*lxd",
    "incus": "incus list -f csv -c n | grep infrabench; ls -d /sys/fs/cgroup/*/*infrabench-*incus",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_killed_session_left_is_removed_and_nothing_stays(name: str, lab_site: Site) -> None:
    system, host = registry.system(name), lab_site.hosts["server"]
    killed = subprocess.run([sys.executable, "-c", _KILLED, name], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    with system.deploy(lab_site, SPEC) as again:
        assert again.targets["server"].run(("true",), timeout_s=10).ok
    left = host.run(("sh", "-c", f"({_LEFT[name]}) 2>/dev/null; ip -br link | grep infrabench1"), timeout_s=20)
    assert left.stdout == b""


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_what_is_not_ours_is_not_touched(name: str, lab_site: Site) -> None:
    host = lab_site.hosts["server"]
    tag = f"infrabench/guest:{lab_site.guest_image()['hash']}"
    with registry.system(name).deploy(lab_site, SPEC):
        pass
    other = host.run((name, "run", "-d", "--name", "keep", "--network", "none", tag, "sleep", "600"), timeout_s=30)
    assert other.ok, other.stderr
    with registry.system(name).deploy(lab_site, SPEC):
        pass
    names = host.run((name, "ps", "--format", "{{.Names}}"), timeout_s=20).stdout
    host.run((name, "rm", "-f", "keep"), timeout_s=20)
    assert names == b"keep\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_that_cannot_be_set_fails_the_deployment(name: str, lab_site: Site) -> None:
    spec = dataclasses.replace(SPEC, limits=Limits(cpus="0", memory_bytes=512 * 2**20, nofile=10**8))
    with pytest.raises(ProvisionError), registry.system(name).deploy(lab_site, spec):
        pass
