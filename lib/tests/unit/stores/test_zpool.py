"""What `zpool status` said in a guest, state by state, and what is made of it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from infrabench.machines.stores.node import zpool
from infrabench.machines.stores.node.config import StoreError
from tests.support.checks import check_each

SAID = Path(__file__).parent / "zpool"
MIB = 2**20


def said(name: str) -> str:
    return (SAID / f"{name}.txt").read_text()


def told(name: str) -> dict:
    return zpool.parse_status(said(name))


def progress(name: str) -> tuple:
    found = zpool.progress(told(name), copies=2)
    return found["clean"], found["copied_B"], found["left_B"]


def test_a_pool_that_is_whole():
    found = told("online")
    assert found["state"] == "ONLINE"
    assert found["scan"] is None
    assert not found["replacing"]
    assert found["errors"] == 0
    assert [disk["name"] for disk in found["disks"]] == ["/dev/loop0", "/dev/loop1"]
    assert progress("online") == (True, None, None)


def test_disks_by_number():
    assert [disk["name"] for disk in told("numbered")["disks"]] == ["700268225926446831", "6841908120707954623"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("offline", (False, None, None)),
        ("resilver-begins", (False, 884 * 1024, round(202 * MIB) - round(2.10 * MIB))),
        ("resilver-runs", (False, 118 * MIB, (202 - 117) * MIB)),
        ("resilver-just-ended", (False, None, None)),  # the old disk still stands beside the new one
        ("scrub-clean", (True, None, None)),
        ("scrub-repaired", (True, None, None)),
    ],
)
def test_progress(name, expected):
    assert progress(name) == expected


def test_a_scrub_that_repaired():
    found = told("scrub-repaired")
    assert found["scan"] == {"kind": "scrub", "runs": False, "done_B": 76 * 1024, "left_B": None, "errors": 0}
    assert zpool.checksum_errors(found) == 19
    assert zpool.checksum_errors(told("scrub-clean")) == 0


@pytest.mark.parametrize("name", ["both-damaged", "both-damaged-listed"])
def test_both_copies_damaged_are_errors(name):
    found = told(name)
    assert found["errors"] == 1
    assert found["scan"]["errors"] == 3
    assert zpool.checksum_errors(found) == 12


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
