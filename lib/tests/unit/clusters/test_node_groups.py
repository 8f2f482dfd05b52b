"""Sets of machines: each has addresses of its own, what fails or is killed half way is removed; freezing; killing."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.core import DesignError, Machines, NotRunnable, ProvisionError
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.site import read_file
from infrabench_platforms.lab import kernel_limits, node_groups, nodes, processes, shell
from infrabench_platforms.lab.images import Image
from tests.support.cluster_fakes import Scripted
from tests.unit.clusters.test_cluster_kata import release

TAKE = """
import sys
from infrabench_platforms.lab import node_groups as sets
sys.stdin.readline()
for number in range(4):
    print(sets.allocate_slot(f"{sys.argv[1]}-{number}"))
"""


def mark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the state folder of a lab whose label is known."""
    monkeypatch.setenv("INFRABENCH_STATE", str(folder))
    (folder / shell.MARKER).write_text('{"label": "abcd"}')


def members(name: str, slot: int) -> tuple[nodes.Node, ...]:
    return node_groups.place_nodes(name, slot, node_groups.ROLES)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a running lab that has no nodes, and a machine that has no cgroups."""
    mark(tmp_path, monkeypatch)
    monkeypatch.setattr(nodes, "_tops", list)
    # This machine's links and loop devices may be those of a lab that is at work.
    monkeypatch.setattr(nodes, "LINKS", tmp_path / "links")
    monkeypatch.setattr(nodes, "detach_loops", lambda name="": None)
    monkeypatch.setattr(kernel_limits, "load_bridge_filter", lambda file: None)  # some have it, and others its module
    folder = tmp_path / "lab"
    (folder / "ssh").mkdir(parents=True)
    (folder / "ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAA lab\n")
    (folder / "ssh/known_hosts").write_text("198.18.0.11 ssh-ed25519 server\n")
    return folder


def test_processes_that_take_at_once_get_slots_of_their_own(lab: Path) -> None:
    argv = [sys.executable, "-c", TAKE]
    children = [
        subprocess.Popen([*argv, f"set{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for n in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    taken = [int(line) for child in children for line in child.communicate(timeout=60)[0].split()]
    assert sorted(taken) == list(range(16))
    assert sorted(node_groups.slots().values()) == list(range(16))


def test_a_slot_that_is_free_again_is_taken_first_and_a_full_lab_says_so(lab: Path) -> None:
    assert [node_groups.allocate_slot(name) for name in "abc"] == [0, 1, 2]
    node_groups.remove("b")
    assert node_groups.slots() == {"a": 0, "c": 2}
    assert node_groups.allocate_slot("d") == 1
    for number in range(3, node_groups.SLOTS):
        node_groups.allocate_slot(f"s{number}")
    with pytest.raises(ProvisionError, match="32 sets of machines already"):
        node_groups.allocate_slot("one more")
    assert len(node_groups.slots()) == node_groups.SLOTS


def test_addresses_names_and_devices_of_all_sets_differ() -> None:
    every = [
        *nodes.NODES,
        *(each for slot in range(node_groups.SLOTS) for each in members(f"c{slot}", slot)),
    ]
    for told in ([e.address for e in every], [e.mac for e in every], [nodes._veth(e) for e in every]):
        assert len(set(told)) == len(every)
    assert all(len(nodes._veth(each)) <= 15 for each in every)
    assert all(int(each.address.split(".")[-1]) < 255 for each in every)


def test_a_half_written_list_of_sets_never_takes_the_place_of_a_whole_one(lab: Path) -> None:
    node_groups.allocate_slot("a")
    (lab / "machines.json.part").write_text('{"a": 0, "b"')  # what a kill in the middle leaves
    assert node_groups.slots() == {"a": 0}
    assert node_groups.allocate_slot("b") == 1
    assert json.loads((lab / "machines.json").read_text()) == {"a": 0, "b": 1}


@pytest.fixture
def built(lab: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A machine where images and tools are there and a node is a folder; returns the nodes that were started."""
    started: list[str] = []

    def start(node: nodes.Node, image: Image, read_only: object, *_: object) -> None:
        home = nodes.nodes_dir() / node.container
        (home / "upper/etc/ssh").mkdir(parents=True)
        (home / "upper/etc/ssh/ssh_host_ed25519_key.pub").write_text(f"ssh-ed25519 {node.container} x\n")
        started.append(node.role)

    monkeypatch.setattr(node_groups.go_tools, "make", lambda parts, say: {part: tmp_path / part for part in parts})
    monkeypatch.setattr(node_groups.pod_images, "KINDS", ())
    monkeypatch.setattr(node_groups.images, "make", lambda kind, say: Image("cluster", "0123", tmp_path / "image"))
    monkeypatch.setattr(node_groups.nodes, "start", start)
    monkeypatch.setattr(nodes, "host", lambda node: Scripted(address=node.address))
    return started


def make(name: str) -> list[str]:
    made = node_groups.make(name, ("flannel",))
    return [host.address for host in made.hosts.values()]


def test_a_set_is_known_with_its_keys_and_gone_afterwards(lab: Path, built: list[str]) -> None:
    assert make("flannel") == ["198.18.0.21", "198.18.0.22", "198.18.0.23"]
    known = (lab / "ssh/known_hosts").read_text().splitlines()
    assert known[0] == "198.18.0.11 ssh-ed25519 server"
    assert [line.split()[0] for line in known[1:]] == ["198.18.0.21", "198.18.0.22", "198.18.0.23"]
    make("cilium")
    node_groups.remove("flannel")
    assert node_groups.slots() == {"cilium": 1}
    assert {path.name.split("-")[2] for path in nodes.nodes_dir().iterdir()} == {"cilium"}
    make("bridge")  # takes the addresses over, and the keys with them
    known = (lab / "ssh/known_hosts").read_text().splitlines()
    assert [line.split("-")[3] for line in known[1:]] == ["cilium"] * 3 + ["bridge"] * 3


def test_a_set_whose_second_node_fails_leaves_nothing(lab: Path, built: list[str], monkeypatch) -> None:
    real = node_groups.nodes.start

    def fails(node: nodes.Node, *rest: object) -> None:
        if node.role == "worker1":
            raise ProvisionError("no veth")
        real(node, *rest)

    monkeypatch.setattr(node_groups.nodes, "start", fails)
    with pytest.raises(ProvisionError, match="no veth"):
        make("flannel")
    assert built == ["control"]
    assert node_groups.slots() == {}
    assert list(nodes.nodes_dir().iterdir()) == []


def test_a_set_that_was_killed_half_way_is_made_anew(lab: Path, built: list[str]) -> None:
    node_groups.allocate_slot("other")
    node_groups.allocate_slot("flannel")
    half = nodes.nodes_dir() / "infrabench-abcd-flannel-control" / "upper"  # killed while its first node was started
    half.mkdir(parents=True)
    (half / "old").write_text("")
    make("flannel")
    assert not (half / "old").exists()
    assert sorted(node_groups.slots()) == ["flannel", "other"]


def test_what_a_user_left_behind_goes_and_what_is_kept_stays(lab: Path, built: list[str]) -> None:
    for name in ("flannel", "kept-cilium", "bridge"):
        make(name)
    node_groups.remove_others()
    assert list(node_groups.slots()) == ["kept-cilium"]
    assert [node.container for node in node_groups.existing_nodes(node_groups.KEPT)] == [
        f"infrabench-abcd-kept-cilium-{role}" for role in ("control", "worker1", "worker2")
    ]
    assert len(list(nodes.nodes_dir().iterdir())) == 3


def test_a_set_of_one_worker_has_no_second_and_goes_whole(lab: Path, built: list[str]) -> None:
    made = node_groups.make("runc", (), workers=1)
    assert built == list(made.hosts) == ["control", "worker1"]
    assert [node.role for node in node_groups.existing_nodes()] == ["control", "worker1"]
    node_groups.remove("runc")
    assert list(nodes.nodes_dir().iterdir()) == []
    assert make("flannel") == ["198.18.0.21", "198.18.0.22", "198.18.0.23"]


def test_an_older_version_of_a_part_takes_its_place(lab: Path, built: list[str]) -> None:
    both = [node_groups.make(f"c{number}", parts, workers=1) for number, parts in enumerate(
        (("containerd",), ("containerd", "containerd-2.1"))
    )]  # fmt: skip
    newest, older = both
    assert {*newest.tools} == {*older.tools} == {*node_groups.TOOLS}
    differs = {part for part in newest.tools if newest.tools[part] != older.tools[part]}
    assert (differs, older.tools["containerd"]) == ({"containerd"}, "/opt/infrabench/containerd-2.1")
    assert [each.facts["versions"]["containerd"][:5] for each in both] == ["v2.4.", "v2.1."]
    assert [each.facts["builds"]["containerd"] for each in both] == ["containerd", "containerd-2.1"]
    assert node_groups.parts(("crio", "kata", "containerd-2.1")) == (
        "kubernetes", "etcd", "containerd-2.1", "multus", "crio"
    )  # fmt: skip


def test_a_set_with_kata_is_shown_this_machines(lab: Path, built: list[str], monkeypatch, tmp_path: Path) -> None:
    shown = {}
    real = node_groups.nodes.start

    def start(node: nodes.Node, image: Image, read_only: dict, devices: tuple[str, ...], _: object) -> None:
        shown[node.role] = read_only, devices
        real(node, image, read_only, devices)

    def make() -> Machines:
        return node_groups.make("kata", ("crio", "kata"), workers=1)

    monkeypatch.setattr(node_groups.nodes, "start", start)
    monkeypatch.setenv(node_groups.kata.VARIABLE, str(tmp_path))
    with pytest.raises(NotRunnable, match=r"^Kata is not installed: searched .* INFRABENCH_KATA=DIR names"):
        make()
    assert built == []
    release(tmp_path, "/opt/kata")
    monkeypatch.setattr(node_groups.kata, "DEVICES", ("/dev/null", "/dev/of-no-kernel"))
    made = make()
    assert made.facts["kata"] == "/opt/kata"
    assert "kata" not in made.tools
    assert shown["worker1"][0]["/opt/kata"] == tmp_path
    assert shown["worker1"][1] == ("/dev/null",)


@pytest.mark.parametrize("v1", [True, False])
def test_a_node_gets_folders_and_devices_and_names_cgroup_v1_only_where_it_is(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, v1: bool
) -> None:
    monkeypatch.setattr(nodes, "V1_DEVICES", tmp_path if v1 else tmp_path / "none")
    image = Image("cluster", "0", tmp_path)
    text = nodes._config(NODE, image, tmp_path, {"/opt/kata": tmp_path}, ("/dev/kvm",), ())
    assert f"lxc.mount.entry = {tmp_path} opt/kata none bind,ro,create=dir 0 0\n" in text
    assert "lxc.mount.entry = /dev/kvm dev/kvm none bind,create=file,optional 0 0\n" in text
    assert ("lxc.cgroup.devices.allow = a\n" in text) == v1
    assert "\nlxc.cgroup2.devices.allow = a\n" in text


def test_two_systems_that_make_their_machines_at_once_do_not_meet(lab: Path, built: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        addresses = [each for made in pool.map(lambda name: make(name), "abcd") for each in made]
    assert len(set(addresses)) == 12
    known = (lab / "ssh/known_hosts").read_text().splitlines()
    assert sorted(line.split()[0] for line in known[1:]) == sorted(addresses)


def test_a_pair_is_an_inventory_of_two_hosts_whose_keys_are_known(lab: Path, built: list[str]) -> None:
    make("flannel")
    file = node_groups.make_pair("rack-a", "kept-hosts-rack-a")
    read = read_file(file)
    assert file == node_groups.pair_inventory("rack-a")
    assert isinstance(read, Inventory)
    assert read.name == "rack-a"
    assert {role: host.address for role, host in read.hosts.items()} == {
        "server": "198.18.0.25", "client": "198.18.0.26"
    }  # fmt: skip
    assert read.known_hosts == lab / "ssh/known_hosts"
    assert "198.18.0.26 " in read.known_hosts.read_text()
    kept = node_groups.existing_nodes(node_groups.KEPT)  # frozen while the lab's own are measured
    assert [node.role for node in kept] == ["server", "client"]
    assert all(node.data == nodes.DATA for node in kept)
    node_groups.remove_others()
    assert sorted(path.name for path in nodes.nodes_dir().iterdir()) == [
        "infrabench-abcd-kept-hosts-rack-a-client", "infrabench-abcd-kept-hosts-rack-a-server"
    ]  # fmt: skip


def test_a_pair_that_fails_leaves_nothing_and_no_inventory(lab: Path, built: list[str], monkeypatch) -> None:
    node_groups.make_pair("a", "hosts-a")

    monkeypatch.setattr(nodes, "host", lambda node: Scripted(lambda argv, stdin: (1, b"no engine")))
    with pytest.raises(ProvisionError, match="no engine"):
        node_groups.make_pair("a", "hosts-a")
    assert node_groups.slots() == {}
    assert list(nodes.nodes_dir().iterdir()) == []
    assert not node_groups.pair_inventory("a").exists()


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "../a", "a b", "a\n", "x" * 21])
def test_a_pair_has_a_name_that_a_container_can_have(name: str) -> None:
    with pytest.raises(DesignError, match="cannot be called"):
        node_groups.pair_group(name)


NODE = members("flannel", 0)[1]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cgroup file system; its folders are where cgroups are looked for."""
    mark(tmp_path, monkeypatch)
    root = tmp_path / "cgroup"
    root.mkdir()
    monkeypatch.setattr(nodes, "_tops", lambda: [root, *(each for each in root.iterdir() if each.is_dir())])
    return root


def v1(root: Path, name: str) -> Path:
    file = root / "freezer" / name / "freezer.state"
    file.parent.mkdir(parents=True)
    file.write_text("THAWED\n")
    return file


def test_freezing_stops_the_node_and_neither_its_monitor_nor_others(tree: Path) -> None:
    frozen = [v1(tree, f"lxc.payload.{NODE.container}"), v1(tree, f"lxc.payload.{NODE.container}-1")]
    others = [
        v1(tree, f"lxc.monitor.{NODE.container}"), v1(tree, f"lxc.payload.{NODE.container}0"),
        v1(tree, f"lxc.payload.{members('cilium', 1)[1].container}"), v1(tree, "lxc.payload.somebody"),
    ]  # fmt: skip
    nodes.freeze([NODE], frozen=True)
    assert [file.read_text() for file in frozen] == ["FROZEN", "FROZEN"]
    assert {file.read_text() for file in others} == {"THAWED\n"}
    nodes.freeze([NODE], frozen=False)
    assert [file.read_text() for file in frozen] == ["THAWED", "THAWED"]


@pytest.fixture
def kernel_v2(tree: Path) -> Iterator[Path]:
    """A v2 cgroup of the node in which a freeze takes effect a moment after it was asked for."""
    home = tree / f"lxc.payload.{NODE.container}"
    home.mkdir()
    (home / "cgroup.freeze").write_text("0\n")
    (home / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    done = threading.Event()

    def follow() -> None:
        while not done.wait(0.05):
            wanted = (home / "cgroup.freeze").read_text().strip() or "0"
            (home / "cgroup.events.part").write_text(f"populated 1\nfrozen {wanted}\n")
            (home / "cgroup.events.part").rename(home / "cgroup.events")

    thread = threading.Thread(target=follow)
    thread.start()
    yield home
    done.set()
    thread.join()


def test_a_v2_freeze_is_waited_for(kernel_v2: Path) -> None:
    nodes.freeze([NODE], frozen=True)
    assert "frozen 1" in (kernel_v2 / "cgroup.events").read_text()
    nodes.freeze([NODE], frozen=False)
    assert "frozen 0" in (kernel_v2 / "cgroup.events").read_text()


def test_what_cannot_be_frozen_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v1(tree, f"lxc.monitor.{NODE.container}")
    with pytest.raises(ProvisionError, match="no cgroup that can be frozen"):  # it does not run
        nodes.freeze([NODE], frozen=True)
    file = v1(tree, f"lxc.payload.{NODE.container}")
    file.unlink()
    file.symlink_to("/dev/null")  # takes every request and never says that it is so
    monkeypatch.setattr(nodes, "FREEZE_S", 0.05)
    with pytest.raises(ProvisionError, match="infrabench-abcd-flannel-worker1 cannot be frozen"):
        nodes.freeze([NODE], frozen=True)


@dataclass
class Stuck:
    """A cgroup with tasks that a signal reaches only once the kernel lets them go, by a clock of its own."""

    folder: Path
    patch: pytest.MonkeyPatch
    let_go_s: float = math.inf
    now_s: float = 0.0
    killed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        self.patch.setattr(nodes, "time", clock)
        self.patch.setattr(nodes.os, "kill", lambda pid, signal: self.killed.add(pid))
        self.patch.setattr(Path, "rmdir", lambda folder: self.rmdir(folder))
        self.folder.mkdir(parents=True)
        (self.folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in range(7, 14)))
        self.patch.setattr(processes, "find", lambda pid: processes.Process(pid, 1, "dd") if pid > 7 else None)
        self.patch.setattr(processes, "describe", lambda each: f"process {each.pid} (`{each.command}`, D)")

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def rmdir(self, path: Path) -> None:
        if self.now_s >= self.let_go_s:
            shutil.rmtree(path)


def test_a_task_that_the_kernel_holds_is_waited_for(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck(tree / "cpu/lxc.payload.infrabench-abcd-flannel-worker1", monkeypatch, let_go_s=19.0)
    nodes._kill_cgroups("infrabench-abcd-flannel-worker1")
    assert not stuck.folder.exists()
    assert stuck.killed == set(range(7, 14))
    assert stuck.now_s < 19.5


def test_a_cgroup_that_stays_is_an_error_that_names_its_processes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck(tree / "cpu/lxc.payload.infrabench-abcd-flannel-worker1", monkeypatch)
    wanted = r"removed after 20 s: \S+worker1: process 8 \(`dd`, D\); .*; 1 more$"
    with pytest.raises(ProvisionError, match=wanted) as told:
        nodes._kill_cgroups("infrabench-abcd-flannel-worker1")
    assert str(told.value).count("process") == nodes.MOST_TOLD
    assert stuck.folder.exists()
    assert 20 <= stuck.now_s < 20.5
    (stuck.folder / "cgroup.procs").write_text("")
    stuck.now_s = 0.0
    with pytest.raises(ProvisionError, match="worker1: no process is in it"):
        nodes._kill_cgroups("infrabench-abcd-flannel-worker1")
