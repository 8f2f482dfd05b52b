"""The comparison with peers: what a table says of campaigns, and what is read of the tools' own files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from infrabench.core import DesignError, InfrabenchError
from infrabench_selfcheck import peers
from infrabench_selfcheck.peers import Sampling


def campaign(tool: str, effect: float, low: float, high: float) -> Sampling:
    return Sampling(tool, effect, 30, (low + high) / 2, low, high)


def test_a_row_says_how_often_a_difference_was_called_with_and_without_one() -> None:
    rows = list(peers.table([
        *[campaign("one", 0.02, 1.01, 1.03)] * 3, campaign("one", 0.02, 0.99, 1.05),
        *[campaign("one", 0.0, 0.99, 1.01)] * 4,
        campaign("two", 0.02, 0.9, 1.2), campaign("two", 0.0, 0.9, 0.99),
    ]))  # fmt: skip
    assert rows[0].startswith("tool")
    assert rows[1].split()[:8] == ["one", "0", "of", "4", "[0%,", "60%]", "3", "of"]
    assert "4 [19%, 99%]" in rows[1]
    assert rows[2].split()[:4] == ["two", "1", "of", "1"]  # slower where it is faster: called different too


def test_the_interval_of_the_peers_is_that_of_welch() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(102, 1, 20), rng.normal(100, 3, 25)
    ends = peers.welch(x, y)
    low, high = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert (ends.low, ends.high) == pytest.approx((1 + low / y.mean(), 1 + high / y.mean()))


def test_a_campaign_that_is_kept_is_not_run_again(tmp_path: Path) -> None:
    kept = {"slower": [1.03, 1.01, 1.02], "same": [1.0, 0.99, 1.01], "seconds": 20.0}
    (tmp_path / "000-0.02-infrabench.json").write_text(json.dumps(kept))
    tool = peers.Peer("none", lambda folder, effect, seconds: pytest.fail("it ran"))
    found = peers._recall(tmp_path, {"infrabench": tool}, "infrabench", 0.02, 0, 20.0)
    assert (found.n, found.ratio) == (3, pytest.approx(1.02))
    assert found.low < 1.02 < found.high


@pytest.mark.parametrize(("times_process", "share"), [(False, "0.02"), (True, "0.03")])
def test_what_a_tool_times_is_longer_by_the_same_share_for_all(
    times_process: bool, share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_measure_excess", lambda out: 1.5)  # a process takes half as long again as its probe
    scripts: list[str] = []

    def run(folder: Path, effect: float, seconds: float) -> peers.Samples:
        scripts.extend((folder / f"{name}.sh").read_text() for name in ("same", "slower"))
        return [1.03, 1.01, 1.02], [1.0, 0.99, 1.01]

    peers._recall(tmp_path, {"a tool": peers.Peer("none", run, times_process)}, "a tool", 0.02, 0, 20.0)
    assert ["BUSY_SHARE=0 " in scripts[0], f"BUSY_SHARE={share} " in scripts[1]] == [True, True]


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
