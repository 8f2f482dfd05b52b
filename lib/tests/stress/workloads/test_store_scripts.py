"""What workloads run on a store itself, against a made-up store and a made-up fio: programs that keep a file."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infrabench.workloads import _rebuild_script, integrity, rebuild
from tests.support.started_commands import processes_with

# Its disk is clean again `takes` seconds after it was replaced; `sick` says what goes wrong.
STORE = """#!{python}
import json, sys, time
from pathlib import Path
home, begun_s = Path("{home}"), time.time()
sick = (home / "sick").read_text() if (home / "sick").exists() else ""
clean = home / "clean_s"
verb = sys.argv[1]
with (home / "asked").open("a") as asked:
    asked.write(" ".join(sys.argv[1:]) + "\\n")
if sick == verb:
    sys.exit("the pool is gone")
more = {{}}
if verb == "fail":
    clean.write_text(str(time.time() + (0 if sick == "blind" else 1e9)))
    more = {{"noticed_s": 0.01}}
if verb == "replace":
    clean.write_text(str(time.time() + (1e9 if sick == "slow" else {takes})))
if verb == "state":
    at_s = float(clean.read_text()) if clean.exists() else 0.0
    more = {{"clean": time.time() >= at_s and sick != "ill", "copied_B": None, "left_B": 7, "detail": {{}}}}
print(json.dumps({{"verb": verb, "begun_s": begun_s, "done_s": time.time(), **more}}))
"""
# Completes a read of 2 ms and a write of 4 ms every 20 ms, and says so when it is interrupted.
FIO = """#!{python}
import json, signal, sys, time
prefix = next(word.split("=")[1] for word in sys.argv if word.startswith("--write_lat_log="))
if "--broken" in sys.argv:
    sys.exit("fio: cannot connect")
class Ended(Exception): pass
def end(*_): raise Ended
signal.signal(signal.SIGINT, end)
lines = []
try:
    for _ in range(3000):
        now = int(time.time() * 1000)
        lines += [f"{{now}}, 2000000, 0, 4096, 0", f"{{now}}, 4000000, 1, 4096, 0"]
        time.sleep(0.02)
except Ended:
    with open(prefix + "_lat.log", "w") as log:
        log.write("".join(line + "\\n" for line in lines))
    done = {{"total_ios": len(lines) // 2}}
    options = {{"rw": "randrw", "bs": "4096", "iodepth": "16"}}
    print("fio: terminating on signal 2")
    job = {{"jobname": "load", "error": 0, "job options": options, "read": done, "write": done}}
    print(json.dumps({{"jobs": [job]}}))
    sys.exit(128)
"""


def program(path: Path, text: str, **words: Any) -> str:
    path.write_text(text.format(python=sys.executable, **words))
    path.chmod(0o755)
    return str(path)


def asked(tmp_path: Path, *, sick: str = "", takes: float = 0.6, **changes: Any) -> dict[str, Any]:
    (tmp_path / "sick").write_text(sick)
    store = program(tmp_path / "store", STORE, home=tmp_path, takes=takes)
    return {
        "store": [store], "folder": str(tmp_path / "work"), "fio": [program(tmp_path / "fio", FIO)], "disk": 1,
        "lead_s": 1.2, "tail_s": 0.5, "poll_s": 0.1, "bin_s": 0.5, "limit_s": 5.0, **changes,
    }  # fmt: skip


def run(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script.read_text(), *words], capture_output=True, text=True, timeout=60
    )


def test_a_disk_is_lost_and_replaced_under_load(tmp_path: Path) -> None:
    done = run(rebuild.SCRIPT, json.dumps(asked(tmp_path)))
    assert done.stderr == ""
    told = json.loads(done.stdout)
    verbs = [line for line in (tmp_path / "asked").read_text().splitlines() if line != "state"]
    assert verbs == ["fail 1", "replace 1"]
    fail, replace = told["events"]["fail"], told["events"]["replace"]
    clean = next(row["begun_s"] for row in told["states"] if row["clean"] and row["begun_s"] > replace["begun_s"])
    assert 0.6 <= clean - replace["begun_s"] < 3
    assert any(not row["clean"] for row in told["states"] if fail["done_s"] <= row["begun_s"] < replace["begun_s"])
    assert min(row["begun_s"] for row in told["states"]) < fail["begun_s"]  # the load is asked beside from the start
    job = told["fio"]["jobs"][0]
    assert sum(row[1] for row in told["bins"]) == job["read"]["total_ios"]
    assert sum(row[3] for row in told["bins"]) == job["write"]["total_ios"]
    for begin, reads, read_s, writes, write_s, longest_s in told["bins"]:
        assert begin % 0.5 == 0
        assert read_s == pytest.approx(0.002 * reads)
        assert write_s == pytest.approx(0.004 * writes)
        assert longest_s == 0.004
    assert told["bins"][-1][0] >= clean  # the tail
    assert not (tmp_path / "work").exists()


def test_which_disk_fails_is_drawn(tmp_path: Path) -> None:
    drawn = set()
    for _ in range(12):
        told = json.loads(
            run(rebuild.SCRIPT, json.dumps(asked(tmp_path, disk=None, lead_s=0.5, tail_s=0, takes=0))).stdout
        )
        assert f"replace {told['disk']}" in (tmp_path / "asked").read_text()
        drawn.add(told["disk"])
        if len(drawn) == 2:
            return
    pytest.fail(f"it was always disk {drawn}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sick": "ill"}, "the store is not clean before a disk is lost"),
        ({"sick": "fail"}, "fail 1 ended with 1: the pool is gone"),
        ({"sick": "replace"}, "replace 1 ended with 1: the pool is gone"),
        ({"sick": "state"}, "state ended with 1: the pool is gone"),
        ({"sick": "slow", "limit_s": 1.0}, "the store's state did not change within"),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_is_left(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    wanted = {"lead_s": 0.2, "tail_s": 0, **changes}
    done = run(rebuild.SCRIPT, json.dumps(asked(tmp_path, **wanted)))
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "work").exists()
    assert running(tmp_path) == []


def test_a_loss_that_nobody_sees_ends_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rebuild_script, "SEEN_S", 1.0)
    with pytest.raises(_rebuild_script.Failed, match="did not change within 1 s"):
        _rebuild_script.main(asked(tmp_path, sick="blind", lead_s=0))
    assert running(tmp_path) == []


def test_a_load_that_ends_by_itself_ends_the_trial(tmp_path: Path) -> None:
    wanted = asked(tmp_path)
    done = run(rebuild.SCRIPT, json.dumps({**wanted, "fio": [*wanted["fio"], "--broken"]}))
    assert done.returncode == 1
    assert "the load ended with 1: fio: cannot connect" in done.stderr


def test_a_trial_that_is_ended_takes_its_load_along(tmp_path: Path) -> None:
    text = json.dumps(asked(tmp_path, lead_s=30))
    process = subprocess.Popen(
        [sys.executable, "-c", rebuild.SCRIPT.read_text(), text], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 20
    while not running(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"signal 15" in complaint
    assert running(tmp_path) == []


def test_a_signal_while_the_load_is_started_takes_it_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def popen(*argv: Any, **how: Any) -> Any:
        process = start(*argv, **how)
        signal.raise_signal(signal.SIGTERM)  # it runs, and its starter does not know it yet
        return process

    start, before = subprocess.Popen, signal.signal(signal.SIGTERM, _rebuild_script.ended)
    try:
        monkeypatch.setattr(_rebuild_script.subprocess, "Popen", popen)
        with pytest.raises(_rebuild_script.Failed, match="signal 15"):
            _rebuild_script.main(asked(tmp_path, lead_s=30))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert running(tmp_path) == []


def running(tmp_path: Path) -> list[int]:
    """Return the processes of the made-up fio."""
    return processes_with(f"{tmp_path}/fio\0", "--write_lat_log")


# ------------------------------------------------------------------------------------------------------------- hashes


def files(*words: str) -> dict[str, Any]:
    done = run(integrity.SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_files_are_written_and_read_by_their_hashes(tmp_path: Path) -> None:
    made = files("write", str(tmp_path), "5", "1500000")
    assert sorted(made["files"]) == [f"file-{number:04d}" for number in range(5)]
    assert made["bytes"] == 7_500_000
    for name, digest in made["files"].items():
        data = (tmp_path / name).read_bytes()
        assert len(data) == 1_500_000
        assert hashlib.sha256(data).hexdigest() == digest
    assert len(set(made["files"].values())) == 5
    assert files("read", str(tmp_path), "1", "30")["files"] == made["files"]
    some = files("read", str(tmp_path), "2", "30")
    assert sorted(some["files"]) == ["file-0000", "file-0001", "file-0002"]
    assert some["bytes"] == 4_500_000
    again = run(integrity.SCRIPT, "write", str(tmp_path), "1", "10")
    assert again.returncode == 1  # files that are there are never written over
    assert "File exists" in again.stderr


def test_what_cannot_be_read_is_told_apart_from_what_is_wrong(tmp_path: Path) -> None:
    made = files("write", str(tmp_path), "4", "5000")
    with (tmp_path / "file-0000").open("r+b") as file:
        file.seek(4000)
        file.write(b"damage")
    (tmp_path / "file-0001").unlink()
    (tmp_path / "file-0002").unlink()
    (tmp_path / "file-0002").mkdir()  # opens with an error
    found = files("read", str(tmp_path), "1", "30")
    assert found["files"]["file-0000"] != made["files"]["file-0000"]
    assert found["files"]["file-0003"] == made["files"]["file-0003"]
    assert found["unreadable"] == {"file-0002": "Is a directory"}
    assert sorted(found["files"]) == ["file-0000", "file-0003"]
    assert files("read", str(tmp_path / "gone"), "1", "30")["unreadable"] == {".": "No such file or directory"}


def test_a_file_that_gives_no_answer_is_given_up(tmp_path: Path) -> None:
    made = files("write", str(tmp_path), "2", "5000")
    os.mkfifo(tmp_path / "file-0002")  # opens for reading when somebody writes: nobody does
    begun = time.monotonic()
    found = files("read", str(tmp_path), "1", "1.5")
    assert 1.5 <= time.monotonic() - begun < 10
    assert found["files"] == made["files"]
    assert found["unreadable"] == {"file-0002": "no answer"}


def test_it_is_waited_until_the_store_is_clean(tmp_path: Path) -> None:
    store = asked(tmp_path)["store"]
    (tmp_path / "clean_s").write_text(str(time.time() + 0.7))
    told = files("wait", "30", *store)
    assert told["state"]["clean"] is True
    assert told["done_s"] - told["begun_s"] >= 0.5
    (tmp_path / "clean_s").write_text("1e12")
    late = run(integrity.SCRIPT, "wait", "0.6", *store)
    assert late.returncode == 1
    assert "the store was not clean within 0.6 s" in late.stderr
    (tmp_path / "sick").write_text("state")
    assert "state ended with 1: the pool is gone" in run(integrity.SCRIPT, "wait", "5", *store).stderr
