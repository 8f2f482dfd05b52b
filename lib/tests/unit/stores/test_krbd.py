"""The RBD image as a device of the kernel: made with the administrator's key, found, and removed as the store's own."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from infrabench_platforms.stores.node import daemons, krbd
from infrabench_platforms.stores.node.config import GIB, Config, StoreError


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config("ceph", "ceph", 8 * GIB, 5 * GIB, homes=str(tmp_path))
    for folder in (made.home, made.run, made.log):
        folder.mkdir()
    return made


@pytest.mark.parametrize(
    ("cluster", "busy", "written"),
    [("ours", False, ["7"]), ("ours", True, ["7", "7 force"]), ("another", False, []), (None, False, [])],
)
def test_a_device_of_the_kernel_is_removed_only_where_it_is_the_stores_own(
    cluster, busy, written, config, tmp_path, monkeypatch
):
    bus = tmp_path / "bus"
    (bus / "devices/7").mkdir(parents=True)
    if cluster:
        (bus / "devices/7/cluster_fsid").write_text(f"{cluster}\n")
    (config.home / "ceph.conf").write_text("fsid = ours\n")
    krbd.device(config).symlink_to("/dev/rbd7")
    told: list[str] = []

    class Way:
        def write_text(self, text: str) -> None:
            told.append(text)
            if busy and text == "7":
                raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(krbd, "BUS", bus)
    monkeypatch.setattr(krbd, "_way", lambda verb: Way())
    krbd.detach(config)
    assert told == written
    assert not krbd.device(config).is_symlink()


KEYRING = """[mon.]
\tkey = AQMon==
[client.admin]
\tkey = AQDAdmin/x==
\tcaps mon = "allow *"
[mgr.x]
\tkey = AQMgr==
"""


def test_the_administrators_key():
    assert krbd.secret(KEYRING) == "AQDAdmin/x=="
    for text in ("", KEYRING.replace("client.admin", "client.other"), KEYRING + KEYRING):
        with pytest.raises(StoreError, match="not one"):
            krbd.secret(text)


def test_no_device_of_a_kernel_that_has_no_rbd_also_where_a_folder_of_the_search_path_may_not_be_entered(
    config, tmp_path, monkeypatch
):
    def run(words, **_):  # what an ordinary user meets with such a folder, and without the program
        raise PermissionError(errno.EACCES, "Permission denied", words[0])

    monkeypatch.setattr(krbd, "BUS", tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    krbd.attach(config)  # the store is not told to have one
    for _ in range(2):
        with pytest.raises(StoreError, match="no RBD module"):
            krbd.add("127.0.0.1:1", "key", "rbd", "volume")
        monkeypatch.setattr(subprocess, "Popen", run)
    (tmp_path / "locked").touch()
    with pytest.raises(StoreError, match=r"^no-such-program is not installed$"):
        daemons.run(("no-such-program",))
    with pytest.raises(StoreError, match=r"locked cannot be started: Permission denied$"):
        daemons.run((tmp_path / "locked",))


def test_a_device_is_found_by_its_image_and_removed_by_its_number(tmp_path, monkeypatch):
    bus = tmp_path / "rbd"
    for name in ("3", "4"):  # 4 comes when it is asked for; 3 is somebody else's
        (bus / "devices" / name).mkdir(parents=True)
        (bus / "devices" / name / "pool").write_text("rbd\n")
        (bus / "devices" / name / "name").write_text("volume\n")
    for name in ("add", "add_single_major", "remove", "remove_single_major"):
        (bus / name).write_text("")
    seen = iter(({3}, {3, 4}))
    monkeypatch.setattr(krbd, "BUS", bus)
    monkeypatch.setattr(krbd, "numbers", lambda: next(seen))
    assert krbd.add("127.0.0.1:13301", "AQ==", "rbd", "volume") == 4
    assert (bus / "add_single_major").read_text() == "127.0.0.1:13301 name=admin,secret=AQ== rbd volume -"
    assert (bus / "add").read_text() == ""
    krbd.remove(4)
    assert (bus / "remove_single_major").read_text() == "4"
