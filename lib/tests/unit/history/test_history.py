"""From the sessions of many nights to changes, what explains them, a figure, and a pipeline's exit status.

Also the pipelines of docs/history.md: their commands parse, and what makes them red does so on made-up nights.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from infrabench import cli
from infrabench.analysis import figures, history, tables
from infrabench.analysis.figures import COLUMN_MM
from infrabench.analysis.history import Break, History, describe_history, read_history, unexplained
from infrabench.analysis.session_data import Session
from infrabench.core import DesignError
from tests.support.analysis_fixtures import lose, table_of
from tests.support.command_lines import check_words
from tests.support.history_sessions import write_nights
from tests.support.look_at import check_paper
from tests.support.places import ROOT

NIGHTS, AT = 14, 9
PLANTED = f"nightly-2026-01-{5 + AT:02d}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with nights of which docker is 5 % slower from one on, and got a new version at another."""
    root = tmp_path_factory.mktemp("home")
    write_nights(root, NIGHTS, change={(AT, "docker"): 0.95}, docker={4: "28.0.1"}, blocks=6)
    return root


@pytest.fixture(scope="module")
def nights(home: Path) -> list[Path]:
    return sorted((home / "data/runs/containers").iterdir())


@pytest.fixture(scope="module")
def found(nights: list[Path]) -> History:
    return read_history(nights[::-1])  # the order is that of their time


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("INFRABENCH_HOME", str(home))
    return lambda *words: cli.main(["session", "history", *words, "--out", str(tmp_path / "out")])


def edit(path: Path, **change: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def test_the_planted_change_is_found_at_its_place_and_no_other(found: History) -> None:
    rows = found.changes
    assert len(found.series) == 4
    assert list(zip(rows["workload"], rows["system"], rows["session"], strict=True)) == [
        ("sysbench-cpu", "docker", PLANTED), ("web", "docker", PLANTED)
    ]  # fmt: skip
    assert ((rows["ratio_low"] < 0.95) & (rows["ratio_high"] > 0.95)).all()
    assert (rows["direction"] == "worse").all()
    assert (rows["p_adjusted"] < 0.05).all()


def test_a_version_that_came_at_another_time_explains_nothing(found: History) -> None:
    text = "docker 26.1.5 → 28.0.1"
    assert found.breaks == (Break(4, text, "system docker version", frozenset({"docker"})),)
    assert (found.changes["explained"] == "").all()
    assert len(unexplained(found)) == 2
    assert f"Break at nightly-2026-01-09 (2026-01-09): {text}." in list(describe_history(found))


def test_the_own_level_of_each_system_is_another_view(nights: list[Path]) -> None:
    own = read_history(nights, view="level")
    assert set(own.series["system"]) == {"native", "docker", "lxc"}
    assert set(own.changes["system"]) == {"docker"}
    assert set(own.changes["session"]) == {PLANTED}
    web = own.changes[own.changes["workload"] == "web"].iloc[0]
    assert 7500 < web["after"] < 7700 < 7900 < web["before"] < 8100


def test_a_change_that_coincides_with_a_break_is_attributed_by_name(tmp_path: Path) -> None:
    both = {"kernel": {AT: "6.12.9"}, "docker": {AT: "28.0.1"}}
    some = write_nights(tmp_path, NIGHTS, change={(AT, "docker"): 0.95}, blocks=6, **both)
    found = read_history(some)
    assert set(found.changes["explained"]) == {"kernel 6.12.1 → 6.12.9; docker 26.1.5 → 28.0.1"}
    assert unexplained(found).empty
    table = tables.history_table(found.series, found.changes)
    assert list(table["explained by"]) == ["kernel 6.12.1 → 6.12.9; docker 26.1.5 → 28.0.1", ""] * 2


def test_a_break_explains_what_it_is_of() -> None:
    version = Break(3, "", "", frozenset({"docker"}))
    assert version.explains("web", {"docker", "native"})
    assert not version.explains("web", {"lxc", "native"})
    tool = Break(3, "", "", frozenset(), "web")
    assert tool.explains("web", {"lxc"})
    assert not tool.explains("stream", {"lxc"})


def test_what_is_another_one_each_night_explains_nothing(tmp_path: Path) -> None:
    some = write_nights(tmp_path, 9, change={}, blocks=2)
    for number, folder in enumerate(some):
        edit(folder / "provenance/server.json", hostname=f"rented-{number}", memory={"total_bytes": (1 << 34) + number})
    edit(some[5] / "provenance/server.json", cpu={"model_name": "Made-up 10"})
    assert [each.text for each in read_history(some).breaks] == [
        "cpu Made-up 9 → Made-up 10", "cpu Made-up 10 → Made-up 9"
    ]  # fmt: skip


def test_the_machine_that_steers_a_cluster_explains_nothing(tmp_path: Path) -> None:
    some = write_nights(tmp_path, 4, change={}, kernel={2: "6.12.9"}, blocks=2)
    assert [each.text for each in history.find_breaks(some)] == ["kernel 6.12.1 → 6.12.9"]
    for folder in some:
        edit(folder / "session.json", site={"name": "kubernetes-1a2b3c", "kind": "kubeconfig"})
    assert history.find_breaks(some) == ()


def test_what_cannot_be_compared_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    some = write_nights(tmp_path, 10, change={}, blocks=2)
    edit(some[1] / "session.json", baseline="docker", parameters={"baseline": "docker"})
    edit(some[2] / "session.json", baseline="docker", parameters={"baseline": "docker"})
    (some[4] / "plan.jsonl").unlink()
    found = read_history(some)
    assert len(found.sessions) == 7
    told = list(describe_history(found))
    assert any("2 sessions, nightly-2026-01-06 to nightly-2026-01-07, are left out" in line for line in told)
    assert any(line.startswith("nightly-2026-01-09 is left out") for line in told)
    assert "4 of 4 series: too few sessions to tell a change from chance: 7, and at least 8 are needed." in told
    assert set(tables.history_table(found.series, found.changes)["changed at"]) == {"too few sessions"}


def test_a_damaged_newest_session_is_left_out_and_not_all_the_others(tmp_path: Path) -> None:
    some = write_nights(tmp_path, 4, change={}, blocks=2)
    (some[-1] / "provenance/contents.json").write_text("{")
    found = read_history(some)
    assert found.sessions == tuple(folder.name for folder in some[:-1])
    (said,) = found.left_out
    assert re.match(rf"{some[-1].name} is left out: .*contents\.json is not JSON", said)


def test_sessions_of_another_site_are_no_series_with_these(tmp_path: Path) -> None:
    some = write_nights(tmp_path, 6, change={}, blocks=2)
    for folder in some[::2]:
        edit(folder / "session.json", site={"name": "rack-a", "kind": "inventory"})
    found = read_history(some)
    assert found.sessions == tuple(folder.name for folder in some[1::2])
    assert found.left_out == (
        f"3 sessions, {some[0].name} to {some[4].name}, are left out: it is not comparable with {some[5].name}, which "
        "was asked for another site.",
    )


def test_what_was_accepted_is_not_looked_at_again(nights: list[Path]) -> None:
    later = read_history(nights, since=PLANTED)
    assert later.sessions[0] == PLANTED
    assert later.changes.empty


@pytest.mark.parametrize(
    ("how", "said"), [({"view": "speed"}, "unknown view"), ({"metrics": ["latency"]}, "unknown metric"),
                      ({"metrics": ["requests_per_s", "latnecy_p99_s"]}, "unknown metric 'latnecy_p99_s'"),
                      ({"since": "yesterday"}, "unknown session")],
)  # fmt: skip
def test_what_there_is_not_is_refused(nights: list[Path], how: dict[str, Any], said: str) -> None:
    with pytest.raises(DesignError, match=said):
        read_history(nights[:2], **how)


def test_the_command_writes_table_and_figures(command: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("containers", "--metric", "requests_per_s") == 0
    printed = capsys.readouterr().out
    assert printed.count("unexplained") == 1
    assert PLANTED in printed
    out = tmp_path / "out"
    assert {path.suffix for path in (out / "tables/history-containers").iterdir()} == {".md", ".csv", ".tex"}
    drawn = {path.name for path in (out / "figures/history-containers").iterdir()}
    assert {"web-requests_per_s-users-1000.pdf", "web-requests_per_s-users-1000-85mm.pdf"} <= drawn


def test_its_status_is_for_a_pipeline(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    fail = ("--fail-on", "different", "--metric", "requests_per_s")
    assert command("containers", *fail) == 1
    assert f"docker is worse since {PLANTED}" in capsys.readouterr().err
    assert command("containers", *fail, "--since", PLANTED) == 0  # accepted
    assert command("containers", "--since", "nightly-1999-01-01") == 2
    assert command("cnis", *fail) == 2
    assert "no session of cnis" in capsys.readouterr().err


def test_what_got_better_fails_only_where_any_change_is_to(tmp_path: Path) -> None:
    found = read_history(write_nights(tmp_path, NIGHTS, change={(AT, "docker"): 1.06}))
    assert set(found.changes["direction"]) == {"better"}
    assert unexplained(found).empty
    assert set(unexplained(found, both=True)["session"]) == {PLANTED}


@pytest.mark.parametrize(
    ("levels", "stands"),
    [((0.0, -0.05), [True]), ((0.0, -0.05, -0.03), [True, True]), ((0.0, -0.05, 0.0), [False, True]),
     ((0.0, -0.05, 0.05), [False, True]), ((0.0, -0.02, -0.05), [True, True])],
    ids=["the last", "in part made good", "made good", "more than that", "twice"],
)  # fmt: skip
def test_a_change_stands_until_it_is_made_good(levels: tuple[float, ...], stands: list[bool]) -> None:
    segments = [(number, number + 1, level, level - 0.005, level + 0.005) for number, level in enumerate(levels)]
    sizes = np.diff(levels)
    assert [history._stands(segments, place, size) for place, size in enumerate(sizes)] == stands


SERIES = "sysbench-cpu default events_per_s"
NOISE = np.random.default_rng(5).normal(0, 0.01, (2, 2, 12))


def opened(number: int, blocks_per_deployment: int = 0, **kind: str) -> Session:
    values = {name: 100 * np.exp(each) for name, each in zip(("native", "docker"), NOISE[number], strict=True)}
    table = table_of(values, blocks_per_deployment=blocks_per_deployment, **kind)
    about = {"baseline": "native", "margins": {"": 0.02}, "primary": [[table["workload"][0], table["metric"][0]]]}
    return Session(Path(str(number)), about, table, table.iloc[:0])


def test_the_error_of_a_session_is_that_of_its_deployments_where_it_has_several() -> None:
    points = history._points([opened(0), opened(1, 4)], "ratio", (), 7)
    assert points["at"].tolist() == [7, 8]
    assert points["df"].tolist() == [11, 2]
    logs = np.log(100 * np.exp(NOISE[1])).reshape(2, 3, 4)
    means = np.exp(logs).mean(axis=-1)
    each = np.log(means[1] / means[0])
    assert points["estimate"].iloc[1] == pytest.approx(each.mean())
    assert points["error"].iloc[1] == pytest.approx(each.std(ddof=1) / np.sqrt(3))


@pytest.mark.parametrize("kind", [{}, {"workload": "web", "metric": "failed_requests", "unit": "1", "better": "lower"}])
@pytest.mark.parametrize("view", history.VIEWS)
def test_a_session_that_lost_a_trial_is_no_point_of_the_series_and_says_so(view: str, kind: dict[str, str]) -> None:
    both = [opened(0, **kind), opened(1, **kind)]
    table = both[1].table
    lose(table, (table["system"] == "docker") & (table["block"] == 3), "timeout")
    points = history._points(both, view, (), 0)
    points = points[points["system"] == "docker"].set_index("at")
    assert points[["estimate", "error"]].notna().all(axis=1).to_dict() == {0: True, 1: False}
    assert points["reason"][0] == ""
    assert ("1 of 12 timed out" if view == "ratio" else "lost trials") in points["reason"][1]


@pytest.mark.parametrize("view", history.VIEWS)
@pytest.mark.parametrize(
    ("how", "said"),
    [("lost", {"ratio": "1 of 12 timed out (native: 0 of 12 lost): ", "level": "lost trials"}),
     ("not run", "no daemon"), ("left out", "no tool"), ("not asked", None), ("only twice", None)],
)  # fmt: skip
def test_a_series_that_ends_is_named(how: str, said: Any, view: str) -> None:
    nights, every = [], opened(0)
    for number in range(5):
        table, gone = every.table.copy(), number >= (3 if how == "only twice" else 2)
        data = every.data | {"systems": ["native", "docker"], "not_run": {}}
        if gone and how in ("lost", "only twice"):
            lose(table, (table["system"] == "docker") & (table["block"] == 3), "timeout")
        elif gone and how == "left out":
            table, data = table.iloc[:0], data | {"left_out": {"sysbench-cpu": "no tool"}}
        elif gone:
            table, data = table[table["system"] == "native"], data | {"systems": ["native"]}
            data |= {"not_run": {"docker": "no daemon"}} if how == "not run" else {}
        nights.append(replace(every, folder=Path(f"night-{number}"), data=data, table=table))
    found = [each for each in history._silent(history._points(nights, view, (), 0), nights) if ", docker" in each]
    why = said[view] if isinstance(said, dict) else said
    assert len(found) == (why is not None)
    assert all(each.startswith(f"{SERIES}, docker has no value since night-2: {why}") for each in found)


def test_a_series_that_ends_fails_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    some = write_nights(tmp_path, 5, change={}, blocks=3)
    for folder in some[2:]:
        trials = [(path, json.loads(path.read_text())["trial"]) for path in sorted(folder.glob("trials/*/trial.json"))]
        path = next(path for path, trial in trials if (trial["system"], trial["workload"]) == ("docker", "web"))
        edit(path, state="timeout", reason="longer than 60 s", measurements=[])
    words = ["containers", "--metric", "requests_per_s", "--fail-on", "different", "--out", str(tmp_path / "out")]
    assert cli.main(["session", "history", *words]) == 1
    (said,) = re.findall(r"web users=1000 requests_per_s, (.*)", capsys.readouterr().err)
    assert said.startswith(f"docker has no value since {some[2].name}: 1 of 3 timed out (native: 0 of 3 lost): ")


def pipelines() -> dict[str, list[str]]:
    """Return the steps of each pipeline of the guide."""
    text = (ROOT / "docs/history.md").read_text()
    github, gitlab = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    steps = [step["run"] for step in github["jobs"]["containers"]["steps"] if "run" in step]
    return {"GitHub": steps, "GitLab": gitlab["containers"]["script"]}


@pytest.mark.parametrize("name", ["GitHub", "GitLab"])
def test_each_step_is_a_command_that_there_is(name: str) -> None:
    made, measured, asked = pipelines()[name]
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
    *_, asked = pipelines()[name]
    words = [*shlex.split(asked)[1:], "--metric", "requests_per_s", "--out", str(tmp_path)]
    assert cli.main(words) == 1
    shown = capsys.readouterr()
    assert re.findall(r"(\w+) is worse since (\S+):", shown.err) == [("docker", PLANTED)]
    assert shown.out.count("| none |") == 1


def test_neither_pipeline_names_a_host() -> None:
    text = (ROOT / "docs/history.md").read_text()
    assert not re.search(r"https?://|\b[\w-]+\.(?:io|com|org|dev|net)\b", text)


def test_the_figure_of_the_nights_shows_the_change_and_the_break(nights: list[Path]) -> None:
    found = read_history(nights, metrics=["requests_per_s"])
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
    assert "docker 26.1.5 → 28.0.1" in [each.get_text() for each in docker.texts]
    assert "unexplained" in caption
    assert PLANTED in caption
    ends = [axes.get_ylim() for axes in (docker, lxc)]
    assert ends[0][1] / ends[0][0] == pytest.approx(ends[1][1] / ends[1][0])
