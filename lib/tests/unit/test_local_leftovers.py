"""What a killed session on site local has left on this machine: removed, unless it is that of one that lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Host, ProvisionError, SiteError
from infrabench.machines.hosts import claims, marks
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import containers, guest_bridge, local_leftovers
from infrabench_platforms.stores import upload

MINE = {"claim": "mine"}


class Machine:
    """A machine on which a session has made instances of two systems, a bridge and a note, and started a tool."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.bridge, self.note = folder / "links" / guest_bridge.BRIDGE, folder / "notes/ip_forward"
        self.removed: list[str] = []
        self.holders: list[Any] = []
        self.busy, self.is_root = False, True
        self.left: list[str] = []
        self.stuck: set[str] = set()
        patch.setattr(local_leftovers, "LINKS", self.bridge.parent)
        patch.setattr(local_leftovers, "NOTES", self.note.parent)
        self.stores = folder / "stores"
        patch.setattr(upload, "FOLDER", str(self.stores))
        patch.setattr(claims, "claim_hosts", self.claim)
        patch.setattr(marks, "sweeping", self.sweeping)
        patch.setattr(guest_bridge, "release_bridge", self.release)
        patch.setattr(containers, "is_root", lambda host: self.is_root)
        patch.setattr(registry, "names", lambda kind: ("docker", "flannel", "lxc"))
        patch.setattr(registry, "system", self.system)

    def leave(self) -> None:
        for path in (self.bridge, self.note):
            path.parent.mkdir()
            path.touch()

    def system(self, name: str) -> SimpleNamespace:
        if name == "flannel":  # runs on machines of its own
            return SimpleNamespace()
        return SimpleNamespace(remove=lambda host: self.remove_system(name))

    def remove_system(self, name: str) -> None:
        if name in self.stuck:
            raise ProvisionError(f"processes of {name} do not end")
        self.removed.append(name)

    @contextmanager
    def claim(self, hosts: list[Host], holder: Any) -> Iterator[None]:
        self.holders.append(holder)
        if self.busy:
            raise SiteError("this machine is in use by session s")
        yield

    @contextmanager
    def sweeping(self) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(end_orphans=lambda hosts: self.left)

    def release(self, host: Host) -> None:
        if self.bridge.is_file():
            self.bridge.unlink()
            self.note.unlink()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("bridge", [False, True], ids=["nothing", "a bridge that no session has noted"])
def test_where_there_is_nothing_of_ours_nothing_is_claimed(machine: Machine, bridge: bool) -> None:
    if bridge:
        machine.bridge.mkdir(parents=True)
    local_leftovers.remove_local()
    assert machine.bridge.exists() == bridge
    assert machine.holders == machine.removed == []


def test_instances_go_before_the_bridge_and_the_notes_with_the_claim_of_the_session_that_removes(
    machine: Machine,
) -> None:
    machine.leave()
    assert local_leftovers.find() == [f"bridge {guest_bridge.BRIDGE}", str(machine.note)]
    local_leftovers.remove_local(MINE)
    assert machine.holders == [MINE]
    assert machine.removed == ["docker", "lxc"]
    assert local_leftovers.find() == []


def test_a_host_that_the_caller_has_claimed_is_looked_at_once_and_rid_of_what_was_left(machine: Machine) -> None:
    said: list[str] = []
    local_leftovers.remove(LocalHost("server"), said.append)
    assert (said, machine.removed) == ([], [])
    machine.leave()
    local_leftovers.remove(LocalHost("server"), said.append)
    assert said == ["Removing what a killed session has left on server"]
    assert machine.removed == ["docker", "lxc"]
    assert machine.holders == []
    local_leftovers.remove(LocalHost("server"), said.append)
    assert len(said) == 1


def test_what_is_left_of_root_stays_for_another_user_who_is_told(machine: Machine) -> None:
    machine.leave()
    machine.is_root = False
    said: list[str] = []
    local_leftovers.remove(LocalHost("server"), said.append)
    assert said == ["What a killed session has left on server stays: removing it takes root"]
    assert machine.removed == []
    assert len(local_leftovers.find()) == 2


def test_what_is_still_there_although_nothing_failed_is_named(machine: Machine) -> None:
    """As a guest of a daemon that does not run: its port keeps the bridge."""
    machine.leave()
    machine.bridge.unlink()
    machine.bridge.mkdir()
    with pytest.raises(ProvisionError, match=rf"left on server what cannot be removed: {machine.note}$"):
        local_leftovers.remove(LocalHost("server"))
    assert machine.removed == ["docker", "lxc"]


def program(machine: Machine, busy: str) -> None:
    """Write the program of a store node that keeps what it was told, and cannot destroy the store `busy`."""
    machine.stores.mkdir()
    (machine.stores / "main.py").write_text(f"""
import sys
with open({str(machine.stores.parent / "verbs")!r}, "a") as verbs:
    print(*sys.argv[1:], file=verbs)
if sys.argv[1].endswith("/{busy}.json"):
    sys.exit("the pool is busy")
""")


def test_stores_are_destroyed_each_once_before_their_program_goes(machine: Machine) -> None:
    program(machine, busy="none")
    for name in ("ceph", "ceph-listens", "zfs", "zfs-c-listens"):  # the last is a client of a store on another node
        (machine.stores / f"{name}.json").touch()
    assert len(local_leftovers.find()) == 4
    local_leftovers.remove(LocalHost("server"))
    destroyed = (machine.stores.parent / "verbs").read_text().splitlines()
    assert sorted(destroyed) == [f"{machine.stores}/{name}.json destroy" for name in ("ceph", "zfs-c-listens", "zfs")]
    assert not machine.stores.exists()


def test_a_store_that_cannot_be_destroyed_stays_and_is_named_and_keeps_no_other(machine: Machine) -> None:
    program(machine, busy="ceph")
    for name in ("ceph", "ceph-listens", "zfs", "zfs-listens"):
        (machine.stores / f"{name}.json").touch()
    with pytest.raises(ProvisionError, match=r"left on server what cannot be removed: stores: .*the pool is busy"):
        local_leftovers.remove(LocalHost("server"))
    assert sorted(path.name for path in machine.stores.glob("*.json")) == ["ceph-listens.json", "ceph.json"]
    assert (machine.stores / "main.py").exists()


def test_what_a_session_has_that_lives_stays_and_is_told(machine: Machine) -> None:
    machine.leave()
    machine.busy = True
    said: list[str] = []
    local_leftovers.remove_local(say=said.append)
    assert machine.removed == []
    assert len(local_leftovers.find()) == 2
    assert said == ["What is on this machine of site local stays: this machine is in use by session s"]


def test_what_cannot_be_removed_is_named(machine: Machine) -> None:
    machine.leave()
    machine.left = ["this machine: process 7 (fio) of an earlier trial still runs and cannot be ended"]
    machine.bridge.unlink()
    machine.bridge.mkdir()
    with pytest.raises(ProvisionError, match=r"process 7 \(fio\).*, bridge infrabench1, "):
        local_leftovers.remove_local()


def test_what_cannot_be_removed_keeps_nothing_else_from_going(machine: Machine) -> None:
    machine.leave()
    machine.stuck = {"docker"}
    with pytest.raises(ProvisionError, match=r"cannot be removed: docker: processes of docker do not end$"):
        local_leftovers.remove_local()
    assert machine.removed == ["lxc"]
    assert local_leftovers.find() == []
