"""What a notebook shows of a session beside the papers: published ratios, their metrics and limits, their score."""

from __future__ import annotations

from pathlib import Path

import pytest

import infrabench as ib
from infrabench.analysis.results import Results
from infrabench.notebook.published_cells import compare_published
from tests.support import storage_fixtures
from tests.support.analysis_fixtures import SYSTEMS, results_of, write_session
from tests.support.runtimes_fixtures import NO_KATA
from tests.support.runtimes_fixtures import write_session as write_runtimes


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("containers")
    session = write_session(folder / "s", blocks=6, systems=SYSTEMS, not_run={}, faults=False)
    return results_of(session, folder / "out")


def test_every_published_ratio_is_shown_with_its_word_and_the_figure_is_written(containers: Results) -> None:
    rows = compare_published(containers)
    shown = ib.published(containers)
    assert f"{len(rows)} comparisons with published ratios: agrees in size " in shown.text
    assert set(rows.loc[rows["n_pairs"] == 0, "metric"]) == {"average_B_per_s", "transfer_B_per_s"}
    assert f"{(rows['n_pairs'] == 0).sum()} of them because nothing was measured" in shown.text
    assert (containers.folder / "figures/containers/published.pdf").is_file()
    assert (containers.folder / "tables/containers/published.csv").is_file()
    assert shown.html.count("<details>") == 5


def test_a_ratio_that_was_not_measured_says_why(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "s", blocks=4, not_run={"lxd": "the LXD daemon did not answer"}, faults=False)
    rows = compare_published(results_of(folder, tmp_path / "out"))
    gone = rows[rows["system"] == "lxd"]
    assert len(gone)
    assert set(gone["reason"]) == {"not measured: the LXD daemon did not answer"}
    rate = rows[(rows["system"] == "docker") & (rows["metric"] == "transfer_B_per_s")].iloc[0]
    assert rate["reason"] == "not measured: not part of this session (profile quick)"


def test_ratios_of_two_cells_are_those_of_the_study_alone(tmp_path: Path, containers: Results) -> None:
    found = results_of(write_runtimes(tmp_path / "s"), tmp_path / "out")
    rows = compare_published(found)
    assert rows["printed"].notna().all()
    assert rows["reason"].str.contains(NO_KATA, regex=False).any()
    assert compare_published(containers)["printed"].isna().all()
    assert "kata, 40 containers / containerd, 10 containers" in ib.published(found).text
    stores = results_of(storage_fixtures.write_session(tmp_path / "z"), tmp_path / "out")
    rows = compare_published(stores)
    assert set(rows.loc[rows["printed"].isna(), "system"]) == {"ceph"}
    assert set(rows["printed"].dropna()) == {f"{each}, 40 GB used / {each}, 20 GB used" for each in ("ceph", "zfs")}


def test_the_papers_metrics_have_a_verdict_or_a_reason(containers: Results) -> None:
    shown = ib.published_metrics(containers).text
    assert "memory: not measured: not part of this session (profile quick)." in shown  # two of its four kernels
    assert "the web server's time per request, users=1000, docker: " in shown
    assert "web, time per request below 3 s: kept in 32 of 32 cells" in shown
    assert "ftp, below 1 s: not measured" in shown


def test_a_session_without_all_rows_says_which_row_of_the_score_it_lacks(containers: Results) -> None:
    assert ib.published_score(containers).text == (
        "The composite score is not measured: stream has no value of average_B_per_s."
    )
