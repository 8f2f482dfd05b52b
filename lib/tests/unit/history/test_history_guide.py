"""The pipelines of docs/history.md: their commands parse, and what makes them red does so on made-up nights."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.analysis import figures
from infrabench.analysis.figures import COLUMN_MM
from infrabench.analysis.history import read_history
from tests.support.command_lines import check_words
from tests.support.history_sessions import write_nights
from tests.support.look_at import check_paper
from tests.support.places import ROOT

NIGHTS, AT = 12, 8
PLANTED = "nightly-2026-01-13"


def pipelines() -> dict[str, dict[str, Any]]:
    text = (ROOT / "docs/history.md").read_text()
    github, gitlab = (
        yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    )
    return {"GitHub": github["jobs"]["containers"], "GitLab": gitlab["containers"]}


def steps(name: str, job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step] if name == "GitHub" else job["script"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nights")
    write_nights(root, NIGHTS, change={(AT, "docker"): 0.95}, kernel={3: "6.12.9"})
    return root


@pytest.mark.parametrize("name", ["GitHub", "GitLab"])
def test_each_step_is_a_command_that_there_is(name: str) -> None:
    made, measured, asked = steps(name, pipelines()[name])
    assert made == "make env"
    date = {"$(date +%F)": "2026-01-05", "$(date +%Y%m%d)": "20260105"}
    for text, value in date.items():
        assert text in measured
        measured = measured.replace(text, value)
    for line in (measured, asked):
        program, *words = shlex.split(line)
        assert program == ".venv/bin/infrabench"
        check_words(words)
    assert "--fail-on" in asked


@pytest.mark.parametrize("name", ["GitHub", "GitLab"])
def test_the_last_step_is_red_from_the_planted_change_on(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(home))
    *_, asked = steps(name, pipelines()[name])
    words = [*shlex.split(asked)[1:], "--metric", "requests_per_s", "--out", str(tmp_path)]
    assert cli.main(words) == 1
    shown = capsys.readouterr()
    assert re.findall(r"(\w+) is worse since (\S+):", shown.err) == [("docker", PLANTED)]
    assert shown.out.count("| none |") == 1


def test_neither_pipeline_names_a_host() -> None:
    text = (ROOT / "docs/history.md").read_text()
    assert not re.search(r"https?://|\b[\w-]+\.(?:io|com|org|dev|net)\b", text)


def test_the_figure_of_the_nights_shows_the_change_and_the_break(home: Path) -> None:
    found = read_history(sorted((home / "data/runs/containers").iterdir()), metrics=["requests_per_s"])
    drawn, caption = figures.history(found, "web", "requests_per_s", "users=1000")
    docker, lxc = check_paper(drawn).axes
    check_paper(figures.history(found, "web", "requests_per_s", "users=1000", width_mm=COLUMN_MM).figure)
    assert [axes.get_ylabel() for axes in drawn.axes] == ["docker", "lxc"]
    sizes = {
        axes.get_ylabel(): [each.get_text() for each in axes.texts if " % [" in each.get_text()]
        for axes in (docker, lxc)
    }
    assert len(sizes["docker"]) == 1
    assert sizes["docker"][0].startswith("−")
    assert sizes["lxc"] == []
    assert "kernel 6.12.1 → 6.12.9" in [each.get_text() for each in docker.texts]
    assert "unexplained" in caption
    assert PLANTED in caption
    ends = [axes.get_ylim() for axes in (docker, lxc)]
    assert ends[0][1] / ends[0][0] == pytest.approx(ends[1][1] / ends[1][0])
