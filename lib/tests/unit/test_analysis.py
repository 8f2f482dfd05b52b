"""Figures, tables and sentences of a session: what is shown is also written, and says what the numbers say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infrabench.analysis import results
from infrabench.analysis.figures import FIGURES
from infrabench.analysis.tidy import missing, tidy
from infrabench.core import DesignError
from infrabench.ledger.records import read_session
from infrabench.notebook import session_figures
from tests.support.analysis_fixtures import NOTHING_MISSING, lose, results_of, write_session

pytestmark = pytest.mark.usefixtures("sketches")

ONE_CASE = [kind for kind, each in FIGURES.items() if each.one_case]
ABOUT = {kind: ("web", "requests_per_s") for kind in FIGURES if kind not in ONE_CASE} | {"forest": (), "published": ()}
KINDS = ("estimates", "contrasts", "results", "omnibus", "interactions", "trends", "tiers", "diagnostics", "published")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> results.Results:
    return results_of(write_session(tmp_path_factory.mktemp("session") / "one"), tmp_path_factory.mktemp("out"))


@pytest.mark.parametrize(("kind", "about"), [("forest", ("stream",)), *ABOUT.items()])
def test_a_figure_is_shown_and_written(found: results.Results, kind: str, about: tuple[str, ...]) -> None:
    shown = session_figures.figure(found, kind, *about)
    folder, name = found.folder / "figures" / "containers", "-".join((kind, *about))
    assert {path.suffix for path in folder.glob(f"{name}.*")} == {".pdf", ".svg", ".png", ".json"}
    car = json.loads((folder / f"{name}.json").read_text())
    assert car["caption"] == shown.text
    assert car["parameters"]["kind"] == kind
    assert car["parameters"]["systems"] == found.systems
    assert car["data"]["rows"] > 0
    assert 'src="data:image/png;base64,' in shown.html
    assert 'alt="' in shown.html


@pytest.mark.parametrize("kind", ONE_CASE)
def test_a_figure_of_one_case_names_it_and_takes_the_first_one(found: results.Results, kind: str) -> None:
    named = session_figures.figure(found, kind, "sysbench-cpu", "events_per_s", scenario="threads=1")
    path = found.folder / f"figures/containers/{kind}-sysbench-cpu-events_per_s-threads-1.png"
    assert json.loads(path.with_suffix(".json").read_text())["data"]["rows"] > 0
    path.unlink()
    assert session_figures.figure(found, kind, "sysbench-cpu", "events_per_s").text == named.text
    assert path.exists()


def test_a_system_compared_with_itself_has_folders_of_its_own(found: results.Results) -> None:
    again = replace(found, data={**found.data, "aa": "docker"})
    session_figures.figure(again, "forest", "stream")
    results.table(again, "tiers")
    assert (found.folder / "figures/containers-aa-docker/forest-stream.png").exists()
    assert (found.folder / "tables/containers-aa-docker/tiers.csv").exists()


def test_a_case_without_a_valid_trial_is_told_and_not_drawn(found: results.Results) -> None:
    for kind in ("ecdf", "order", "points"):
        told = session_figures.figure(found, kind, "web", "latency_p99_s", scenario="users=100000").text
        assert told == "web, users=100000: there is no valid trial to draw latency_p99_s of in this session."
    failed = replace(found, table=found.table.assign(value=np.nan, metric=None))
    assert "no valid trial" in session_figures.figure(failed, "points", "web", "latency_p99_s").text


def test_power_without_a_spread_is_told_and_not_drawn(found: results.Results) -> None:
    """Of a session of one block."""
    single = replace(found, contrasts=found.contrasts.assign(detectable=np.nan))
    told = session_figures.figure(single, "power", "web", "requests_per_s").text
    assert told == "web, users=1000: no contrast has a spread, and so no power can be told from it."


def test_what_is_pooled_against_the_rules_is_stamped_everywhere(found: results.Results) -> None:
    stamped = replace(found, data={**found.data, "stamp": "Not comparable in the strict sense: here kernel.release."})
    assert "here kernel.release" in session_figures.figure(stamped, "forest").text
    results.table(stamped, "contrasts")
    assert "here kernel.release" in (found.folder / "tables/containers/contrasts.md").read_text()


def test_groups_that_stood_together_are_told_with_every_order(found: results.Results) -> None:
    cases = [{"group": "10 pods"}, {"group": "20 pods"}, {"group": "10 pods"}, {}]
    grouped = replace(found, data=found.data | {"parameters": {"cases": cases}})
    told = "the cases of one group (10 pods, 20 pods) together"
    assert told in session_figures.figure(grouped, "order", "stream", "triad_B_per_s").text
    assert told in session_figures.figure(grouped, "forest").text
    adjacent = replace(grouped, data=grouped.data | {"order": "adjacent"})
    assert f"{told}, one system directly after the other" in session_figures.figure(adjacent, "forest").text
    assert "one group" not in session_figures.figure(found, "forest").text


def test_a_workload_that_was_not_measured_says_so(found: results.Results) -> None:
    assert "not run" in session_figures.figure(found, "points", "fio", "read_B_per_s").text
    assert "not part of this session" in results.findings(found, "fio", "read_B_per_s").text


def test_a_workload_without_a_valid_trial_says_how_they_ended(found: results.Results, tmp_path: Path) -> None:
    rows = found.table[(found.table["workload"] != "stream") | ~found.table.duplicated(["session", "trial"])].copy()
    lose(rows, (rows["workload"] == "stream") & (rows["system"] != "docker"), "timeout")
    failed = results.results(found.data, rows.reset_index(drop=True), NOTHING_MISSING, tmp_path)
    why = "none of its 30 trials is valid (20 timeout, 10 failed)"
    assert results.absence(failed, "stream") == why
    assert results.findings(failed, "stream", "triad_B_per_s").text == f"stream: {why}."
    for other in ("web", "fio"):
        assert results.absence(failed, other) == "not part of this session (profile quick)"
    cell = {"system": "lxd", "workload": "stream", "scenario": "default", "reason": "no room"}
    less = replace(failed, data=failed.data | {"not_applicable": [cell]})
    assert results.absence(less, "stream") == f"{why}; lxd at default: no room"
    assert results.findings(less, "stream", "triad_B_per_s").text == f"stream: {why}; lxd at default: no room."


def test_what_several_systems_lack_to_be_compared_is_said(found: results.Results, tmp_path: Path) -> None:
    names, gone = "native, docker, lxc", "Not run: lxd: the LXD daemon did not answer."
    other = replace(found, data=found.data | {"primary": [["redis", "requests_per_s"]]})
    none = f"No primary metric of the study was measured in this session of {names}. {gone}"
    assert session_figures.figure(other, "forest").text == none
    rows = found.table.drop_duplicates(["session", "trial"]).reset_index(drop=True)
    lose(rows, rows["state"] == "ok", "failed")
    failed = results.results(found.data, rows, NOTHING_MISSING, tmp_path)
    assert results.alone(failed).text == f"No trial has a value in this session of {names}. {gone}"
    told = results.findings(failed, "stream", "triad_B_per_s").text
    assert told == f"No trial of stream has a value in this session of {names}. {gone}"
    rows = found.table[(found.table["system"] == "native") == (found.table["workload"] == "stream")]
    apart = results.results(found.data, rows.reset_index(drop=True), NOTHING_MISSING, tmp_path)
    told = results.findings(apart, "stream", "triad_B_per_s").text
    assert told == f"No scenario of stream was tried on native and on another system. {gone}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_shown_and_written_in_three_kinds(found: results.Results, kind: str) -> None:
    shown = results.table(found, kind)
    folder = found.folder / "tables" / "containers"
    assert {path.suffix for path in folder.glob(f"{kind}.*")} == {".md", ".csv", ".tex"}
    assert shown.html.count("<table") == 1
    written = (folder / f"{kind}.md").read_text()
    # the file has every row, and at least the columns that are shown
    columns, in_file = (line.strip("| ").split(" | ") for line in (shown.text.splitlines()[0], written.splitlines()[2]))
    assert set(columns) <= set(in_file)
    assert len(written.splitlines()) - 2 == len(shown.text.splitlines())


def test_an_unknown_table_names_those_there_are(found: results.Results) -> None:
    with pytest.raises(DesignError, match="unknown table 'estimate': did you mean estimates"):
        results.table(found, "estimate")


def test_a_narrowed_table_shows_less_than_the_file(found: results.Results) -> None:
    shown = results.table(found, "estimates", ["stream"]).text
    assert "stream" in shown
    assert "web" not in shown
    assert "web" in (found.folder / "tables/containers/estimates.md").read_text()
    told = results.table(found, "estimates", metrics=["requests_per_s"]).text
    assert "requests" in told
    assert "latency" not in told


def test_sentences_carry_the_computed_ratio_and_verdict(found: results.Results) -> None:
    row = found.contrasts.query("workload == 'stream' and metric == 'triad_B_per_s' and system == 'lxc'").iloc[0]
    told = results.findings(found, "stream", "triad_B_per_s").text
    mine = next(line for line in told.splitlines() if "lxc" in line)
    assert f"{row['ratio']:.3f}"[:4] in mine
    assert row["verdict"] in mine
    assert f"n = {row['n_pairs']} blocks" in mine


def test_the_summary_counts_every_contrast(found: results.Results) -> None:
    numbers = [int(word) for word in results.summary(found).text.replace("|", " ").split() if word.isdigit()]
    assert sum(numbers) == len(found.contrasts)


def test_a_baseline_alone_is_shown_without_comparisons(tmp_path: Path) -> None:
    session = write_session(tmp_path / "one")
    data, rows = read_session(session), tidy(session)
    data |= {"systems": ["native"], "not_run": {"docker": "no daemon"}}
    alone = results.results(data, rows[rows["system"] == "native"], missing(session).iloc[:0], tmp_path / "out")
    for shown in (session_figures.figure(alone, "forest"), results.findings(alone, "stream", "triad_B_per_s")):
        assert "nothing to compare native with. Not run: docker: no daemon." in shown.text
    assert "sysbench" in session_figures.figure(alone, "points", "sysbench-cpu", "events_per_s").text
    for kind in KINDS:
        results.table(alone, kind)
    assert results.table(alone, "contrasts").text == "There is nothing for the table of contrasts in this session."
    results.summary(alone)


def test_what_the_baseline_is_is_said_where_it_is_native(found: results.Results) -> None:
    native = "Native is the lab's server node, a system container on the same kernel."
    assert results.base(found) == native
    unchanged = {"variants": {"unchanged": {"system": "native"}}, "baseline": "unchanged"}
    assert results.base(replace(found, data={**found.data, **unchanged})) == native.replace("Native", "Unchanged")
    assert results.base(replace(found, data={**found.data, "baseline": "docker"})) == ""


def test_a_table_with_nothing_in_it_says_so(found: results.Results) -> None:
    one = found.table[found.table["scenario"].isin(["threads=1", "default"])]
    alone = results.results(found.data, one, NOTHING_MISSING, found.folder / "one-level")
    for kind in ("interactions", "trends"):
        assert "nothing for the table" in results.table(alone, kind, ["sysbench-cpu", "web"]).text
    assert "nothing for the table" in results.table(replace(alone, omnibus=alone.omnibus.iloc[:0]), "omnibus").text
