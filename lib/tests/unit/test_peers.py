"""The comparison with peers: what a table says of campaigns, and what is read of the tools' own files."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from infrabench.core import DesignError, InfrabenchError
from infrabench_selfcheck import peers
from infrabench_selfcheck.peers import Finding
from tests.support.places import ROOT

SLOWER, SAME = [1.03, 1.01, 1.02], [1.0, 0.99, 1.01]


def campaign(tool: str, effect: float, low: float, high: float) -> Finding:
    return Finding(tool, effect, 30, 20.0, (low + high) / 2, low, high)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that two tools are given, in place of all tools: one times its probe and one the whole process."""
    found: list[str] = []

    def run(folder: Path, effect: float, seconds: float) -> peers.Samples:
        found.append((folder / "slower.sh").read_text())
        return {"slower": SLOWER, "same": SAME}

    monkeypatch.setattr(peers.collect, "of_host", lambda host: {"cpu": {"model_name": "a processor"}})
    monkeypatch.setattr(peers, "_measure_excess", lambda folder: 1.5)  # a process takes half as long again
    tools = {"infrabench": peers.Peer(sys.executable, run), "other": peers.Peer("python3", run, times_process=True)}
    monkeypatch.setattr(peers, "TOOLS", tools)
    return found


def report(out: Path, repetitions: int = 1) -> list[str]:
    return list(peers.report(repetitions, 20.0, out, lambda text: None))


def test_a_row_says_how_often_a_difference_was_called_with_and_without_one() -> None:
    rows = list(peers.table([
        *[campaign("one", 0.02, 1.01, 1.03)] * 3, campaign("one", 0.02, 0.99, 1.05),
        *[campaign("one", 0.0, 0.99, 1.01)] * 4,
        campaign("two", 0.02, 0.9, 1.2), campaign("two", 0.0, 0.9, 0.99),
    ]))  # fmt: skip
    assert rows[0].startswith("tool")
    assert rows[1].split()[:8] == ["one", "0", "of", "4", "[0%,", "60%]", "not", "run"]
    assert "4 [19%, 99%]" in rows[1]
    assert rows[2].split()[:4] == ["two", "1", "of", "1"]  # slower where it is faster: called different too


def test_the_interval_of_the_peers_is_that_of_welch() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(102, 1, 20), rng.normal(100, 3, 25)
    ends = peers.welch(x, y)
    low, high = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert (ends.low, ends.high) == pytest.approx((1 + low / y.mean(), 1 + high / y.mean()))


def test_what_is_kept_is_not_run_again_and_its_table_needs_no_tool(
    tmp_path: Path, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = report(tmp_path)
    assert len(scripts) == 6
    assert report(tmp_path) == first
    assert len(scripts) == 6
    assert len(report(tmp_path, 2)) == len(first)
    assert len(scripts) == 12
    monkeypatch.setattr(peers, "is_installed", lambda program: False)
    assert report(tmp_path) == first
    assert "other: 3 campaigns not run: python3 is not installed" in report(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == [peers.FILE]


def test_a_campaign_is_kept_with_its_samples_version_and_machine(tmp_path: Path, scripts: list[str]) -> None:
    rows = report(tmp_path)
    kept = peers.read_campaigns(tmp_path / peers.FILE)
    assert {(each.repetition, each.effect, each.tool, each.seconds) for each in kept} == {
        (0, effect, tool, 20.0) for effect in peers.EFFECTS for tool in peers.TOOLS
    }
    assert all((each.slower, each.same) == (SLOWER, SAME) for each in kept)
    assert f"other {'.'.join(map(str, sys.version_info[:3]))}" in rows[-2]
    assert rows[-1] == f"on a processor, {os.cpu_count()} processors, Linux {platform.release()}"
    found = peers.judge(kept[0])
    assert (found.n, found.ratio) == (3, pytest.approx(1.02))
    assert found.low < 1.02 < found.high


@pytest.mark.parametrize("cpu", [None, {"logical_cpus": 2}], ids=["not told", "without a model"])
def test_a_machine_that_does_not_tell_its_processor_is_kept_as_such(
    tmp_path: Path, scripts: list[str], monkeypatch: pytest.MonkeyPatch, cpu: dict[str, int] | None
) -> None:
    monkeypatch.setattr(peers.collect, "of_host", lambda host: {"cpu": cpu})
    assert "its model not told" in report(tmp_path)[-1]


def test_a_tool_that_does_not_tell_its_version_is_named_before_anything_is_run(
    tmp_path: Path, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mute").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "mute").chmod(0o755)
    monkeypatch.setattr(peers, "TOOLS", {"other": peers.TOOLS["other"]._replace(program="mute")})
    monkeypatch.setattr(peers, "is_installed", lambda program: True)
    monkeypatch.setattr(peers, "find_program", lambda program: str(tmp_path / program))
    with pytest.raises(InfrabenchError, match="mute --version does not tell its version: exited with 3"):
        report(tmp_path / "out")
    assert scripts == []


def test_campaigns_of_another_length_are_others(tmp_path: Path, scripts: list[str]) -> None:
    report(tmp_path)
    list(peers.report(1, 30.0, tmp_path, lambda text: None))
    assert len(scripts) == 12


def test_a_line_that_is_no_campaign_is_named(tmp_path: Path) -> None:
    (tmp_path / peers.FILE).write_text('{"repetition": 0, "eff')
    with pytest.raises(InfrabenchError, match="line 1: no campaign of a tool"):
        report(tmp_path)


def test_what_a_tool_times_is_longer_by_the_same_share_for_all(tmp_path: Path, scripts: list[str]) -> None:
    report(tmp_path)
    shares = sorted(each.split("BUSY_SHARE=")[1].split()[0] for each in scripts)
    assert shares == ["0", "0", "0.005", "0.0075", "0.02", "0.03"]


def test_the_commands_run_the_interpreter_itself_wherever_it_is(
    tmp_path: Path, scripts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(sys.executable).resolve() == peers.PYTHON
    python = tmp_path / "of mine/python3.99"
    python.parent.mkdir()
    python.symlink_to(peers.PYTHON)
    said = []

    def run(folder: Path, effect: float, seconds: float) -> peers.Samples:
        command = (folder / "slower.sh", "1")
        done = subprocess.run(command, env={"PATH": ""}, check=True, capture_output=True, timeout=60)
        said.append((json.loads(done.stdout)["chunks"], (folder / "python3").readlink()))
        return {"slower": SLOWER, "same": SAME}

    monkeypatch.setattr(peers, "PYTHON", python)
    monkeypatch.setattr(peers, "TOOLS", {"other": peers.Peer("python3", run)})
    report(tmp_path / "out")
    assert said == [(1, python)] * len(peers.EFFECTS)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no python3 here >&2; exit 127", "exited with 127 .*: no python3 here"),
        ("echo Traceback", "exited with 0 .*: Traceback"),
        ("echo '[]'", "exited with 0"),
        ("exit 0", "it wrote nothing"),
    ],
)
def test_a_probe_that_fails_is_named_with_what_it_wrote(script: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "same.sh").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "same.sh").chmod(0o755)
    with pytest.raises(InfrabenchError, match=f"same.sh {said}" if said.startswith("exit") else said):
        peers._measure_excess(tmp_path)


@pytest.mark.parametrize(("repetitions", "seconds"), [(0, 20.0), (5, 1.0)])
def test_too_little_is_refused(repetitions: int, seconds: float, tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="at least"):
        list(peers.report(repetitions, seconds, tmp_path, lambda text: None))


def test_the_table_of_the_guide_is_what_the_recorded_campaigns_say() -> None:
    rows = list(peers.report(20, 20.0, ROOT / "data/recorded/peers", lambda text: None))
    assert not [row for row in rows if "not run" in row]
    table = "\n".join(row.rstrip() for row in rows)
    assert f"```text\n{table}\n```" in (ROOT / "docs/validation.md").read_text()
