"""What the OpenZFS engine says of itself, on statuses of real pools: new, degraded, resilvering, with lost data."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infrabench.machines.stores.node import zfs
from infrabench.machines.stores.node.config import Config, StoreError

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
        (status("resilver"), (False, 88727552, 135507968 - 92233728)),
        (status("replaced"), (True, 136728576, 0)),
        (status("lost"), (True, None, None)),
        (status("resilver") | {"scan": status("replaced")["scan"]}, (False, None, None)),  # that of before has ended
        (status("new") | {"scan": NO_REBUILD}, (True, None, None)),
    ],
    ids=["new", "degraded", "resilver", "replaced", "lost", "not begun", "scrub"],
)
def test_progress_of_a_rebuild(found: dict[str, Any], expected: tuple[bool, int | None, int | None]) -> None:
    told = zfs.progress(found, 2)
    assert (told["clean"], told["copied_B"], told["left_B"]) == expected


def test_a_pool_with_fewer_disks_than_copies_is_not_clean() -> None:
    assert zfs.progress(status("new"), 3)["clean"] is False


def test_errors_are_those_of_the_disks_and_of_what_is_lost() -> None:
    assert zfs.progress(status("new"), 2)["detail"]["errors"] == 0
    assert zfs.checksum_errors(status("new")) == 0
    found = status("lost")
    found["vdevs"]["children"][0]["children"][0] |= {"checksum_errors": 3, "healed_B": 4 * 16384 - 1, "read_errors": 2}
    found["vdevs"]["children"][0]["children"][1] |= {"checksum_errors": 7, "healed_B": 16384, "write_errors": 1}
    assert zfs.progress(found, 2)["detail"]["errors"] == (4 + 2) + (7 + 1) + 4
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
