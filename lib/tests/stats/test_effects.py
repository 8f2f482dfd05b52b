from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infrabench.stats.effects import (
    benjamini_hochberg,
    blocks_to_decide,
    cliffs_delta,
    cliffs_delta_interval,
    delta_label,
    equivalence_p,
    holm,
    log_margin,
)
from tests.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}


@pytest.mark.parametrize(
    ("system", "delta", "low", "high"),
    [("docker", -0.48, -0.782202, 0.038109), ("lxc", -0.44, -0.757906, 0.076738), ("lxd", 0.02, -0.437523, 0.468274)],
)
def test_reference_cliffs_delta(system: str, delta: float, low: float, high: float) -> None:
    assert cliffs_delta(A[system], A["native"]) == pytest.approx(delta, rel=1e-6)
    assert cliffs_delta_interval(delta, 10, 10)[:2] == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(("n", "end"), [(10, 0.8002), (30, 0.9330)])
def test_complete_separation_takes_the_smaller_root(n: int, end: float) -> None:
    low, high, _ = cliffs_delta_interval(1.0, n, n)
    assert (1 + low) / 2 == pytest.approx(end, abs=5e-5)  # the printed root is on the scale of P(x > y)
    assert high == 1
    assert cliffs_delta_interval(-1.0, n, n)[:2] == pytest.approx((-1, -low), abs=1e-9)


def test_delta_words() -> None:
    words = [delta_label(d) for d in (0.1, -0.2, 0.4, -0.9, float("nan"))]
    assert words == ["negligible", "small", "medium", "large", ""]


@pytest.mark.parametrize(
    ("system", "two", "one"),
    [
        ("docker", 0.1095344672, 0.634853249),
        ("lxc", 2.234676e-05, 0.01355562682),
        ("lxd", 0.0001140107578, 0.0207463513),
    ],
)
def test_reference_equivalence(system: str, two: float, one: float) -> None:
    logs = np.log(A[system] / A["native"])
    assert equivalence_p(logs, 0.02) == pytest.approx(two, rel=1e-6, abs=1e-11)
    assert equivalence_p(logs, 0.01) == pytest.approx(one, rel=1e-6)
    assert np.exp(-log_margin(0.02)) == pytest.approx(0.98)


def test_reference_adjustments() -> None:
    p = np.array([0.083984375, 0.099609375, 0.30859375, 0.232421875, 0.10546875, 0.001953125])
    assert holm(p) == pytest.approx([0.419921875, 0.419921875, 0.46484375, 0.46484375, 0.419921875, 0.01171875])
    assert benjamini_hochberg(p) == pytest.approx(
        [0.158203125, 0.158203125, 0.30859375, 0.27890625, 0.158203125, 0.01171875]
    )


def test_an_unknown_p_is_no_test() -> None:
    p = np.array([0.01, np.nan, 0.04])
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert np.isnan(adjusted[1])
        assert adjusted[[0, 2]] == pytest.approx(adjust(p[[0, 2]]))
        assert np.isnan(adjust(np.array([np.nan]))).all()


@pytest.mark.parametrize("spread", [0.004, 0.02, 0.1])
def test_blocks_to_decide_leaves_no_outcome_inconclusive_and_one_block_less_may(spread: float) -> None:
    shape = np.random.default_rng(3).normal(size=12)
    n = int(blocks_to_decide(spread * shape, 0.02))

    def undecided(blocks: int) -> bool:
        """Some observed difference, at this spread, has 0 in its 95 % interval and leaves the margin at 90 %."""
        wide, narrow = stats.t.ppf([0.975, 0.95], blocks - 1) * (spread * shape).std(ddof=1) / np.sqrt(blocks)
        shifts = np.linspace(0, 0.1, 20_001)
        return bool(((shifts <= wide) & (shifts + narrow > log_margin(0.02) + 1e-12)).any())

    assert not undecided(n)
    assert undecided(n - 1)


def test_blocks_to_decide_without_spread_or_out_of_reach() -> None:
    assert np.isnan(blocks_to_decide(np.full(5, 0.1), 0.02))
    assert np.isnan(blocks_to_decide(np.array([-50.0, 60.0]), 1e-4))
