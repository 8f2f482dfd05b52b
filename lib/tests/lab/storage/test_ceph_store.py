"""Ceph on a store node of the lab for real: it serves, fails, is frozen, damaged and killed, and leaves nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Limits
from infrabench.machines.sites.site import open_site
from tests.support.storm import in_long_form, size

pytestmark = [pytest.mark.timeout(1800)]

MIB, GIB = 2**20, 2**30
SPEC = DeploySpec("test", Limits(memory_bytes=5 * GIB), "", disk_bytes=GIB)
FROZEN_S = size(5, 45)  # the long one is longer than any of Ceph's own patience that is not counted in minutes


@pytest.fixture(scope="module")
def ceph(nothing_left_of_module: None) -> Iterator[Deployment]:
    with open_site("lab") as site, registry.system("ceph").deploy(site, SPEC) as made:
        yield made


class Store:
    """The store of a deployment: its verbs, and commands on its node."""

    def __init__(self, made: Deployment) -> None:
        self.target = made.targets["server"]
        (self.mount,), (self.uri,) = self.target.lifecycle["mount"], self.target.lifecycle["uri"]
        self.home = str(Path(self.mount).parent)

    def __call__(self, *words: str, timeout_s: float = 300) -> dict:
        return json.loads(self.target.check((*self.target.lifecycle["store"], *words), timeout_s=timeout_s))

    def sh(self, script: str, timeout_s: float = 200) -> str:
        argv = ("sh", "-c", f"cd {self.home}; {script}")
        return self.target.check(argv, timeout_s=timeout_s).decode()

    def until_clean(self, wait_s: float = 120) -> float:
        begin = time.monotonic()
        while not self("state")["clean"]:
            assert time.monotonic() - begin < wait_s
            time.sleep(0.3)
        return time.monotonic() - begin

    def comes_to_hold(self, what: str, least: int, most: float = float("inf"), wait_s: float = 20) -> None:
        """Wait until the pool takes so many bytes: the cluster's own figures are a second or two old."""
        deadline = time.monotonic() + wait_s
        while not least <= (now := self("usage")["pool"][what]) <= most:
            assert time.monotonic() < deadline, f"{what} is {now}"
            time.sleep(0.5)

    def pids(self) -> dict[str, int]:
        return {name: each["pid"] for name, each in self("usage")["storage"].items()}


@pytest.fixture
def store(ceph: Deployment) -> Iterator[Store]:
    made = Store(ceph)
    yield made
    made("unmount")


def files(store: Store, count: int = 6, size: int = 16 * MIB) -> str:
    """Make files of random bytes and return their hashes."""
    make = f"for i in $(seq {count}); do head -c {size} /dev/urandom >mount/f$i; done; sync -f mount; "
    return store.sh(f"{make} cd mount; sha256sum f*")


def test_it_is_what_its_facts_say(ceph, store):
    assert "ceph version 18.2" in ceph.facts["version"]
    assert ceph.facts["capabilities"]["copies"] == 2
    assert store("facts")["memory"]["limit_B"] == SPEC.limits.memory_bytes
    assert set(store.pids()) == {"mon", "mgr", "osd.0", "osd.1"}
    caches = store.sh("for i in 0 1; do ceph --admin-daemon run/osd.$i.asok config get bluestore_cache_size; done")
    assert caches.count(str(ceph.facts["cache_bytes"] // 2)) == 2


@pytest.mark.parametrize("mode", ["default", "strict"])
def test_what_is_written_over_one_path_is_read_over_the_other(store, mode):
    store("serve", mode)
    conf, pool, image = store.target.lifecycle["uri-rbd"]
    common = "--name=v --bs=4k --iodepth=16 --size=16M --verify=crc32c --offset=32M --rw=randwrite"
    store.sh(f"fio {common} --do_verify=0 --end_fsync=1 --ioengine=nbd --uri='{store.uri}'")
    rbd = f"--ioengine=rbd --clientname=admin --pool={pool} --rbdname={image}"
    store.sh(f"CEPH_CONF={conf} fio {common} --verify_only {rbd}")
    assert ("rbd_cache = true" in store.sh(f"cat {conf}")) == (mode == "default")


def test_a_fill_is_done_once(store):
    store("serve", "default")
    assert store("fill", str(64 * MIB))["written_B"] == 64 * MIB
    assert store("fill", str(32 * MIB))["written_B"] == 0
    store.comes_to_hold("used_B", 64 * MIB)


def test_space_of_files_comes_back(store):
    before = store("usage")["pool"]
    store("mount", "default", str(512 * MIB))
    files(store, 12, 32 * MIB)
    store.comes_to_hold("used_B", before["used_B"] + 380 * MIB)
    store.comes_to_hold("disk_B", before["disk_B"] + 600 * MIB)  # of 768: what was there before may shrink
    assert store("unmount")["given_back_B"] == 512 * MIB
    store.comes_to_hold("disk_B", 0, before["disk_B"] + 300 * MIB)  # logs of the OSDs' databases, of varying size, stay


@pytest.mark.parametrize("killed", ["nbdfuse", "qemu-nbd"])
def test_unmount_ends_what_a_kill_has_left(store, killed):
    store("mount", "default", str(256 * MIB))
    files(store, 2)
    store.sh(f"kill -9 $(cut -d' ' -f1 run/{killed}.pid)")
    store("unmount")
    assert store.sh("grep store/ceph /proc/mounts || true") == ""
    assert set(store("usage")["client"]) == set()
    store("mount", "strict", str(256 * MIB))
    files(store, 2)


def test_a_frozen_cluster_goes_on_at_once(ceph, store):
    store("serve", "default")
    pids = store.pids()
    ceph.pause()
    time.sleep(FROZEN_S)
    begin = time.monotonic()
    ceph.resume()
    store("serve", "strict")
    fio = f"fio --name=x --ioengine=nbd --uri='{store.uri}' --rw=randwrite --bs=4k --size=1M --iodepth=4"
    store.sh(fio, timeout_s=30)
    assert time.monotonic() - begin < 15
    assert store.pids() == pids
    assert "osd: 2 osds: 2 up" in store.sh("ceph -c ceph.conf -s")


@pytest.mark.parametrize("disk", [0, pytest.param(1, marks=in_long_form)])
def test_a_lost_disk_costs_no_file(store, disk):
    store("throttle", "open")
    store("mount", "default", str(256 * MIB))
    before = files(store)
    lost = store("fail", str(disk))
    assert 0 < lost["noticed_s"] < 30
    assert not store("state")["clean"]
    store("drop")
    assert store.sh("cd mount; sha256sum f*") == before
    store("replace", str(disk))
    store.until_clean()
    assert store("state")["copied_B"] > 90 * MIB
    store("drop")
    assert store.sh("cd mount; sha256sum f*") == before
    store("throttle", "default")


def test_damage_of_one_copy_is_repaired_and_of_both_is_told(store):
    store("mount", "default", str(256 * MIB))
    before = files(store)
    store("drop")
    hit = store("corrupt", "one")
    assert hit["places"] == 6
    found = store("scrub", "deep")
    assert (found["errors"], found["unrecoverable"]) == (6, 0)
    assert store("repair")["repaired"] == 6
    assert store("scrub", "deep")["errors"] == 0
    store("drop")
    assert store.sh("cd mount; sha256sum f*") == before
    lost = store("corrupt", "both")["files"]
    store("drop")
    # Reading of a file that is lost ends in an error: not at all in other bytes.
    read = store.sh("cd mount; for f in f*; do timeout 100 sha256sum $f 2>/dev/null || true; done", timeout_s=400)
    kept = [line for line in before.splitlines() if line.split()[1] not in lost]
    assert read.splitlines() == kept
    assert len(lost) == 2
    store("scrub", "deep")  # as the study does: of what only readers have met the manager may not have heard
    told = store("repair")
    assert (told["unrecoverable"], told["repaired"]) == (2, 0)
    store("remake")
    assert store("state")["clean"]
