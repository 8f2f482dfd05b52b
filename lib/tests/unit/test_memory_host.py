"""The host in memory says what this machine does: sessions of the tests' fakes are those of real hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import Result, Target
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import PROGRAMS, REPEATED, SCRIPTS, SHELL, MemoryHost, probe

WORDS = {'echo "$1" >>"$2"': ("a line", "LOG"), "exit 7": ()}  # of scripts that are not the workload's
PROGRAM_WORDS = {"true": (), "false": (), "echo": ("fake", "1.0")}
COMMANDS = [
    *(("sh", "-c", script, "sh", *WORDS.get(script, ("2.5",))) for script in SHELL),
    *((name, *words) for name, words in PROGRAM_WORDS.items()),
    *(argv for argv in REPEATED if argv[0] != "df"),  # how much is free changes
]


def said(result: Result) -> tuple[Any, ...]:
    return result.status, result.stdout, result.stderr, result.timed_out, result.flooded


def test_every_command_that_it_knows_is_compared() -> None:
    known = {argv[2] if argv[0] == "sh" else argv[0] for argv in COMMANDS}
    assert known == {*SHELL, *PROGRAMS, "no-such-tool"}
    assert {*SCRIPTS.values()} - known == {SCRIPTS["hang"]}  # see stress/test_host.py


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: " ".join(argv)[:40])
@pytest.mark.parametrize("prefix", [(), ("env", "LOUD=1")])
def test_a_command_is_answered_as_here(tmp_path: Path, argv: tuple[str, ...], prefix: tuple[str, ...]) -> None:
    found = {}
    for host in (LocalHost("here"), MemoryHost("here")):
        file = tmp_path / type(host).__name__
        words = tuple(str(file) if word == "LOG" else word for word in argv)
        results = [Target("server", host, prefix).run(words, timeout_s=30) for _ in range(2)]
        if prefix == () and argv[0] != "no-such-tool":  # without timeout(1) it is the host that does not find it
            results.append(host.run(words, timeout_s=30))
        assert all(each.argv[-len(words) :] == words and each.duration_s > 0 for each in results)
        found[type(host)] = *map(said, results), file.read_bytes() if file.exists() else None
    assert found[LocalHost] == found[MemoryHost]


COME_AND_GO = ("disk", "net", "network", "storage", "mounts")  # what is told of each device, by its name


def shape(value: Any) -> Any:
    """Return what does not change from one look at a machine to the next: the keys, and what is null."""
    if isinstance(value, dict):
        return {key: bool(each) if key in COME_AND_GO else shape(each) for key, each in value.items()}
    return None if value is None else type(value).__name__


def test_probes_say_of_this_machine_what_they_say_when_they_are_run() -> None:
    for argv in [("python3", "-c", probe("facts")), ("python3", "-c", probe("drift"), "0.01")]:
        real, fake = (host.run(argv, timeout_s=60) for host in (LocalHost("here"), MemoryHost("here")))
        assert (real.status, real.stderr) == (fake.status, fake.stderr) == (0, b"")
        assert shape(json.loads(real.stdout)) == shape(json.loads(fake.stdout))
    df = ("df", "-P", "-B1", "/")
    lines = [host.run(df, timeout_s=60).stdout.split(b"\n") for host in (LocalHost("here"), MemoryHost("here"))]
    assert lines[0][0] == lines[1][0]
    assert [len(line.split()) for line in lines[0]] == [len(line.split()) for line in lines[1]] == [7, 6, 0]


def test_streams_of_probes_answer_as_those_of_this_machine() -> None:
    found: dict[type, list[Any]] = {}
    for host in (LocalHost("here"), MemoryHost("here")):
        rows = found[type(host)] = []
        with host.stream(("python3", "-c", probe("monitor"))) as stream:
            for line in ("begin a", "end a", "begin b"):
                stream.write_line(line)
                rows.append(json.loads(stream.read_line(30)))
                while rows[-1]["mark"] is None:  # of a second that began meanwhile
                    rows[-1] = json.loads(stream.read_line(30))
        with host.stream(("python3", "-c", probe("orphans"), "INFRABENCH_TRIAL=nobody's:")) as stream:
            stream.write_line("")
            rows.append(json.loads(stream.read_line(30)))
    real, fake = found[LocalHost], found[MemoryHost]
    assert [row["mark"] for row in real[:3]] == [row["mark"] for row in fake[:3]] == ["a", "a", "b"]
    for one, other in zip(real[:3], fake[:3], strict=True):
        assert shape(one) == shape(other)
    assert fake[0]["monotonic_s"] < fake[1]["monotonic_s"] < fake[2]["monotonic_s"]
    assert fake[0]["cpu"]["idle"] < fake[1]["cpu"]["idle"]
    assert real[3] == fake[3] == {"ended": [], "left": []}
