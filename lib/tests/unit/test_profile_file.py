"""Own profiles: what a file makes of a study, and that every fault in it is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import DesignError, Limits
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.notebook import api

GOOD = """\
study: containers
blocks: 12
systems: [native, docker]
limits: {memory_bytes: 1073741824}
cases:
  - {workload: web, set: {users: [200, 400], requests: 8000}, seconds: 1.5, rounds: 4}
  - {workload: sysbench-cpu, set: {threads: "1:2", events: 4000}}
  - workload: startup
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yml").write_text(GOOD)
    return tmp_path


def test_a_file_is_a_profile_of_its_study(folder: Path) -> None:
    wanted = api.request("containers", profile="mine.yml")
    assert (wanted.profile, wanted.blocks, wanted.systems) == ("mine", 12, ("native", "docker"))
    assert [
        (case.workload, case.scenario, case.factor, case.level, case.rounds, case.seconds) for case in wanted.cases
    ] == [
        ("web", "users=200 requests=8000", "users", 200, 4, 1.5),
        ("web", "users=400 requests=8000", "users", 400, 4, 1.5),
        ("sysbench-cpu", "threads=1 events=4000", "threads", 1, 1, 1.0),
        ("sysbench-cpu", "threads=2 events=4000", "threads", 2, 1, 1.0),
        ("startup", "default", None, None, 1, 1.0),
    ]  # fmt: skip
    study = session.study_of(wanted)
    assert study.limits == Limits(memory_bytes=2**30)
    assert len(designs.trials(wanted)) == 12 * 2 * 5
    assert session.study_of(api.request("containers", profile="quick")).limits == Limits()


def test_what_is_asked_for_beside_it_holds(folder: Path) -> None:
    wanted = api.request(
        "containers", profile="mine.yml", runs=3, systems="native", workloads="web", set="web.users=50"
    )
    assert (wanted.blocks, wanted.systems, [case.scenario for case in wanted.cases]) == (
        3, ("native",), ["users=50 requests=8000"],
    )  # fmt: skip


def test_it_is_found_in_the_checkout_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("INFRABENCH_HOME", str(folder))
    assert api.request("containers", profile="mine.yml").blocks == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("blocks: 12", "blocks: 0"), r"mine.yml: line 2, blocks: .*greater than or equal to 1"),
        (("blocks: 12", "block: 12"), "line 2, block: Extra inputs are not permitted"),
        (("seconds: 1.5", "second: 1.5"), "line 6, cases.0.second: Extra"),
        (("users: [200, 400]", "users: [0]"), "mine.yml, line 6: parameter web.users must be a whole number from 1"),
        (("users: [200, 400]", "user: 3"), "line 6: unknown parameter of workload 'web' 'user': did you mean users"),
        (("workload: startup", "workload: start-up"), "line 8: unknown workload 'start-up'"),
        (("study: containers", "study: cnis"), "is of the study cnis, not of containers"),
        (("study: containers", "study: containers\nstudy: cnis"), "line 2: study stands there a second time"),
        (("memory_bytes: 1073741824", "memory: 1"), "line 4, limits.memory: Extra"),
        (("systems: [native, docker]", "systems: [native, dockr]"), "unknown system 'dockr': did you mean docker"),
        (("requests: 8000", "requests: 100"), "requests must be at least 200, not "),
        (("- workload: startup", "- {workload: web, set: {users: 200, requests: 8000}}"), "'web' twice at scenario"),
        ((GOOD, "[]"), "mine.yml: line 1"),
        ((GOOD, "{"), "mine.yml: not YAML"),
    ],
)
def test_a_fault_is_told_with_its_line(folder: Path, change: tuple[str, str], said: str) -> None:
    (folder / "mine.yml").write_text(GOOD.replace(*change))
    with pytest.raises(DesignError, match=said):
        api.request("containers", profile="mine.yml")


@pytest.mark.parametrize("name", ["quick.yml", "Mine.yml", "-x.yml", "a b.yaml"])
def test_a_name_that_sessions_cannot_have_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text(GOOD)
    with pytest.raises(DesignError, match="cannot be the name of an own profile of containers"):
        api.request("containers", profile=name)


def test_a_file_that_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "containers", "--profile", "other.yml"]) == 2
    assert "there is no profile file" in capsys.readouterr().err
    assert cli.main(["plan", "containers", "--profile", "mine.yml"]) == 0
    assert "containers mine: 120 trials in 12 blocks" in capsys.readouterr().out
