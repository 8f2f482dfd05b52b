"""What sessions leave on a host that is not the lab's: nothing of theirs, everything of others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from infrabench.core import ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import containers, guest_bridge
from infrabench_platforms.systems import lxc, native, podman
from tests.support.fakes import fake_site
from tests.support.namespaces import Apart, open_apart
from tests.support.scripts import write_program

OWN = """
while umount --lazy /run/netns 2>/dev/null; do :; done  # of this machine, if it has one: it would be listed below ours
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/cpu
"""
SEEN = "ls -A /run; ls -A /sys/fs/cgroup/*; cat /proc/self/mountinfo | cut -d' ' -f5 | sort; ip -o link | wc -l"


@pytest.fixture
def apart() -> Iterator[Apart]:
    """This machine with ``/run`` and cgroups (folders, without a kernel behind them) of its own."""
    with open_apart(OWN, "net", "mount") as host:
        yield host


def sh(host: Apart, text: str) -> str:
    return containers.run_script(host, text)


CGROUPS = (*guest_bridge.list_lxc_cgroups(lxc.NAME, lxc.SPARE), *podman.CGROUPS)


@pytest.mark.parametrize(
    "before",
    [
        ":", "mkdir /run/netns", "ip netns add other", "ip netns add other; ip netns del other",
        "mkdir -p /sys/fs/cgroup/cpu/lxc.payload.web /sys/fs/cgroup/cpu/lxc.pivot",
        "mkdir -p /sys/fs/cgroup/cpu/libpod_parent", "mkdir -p /sys/fs/cgroup/cpu/libpod_parent/conmon",
        "cd /sys/fs/cgroup/cpu; mkdir lxc.monitor.infrabench-lxc-of-mine lxc.pivot",
    ],
)  # fmt: skip
def test_a_host_is_as_before_when_the_last_system_leaves(apart: Apart, before: str) -> None:
    sh(apart, before)
    seen = sh(apart, SEEN)
    with guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS):
        sh(apart, "ip netns add infrabench-x; ip link add ib-x type veth peer name eth0 netns infrabench-x")
        sh(apart, f"ip link set ib-x master {guest_bridge.BRIDGE}")
        with guest_bridge.hold_bridge(apart, fake_site(apart)):
            pass
        assert sh(apart, f"ip -br link show {guest_bridge.BRIDGE}")  # somebody is on it
        sh(apart, "mkdir -p /run/infrabench/empty; ip netns del infrabench-x; ip link del ib-x || true")
        sh(apart, "cd /sys/fs/cgroup/cpu; mkdir -p lxc.pivot libpod_parent/conmon lxc.monitor.infrabench-lxc")
        sh(apart, "cd /sys/fs/cgroup/cpu; mkdir -p lxc.payload.infrabench-lxc-1/init.scope")
    assert sh(apart, SEEN) == seen


def test_a_bridge_of_our_name_that_somebody_else_has_made_is_told_and_stays(apart: Apart) -> None:
    sh(apart, f"ip link add {guest_bridge.BRIDGE} type bridge; ip addr add 192.0.2.1/24 dev {guest_bridge.BRIDGE}")
    seen = sh(apart, f"{SEEN}; ip addr show dev {guest_bridge.BRIDGE}")
    with (
        pytest.raises(ProvisionError, match="has a bridge infrabench1 that infrabench has not made"),
        guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS),
    ):
        pass
    guest_bridge.release_bridge(apart)
    assert sh(apart, f"{SEEN}; ip addr show dev {guest_bridge.BRIDGE}") == seen


@pytest.mark.parametrize(
    ("others", "cgroups"),
    [
        ("libpod_parent lxc.pivot", ()),  # of a session that has neither engine
        ("libpod_parent", guest_bridge.list_lxc_cgroups(lxc.NAME)),
        ("lxc.pivot lxc.payload.web", CGROUPS),  # LXC of somebody is on its way
        ("libpod_parent/conmon libpod_parent/libpod-0123", CGROUPS),  # with a process in it
    ],
)
def test_cgroups_of_others_that_came_meanwhile_stay(apart: Apart, others: str, cgroups: Sequence[str]) -> None:
    with guest_bridge.hold_bridge(apart, fake_site(apart), cgroups):
        sh(apart, f"cd /sys/fs/cgroup/cpu; mkdir -p {others}")
        sh(apart, "cd /sys/fs/cgroup/cpu/libpod_parent/libpod-0123 && echo 1 >cgroup.procs || :")
        seen = sh(apart, "find /sys/fs/cgroup/cpu | sort")
    assert sh(apart, "find /sys/fs/cgroup/cpu | sort") == seen
    assert sh(apart, "find /run -name 'infrabench*'") == ""


@pytest.mark.parametrize(
    ("system", "script", "group"),
    [(native, "_DOWN", native.NAME), (lxc, "_END", f"lxc.payload.{lxc.NAME}")],
    ids=["native", "lxc"],
)
def test_a_process_that_does_not_die_is_named(
    apart: Apart, monkeypatch: pytest.MonkeyPatch, system: ModuleType, script: str, group: str
) -> None:
    monkeypatch.setattr(system, script, "sleep() { :; }\n" + getattr(system, script))
    with subprocess.Popen(("sleep", "60")) as child:  # its parent does not ask for it: it stays, as a zombie
        sh(apart, f"cd /sys/fs/cgroup/cpu; mkdir {group}; echo {child.pid} >{group}/cgroup.procs")
        with pytest.raises(ProvisionError, match=rf"do not end.*\nprocess {child.pid} \(.*\): Z \(zombie\)"):
            system.remove(apart)


def test_what_a_killed_session_has_noted_is_put_back(apart: Apart) -> None:
    sh(apart, "echo 0 >/proc/sys/net/ipv4/ip_forward; mkdir /sys/fs/cgroup/cpu/libpod_parent")
    killed = guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS)
    killed.__enter__()
    sh(apart, "cd /sys/fs/cgroup/cpu; mkdir -p libpod_parent/conmon lxc.payload.infrabench-lxc lxc.pivot")
    # netavark may remove the bridge
    sh(apart, f"ip netns add left; ip netns del left; ip link del {guest_bridge.BRIDGE}")
    with guest_bridge.hold_bridge(apart, fake_site(apart), podman.CGROUPS):
        pass
    assert sh(apart, "cat /proc/sys/net/ipv4/ip_forward; find /run -name 'infrabench*' -o -name netns") == "0\n"
    assert sh(apart, "cd /sys/fs/cgroup/cpu; find . -mindepth 1") == "./libpod_parent\n"
    del killed  # which would take down once more


@pytest.mark.parametrize("forwards", ["0", "1"])
def test_a_note_that_was_not_written_yet_when_its_session_was_killed_is_made_anew(apart: Apart, forwards: str) -> None:
    sh(apart, f"echo {forwards} >/proc/sys/net/ipv4/ip_forward; mkdir /run/infrabench; : >/run/infrabench/ip_forward")
    with guest_bridge.hold_bridge(apart, fake_site(apart)):
        assert sh(apart, "cat /proc/sys/net/ipv4/ip_forward") == "1\n"
    assert sh(apart, "cat /proc/sys/net/ipv4/ip_forward; find /run -name 'infrabench*'") == f"{forwards}\n"


def test_an_unpacked_guest_of_lxc_is_entered_by_root_alone_and_removed(tmp_path: Path) -> None:
    host, home, tar = LocalHost(), tmp_path / "lxc", tmp_path / "guest.tar"
    (tmp_path / "su").write_text("")
    subprocess.run(["tar", "-C", tmp_path, "-cf", tar, "su"], check=True)
    before = os.umask(0)
    try:
        containers.run_script(host, lxc._UNPACK, str(home), lxc.BASE, str(tar), "0123")
        containers.run_script(host, lxc._COPY, str(home), lxc.BASE, lxc.NAME)
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()} == {lxc.BASE: 0o700, lxc.NAME: 0o700}
    (home / "mine").mkdir()
    containers.run_script(host, lxc._REMOVE, str(home), lxc.NAME, lxc.SPARE, lxc.BASE)
    assert [path.name for path in home.iterdir()] == ["mine"]


PODMAN = """
echo "$*" >>{log}
case "$1 $2" in
  "images --format") printf 'localhost/infrabench/guest:1\\nlocalhost/infrabench/guest-of-mine:1\\nmine:2\\n' ;;
  "images --all") echo {left} ;;
esac
"""


@pytest.mark.parametrize("left", ["", "0123"])
def test_podman_is_left_without_what_was_imported(left: str, tmp_path: Path) -> None:
    write_program(tmp_path / "podman", PODMAN.format(log=tmp_path / "log", left=left))
    write_program(tmp_path / "umount", f"touch {tmp_path}/umounted")
    env = ("env", f"PATH={tmp_path}:{os.environ['PATH']}", "sh", "-c", podman._REMOVE_IMAGES, "sh", podman.IMAGE)
    assert LocalHost().run(env, timeout_s=10).ok
    rows = (tmp_path / "log").read_text().splitlines()
    assert [row for row in rows if row.startswith("image rm")] == ["image rm localhost/infrabench/guest:1"]
    assert (tmp_path / "umounted").exists() is (left == "")
