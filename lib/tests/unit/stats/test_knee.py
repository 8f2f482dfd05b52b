"""The knee: where times over rates reach a limit, against curves whose crossing is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.stats import contrasts, knee
from tests.support.analysis_fixtures import levels_of, lose

LEVELS = np.array([250.0, 500.0, 1000.0, 2000.0, 4000.0])


def queue(levels: np.ndarray, most: float, service_s: float = 0.001) -> np.ndarray:
    """Return mean times of a queue M/M/1 that answers `most` requests a second, and a second where it cannot follow."""
    return np.where(levels < most, service_s / (1 - np.minimum(levels / most, 0.999)), 1.0)


def test_the_crossing_is_on_a_line_of_both_logarithms() -> None:
    times = 0.002 * (LEVELS / 1000.0) ** 3
    assert knee.crossing(LEVELS, times, 0.002) == pytest.approx(1000.0)
    assert knee.crossing(LEVELS, times, 0.002 * 1.5**3) == pytest.approx(1500.0)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([1.0, 1.1, 1.2, 1.3, 1.4], np.nan),  # never above: not known how much it sustains
        ([3.0, 3.0, 4.0, 5.0, 6.0], np.nan),  # above from the first
        ([1.0, np.nan, 1.0, 4.0, 9.0], 1000 * 2**0.5),  # a level without a value is left out
        ([1.0, 4.0, 1.0, 1.0, 9.0], 250 * 2**0.5),  # the first crossing counts
    ],
)
def test_what_does_not_cross_is_missing_and_the_first_crossing_counts(times: list[float], found: float) -> None:
    assert knee.crossing(LEVELS, np.array(times), 2.0) == pytest.approx(found, nan_ok=True)


def table(blocks: int = 12, **most: float) -> pd.DataFrame:
    """Return a tidy table of a swept rate, whose systems answer so many requests a second, with 3 % of noise."""
    rng = np.random.default_rng(5)
    values = {
        level: {
            system: queue(np.full(blocks, level), limit * np.exp(rng.normal(0, 0.03, blocks)))
            for system, limit in most.items()
        }
        for level in LEVELS
    }
    return levels_of(values, "rate", workload="web-rate", metric="latency_mean_s", unit="s", better="lower")


def test_systems_are_compared_by_the_rates_at_which_they_reach_one_time() -> None:
    rows = table(native=3000.0, docker=2400.0)
    limit_s, slowest = knee.find_limit(rows, "web-rate", "latency_mean_s")
    assert (limit_s, slowest) == (pytest.approx(2 * 0.001 / (1 - 250 / 2400), rel=0.02), "docker")
    rates, lacking = knee.sustain(rows, "web-rate", "latency_mean_s", limit_s)
    assert (len(rates), lacking) == (24, {})
    assert rates["level"].isna().all()
    (one,) = contrasts(rates, "native", {"": 0.05}).itertuples()
    assert one.ratio == pytest.approx(0.8, abs=0.06)
    assert one.verdict == "different"


def test_a_system_of_which_one_block_does_not_cross_has_no_rate() -> None:
    rows = table(blocks=3, native=3000.0, strong=1e9)
    rates, lacking = knee.sustain(rows, "web-rate", "latency_mean_s", 0.0025)
    assert (set(rates["system"]), lacking) == ({"native"}, {"strong": 3})
    best = (rows["system"] == "native") & (rows["block"] == 1)
    rates, lacking = knee.sustain(
        rows.assign(value=rows["value"].mask(best, 0.001)), "web-rate", "latency_mean_s", 0.0025
    )
    assert rates.empty  # the mean of the other two would be too small
    assert lacking == {"native": 1, "strong": 3}


@pytest.mark.parametrize(
    ("level", "state", "known"),
    [(500.0, "timeout", False), (2000.0, "failed", False), (4000.0, "timeout", True), (500.0, "invalid", True)],
)
def test_a_loss_below_the_crossing_alone_leaves_a_system_without_a_rate(level: float, state: str, known: bool) -> None:
    rows = table(blocks=3, native=3000.0, docker=2900.0)
    lose(rows, (rows["system"] == "docker") & (rows["block"] == 1) & (rows["level"] == level), state)
    rates, lacking = knee.sustain(rows, "web-rate", "latency_mean_s", 0.002)
    assert set(rates["system"]) == ({"native", "docker"} if known else {"native"})
    assert lacking == ({} if known else {"docker": 1})


def test_a_block_that_lost_all_its_trials_counts_as_one_without_a_rate() -> None:
    rows = table(blocks=3, native=3000.0)
    lose(rows, rows["block"] == 1, "failed")
    assert knee.sustain(rows, "web-rate", "latency_mean_s", 0.002)[1] == {"native": 1}


def test_where_the_load_is_no_rate_what_was_done_at_it_is() -> None:
    rows = table(blocks=4, native=3000.0, docker=2400.0)
    done = rows.assign(metric="iops", value=1000 * rows["level"], unit="1/s", better="higher")
    limit_s, _ = knee.find_limit(rows, "web-rate", "latency_mean_s")
    offered, _ = knee.sustain(rows, "web-rate", "latency_mean_s", limit_s)
    both = pd.concat([rows, done], ignore_index=True).astype(rows.dtypes)
    rates, lacking = knee.sustain(both, "web-rate", "latency_mean_s", limit_s, "iops")
    assert lacking == {}
    assert rates["value"].to_numpy() == pytest.approx(1000 * offered["value"].to_numpy())
