"""Counts and shares through the whole of `contrasts`: a verdict where there was none, and none that clusters made."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.stats import contrasts
from infrabench.stats.events import BY_COUNTS, BY_DIFFERENCE, BY_SHARES, CLUSTERED, FEW_BLOCKS, FRACTIONS, judge_events
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE
from tests.support.analysis_fixtures import table_of

FAILED = {"workload": "web", "metric": "failed_requests", "unit": "1", "better": "lower"}
LOSS = {"workload": "iperf3", "metric": "loss_percent", "unit": "%", "better": "lower"}
REPAIRED = {"workload": "integrity", "metric": "repaired", "unit": "1", "better": "higher"}


def one(native: object, docker: object, kind: dict[str, str], margin: float = 0.02, **how: int) -> pd.Series:
    values = {"native": [float(v) for v in native], "docker": [float(v) for v in docker]}  # type: ignore[attr-defined]
    return contrasts(table_of(values, **kind, **how), "native", {"": margin}).iloc[0]


def test_zero_against_five_has_a_verdict() -> None:
    row = one([0] * 10, np.random.default_rng(1).poisson(5, 10), FAILED)
    assert (row["verdict"], row["p_method"], row["reason"]) == (DIFFERENT, BY_COUNTS, "")
    assert row["ratio"] == row["ratio_high"] == np.inf
    assert 1 < row["ratio_low"] < np.inf
    assert row["p"] < 1e-10
    assert row["difference_low"] > 0
    assert (row["overhead_percent"], row["overhead_high"]) == (np.inf, np.inf)
    other = one(np.random.default_rng(1).poisson(5, 10), [0] * 10, FAILED)
    assert (other["verdict"], other["ratio"], other["ratio_low"]) == (DIFFERENT, 0.0, 0.0)
    assert other["ratio_high"] == pytest.approx(1 / row["ratio_low"])


def test_a_few_events_decide_nothing() -> None:
    row = one([0] * 30, [1, 0, 1, 0, 1, 0, 1, 0, 1, *[0] * 21], FAILED)
    assert (row["verdict"], row["p"]) == (INCONCLUSIVE, pytest.approx(2 / 32))
    assert row["ratio_low"] < 1
    assert row["difference_low"] < 0 < row["difference_high"]
    assert np.isnan(row["n_to_decide"])


def test_no_event_in_either_says_how_many_there_may_be() -> None:
    row = one([0] * 30, [0] * 30, FAILED)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, "no event in either: at most 0.12 a trial (95 %)")
    assert np.isnan(row["ratio"])
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((-3.688879 / 30, 3.688879 / 30))


def test_many_events_at_one_rate_are_equivalent() -> None:
    x, y = np.random.default_rng(7).poisson(4000, (2, 30))
    row = one(x, y, FAILED)
    assert (row["verdict"], row["p_method"]) == (EQUIVALENT, BY_COUNTS)


def test_events_in_one_block_are_no_difference() -> None:
    """Fifty failures at once are one event: as independent ones they gave p of 1e-15."""
    row = one([0] * 30, [50, *[0] * 29], FAILED)
    assert row["verdict"] == INCONCLUSIVE
    assert row["p_method"] == "sign flips over blocks"
    assert row["reason"].startswith(CLUSTERED)
    assert row["difference_low"] <= 0


def test_clustered_events_in_every_block_differ() -> None:
    rng = np.random.default_rng(9)
    row = one(20 * rng.poisson(0.3, 30), 20 * rng.poisson(3, 30), FAILED)
    assert (row["verdict"], row["p_method"]) == (DIFFERENT, "sign flips over blocks")
    assert 1 < row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["p"] < 0.001
    zero = one([0] * 30, 20 * rng.poisson(3, 30), FAILED)
    assert (zero["verdict"], zero["ratio"]) == (DIFFERENT, np.inf)
    assert np.isnan(zero["ratio_low"])
    assert zero["difference_low"] > 0


def test_clustered_counts_far_from_0_are_compared_as_any_metric() -> None:
    rng = np.random.default_rng(4)
    x, y = np.rint(100 * np.exp(rng.normal(0, 0.5, (2, 20))) + 50)
    row = one(y, x, FAILED)
    plain = one(y, x, FAILED | {"workload": "unknown"})
    assert row["reason"] == f"{CLUSTERED}: compared over blocks"
    assert (row["ratio_low"], row["p"], row["verdict"]) == (plain["ratio_low"], plain["p"], plain["verdict"])


def test_two_blocks_do_not_show_whether_events_are_clustered() -> None:
    row = one([0, 0], [9, 8], FAILED)
    assert (row["verdict"], row["reason"]) == (INCONCLUSIVE, f"{FEW_BLOCKS}; fewer than 6 blocks: no interval")
    assert one([0] * 3, [9, 8, 7], FAILED)["verdict"] == DIFFERENT
    assert one([300, 310], [320, 290], FAILED)["reason"].endswith(f"{FEW_BLOCKS}: compared over blocks")
    assert one([0], [9], FAILED)["verdict"] == NOT_COMPARABLE


def test_deployments_that_differ_are_the_units() -> None:
    """Each deployment fails in its own way: 24 trials are 6 deployments."""
    row = one([0] * 24, [*[6] * 4, *[0] * 20], FAILED, blocks_per_deployment=4)
    assert (row["verdict"], row["p_method"]) == (INCONCLUSIVE, "sign flips over deployments")
    steady = one([0] * 24, np.random.default_rng(1).poisson(2, 24), FAILED, blocks_per_deployment=4)
    assert (steady["verdict"], steady["p_method"], steady["n_pairs"]) == (DIFFERENT, BY_COUNTS, 6)


def test_shares_of_trials_are_compared_by_newcombe() -> None:
    row = one([1] * 10, [0] * 10, REPAIRED)
    assert (row["verdict"], row["p_method"], row["reason"]) == (DIFFERENT, BY_SHARES, BY_DIFFERENCE)
    assert (row["difference"], row["difference_low"]) == (-1.0, -1.0)
    assert row["difference_high"] == pytest.approx(-0.6075, abs=5e-5)  # Newcombe 1998, table II
    same = one([1] * 10, [1] * 10, REPAIRED)
    assert same["verdict"] == INCONCLUSIVE
    assert (same["difference_low"], same["difference_high"]) == pytest.approx((-0.2775, 0.2775), abs=5e-5)
    assert one([1] * 200, [1] * 200, REPAIRED)["verdict"] == EQUIVALENT


def test_lost_packets_against_none() -> None:
    row = one([0] * 10, np.random.default_rng(3).gamma(2, 0.2, 10), LOSS)
    assert (row["verdict"], row["p"]) == (DIFFERENT, pytest.approx(2 / 1024))
    assert row["reason"] == f"{FRACTIONS}: the difference, compared over blocks"
    assert 0 < row["difference_low"] < row["difference"] < row["difference_high"]
    five = one([0] * 10, [0.4, 0.1, 0.2, 0.3, 0.1, *[0] * 5], LOSS)
    assert five["verdict"] == INCONCLUSIVE
    assert one([0] * 10, [0] * 10, LOSS)["verdict"] == NOT_COMPARABLE


@pytest.mark.parametrize("values", [(4000, 4000), (300, 300), (2, 3)])
def test_the_narrow_interval_and_the_p_of_equivalence_agree(values: tuple[int, int]) -> None:
    x, y = np.random.default_rng(8).poisson(np.array(values)[:, None], (2, 30)).astype(float)
    for factor in (1.0, 3.0):  # as they are, and in clusters
        row = judge_events("count", np.stack([x * factor, y * factor]), None, 0.1, percent=False)
        if "apart" not in row:
            continue
        inside = row["equivalence_low"] >= 0.9 and row["equivalence_high"] <= 1.1
        assert inside == (row["p_equivalence"] < 0.05)
        assert row["ratio_low"] < row["equivalence_low"] < row["ratio"] < row["equivalence_high"] < row["ratio_high"]
