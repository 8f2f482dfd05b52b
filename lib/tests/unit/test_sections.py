"""What a notebook shows in one call: the answer first, what most readers skip folded, and nothing lost by it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import infrabench as ib
from infrabench.analysis import results as analysis
from infrabench.analysis.results import Results, paragraph, table
from infrabench.analysis.session_data import open_session
from infrabench.notebook import sections
from tests.support.analysis_fixtures import NOTHING_MISSING, results_of, write_session
from tests.unit.stats import test_knee


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_session(tmp_path_factory.mktemp("sections") / "s", blocks=8)


@pytest.fixture(scope="module")
def found(session: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(session, tmp_path_factory.mktemp("out"))


def test_the_answer_is_a_sentence_for_each_system_of_each_primary_metric_and_the_forest(found: Results) -> None:
    told = ib.answer(found)
    for system in set(found.contrasts["system"]):
        sentence = next(line for line in told.text.splitlines() if line.startswith(f"- {system}: "))
        assert sentence.count("costs") + sentence.count("gains") + sentence.count("the same") >= 2
        assert "web requests" in sentence
        assert "inconclusive" not in sentence
    assert told.html.count("data:image/png;base64") == 1
    assert told.html.index("<li>") < told.html.index("data:image/png")


def test_an_answer_says_who_was_not_run_and_that_there_is_nothing_to_compare(found: Results) -> None:
    absent = replace(found, data={**found.data, "not_run": {"podman": "not <installed>"}})
    assert "- podman: not run: not <installed>." in sections.answer(absent).text
    assert "not &lt;installed&gt;" in sections.answer(absent).html
    nothing = replace(found, contrasts=found.contrasts[:0], data={**found.data, "systems": ["native"], "not_run": {}})
    told = "There is nothing to compare native with. No other system was asked for."
    assert sections.answer(nothing).text == told
    other = replace(found, data={**found.data, "primary": []})
    assert "No primary metric of the study was measured in this session of native, " in sections.answer(other).text


def test_a_section_is_figure_sentences_and_the_folded_estimates(found: Results) -> None:
    shown = ib.section(found, "iozone", "write_B_per_s", more=["read_B_per_s"])
    assert shown.html.count("data:image/png;base64") == 1
    assert shown.text.count("lxc: ") >= 2  # sentences of both metrics
    head, _, folded = shown.html.partition("<details>")
    assert "<table" not in head
    assert "<table" in folded
    more = ib.section(found, "iozone", "write_B_per_s", further={"ecdf": "read_B_per_s"})
    assert more.html.count("data:image/png;base64") == 2
    assert "redis: not run" in ib.section(found, "redis", "requests_per_s").text


def test_what_is_folded_is_behind_a_line_that_says_what_it_is(session: Path, found: Results) -> None:
    measured = open_session(session)
    provenance = ib.fold_provenance(measured)
    ok = int((measured.table.drop_duplicates("trial")["state"] == "ok").sum())
    assert f"\n{ok} valid trials; " in provenance.text
    assert provenance.text.startswith("Measured at ")
    tests = ib.fold_tests(found, ["web"])
    assert tests.html.count("<details>") == len(sections.TESTS)
    assert table(found, "contrasts", ["web"]).html in tests.html
    checks = ib.fold_diagnostics(found, "web", "requests_per_s", workloads=["web"])
    assert checks.html.count("<details>") == 1
    assert checks.html.count("data:image/png;base64") == 1


def test_a_line_is_text_and_never_markup() -> None:
    assert sections.fold("a <b> & c", paragraph("x")).html == (
        "<details><summary>a &lt;b&gt; &amp; c</summary><p>x</p></details>"
    )


def swept(found: Results, sessions: int = 1, **most: float) -> Results:
    """Return the results of a rate that each session swept, whose systems answer so many requests a second."""
    data, once = found.data | {"systems": list(most), "not_run": {}, "primary": []}, test_knee.table(**most)
    each = [once.assign(session=f"s{i}", value=(1 + i / 100) * once["value"]) for i in range(sessions)]
    rows = pd.concat(each, ignore_index=True).astype(once.dtypes)
    return analysis.results(data, rows, NOTHING_MISSING, found.folder)


def test_a_session_without_the_workload_says_so(found: Results) -> None:
    assert ib.load_knee(found).text == "web-rate: not run: not part of this session (profile quick)."


def test_the_rates_at_one_latency_are_shown_with_ratio_and_verdict(found: Results) -> None:
    shown = ib.load_knee(swept(found, native=3000.0, docker=2400.0)).text
    assert re.search(r"reaches 2\.2\d* ms, 2 times what docker, the slowest there, takes at 250 \(rate\)", shown)
    assert "| native | 12 of 12 |" in shown
    assert "docker: 0.784 times native" in shown
    assert "higher is better: different" in shown
    assert (found.folder / "tables/containers/web-rate-knee.csv").is_file()
    assert (found.folder / "figures/containers/scaling-web-rate-latency_mean_s.pdf").is_file()


def test_blocks_of_pooled_sessions_have_a_rate_each(found: Results) -> None:
    assert "| native | 24 of 24 |" in ib.load_knee(swept(found, 2, native=3000.0, docker=2400.0)).text
    shown = ib.load_knee(swept(found, 2, native=3000.0, docker=1e9)).text
    assert "docker: in 24 of 24 blocks the mean time does not cross" in shown


def test_what_stays_within_the_limit_has_no_knee(found: Results) -> None:
    shown = ib.load_knee(swept(found, native=3000.0, docker=1e9)).text
    assert "docker: in 12 of 12 blocks the mean time does not cross" in shown
    assert "| native | 12 of 12 |" in shown
    assert "times native" not in shown
    assert "| native |" not in ib.load_knee(swept(found, native=1e9, docker=1e9)).text
