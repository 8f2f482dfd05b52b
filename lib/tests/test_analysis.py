"""Figures, tables and sentences of a session: what is shown is also written, and says what the numbers say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infrabench import analysis
from infrabench.core import DesignError
from infrabench.tidy import missing, read_session, tidy
from tests.analysis_fixtures import write_session


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    folder = tmp_path_factory.mktemp("session")
    session = write_session(folder / "one")
    return analysis.results(read_session(session), tidy(session), missing(session), tmp_path_factory.mktemp("out"))


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("points", ("sysbench-cpu", "events_per_s")),
        ("scaling", ("web", "latency_p99_s")),
        ("forest", ()),
        ("forest", ("stream",)),
    ],
)
def test_a_figure_is_shown_and_written(found: analysis.Results, kind: str, about: tuple[str, ...]) -> None:
    shown = analysis.figure(found, kind, *about)
    name = "-".join((kind, *about))
    folder = found.folder / "figures" / "containers"
    assert {path.suffix for path in folder.glob(f"{name}.*")} == {".pdf", ".svg", ".png", ".json"}
    car = json.loads((folder / f"{name}.json").read_text())
    assert car["caption"] == shown.text
    assert car["parameters"]["kind"] == kind
    assert car["data"]["rows"] > 0
    assert 'src="data:image/png;base64,' in shown.html
    assert 'alt="' in shown.html


def test_an_order_figure_names_its_case(found: analysis.Results) -> None:
    analysis.figure(found, "order", "sysbench-cpu", "events_per_s", scenario="threads=1")
    assert (found.folder / "figures/containers/order-sysbench-cpu-events_per_s-threads-1.png").exists()


def test_a_workload_that_was_not_measured_says_so(found: analysis.Results) -> None:
    assert "not run" in analysis.figure(found, "points", "fio", "read_B_per_s").text
    assert "not part of the profile" in analysis.findings(found, "fio", "read_B_per_s").text


def test_an_unknown_figure_names_those_there_are(found: analysis.Results) -> None:
    with pytest.raises(DesignError, match="unknown figure 'bars'; there are points"):
        analysis.figure(found, "bars")


@pytest.mark.parametrize("kind", ["estimates", "contrasts", "results", "published"])
def test_a_table_is_shown_and_written_in_three_kinds(found: analysis.Results, kind: str) -> None:
    shown = analysis.table(found, kind)
    folder = found.folder / "tables" / "containers"
    assert {path.suffix for path in folder.glob(f"{kind}.*")} == {".md", ".csv", ".tex"}
    assert shown.html.startswith("<table")
    assert shown.text in (folder / f"{kind}.md").read_text()


def test_a_narrowed_table_shows_less_than_the_file(found: analysis.Results) -> None:
    shown = analysis.table(found, "estimates", ["stream"]).text
    assert "stream" in shown
    assert "web" not in shown
    assert "web" in (found.folder / "tables/containers/estimates.md").read_text()


def test_sentences_carry_the_computed_ratio_and_verdict(found: analysis.Results) -> None:
    row = found.contrasts.query("workload == 'stream' and metric == 'triad_B_per_s' and system == 'lxc'").iloc[0]
    told = analysis.findings(found, "stream", "triad_B_per_s").text
    mine = next(line for line in told.splitlines() if "lxc" in line)
    assert f"{row['ratio']:.3f}"[:4] in mine
    assert row["verdict"] in mine
    assert f"n = {row['n_pairs']} blocks" in mine


def test_the_summary_counts_every_contrast(found: analysis.Results) -> None:
    numbers = [int(word) for word in analysis.summary(found).text.replace("|", " ").split() if word.isdigit()]
    assert sum(numbers) == len(found.contrasts)


def test_a_baseline_alone_is_shown_without_comparisons(tmp_path: Path) -> None:
    session = write_session(tmp_path / "one")
    data, rows = read_session(session), tidy(session)
    data |= {"systems": ["native"], "not_run": {"docker": "no daemon"}}
    alone = analysis.results(data, rows[rows["system"] == "native"], missing(session).iloc[:0], tmp_path / "out")
    for shown in (analysis.figure(alone, "forest"), analysis.findings(alone, "stream", "triad_B_per_s")):
        assert "nothing to compare native with. Not run: docker: no daemon." in shown.text
    assert "sysbench" in analysis.figure(alone, "points", "sysbench-cpu", "events_per_s").text
    for kind in ("estimates", "contrasts", "results", "published"):
        analysis.table(alone, kind)
    analysis.summary(alone)
