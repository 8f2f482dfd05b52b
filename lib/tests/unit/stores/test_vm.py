"""A volume in a virtual machine: what the emulator is told, what verbs do there, and what the image is made from."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench import registry
from infrabench_platforms.lab import go_parts, images, prebuild
from infrabench_platforms.stores import upload
from infrabench_platforms.stores.node import block, ceph_vm, daemons, guest, inside, krbd, main, zfs_kernel, zfs_vm
from infrabench_platforms.stores.node.config import GIB, HOMES, Config, StoreError
from tests.support.scripts import write_program


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config("zfs_vm", "zfs-vm", 8 * GIB, 5 * GIB, options={"image": "/images/vm"}, homes=str(tmp_path))
    for folder in (made.home, made.run, made.log, guest.home(made)):
        folder.mkdir()
    return made


@pytest.mark.parametrize(
    ("cluster", "busy", "written"),
    [("ours", False, ["7"]), ("ours", True, ["7", "7 force"]), ("another", False, []), (None, False, [])],
)
def test_only_the_stores_own_kernel_device_is_removed(cluster, busy, written, config, tmp_path, monkeypatch):
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


def after(command: list[str], option: str) -> list[str]:
    return [value for word, value in itertools.pairwise(command) if word == option]


def test_the_guest_has_no_way_out_and_its_root_disk_is_not_written(config):
    command = guest.command(config, [guest.Drive("disk0", "file=/dev/loop7,format=raw,cache=none")], port=2201)
    assert after(command, "-netdev") == ["user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2201-:22"]
    assert after(command, "-accel") == ["tcg,thread=multi"]  # its facts say emulated
    root, disk = after(command, "-drive")
    assert root.startswith("file=/images/vm/root.img,")
    assert "snapshot=on" in root
    assert disk == "file=/dev/loop7,format=raw,cache=none,if=none,id=disk0"
    assert any("drive=disk0,serial=disk0," in each for each in after(command, "-device"))
    assert guest.Drive("disk0", "").device == "/dev/disk/by-id/virtio-disk0"
    assert str(config.home) in " ".join(command)  # how a stray one is found


def test_only_the_guests_own_key_is_taken_and_keys_are_their_owners_alone(config):
    os.umask(0)  # everybody may read what is made without a thought
    guest._keys(config, 2201)
    assert {(guest.home(config) / name).stat().st_mode & 0o777 for name in ("login", "host")} == {0o600}
    settings = (guest.home(config) / "ssh.conf").read_text()
    for line in ("HostName 127.0.0.1", "Port 2201", "StrictHostKeyChecking yes", "BatchMode yes"):
        assert f"  {line}\n" in settings
    kept = {path: path.read_bytes() for path in guest.home(config).glob("*") if path.suffix != ".conf"}
    assert (guest.home(config) / "known").read_text().startswith("guest ssh-ed25519 ")
    guest._keys(config, 2202)  # the guest starts anew: its keys stay
    assert all(path.read_bytes() == data for path, data in kept.items())


def test_a_guest_that_does_not_run_says_its_last_words(config):
    (config.log / "guest.console.log").write_text("Kernel panic - not syncing: no root\n")
    with pytest.raises(StoreError, match="no root"):
        guest.run(config, ("true",))


def test_words_and_status_reach_the_guest_as_they_are(tmp_path):
    # The last word of ssh's command line is what the other side's shell gets.
    write_program(tmp_path / "ssh", '[ "$1 $3" = "-F guest" ] || exit 99\nexec sh -c "$4"')
    words = ["printf", "%s\n", "two words", "it's", "$HOME", "", "a;b"]
    argv = [sys.executable, inside.__file__, str(tmp_path)]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([*argv, *words], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["two words", "it's", "$HOME", "", "a;b", ""]
    assert subprocess.run([*argv, "sh", "-c", "exit 7"], env=environment, check=False).returncode == 7


@pytest.mark.parametrize("name", ["ceph-vm", "zfs-vm"])
def test_a_system_runs_commands_in_its_guest_by_a_program_that_is_brought(name: str, config: Config) -> None:
    engine = registry.system(name).pick(None, None)  # type: ignore[attr-defined]
    _, program, folder = engine.paths(config)["inside"]
    brought = {f"{upload.FOLDER}/node/{each.name}" for each in Path(main.__file__).parent.glob("*.py")}
    assert program in brought
    assert folder == str(guest.home(config))


fill = guest.verbs(lambda config, mode: None, lambda config: "/dev/x")["fill"]


def test_the_area_is_filled_once_and_not_when_its_filling_failed(config, monkeypatch):
    ran: list[tuple[str, ...]] = []
    with pytest.raises(StoreError, match="does not run"):
        fill(config, None, 1000)
    assert not (config.home / block.FILLED).exists()
    monkeypatch.setattr(guest, "run", lambda _config, argv, **_how: ran.append(tuple(argv)) or "")
    assert fill(config, None, 1000) == {"written_B": 1000}
    assert fill(config, None, 600) == {"written_B": 0}
    assert fill(config, None, 1100) == {"written_B": 1100}
    assert [("--filename=/dev/x" in argv, "--end_fsync=1" in argv) for argv in ran] == [(True, True)] * 2
    with pytest.raises(StoreError, match="too many"):
        fill(config, None, config.raw_bytes + 1)


def test_an_engine_does_some_verbs_its_own_way(config, monkeypatch):
    done = []
    monkeypatch.setattr(guest, "run", lambda _config, argv, **_how: done.append(argv[-1]) or "")
    verbs = guest.verbs(lambda _config, mode: done.append(mode), lambda _config: "/dev/x")
    assert verbs["serve"](config, None, "strict") == {"device": "/dev/x", "mode": "strict"}
    assert done == ["strict", "/dev/x"]  # the mode, then a flush, which write-back caches wait for
    for name in guest.REFUSED:
        with pytest.raises(StoreError, match="not done"):
            verbs[name](config, None)
    assert set(verbs) <= set(main.VERBS)
    for engine in (zfs_vm, ceph_vm):
        assert {"serve", "fill"} <= set(engine.VERBS)


def test_the_store_in_the_guest_is_told_the_same_sizes(config):
    told = zfs_vm.inner(config, [guest.Drive("disk0", "x"), guest.Drive("disk1", "y")])
    devices = {"devices": "/dev/disk/by-id/virtio-disk0 /dev/disk/by-id/virtio-disk1"}
    changed = {"engine": "zfs_kernel", "memory_bytes": 2 * GIB, "options": devices, "homes": str(HOMES)}
    assert told == replace(config, **changed)
    assert zfs_vm.device(config) == str(zfs_kernel.device(told)) == "/dev/zvol/infrabench-zfs-vm/volume"


def test_the_mode_of_a_guests_image_is_its_cache(config):
    for mode, cache in (("default", "writeback"), ("strict", "none")):
        drive = ceph_vm.drive(config, mode)
        assert f"conf={config.home}/client-{mode}.conf" in drive
        assert f"cache={cache}" in drive


def test_a_guests_image_is_made_for_who_asks_for_it_alone():
    assert "vm" in prebuild.names()
    assert "vm" not in prebuild.select_names(())
    assert prebuild.select_names(("vm",)) == ["vm"]
    assert set(prebuild.names()) - set(prebuild.select_names(())) == {*images.ON_DEMAND, *go_parts.ON_DEMAND}


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


def test_no_device_of_a_kernel_without_rbd_nor_where_the_search_path_has_a_closed_folder(config, tmp_path, monkeypatch):
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
