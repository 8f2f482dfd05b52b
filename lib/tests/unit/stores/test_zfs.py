"""ZFS as engine and as module of a kernel: what it says of its pools, and what is put back."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infrabench_platforms.stores.node import zfs, zfs_kernel, zpool
from infrabench_platforms.stores.node.config import GIB, Config, StoreError
from tests.support.checks import check_each

STATUS = Path(__file__).with_name("zfs_status")


def status(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STATUS / f"{name}.json").read_text())
    return found


NO_REBUILD = {**status("resilver")["scan"], "kind": "scrub"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (status("new"), (True, None, None)),
        (status("degraded"), (False, None, None)),
        (status("resilver"), (False, 46493696, 135450624 - 159744 - 63143936)),
        (status("replaced"), (True, 136249344, 0)),
        (status("lost"), (True, None, None)),
        (status("resilver") | {"scan": status("replaced")["scan"]}, (False, None, None)),  # that of before has ended
        (status("new") | {"scan": NO_REBUILD}, (True, None, None)),
    ],
    ids=["new", "degraded", "resilver", "replaced", "lost", "not begun", "scrub"],
)
def test_progress_of_a_rebuild(found: dict[str, Any], expected: tuple[bool, int | None, int | None]) -> None:
    told = zfs.progress(found, 2)
    assert (told["clean"], told["copied_B"], told["left_B"]) == expected
    assert zfs.progress(found, 3)["clean"] is False  # with fewer disks than copies


def test_errors_are_those_of_the_disks_and_of_what_is_lost() -> None:
    assert zfs.progress(status("new"), 2)["detail"]["errors"] == 0
    assert zfs.checksum_errors(status("new")) == 0
    found = status("lost")
    found["vdevs"]["children"][0]["children"][0] |= {"checksum_errors": 3, "healed_B": 4 * 16384 - 1, "read_errors": 2}
    found["vdevs"]["children"][0]["children"][1] |= {"checksum_errors": 7, "healed_B": 16384, "write_errors": 1}
    assert zfs.progress(found, 2)["detail"]["errors"] == (4 + 2) + (7 + 1) + 2
    assert zfs.checksum_errors(found) == 10


def test_a_replaced_disk_stands_beside_the_new_one_until_the_end() -> None:
    found = [zfs.is_replacing(status(name)) for name in ("new", "degraded", "resilver", "replaced")]
    assert found == [False, False, True, False]
    assert [leaf["state"] for leaf in zfs.leaves(status("resilver"))] == ["online", "offline", "online"]


@pytest.fixture
def answering(tmp_path: Path) -> Callable[[bytes], Config]:
    """Return what makes an engine that answers one question with these bytes, and the store it belongs to."""
    config = Config("zfs", "s", 2**30, 2**30, homes=str(tmp_path))
    config.run.mkdir(parents=True)

    def made(answer: bytes) -> Config:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(config.run / "control.sock"))
        server.listen()

        def serve() -> None:
            with server, server.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return config

    return made


def test_a_question_is_answered(answering: Callable[[bytes], Config]) -> None:
    assert zfs.ask(answering(b'{"ok": true, "errors": 0}\n'), "status") == {"ok": True, "errors": 0}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"ok": false, "errno": 16, "reason": "not replaced: busy"}\n', "refuses 'drop': not replaced: busy"),
        (b'{"errors": 0}\n', "refuses 'drop'"),
        (b'{"ok": 1}\n', "refuses 'drop'"),
        (b"", "does not answer 'drop'"),
        (b'{"ok": tr', "does not answer 'drop'"),
    ],
)
def test_what_is_no_answer_is_an_error(answering: Callable[[bytes], Config], answer: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        zfs.ask(answering(answer), "drop")


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not answer 'status'"):
        zfs.ask(Config("zfs", "s", 2**30, 2**30, homes=str(tmp_path)), "status")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    made = Config("zfs_kernel", "zfs", 8 * GIB, 5 * GIB, homes=str(tmp_path))
    made.home.mkdir()
    folder = tmp_path / "module/parameters"
    folder.mkdir(parents=True)
    for name, value in {"zfs_arc_max": 0, **zfs_kernel.THROTTLE["default"]}.items():
        (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(zfs_kernel, "PARAMETERS", folder)
    return made


def now() -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in zfs_kernel.PARAMETERS.iterdir()}


def test_parameters_go_back_to_what_they_were_first(config):
    before = now()
    zfs_kernel.tune(config, {"zfs_arc_max": GIB})
    zfs_kernel.tune(config, {"zfs_arc_max": 64 << 20, **zfs_kernel.THROTTLE["open"]})
    assert now()["zfs_arc_max"] == str(64 << 20)
    assert now()["zfs_vdev_nia_delay"] == "0"
    zfs_kernel.untune(config)
    assert now() == before
    zfs_kernel.untune(config)  # nothing is left to put back
    assert now() == before


def test_a_cache_that_the_module_had_chosen_the_size_of_has_that_size_again(config, tmp_path, monkeypatch):
    stats = tmp_path / "arcstats"
    stats.write_text("13 1 0x01 147 39984 5 6\nname type data\nc_min 4 33554432\nc_max 4 8589934592\n")
    monkeypatch.setattr(zfs_kernel, "ARC_STATS", stats)
    zfs_kernel.tune(config, {"zfs_arc_max": GIB})
    stats.write_text("c_max 4 1073741824\n")
    zfs_kernel.tune(config, {"zfs_arc_max": 64 << 20})
    written, write = list[str](), Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda path, text: written.append(text) or write(path, text))
    zfs_kernel.untune(config)
    assert written == ["8589934592", "0"]  # a 0 alone would change nothing


@pytest.mark.parametrize(
    ("version", "level", "mib"),
    [
        ("2.1.11-1", "default", 4),
        ("2.1.12-1", "default", 16),
        ("2.3.9-0+deb13u1", "default", 16),
        ("2.1.11-1", "open", 16),
    ],
)
def test_a_module_has_the_limit_of_its_release(config, version, level, mib):
    (zfs_kernel.PARAMETERS.parent / "version").write_text(f"{version}\n")
    assert zfs_kernel.choose_brakes(level)["zfs_scan_vdev_limit"] == mib * MIB
    assert set(zfs_kernel.choose_brakes(level)) == set(zfs_kernel.THROTTLE["open"])


def test_a_kernel_without_the_module_is_refused(config, tmp_path, monkeypatch):
    monkeypatch.setattr(zfs_kernel, "DEVICE", tmp_path / "device")
    monkeypatch.setattr(zfs_kernel.daemons, "run", lambda *_words, **_how: "")
    assert not zfs_kernel.is_loaded()  # its parameters alone are not enough
    with pytest.raises(StoreError, match="no ZFS module"):
        zfs_kernel.load()
    (tmp_path / "device").touch()
    zfs_kernel.load()


SAID = Path(__file__).parent / "zpool"
MIB = 2**20


def said(name: str) -> str:
    return (SAID / f"{name}.txt").read_text()


def told(name: str) -> dict:
    return zpool.parse_status(said(name))


def test_what_is_said_of_a_pool_its_disks_and_its_scan():
    whole, left = told("online"), 202 * MIB - round(69.2 * MIB)
    assert (whole["state"], whole["scan"], whole["replacing"], whole["errors"]) == ("ONLINE", None, False, 0)
    for name, disks in (
        ("online", ["/dev/loop0", "/dev/loop1"]), ("numbered", ["700268225926446831", "6841908120707954623"])
    ):  # fmt: skip
        assert [disk["name"] for disk in told(name)["disks"]] == disks
    for name, runs, done, more, errors in (
        ("scrub-repaired", False, 76 * 1024, None, 0), ("scrub-runs-2.3", True, 0, left, None),
        ("scrub-repaired-2.3", False, 4096, None, 0), ("both-damaged", False, 0, None, 3),
        ("both-damaged-listed", False, 0, None, 3),
    ):  # fmt: skip
        scan = {"kind": "scrub", "runs": runs, "done_B": done, "left_B": more, "errors": errors}
        assert told(name)["scan"] == scan


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("online", (True, None, None)),
        ("offline", (False, None, None)),
        ("resilver-begins", (False, 884 * 1024, round(202 * MIB) - round(2.10 * MIB))),
        ("resilver-runs", (False, 118 * MIB, (202 - 117) * MIB)),
        ("resilver-begins-2.3", (False, 580 * 1024, 202 * MIB - 476 * 1024)),
        ("resilver-runs-2.3", (False, 115 * MIB, (202 - 115) * MIB)),
        ("resilver-ended-2.3", (True, 203 * MIB, 0)),
        ("scrub-runs-2.3", (True, None, None)),
        ("scrub-repaired-2.3", (True, None, None)),
        ("resilver-just-ended", (False, None, None)),  # the old disk still stands beside the new one
        ("scrub-clean", (True, None, None)),
        ("scrub-repaired", (True, None, None)),
    ],
)
def test_progress(name, expected):
    found = zpool.progress(told(name), copies=2)
    assert (found["clean"], found["copied_B"], found["left_B"]) == expected


@pytest.mark.parametrize(
    ("name", "wrong", "lost"),
    [("scrub-clean", 0, 0), ("scrub-repaired", 19, 0), ("scrub-repaired-2.3", 1, 0), ("both-damaged", 12, 1),
     ("both-damaged-listed", 12, 1)],
)  # fmt: skip
def test_errors_of_all_disks_and_of_what_is_lost(name, wrong, lost):
    assert (zpool.checksum_errors(told(name)), told(name)["errors"]) == (wrong, lost)


def test_what_is_cut_off_is_no_state() -> None:
    def check(name: str) -> None:
        text = said(name)
        for cut in ("errors:", "config:", " state:"):
            with pytest.raises(StoreError, match="something else"):
                zpool.parse_status(text[: text.index(cut)])

    check_each(check, sorted(path.stem for path in SAID.glob("*.txt")))
    with pytest.raises(StoreError, match="something else"):
        zpool.parse_status("cannot open 'infrabench-s5': no such pool\n")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("884K", 884 * 1024), ("2.10M", 2202010), ("1.5G", 3 * 2**29),
     *((text, None) for text in ("", "M", "1.2.3M", "1,5G", "-1K"))],
)  # fmt: skip
def test_sizes(text, size):
    with nullcontext() if size is not None else pytest.raises(StoreError, match="is no size"):
        assert zpool.size(text) == size
