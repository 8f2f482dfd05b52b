from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.pairwise import DRAWN_FLIPS, EXACT_FLIPS, sign_flip, signed_rank
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
NATIVE = A["native"]
OTHERS = np.array([A[name] for name in ("docker", "lxc", "lxd")])
BASE = np.broadcast_to(NATIVE, OTHERS.shape)
WHOLE = st.lists(st.integers(-4, 4), min_size=2, max_size=9)


def flips(values: np.ndarray) -> np.ndarray:
    return np.array(list(product([-1, 1], repeat=values.size))) * values


@given(WHOLE)
def test_signed_rank_counts_every_pattern_with_ties_and_zeros(differences: list[int]) -> None:
    d = np.array(differences, float)
    found = signed_rank(d, np.zeros_like(d))
    if not d.any():
        assert np.isnan(found.p)
        return
    ranks = stats.rankdata(np.abs(d)) * np.sign(d)
    sums = flips(ranks).sum(axis=1)
    assert found.p == pytest.approx(np.mean(np.abs(sums) >= abs(ranks.sum()) - 1e-9))
    scale = 0.1 * d + 1000  # decimals that are not exact in binary are the same differences
    assert signed_rank(scale, np.full_like(d, 1000)).p == pytest.approx(found.p)


@pytest.mark.parametrize("n", [2, 5, 20, 50])
def test_signed_rank_without_ties_is_scipys(n: int) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, 6, n)) + 0.2
    expected = stats.wilcoxon(x - y, axis=-1, method="exact")
    found = signed_rank(x, y)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.statistic == pytest.approx(expected.statistic)


@given(WHOLE)
def test_sign_flip_counts_every_pattern(differences: list[int]) -> None:
    d = np.array(differences, float)
    found = sign_flip(d, np.zeros_like(d))
    assert found.statistic == pytest.approx(d.mean())
    if not d.any():
        assert np.isnan(found.p)
        return
    expected = np.mean(np.abs(flips(d).sum(axis=1)) >= abs(d.sum()) - 1e-9)
    assert found.p == pytest.approx(expected)
    assert sign_flip(0.1 * d + 1000, np.full_like(d, 1000)).p == pytest.approx(expected)


def test_sign_flip_meets_in_the_middle_and_draws_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng(5).normal(size=(2, EXACT_FLIPS + 1)) + np.array([[0.45], [0]])
    exact = sign_flip(x[1:], y[1:]).p
    monkeypatch.setattr("infrabench.stats.pairwise.EXACT_FLIPS", EXACT_FLIPS - 1)
    drawn = sign_flip(x[1:], y[1:]).p
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact / DRAWN_FLIPS))
    assert drawn != exact
    assert sign_flip(x, y).p == sign_flip(x, y).p  # the seed is fixed
    assert sign_flip(x + 100, y).p == pytest.approx(1 / (DRAWN_FLIPS + 1))  # a drawn p is never 0
    whole = np.round(x[:24], 1), np.round(y[:24], 1)
    by_scipy = stats.permutation_test(
        (whole[0] - whole[1],), np.mean, permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert sign_flip(*whole).p == pytest.approx(by_scipy.pvalue, abs=0.02)


def test_too_little_says_nothing() -> None:
    for test in (signed_rank, sign_flip):
        assert np.isnan(test([1.0], [2.0]).p)
        assert np.isnan(test(NATIVE, NATIVE).p)
        assert test(np.ones((3, 0)), np.ones((3, 0))).p.shape == (3,)
    assert signed_rank([1.0, 2, 3, 4, 5], [0.9, 1.9, 2.9, 3.9, 4.9]).p == pytest.approx(2 / 2**5)


@pytest.mark.parametrize("n", [1_000, 1_100])
def test_signed_rank_of_more_pairs_than_powers_of_two_have_room_for(n: int) -> None:
    rng = np.random.default_rng(n)
    difference = rng.integers(-20, 22, n).astype(float)  # ties, so that every sum is counted
    known = stats.wilcoxon(difference, zero_method="pratt", correction=False, method="asymptotic")
    found = signed_rank(difference, np.zeros(n))
    assert 0 < found.p == pytest.approx(known.pvalue, rel=0.02)
    alike = signed_rank(np.abs(difference) * np.tile([1.0, -1], n // 2), np.zeros(n))
    assert 0.05 < alike.p <= 1
