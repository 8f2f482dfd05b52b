"""What sessions leave on a host that is not the lab's: nothing of theirs, everything of others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from infrabench.core import ProvisionError, Result
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import containers, guest_bridge
from infrabench_platforms.systems import docker, lxc, lxd, native, podman
from tests.support.cluster_fakes import Scripted, answers
from tests.support.fakes import FakeSite, fake_site

OWN = """
set -e
while umount --lazy /run/netns 2>/dev/null; do :; done  # of this machine, if it has one: it would be listed below ours
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/cpu
echo ready
exec sleep 60
"""
SEEN = "ls -A /run; ls -A /sys/fs/cgroup/*; cat /proc/self/mountinfo | cut -d' ' -f5 | sort; ip -o link | wc -l"


class Apart(LocalHost):
    """This machine with a network, mounts, ``/run`` and cgroups (folders, without a kernel behind them) of its own."""

    def __init__(self, pid: int) -> None:
        super().__init__("apart")
        self._into = ("nsenter", f"--target={pid}", "--net", "--mount")

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        return super().run((*self._into, *argv), timeout_s=timeout_s, stdin=stdin)

    def sh(self, text: str) -> str:
        return containers.run_script(self, text)


@pytest.fixture
def apart() -> Iterator[Apart]:
    argv = ("unshare", "--net", "--mount", "sh", "-c", OWN)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        if not child.stdout.readline():
            pytest.skip(f"not run: {child.stderr.read().strip()}")
        yield Apart(child.pid)
        child.kill()


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
    apart.sh(before)
    seen = apart.sh(SEEN)
    with guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS):
        apart.sh("ip netns add infrabench-x; ip link add ib-x type veth peer name eth0 netns infrabench-x")
        apart.sh(f"ip link set ib-x master {guest_bridge.BRIDGE}")
        with guest_bridge.hold_bridge(apart, fake_site(apart)):
            pass
        assert apart.sh(f"ip -br link show {guest_bridge.BRIDGE}")  # somebody is on it
        apart.sh("mkdir -p /run/infrabench/empty; ip netns del infrabench-x; ip link del ib-x || true")
        apart.sh("cd /sys/fs/cgroup/cpu; mkdir -p lxc.pivot libpod_parent/conmon lxc.monitor.infrabench-lxc")
        apart.sh("cd /sys/fs/cgroup/cpu; mkdir -p lxc.payload.infrabench-lxc-1/init.scope")
    assert apart.sh(SEEN) == seen


def test_a_bridge_of_our_name_that_somebody_else_has_made_is_told_and_stays(apart: Apart) -> None:
    apart.sh(f"ip link add {guest_bridge.BRIDGE} type bridge; ip addr add 192.0.2.1/24 dev {guest_bridge.BRIDGE}")
    seen = apart.sh(f"{SEEN}; ip addr show dev {guest_bridge.BRIDGE}")
    with (
        pytest.raises(ProvisionError, match="has a bridge infrabench1 that infrabench has not made"),
        guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS),
    ):
        pass
    guest_bridge.release_bridge(apart)
    assert apart.sh(f"{SEEN}; ip addr show dev {guest_bridge.BRIDGE}") == seen


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
        apart.sh(f"cd /sys/fs/cgroup/cpu; mkdir -p {others}")
        apart.sh("cd /sys/fs/cgroup/cpu/libpod_parent/libpod-0123 && echo 1 >cgroup.procs || :")
        seen = apart.sh("find /sys/fs/cgroup/cpu | sort")
    assert apart.sh("find /sys/fs/cgroup/cpu | sort") == seen
    assert apart.sh("find /run -name 'infrabench*'") == ""


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
        apart.sh(f"cd /sys/fs/cgroup/cpu; mkdir {group}; echo {child.pid} >{group}/cgroup.procs")
        with pytest.raises(ProvisionError, match=rf"do not end.*\nprocess {child.pid} \(.*\): Z \(zombie\)"):
            system.remove(apart)


def test_what_a_killed_session_has_noted_is_put_back(apart: Apart) -> None:
    apart.sh("echo 0 >/proc/sys/net/ipv4/ip_forward; mkdir /sys/fs/cgroup/cpu/libpod_parent")
    killed = guest_bridge.hold_bridge(apart, fake_site(apart), CGROUPS)
    killed.__enter__()
    apart.sh("cd /sys/fs/cgroup/cpu; mkdir -p libpod_parent/conmon lxc.payload.infrabench-lxc lxc.pivot")
    # netavark may remove the bridge
    apart.sh(f"ip netns add left; ip netns del left; ip link del {guest_bridge.BRIDGE}")
    with guest_bridge.hold_bridge(apart, fake_site(apart), podman.CGROUPS):
        pass
    assert apart.sh("cat /proc/sys/net/ipv4/ip_forward; find /run -name 'infrabench*' -o -name netns") == "0\n"
    assert apart.sh("cd /sys/fs/cgroup/cpu; find . -mindepth 1") == "./libpod_parent\n"
    del killed  # which would take down once more


def test_a_note_that_was_not_written_yet_when_its_session_was_killed_is_made_anew(apart: Apart) -> None:
    apart.sh("echo 0 >/proc/sys/net/ipv4/ip_forward; mkdir /run/infrabench; : >/run/infrabench/ip_forward")
    with guest_bridge.hold_bridge(apart, fake_site(apart)):
        assert apart.sh("cat /proc/sys/net/ipv4/ip_forward") == "1\n"
    assert apart.sh("cat /proc/sys/net/ipv4/ip_forward; find /run -name 'infrabench*'") == "0\n"


def _site(kind: str) -> FakeSite:
    site = fake_site(LocalHost("here"))
    site.kind = kind
    return site


@pytest.mark.parametrize(("kind", "kept"), [("lab", True), ("local", False), ("inventory", False)])
def test_imported_images_stay_in_the_lab_alone(kind: str, kept: bool) -> None:
    assert containers.keeps_image(_site(kind)) is kept


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


def test_docker_is_left_without_what_was_imported() -> None:
    told = {"image ls": "infrabench/guest:1\ninfrabench/guest:2\n", "guest:1": (1, "conflict: somebody's is of it")}
    host = Scripted(answers(told))
    docker._remove_images(host)
    listing, *removals = host.asked
    assert listing[-1] == docker.IMAGE
    assert removals == [("docker", "image", "rm", f"infrabench/guest:{each}") for each in (1, 2)]


PODMAN = """#!/bin/sh
echo "$*" >>{log}
case "$1 $2" in
  "images --format") printf 'localhost/infrabench/guest:1\\nlocalhost/infrabench/guest-of-mine:1\\nmine:2\\n' ;;
  "images --all") echo {left} ;;
esac
"""


@pytest.mark.parametrize("left", ["", "0123"])
def test_podman_is_left_without_what_was_imported(left: str, tmp_path: Path) -> None:
    for name, text in (("podman", PODMAN.format(log=tmp_path / "log", left=left)), ("umount", PODMAN.format(
        log=tmp_path / "umounted", left=""))):  # fmt: skip
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = ("env", f"PATH={tmp_path}:{os.environ['PATH']}", "sh", "-c", podman._REMOVE_IMAGES, "sh", podman.IMAGE)
    assert LocalHost().run(env, timeout_s=10).ok
    rows = (tmp_path / "log").read_text().splitlines()
    assert [row for row in rows if row.startswith("image rm")] == ["image rm localhost/infrabench/guest:1"]
    assert (tmp_path / "umounted").exists() is (left == "")


def pool(**more: object) -> dict[str, object]:
    return {"name": lxd.POOL, "description": lxd.OURS, "used_by": [], **more}


@pytest.mark.parametrize(
    ("pools", "removed"),
    [
        ([pool()], [lxd.POOL]), ([pool(used_by=["/1.0/instances/web"])], []), ([pool(description="")], []),
        ([pool(name="mine")], []), ([], []), (None, []),
    ],
)  # fmt: skip
def test_lxd_is_left_without_what_was_imported(pools: list[object] | None, removed: list[str]) -> None:
    names = {"0a": ["infrabench-guest-1"], "0b": ["infrabench-of-mine"], "0c": []}
    images = [{"fingerprint": each, "aliases": [{"name": name} for name in some]} for each, some in names.items()]
    host = Scripted(answers({"image list": images, "storage list": pools}))
    lxd._remove_images(lxd.FAMILY["lxd"], host)
    assert [argv[-1] for argv in host.asked if "delete" in argv] == ["0a", *removed]


def test_what_lxd_does_not_let_go_is_told(caplog: pytest.LogCaptureFixture) -> None:
    host = Scripted(answers({"image list": [], "storage list": [pool()], "storage delete": (1, "busy")}))
    lxd._remove_images(lxd.FAMILY["lxd"], host)
    assert "LXD keeps what was imported: lxc storage delete infrabench on node" in caplog.text
    assert "busy" in caplog.text
