"""The knee as a notebook shows it: a table of sustained rates, sentences of ratios, or why there is none."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import infrabench as ib
from infrabench.analysis import results as analysis
from infrabench.analysis.tidy import DTYPES, PLAN_COLUMNS
from tests.support.analysis_fixtures import results_of, write_session
from tests.unit.stats.test_knee import table


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    folder = tmp_path_factory.mktemp("plain")
    return results_of(write_session(folder / "s", blocks=4), folder / "out")


def swept(plain: analysis.Results, **most: float) -> analysis.Results:
    """Return the results of a swept rate, whose systems answer so many requests a second."""
    data = plain.data | {"systems": list(most), "not_run": {}, "primary": []}
    missing = pd.DataFrame(columns=list(PLAN_COLUMNS)).astype({name: DTYPES[name] for name in PLAN_COLUMNS})
    return analysis.results(data, table(**most), missing, plain.folder)


def test_a_session_without_the_workload_says_so(plain: analysis.Results) -> None:
    assert ib.load_knee(plain).text == "web-rate: not run: not part of this session (profile quick)."


def test_the_rates_at_one_latency_are_shown_with_ratio_and_verdict(plain: analysis.Results) -> None:
    shown = ib.load_knee(swept(plain, native=3000.0, docker=2400.0)).text
    assert re.search(r"reaches 2\.1\d* ms, 2 times what native takes at 250 requests a second", shown)
    assert "| native | 12 of 12 |" in shown
    assert "docker: 0.792 times native" in shown
    assert "higher is better: different" in shown
    assert (plain.folder / "tables/containers/web-rate-knee.csv").is_file()
    assert (plain.folder / "figures/containers/scaling-web-rate-latency_mean_s.pdf").is_file()


def test_what_stays_within_the_limit_has_no_knee(plain: analysis.Results) -> None:
    shown = ib.load_knee(swept(plain, native=3000.0, docker=1e9)).text
    assert "docker: in 12 of 12 blocks the mean time does not cross" in shown
    assert "| native | 12 of 12 |" in shown
    assert "times native" not in shown
    assert "| native |" not in ib.load_knee(swept(plain, native=1e9, docker=1e9)).text
