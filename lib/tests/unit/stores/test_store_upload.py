"""What a store needs of a host, and is told before anything is made there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.core import DeploySpec, Limits, Machines, NotRunnable, ProvisionError
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.lab import node_groups
from infrabench_platforms.stores import on_host, upload
from infrabench_platforms.stores.node.config import GIB, load
from infrabench_platforms.systems import block_storage
from tests.support.cluster_fakes import Rooted, Scripted

FREE = f"free={100 * GIB}\n"


def test_the_program_runs_from_what_is_brought(tmp_path):
    config = upload.config("one", "ceph", 3 * GIB, 5 * GIB, {"plugin": "x"})
    host = Rooted(root=tmp_path)
    upload.bring(host, config)
    main, path = tmp_path / upload.PROGRAM.lstrip("/"), tmp_path / upload.path(config).lstrip("/")
    assert load(str(path)) == config
    # With no infrabench around: the node has none.
    done = subprocess.run([sys.executable, "-I", "-c", f"import runpy, sys; sys.path.insert(0, {str(main.parent)!r}); "
                           f"sys.argv = ['main.py', '/nonexistent', 'state']; runpy.run_path({str(main)!r}, "
                           "run_name='__main__')"], capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "/nonexistent: no configuration: [Errno 2] No such file or directory: "
                                              "'/nonexistent'\n")  # fmt: skip


def test_disks_have_room_and_are_alike_for_all_engines():
    sizes = [upload.config("a", engine, 4 * GIB, 1, {}).disk_bytes for engine in ("ceph", "zfs")]
    assert sizes == [11 * GIB, 11 * GIB]
    assert upload.config("a", "ceph", 0, 1, {}).disk_bytes == upload.LEAST_BYTES
    assert upload.need_bytes(4 * GIB, 2, 2) == 24 * GIB


def test_the_program_goes_with_the_last_store_of_a_host(tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "FOLDER", str(tmp_path / "store"))
    first, second = (upload.config(name, "ceph", 0, 1, {}) for name in ("one", "two"))
    (tmp_path / "store/node").mkdir(parents=True)
    for config in (first, second):
        Path(upload.path(config)).write_text("{}")
    host = Rooted(root=tmp_path)
    upload.take_away(host, first)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["node", "two.json"]
    upload.take_away(host, second)
    assert not (tmp_path / "store").exists()


def test_the_reason_of_a_verb_that_fails_is_told():
    host = Scripted(answer=lambda argv, _: (1, b"osd.0 does not come up\n"))
    with pytest.raises(ProvisionError, match=r"store one: create failed: osd\.0 does not come up"):
        upload.ask(host, upload.config("one", "ceph", 0, 1, {}), "create")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (FREE, None),
        ("root\n" + FREE, "take a root login"),
        ("/dev/fuse=FUSE\n" + FREE, "its kernel has no FUSE"),
        ("/dev/fuse=FUSE\n/dev/loop-control=x\n" + FREE, "no FUSE and no loop devices"),
        ("rbd=ceph-common\nceph=ceph-common\nfio=fio\n" + FREE, "apt-get install ceph-common fio"),
        ("/usr/lib/*/qemu/block-rbd.so=qemu-block-extra\n" + FREE, "apt-get install qemu-block-extra"),
        (f"free={3 * GIB}\n", "3.0 GiB free in /var/lib, 10.0 are needed"),
    ],
)
def test_a_host_that_lacks_something_is_refused_with_all_of_it(said, reason):
    host = Scripted(answer=lambda argv, _: (0, said.encode()))
    if reason is None:
        with on_host.store(host, None, "ceph", 10 * GIB) as machines:
            assert machines.hosts == {"store": host}
            assert not machines.embedded
    else:
        with pytest.raises(NotRunnable, match=reason), on_host.store(host, None, "ceph", 10 * GIB):
            pass
    assert len(host.asked) == 1  # nothing is made


def test_this_machine_answers_the_question_itself(tmp_path):
    needed = ("sh=dash", "no-such-program=x", "/dev/null=y", "/dev/nul*=v", "/dev/no=z", "/dev/no*/x=w")
    asked = ("sh", "-c", on_host._CHECK, "sh", str(tmp_path), *needed)
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    assert [each for each in told if "=" in each][:3] == ["no-such-program=x", "/dev/no=z", "/dev/no*/x=w"]
    assert int(told[-1].removeprefix("free=")) > 0


def test_a_lab_without_room_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(node_groups, "STORE_NEEDS", {})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=9 * GIB))
    assert node_groups.find_store_obstacle(9 * GIB) is None
    with (
        pytest.raises(NotRunnable, match=r"9\.0 GiB free and the stores need 10\.0 GiB"),
        node_groups.open_store("ceph", 10 * GIB),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(node_groups, "STORE_NEEDS", {"/dev/of-no-kernel": "loop devices"})
    assert node_groups.find_store_obstacle(0) == "the kernel of this machine has no loop devices"


FACTS = {"engine": "ceph", "version": "16", "pool": {}, "disk_bytes": 1, "cache_bytes": 1}


class Node(Scripted):
    """A node where every verb answers; `unclean` says how often the pool is not whole."""

    def __init__(self, unclean: int = 0) -> None:
        super().__init__(answer=self.say)
        self.unclean = unclean

    def say(self, argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if argv[:1] != ("python3",):
            return 0, b""
        if argv[3] == "state":
            self.unclean -= 1
        return 0, json.dumps({**FACTS, "clean": self.unclean < 0}).encode()

    @property
    def verbs(self) -> list[str]:
        return [argv[3] for argv in self.asked if argv[0] == "python3"]


def deployment(node: Node, needs: list[int], *, embedded: bool, spec: DeploySpec):
    done: list[str] = []

    @contextmanager
    def storer(name: str, need: int, client: bool) -> Iterator[Machines]:
        needs.append(need)
        pause, resume = (lambda: done.append("frozen"), lambda: done.append("thawed")) if embedded else (None, None)
        yield Machines({"store": node}, {}, {}, embedded, pause, resume)

    site = OpenSite("x", "lab" if embedded else "inventory", {"server": node}, storer=storer)
    deploy = block_storage.StorageSystem("ceph", lambda *_: block_storage.Engine("ceph", "user space"), {}).deploy
    return deploy(site, spec), done


def test_room_is_asked_for_all_stores_that_are_still_to_come():
    needs: list[int] = []
    for to_make in (2, 1):
        spec = DeploySpec("s", Limits(), "", 4 * GIB, to_make)
        with deployment(Node(), needs, embedded=True, spec=spec)[0] as made:
            assert made.facts["qualifier"] == "user space"
    assert needs == [24 * GIB, 12 * GIB]


def test_nothing_is_mounted_while_a_store_is_frozen_and_one_that_is_not_whole_is_made_anew(monkeypatch):
    monkeypatch.setattr(block_storage, "THAW_S", 0.3)
    node = Node()
    context, done = deployment(node, [], embedded=True, spec=DeploySpec("s", Limits(), ""))
    with context as made:
        made.pause()
        assert (node.verbs[-1], done) == ("unmount", ["frozen"])
        node.unclean = 1
        made.resume()
        assert (node.verbs[-2:], done) == (["state", "state"], ["frozen", "thawed"])
        node.unclean = 99
        made.resume()
        assert node.verbs[-1] == "remake"
    assert "destroy" not in node.verbs  # the lab's node goes away whole


def test_a_host_of_ones_own_is_left_as_it_was_found():
    node = Node()
    context, _ = deployment(node, [], embedded=False, spec=DeploySpec("s", Limits(), ""))
    with context as made:
        made.pause()
        made.resume()
    assert node.verbs == ["create", "facts", "unmount", "pause", "resume", "state", "destroy"]
    assert node.asked[-1][:2] == ("sh", "-c")
    assert node.asked[-1][-1] == "/opt/infrabench/store/ceph.json"
