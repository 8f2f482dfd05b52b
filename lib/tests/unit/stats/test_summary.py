"""The mean over sites, a new site, and each site against the others."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from infrabench.stats import meta_analysis
from tests.unit.stats.test_heterogeneity import LABS, LABS_ERROR, odds_ratios, risk_ratios, some


def test_hartung_and_knapps_interval_is_the_published_one() -> None:
    """metafor's documentation: at tau^2 = 0.3132 (REML) -0.7145, from -1.1084 to -0.3206."""
    y, error = risk_ratios()
    found = meta_analysis.hartung_knapp(y, error, 0.3132)
    assert found[:2] == pytest.approx((-1.1084, -0.3206), abs=6e-5)
    assert meta_analysis.weighted(y, error, np.inf, 0.3132).mean == pytest.approx(-0.7145, abs=5e-5)


@pytest.mark.parametrize("data", [risk_ratios(), odds_ratios(), (LABS, LABS_ERROR)], ids=["risk", "odds", "labs"])
@pytest.mark.parametrize("how", [{"method_re": "iterated", "atol": 1e-12}, {"method_re": "chi2"}], ids=str)
def test_hartung_and_knapps_interval_is_that_of_statsmodels_or_students(data: tuple, how: dict) -> None:
    y, error = data
    theirs = combine_effects(y, error**2, use_t=True, **how)
    found = meta_analysis.hartung_knapp(y, error, theirs.tau2)
    low, high = theirs.conf_int(use_t=True)[3]
    half = stats.t.ppf(0.975, len(y) - 1) / np.sqrt((1 / (error**2 + theirs.tau2)).sum())  # as if errors were known
    middle, half = (low + high) / 2, max((high - low) / 2, half)
    assert found[:2] == pytest.approx((middle - half, middle + half), rel=1e-8)


def test_sites_that_agree_have_no_interval_narrower_than_students() -> None:
    low, high, _ = meta_analysis.hartung_knapp([0.0, 0.0, 0.0], [0.1, 0.1, 0.1], 0.0)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3))


@pytest.mark.parametrize("k", [3, 4, 10])
def test_sites_far_apart_are_a_sample_of_sites(k: int) -> None:
    """Where the errors are nothing beside the spread, it is Student's t on the sites, and t for one more of them."""
    y = np.random.default_rng(k).normal(2, 1, size=k)
    found = meta_analysis.summary(y, np.full(k, 1e-4), np.full(k, 29.0))
    sem, t = y.std(ddof=1) / np.sqrt(k), stats.t.ppf(0.975, k - 1)
    assert found.mean == pytest.approx(y.mean(), rel=1e-6)
    assert found.interval[:2] == pytest.approx((y.mean() - t * sem, y.mean() + t * sem), rel=2e-4)
    new = t * sem * np.sqrt(k + 1)
    assert found.predicted[:2] == pytest.approx((y.mean() - new, y.mean() + new), rel=2e-4)
    assert found.p == pytest.approx(2 * stats.t.sf(y.mean() / sem, k - 1), rel=0.1)  # quadrature, far out in the tail
    t = stats.t.ppf(0.95, k - 1)
    assert found.narrow[:2] == pytest.approx((y.mean() - t * sem, y.mean() + t * sem), rel=2e-4)


def test_the_intervals_are_quantiles_of_what_is_drawn_from_the_distribution_of_the_variance() -> None:
    y, error, df = np.array([0.02, -0.01, 0.05, 0.01]), np.array([0.02, 0.01, 0.03, 0.02]), 9.0
    rng, many = np.random.default_rng(1), 40_000
    u = rng.random(many)
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1e3, 4_000)])
    p = meta_analysis.welch_homogeneity(y, error, df, grid).p
    variance = np.where(u <= p[0], 0.0, np.interp(u, p, grid))
    at = meta_analysis.weighted(np.broadcast_to(y, (many, 4)), error, df, variance)
    mean = at.mean + np.sqrt(at.variance) * rng.standard_t(at.df)
    new = at.mean + np.sqrt(at.variance + variance) * rng.standard_t(at.df)
    found = meta_analysis.summary(y, error, df)
    for ends, drawn in ((found.interval, mean), (found.predicted, new)):
        assert [(drawn < end).mean() for end in ends[:2]] == pytest.approx([0.025, 0.975], abs=0.003)
    assert found.p == pytest.approx(2 * min((mean < 0).mean(), (mean > 0).mean()), abs=0.01)


def test_more_sites_narrow_the_mean_and_never_a_new_site_below_the_spread() -> None:
    wide = [
        meta_analysis.summary(np.tile([-0.1, 0.1], k), np.full(2 * k, 0.01), np.full(2 * k, 29.0))
        for k in (2, 5, 20, 100)
    ]
    assert (np.diff([each.interval.high for each in wide]) < 0).all()
    assert wide[-1].interval.high < 0.02
    assert wide[-1].predicted.high == pytest.approx(1.96 * 0.1, rel=0.05)


def test_cells_are_answered_as_they_are_alone() -> None:
    y, error = some(4)
    for ask in (partial(meta_analysis.summary, within=(-0.02, 0.02)), meta_analysis.deleted):
        together, alone = ask(y, error, 9.0), [ask(*each, 9.0) for each in zip(y, error, strict=True)]
        for i, field in enumerate(together):
            ends = field[:2] if isinstance(field, tuple) else (field,)
            single = [each[i][:2] if isinstance(each[i], tuple) else (each[i],) for each in alone]
            assert np.moveaxis(np.asarray(single), 0, 1) == pytest.approx(np.asarray(ends), rel=1e-5, abs=1e-7)


def test_the_p_of_equivalence_and_the_narrow_interval_agree() -> None:
    y, error = some(5)
    for margin in (0.005, 0.02, 0.08):
        found = meta_analysis.summary(0.2 * y, error, 9.0, within=(-margin, margin))
        inside = (-margin < found.narrow.low) & (found.narrow.high < margin)
        assert ((found.p_outside < 0.05) == inside).all()
    ends = meta_analysis.summary(0.2 * y, error, 9.0, within=meta_analysis.summary(0.2 * y, error, 9.0).narrow[:2])
    assert ends.p_outside == pytest.approx(np.full(len(y), 0.05), rel=1e-4)
    assert np.isnan(meta_analysis.summary(y, error, 9.0).p_outside).all()


@pytest.mark.parametrize("k", [0, 1, 2])
def test_below_three_sites_there_is_no_mean(k: int) -> None:
    found = meta_analysis.summary(np.zeros(k), np.ones(k), np.full(k, 9.0))
    assert np.isnan([found.mean, *found.interval[:2], *found.predicted[:2], found.p]).all()
    assert np.isnan(meta_analysis.deleted(np.zeros(k), np.ones(k), np.full(k, 9.0)).p_apart).all()


def test_a_site_is_compared_with_the_others_by_welchs_t() -> None:
    rng = np.random.default_rng(6)
    one, rest = rng.normal(1, 2, size=9), rng.normal(0, 1, size=14)
    e = rest.std(ddof=1) / np.sqrt(rest.size)
    # two others of one value and one error each: their mean has half the variance, and twice the degrees of freedom
    found = meta_analysis.deleted(
        [one.mean(), rest.mean(), rest.mean()], [one.std(ddof=1) / 3, e * np.sqrt(2), e * np.sqrt(2)], [8, 6.5, 6.5]
    )
    theirs = stats.ttest_ind(one, rest, equal_var=False)
    assert (found.apart[0], found.p_apart[0]) == pytest.approx((one.mean() - rest.mean(), theirs.pvalue), rel=1e-10)
    assert found.p_others[0] == 1.0


def test_one_site_far_from_others_that_agree_is_seen_and_none_of_the_others() -> None:
    found = meta_analysis.deleted([0.0, 0.001, -0.001, 0.002, -0.2], np.full(5, 0.003), np.full(5, 29.0))
    assert found.p_predicted[4] < 1e-4
    assert (found.p_predicted[:4] > 0.3).all()
    assert found.p_others[4] > 0.5
    assert (found.p_others[:4] < 1e-10).all()
    assert found.apart[4] == pytest.approx(-0.2005)


def test_two_others_predict_little() -> None:
    """Three sites: what a new one would show rests on one difference; only a site out of all proportion stands out."""
    near, far = (meta_analysis.deleted([0.0, 0.004, off], np.full(3, 0.003), np.full(3, 29.0)) for off in (0.03, 1.0))
    assert near.p_predicted[2] > 0.05 > 3 * far.p_predicted[2]
    assert near.p_apart[2] < 1e-6
