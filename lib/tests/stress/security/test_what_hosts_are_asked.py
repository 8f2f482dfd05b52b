"""What a host says about itself is what a reader of the numbers needs, and not how to get in; and what is put back."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import infrabench
from infrabench.machines.hosts import host
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import guest_bridge

PROBES = Path(infrabench.__file__).parent / "machines" / "hosts" / "probes"


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> dict:
    """The functions of the probe, which read from made-up files."""
    found = runpy.run_path(str(PROBES / "facts.py"), run_name="facts")
    files = {
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz ro mitigations=off ip=192.0.2.7::192.0.2.1 nfsroot=192.0.2.9:/x "
        "isolcpus=1,2 ds=nocloud;s=http://192.0.2.3/ inst.ks=https://me:pw@192.0.2.4/ks rd.luks.key=abc "
        "foo.password=def console=tty0",
        "/proc/mounts": "192.0.2.50:/export /home nfs4 rw,vers=4.2,clientaddr=192.0.2.7,addr=192.0.2.50 0 0\n"
        "//files.example/share /srv cifs rw,username=anna,domain=corp,cache=strict 0 0\n"
        "/dev/vda1 / ext4 rw,discard 0 0",
    }
    for name in ("mounts", "command_line"):
        monkeypatch.setitem(found[name].__globals__, "text", files.__getitem__)
    return found


def test_the_command_line_of_the_kernel_keeps_what_changes_numbers(facts: dict) -> None:
    assert facts["command_line"]() == (
        "BOOT_IMAGE=/vmlinuz ro mitigations=off ip=... nfsroot=... isolcpus=1,2 ds=... inst.ks=... rd.luks.key=... "
        "foo.password=... console=tty0"
    )


def test_mounts_say_what_they_are_and_not_where_from(facts: dict) -> None:
    found = facts["mounts"]()
    assert found["/"] == {"device": "/dev/vda1", "type": "ext4", "options": "rw,discard"}
    assert found["/home"] == {
        "device": "of another machine", "type": "nfs4", "options": "rw,vers=4.2,clientaddr=...,addr=...",
    }  # fmt: skip
    assert found["/srv"]["options"] == "rw,username=...,domain=...,cache=strict"


def test_a_real_host_says_its_addresses_and_nothing_of_loopback() -> None:
    done = subprocess.run([sys.executable, PROBES / "addresses.py"], capture_output=True, check=True, timeout=20)
    assert all(not each.startswith("127.") and each != "::1" for each in json.loads(done.stdout))


def test_a_tool_on_this_machine_gets_no_variable_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "planted")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # nor one that changes a measurement
    monkeypatch.setenv("INFRABENCH_THING", "ours")
    said = LocalHost().run(("env",), timeout_s=5).stdout.decode()
    names = {line.split("=")[0] for line in said.splitlines()}
    assert "INFRABENCH_THING" in names
    assert names <= {*host.PASSED_ON, "LC_ALL", "INFRABENCH_THING", *(n for n in os.environ if n.startswith(host.OWN))}
    with LocalHost().stream(("sh", "-c", 'echo "$TOKEN-$OMP_NUM_THREADS-$INFRABENCH_THING"')) as stream:
        assert stream.read_line(5) == "--ours"
    assert b"TOKEN=planted" in LocalHost(environment=os.environ).run(("env",), timeout_s=5).stdout


PUT_BACK = """
set -eu
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys
echo "$3" >/proc/sys/net/ipv4/ip_forward
sh -c "$1" sh ibtest0 198.18.99.1/24
sh -c "$1" sh ibtest0 198.18.99.1/24
cat /proc/sys/net/ipv4/ip_forward
sh -c "$2" sh ibtest0
cat /proc/sys/net/ipv4/ip_forward
ls /run/infrabench
"""


@pytest.mark.parametrize("before", ["0", "1"])
def test_a_host_forwards_packets_afterwards_only_if_it_did_before(before: str) -> None:
    """In a network of its own: the bridge of the systems comes twice, and goes."""
    apart = ["unshare", "--net", "--mount"]
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("not run: a network of its own needs root")
    words = ["sh", "-c", PUT_BACK, "sh", guest_bridge._BRIDGE_UP, guest_bridge._BRIDGE_DOWN, before]
    done = subprocess.run([*apart, *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", before]
