"""The OpenZFS engine in user space, for real, on a store node of the lab: what it promises, it keeps when it is killed,
loses a disk, or finds garbage on one. What is done there is in `zvol_course`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import Host, Site
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.stores import upload
from infrabench_platforms.stores.node.config import GIB, Config
from tests.support.storm import in_long_form
from tests.unit.systems.test_zfs_engine import SOURCES

CONFIG = Config("zfs", "zvol", 2 * GIB, 2 * GIB, cache_bytes=GIB // 2)
COURSE = Path(__file__).with_name("zvol_course.py").read_text(encoding="utf-8")
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def node(lab_site: Site) -> Iterator[Host]:
    with lab_site.store("zvoltest", 4 * GIB) as machines:
        host = machines.hosts["store"]
        upload.bring(host, CONFIG)
        upload.ask(host, CONFIG, "create")
        try:
            yield host
        finally:
            upload.ask(host, CONFIG, "destroy")


@pytest.fixture
def run(node: Host) -> Run:
    """Return what runs a course on the node, as ``python3 -`` with the course as its input."""

    def course(name: str, *words: str, timeout_s: float = 200.0) -> dict[str, Any]:
        argv = ("python3", "-", upload.path(CONFIG), name, *words)
        result = node.run(argv, timeout_s=timeout_s, stdin=COURSE.encode())
        assert result.ok, result.stderr.decode("utf-8", "replace")[-2000:]
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return course


def test_the_pool_is_made_within_seconds_and_says_what_it_is(run: Run) -> None:
    told = run("made")
    assert told["created_s"] < 5
    assert told["served_s"] < 5
    facts, usage = told["facts"], told["usage"]
    version = facts["version"].split("-")[0]
    assert version.startswith("2.3.")
    assert facts["engine"] == f"OpenZFS {version} engine in user space (libzpool), zvol served over NBD"
    assert facts["pool"]["volume_bytes"] == CONFIG.volume_bytes
    assert facts["pool"]["cache_bytes"] == CONFIG.cache_bytes
    assert facts["pool"]["copies"] == 2
    assert facts["memory"]["limit_B"] == CONFIG.memory_bytes
    assert list(usage["storage"]) == ["nbdkit"]
    assert usage["client"] == {}
    assert 0 < usage["pool"]["used_B"] < 16 * 2**20


def test_flushed_writes_outlive_a_kill(run: Run) -> None:
    told = run("crash")
    assert told["written"] > 3000
    assert told["different"] == 0
    assert "records of the intent log replayed" in told["said"]  # else nothing of it was put to the test


def test_strict_commits_each_write_and_default_does_not(run: Run) -> None:
    told = run("always")
    assert told["strict"] == 0
    assert told["default"] > 0  # the kill came before the data: without a flush nothing was promised
    assert told["after"] == "standard"


def test_the_log_replays_a_trim_before_the_write_that_came_after_it(run: Run) -> None:
    told = run("freed_in_log")
    assert told["written"]
    assert told["zeros"]
    assert "records of the intent log replayed" in told["said"]


def test_fio_reads_what_it_wrote(run: Run) -> None:
    told = run("verify")
    assert told["errors"] == [0, 0]
    assert min(told["bytes"]) > 100 * 2**20


def test_a_scrub_mends_garbage_on_one_disk(run: Run) -> None:
    told = run("garbage")
    assert told["garbage_B"] > 32 * 2**20
    assert told["errors"] > 1000
    assert told["repaired_B"] >= 32 * 2**20
    assert told["unrecoverable"] == 0
    assert told["again"] == 0
    assert told["same"]  # read from the disk that was garbage, without the other
    assert told["clean"]


def test_what_is_damaged_on_both_disks_is_reported_as_lost(run: Run) -> None:
    told = run("both")
    assert told["hit"]
    for name, digest in told["written"].items():
        assert told["read"][name] == ("Input/output error" if name in told["hit"] else digest)
    assert told["unrecoverable"] >= len(told["hit"])
    assert told["pool_errors"] >= len(told["hit"])
    assert told["repaired"] == 0


def test_a_lost_disk_is_replaced(run: Run) -> None:
    told = run("resilver")
    assert told["same"] == [True, True, True]  # without the disk, on the new one alone, and in the end
    assert 0 <= told["noticed_s"] < 10
    assert told["degraded"]["clean"] is False
    assert sorted(told["degraded"]["detail"]["disks"].values()) == ["offline", "online"]
    assert told["copied"] == sorted(told["copied"])
    assert told["copied"][-1] >= 128 * 2**20
    assert told["left_B"] == 0
    assert told["clean"]
    assert told["ended"]
    assert set(told["disks"].values()) == {"online"}


def test_with_an_open_throttle_reads_of_a_scrub_make_no_way_for_others(run: Run) -> None:
    told = run("throttle")
    default, opened, after = told["counts"]
    assert (default, after) == (0, 0)
    assert opened >= told["scrubbed_B"] / told["block_B"]  # a read for each block of data, on each disk


def test_a_resilver_goes_on_after_a_kill(run: Run) -> None:
    told = run("resilver_killed")
    assert told["unclean"]  # the kill came before its end
    assert told["clean"]
    assert told["same"]


def test_the_stock_tool_reads_the_label(run: Run) -> None:
    told = run("label")
    for text, state in ((told["open"], 0), (told["exported"], 1)):
        assert "version: 5000" in text
        assert "name: 'store'" in text
        assert "type: 'mirror'" in text
        assert "ashift: 12" in text
        assert "labels = 0 1 2 3" in text
        assert f"    state: {state}\n" in text
    assert told["running"] is None


def test_what_is_dropped_is_read_from_the_disks_again(run: Run) -> None:
    told = run("dropped")
    assert told["cold_B"] >= told["area_B"]
    assert told["warm_B"] < told["area_B"] / 4  # the pool reads for itself as well
    assert told["again_B"] >= told["area_B"]
    assert told["held_B"] >= told["area_B"]
    assert told["dropped_B"] < told["area_B"] / 4
    assert told["data_B"] == 0


def test_space_that_is_given_back_leaves_the_disks(run: Run) -> None:
    told = run("trim")
    assert told["full_B"] - told["empty_B"] >= told["wanted_B"]
    assert told["trimmed_B"] - told["empty_B"] < told["wanted_B"] / 4


@pytest.mark.parametrize("seconds", ["5", pytest.param("150", marks=in_long_form)])
def test_it_goes_on_after_it_stood_still(run: Run, seconds: str) -> None:
    told = run("frozen", seconds, timeout_s=300)
    assert told == {"still": True, "went_on": True, "different": 0, "clean": True}


def test_what_is_no_command_is_refused(run: Run) -> None:
    told = run("refused")
    assert len(told["answers"]) > 30
    for answer in told["answers"]:
        assert answer["ok"] is False
        assert answer["errno"] > 0
        assert answer["reason"]
    assert told["same_process"]
    assert told["fine"]
    assert told["clean"]


def test_many_connections_at_once(run: Run) -> None:
    told = run("connections")
    assert told["wrong"] == []
    assert told["same_process"]
    assert told["fine"]


def test_disks_and_parameters_that_are_not_ours_are_refused(run: Run) -> None:
    for status, said in run("others")["found"]:
        assert status == 1
        assert said.startswith("nbdkit: error: ")


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no compiler here")
@pytest.mark.parametrize("part", ["text", "control"])
def test_what_needs_no_header_of_others_compiles_without_a_warning(part: str, tmp_path: Path) -> None:
    flags = ("-O2", "-std=gnu11", "-fPIC", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")
    built = LocalHost().run(("gcc", *flags, "-c", "-o", str(tmp_path / "o"), f"{SOURCES}/{part}.c"), timeout_s=60)
    assert built.ok, built.stderr.decode()
