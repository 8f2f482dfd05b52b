"""Tools that hang, fork, flood, close their streams or die: their own trial is spoilt, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from infrabench.core import Guards, Measurement, Param, Step, Target, Trial
from infrabench.experiment.execution.monitor import watching
from infrabench.experiment.execution.trial import Bench, Finished, execute
from infrabench.machines.hosts import child_process
from infrabench.machines.hosts.host import LocalHost
from tests.support.storm import size

OFF = Guards(None, None, None, None)
FLOOD_BYTES = size(200 * 2**20, 2**30)
# Measures its own memory while a tool floods both streams.
FLOODED = """
import sys
from infrabench.machines.hosts.host import LocalHost
from tests.support.storm import Memory
memory, script = Memory(), "head -c $0 /dev/zero; head -c $0 /dev/zero >&2; echo whole"
result = LocalHost().run(("sh", "-c", script, sys.argv[1]), timeout_s=60)
print(result.flooded, result.status, len(result.stdout), len(result.stderr), memory.grown)
"""


class Tool:
    """A workload that is one shell script; what it prints is a number."""

    PARAMS: ClassVar[dict[str, Param]] = {}

    def __init__(self, script: str, timeout_s: float = 2.0, stdin: bytes = b"") -> None:
        self.script, self.timeout_s, self.stdin = script, timeout_s, stdin

    def plan(self, params, roles):
        return [
            Step("tool", "server", ("sh", "-c", self.script), timeout_s=self.timeout_s, stdin=self.stdin),
            Step("after", "server", ("echo", "clean"), phase="cleanup"),
        ]

    def parse(self, capture):
        return [Measurement("value", float(capture["tool"].stdout), "1/s", "higher")]


def tried(tool: Tool) -> Finished:
    host = LocalHost("here")
    trial = Trial("0" * 16, 0, 0, "native", "tool", "default", {}, None, None, 1.0)
    with watching([host], {}) as monitor:
        return execute(trial, tool, Bench({"server": Target("server", host)}, monitor, {}, OFF))


@pytest.mark.parametrize(
    ("script", "state", "said", "most_s"),
    [
        ("echo 5", "ok", "", 3),
        ("sleep 60", "timeout", "timed out after 0.5 s", 5),
        ("trap '' TERM INT HUP; while :; do sleep 1; done", "timeout", "timed out", 20),
        ("echo 5; setsid sleep 4 &", "ok", "", 3),  # a daemon that keeps its pipes
        ("echo 5; (setsid sh -c 'sleep 4; echo late' &) &", "ok", "", 3),
        ("(setsid sleep 4 &); sleep 60", "timeout", "timed out", 5),
        ("for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait", "timeout", "timed out", 5),
        ("echo 5; exec >&-; sleep 0.2", "ok", "", 3),
        ("exec >&- 2>&-; sleep 60", "timeout", "timed out", 5),
        ("kill -9 $$", "failed", "exited with", 3),
        ("kill -SEGV $$", "failed", "exited with", 3),
        ("cat", "unparsable", "", 3),  # its stdin is empty, and ends
        ("read line && echo $line", "failed", "exited with 1", 3),
        ("printf '\\377\\376\\000\\n'", "unparsable", "", 3),
        ("yes \\377 | head -c 3000000; printf '\\377' >&2; exit 3", "failed", "exited with 3", 5),
        ("printf 5; printf '\\r\\033[2J' >&2", "ok", "", 3),
        ("exit 124", "failed", "exited with 124", 3),  # as timeout(1) says it, but at once
        ("rm -f /nothing/at/all; no-such-program", "failed", "exited with 127", 3),
    ],
)
def test_a_tool_that_misbehaves_spoils_its_own_trial_only(script: str, state: str, said: str, most_s: float) -> None:
    begin = time.monotonic()
    limit_s = 0.5 if state == "timeout" else 10.0
    finished = tried(Tool(script, limit_s))
    assert (finished.record.state, finished.fatal) == (state, None), finished.record.reason
    assert said in finished.record.reason
    assert time.monotonic() - begin < most_s + 3
    assert finished.blobs["after.stdout"] == b"clean\n"


def test_a_daemon_that_holds_the_pipes_costs_the_tool_no_time() -> None:
    finished = tried(Tool("echo 5; setsid sleep 4 &", 10.0))
    assert finished.record.tool_s < 0.4


def test_much_is_fed_to_a_tool_that_does_not_read(tmp_path: Path) -> None:
    assert tried(Tool("echo 5", stdin=b"x" * 5_000_000)).record.state == "ok"
    assert tried(Tool("sleep 60", 0.5, stdin=b"x" * 5_000_000)).record.state == "timeout"
    echoed = LocalHost().run(("cat",), timeout_s=20, stdin=b"x" * 5_000_000)
    assert echoed.stdout == b"x" * 5_000_000


def test_a_flood_is_stopped_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MOST_BYTES", 1_000_000)
    for where in ("", ">&2"):
        finished = tried(Tool(f"yes {where}", 20.0))
        assert finished.record.state == "failed"
        assert "flood of output" in finished.record.reason
        assert sum(map(len, finished.blobs.values())) < 2 * child_process.KEPT_BYTES
        assert finished.record.duration_s < 10


def test_a_gigabyte_of_output_takes_neither_memory_nor_disk() -> None:
    argv = (sys.executable, "-c", FLOODED, str(FLOOD_BYTES))
    told = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout.split()
    flooded, status, out, err, grown = told[0], told[1], *map(int, told[2:])
    assert (flooded, status) == ("True", "None")
    assert out + err <= 2 * child_process.KEPT_BYTES
    assert grown < 4 * child_process.MOST_BYTES
