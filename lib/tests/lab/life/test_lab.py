"""The embedded lab for real: it comes up, is closed to the outside, survives being killed, and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench.machines.hosts.host import SSHHost
from infrabench.machines.sites.site import open_site
from infrabench_platforms import lab, local_leftovers
from infrabench_platforms.lab import images
from infrabench_platforms.lab.shell import sh
from tests.support.leftovers import init_of, left_since, traces


@pytest.mark.usefixtures("nothing_left")
def test_up_twice_makes_nothing_the_second_time() -> None:
    facts = lab.up()
    stamp = images.make("node").folder.stat().st_mtime_ns
    pid = init_of(lab.nodes.SERVER)
    assert lab.up() == facts
    assert images.make("node").folder.stat().st_mtime_ns == stamp
    assert init_of(lab.nodes.SERVER) == pid
    assert lab.status().up


@pytest.mark.usefixtures("nothing_left")
def test_nodes_reach_each_other_and_nothing_else() -> None:
    with open_site("lab") as site:
        for host in site.hosts.values():
            routes = host.run(("ip", "route"), timeout_s=5).stdout.decode()
            assert "default" not in routes
            assert "unreachable 198.18.0.0/15" in routes
            away = host.run(("ip", "route", "get", "203.0.113.1"), timeout_s=5)
            assert not away.ok
        here = sh("ip", "route", "get", "198.19.255.1", ok=(0, 1, 2))
        assert here.status != 0
        assert b"unreachable" in here.stderr.lower() or b"no route" in here.stderr.lower()
        client = site.hosts["client"]
        knock = "import socket; socket.create_connection(('198.18.0.11', 22), 3)"
        assert client.run(("python3", "-c", knock), timeout_s=5).ok


@pytest.mark.usefixtures("nothing_left")
def test_a_lab_killed_at_any_point_is_repaired_by_the_next_up() -> None:
    rng = random.Random(20201)
    for _ in range(6):
        child = subprocess.Popen([sys.executable, "-c", "from infrabench_platforms import lab; lab.up()"])
        time.sleep(rng.uniform(0.3, 2.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
    lab.up()
    for node in lab.NODES:
        assert lab.nodes.host(node).run(("true",), timeout_s=5).ok


# A session on site local that was killed with every process that it has started; its containers are frozen.
KILLED_LOCAL = """
import os, signal, subprocess
from contextlib import ExitStack
from pathlib import Path
from infrabench import registry
from infrabench.core import DeploySpec, Limits
from infrabench_platforms import local_leftovers
from infrabench.machines.sites.site import open_site
with open_site("local", session="killed") as site, ExitStack() as stack:
    for place, name in enumerate(registry.study("containers").systems):
        system = registry.system(name)
        if system.supported(site) is None:
            limits = Limits(cpus="0", memory_bytes=512 * 2**20, nofile=5000)
            made = stack.enter_context(system.deploy(site, DeploySpec("killed", limits, f"198.18.64.{10 + place}")))
            made.pause and made.pause()
            print(name, flush=True)
    pids = {int(pid) for path in Path("/sys/fs/cgroup").glob("**/lxc.monitor.infrabench-lxc*/cgroup.procs")
            for pid in path.read_text().split()}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("way", ["down", "up"])
def test_what_a_killed_session_on_site_local_left_is_removed(way: str) -> None:
    before = traces()
    killed = subprocess.run([sys.executable, "-c", KILLED_LOCAL], capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {"native", "lxc"} <= set(killed.stdout.split())
    assert local_leftovers.find()
    if way == "up":
        with open_site("lab", session="next") as site:
            assert site.hosts["server"].run(("true",), timeout_s=5).ok
    else:
        lab.down()
    assert local_leftovers.find() == []
    assert left_since(before) == {}


@pytest.mark.usefixtures("nothing_left")
def test_a_lab_lasts_as_long_as_its_user_unless_it_is_kept() -> None:
    with open_site("lab"):
        assert lab.status().up
    assert not lab.status().up
    lab.up()
    with open_site("lab"):
        pass
    assert lab.status().up


@pytest.mark.usefixtures("nothing_left")
def test_a_lab_of_a_root_whose_files_are_private_serves_everybody() -> None:
    before = os.umask(0o077)
    try:
        with open_site("lab") as site:
            for host in site.hosts.values():
                stat = host.run(("stat", "-c", "%a", "/", "/etc", "/etc/hosts", "/etc/ssh", "/var/tmp"), timeout_s=5)
                assert stat.stdout.split() == [b"755", b"755", b"644", b"755", b"1777"]
                read = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", "/etc/hostname")
                assert host.run(read, timeout_s=5).stdout.decode().strip() == host.name
    finally:
        os.umask(before)


@pytest.mark.usefixtures("nothing_left")
def test_the_bridge_takes_no_router_advertisement() -> None:
    with open_site("lab"):
        assert Path(f"/proc/sys/net/ipv6/conf/{lab.network.BRIDGE}/disable_ipv6").read_text().strip() == "1"
        assert b"inet6" not in sh("ip", "address", "show", "dev", lab.network.BRIDGE).stdout


@pytest.mark.usefixtures("nothing_left")
def test_a_node_that_dies_is_an_error_within_seconds() -> None:
    with open_site("lab") as site:
        client = site.hosts["client"]
        pid = init_of(lab.nodes.CLIENT)
        killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {pid}"])
        begin = time.monotonic()
        with pytest.raises(SiteError, match="client"):
            client.run(("sleep", "60"), timeout_s=60)
        assert time.monotonic() - begin < 15
        killer.wait()
        with pytest.raises(SiteError):
            client.run(("true",), timeout_s=5)


@pytest.fixture(scope="module")
def host() -> Iterator[SSHHost]:
    with open_site("lab") as site:
        host = site.hosts["server"]
        assert isinstance(host, SSHHost)
        yield host
    lab.down()


class TestSSHHost:
    """`SSHHost` on a node of the lab."""

    def test_a_hanging_command_ends_here_and_there(self, host: SSHHost) -> None:
        begin = time.monotonic()
        result = host.run(("sleep", "34567"), timeout_s=1)
        assert result.timed_out
        assert time.monotonic() - begin < 8
        assert host.run(("pgrep", "-f", "^sleep 34567"), timeout_s=5).status == 1

    def test_a_daemon_that_keeps_stdout_open_does_not_hold_us(self, host: SSHHost) -> None:
        begin = time.monotonic()
        result = host.run(("sh", "-c", "sleep 20 & echo started"), timeout_s=30)
        assert result.ok
        assert result.stdout == b"started\n"
        assert time.monotonic() - begin < 5

    def test_a_gateway_is_passed_through(self, host: SSHHost) -> None:
        identity = {"key": lab.lab_dir() / "ssh/id_ed25519", "known_hosts": lab.lab_dir() / "ssh/known_hosts"}
        gateway = SSHHost("client", "198.18.0.12", **identity)
        behind = SSHHost("server", "198.18.0.11", gateway=gateway, **identity)
        seen = behind.run(("sh", "-c", "echo $SSH_CLIENT"), timeout_s=5).stdout.decode()
        assert seen.split()[0] == "198.18.0.12"
        behind.close()
        gateway.close()


class Killed(BaseException):
    """The end of a process that nothing catches."""


def test_a_lab_whose_maker_is_killed_while_it_notes_its_facts_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = lab.images.Image("node", "x", tmp_path)
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    for where, name, put in (
        (lab, "require", lambda: None),
        (lab, "_remove", lambda holder, say: None),
        (lab, "_start", lambda guest, node: lab.lab_dir().mkdir(exist_ok=True)),
        (lab.images, "make", lambda kind, say: image),
        (lab.network, "check_owner", lambda: None),
    ):
        monkeypatch.setattr(where, name, put)

    def kill(source: str, target: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", kill)
        with pytest.raises(Killed):
            lab.up()
    with pytest.raises(SiteError, match="the lab is not up"):
        lab.facts()
    assert not lab._matches(image, image)
    lab.up()
    assert lab.facts() == lab._facts(image, image)
