"""Do sites differ, their mean, a new site, and each site against the others: published figures and statsmodels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.oneway import anova_oneway

from infrabench.stats import meta_analysis
from tests.unit.stats.test_arrays import leaves

# Tuberculosis among the vaccinated and the others in 13 trials (Colditz and others 1994): ill, not ill, ill, not ill
BCG = np.array([
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761),
    (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232), (17, 1699, 65, 1600),
    (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825),
], dtype=float).T  # fmt: skip
# Nine laboratories that weighed one thing (Kacker 2004, table 1): results and variances
LABS = np.array([61.00, 61.40, 62.21, 62.30, 62.34, 62.60, 62.70, 62.84, 65.90])
LABS_ERROR = np.sqrt([0.2025, 1.21, 0.09, 0.2025, 0.3844, 0.5625, 0.0676, 0.0225, 1.8225])


def risk_ratios() -> tuple[np.ndarray, np.ndarray]:
    """Log risk ratios and their standard errors."""
    a, b, c, d = BCG
    return np.log(a / (a + b) / (c / (c + d))), np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))


def odds_ratios() -> tuple[np.ndarray, np.ndarray]:
    a, b, c, d = BCG
    return np.log(a * d / (b * c)), np.sqrt((1 / BCG).sum(axis=0))


def some(k: int, cells: int = 40, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(cells, k)) * np.geomspace(0.1, 4, cells)[:, None], rng.uniform(0.2, 1.0, size=(cells, k))


# published figures


def test_the_interval_of_the_variance_is_the_published_q_profile() -> None:
    """metafor's page on van Houwelingen and others 2002: 0.1302 to 1.1812 by Q-profile, of the log odds ratios."""
    assert meta_analysis.between_interval(*odds_ratios())[:2] == pytest.approx((0.1302, 1.1812), abs=1e-4)


def test_the_share_between_is_the_published_one() -> None:
    """metafor's documentation: I^2 = 92.22 % at tau^2 = 0.3132."""
    assert 100 * meta_analysis.share_between(0.3132, risk_ratios()[1]) == pytest.approx(92.22, abs=5e-3)


# other implementations


@pytest.mark.parametrize("data", [risk_ratios(), odds_ratios(), (LABS, LABS_ERROR)], ids=["risk", "odds", "labs"])
def test_known_errors_give_what_statsmodels_gives(data: tuple[np.ndarray, np.ndarray]) -> None:
    y, error = data
    theirs = combine_effects(y, error**2, method_re="iterated", atol=1e-12)
    assert meta_analysis.between_variance(y, error) == pytest.approx(theirs.tau2, rel=1e-8)
    ours = meta_analysis.cochran_q(y, error)
    assert ours.statistic == pytest.approx(theirs.q, rel=1e-10)
    assert ours.p == pytest.approx(theirs.test_homogeneity().pvalue, rel=1e-8)
    mean = meta_analysis.weighted(y, error, np.inf, theirs.tau2)
    assert (mean.mean, np.sqrt(mean.variance)) == pytest.approx((theirs.mean_effect_re, theirs.sd_eff_w_re), rel=1e-10)
    assert mean.df == np.inf


def test_on_sites_of_single_values_it_is_welchs_analysis_of_variance() -> None:
    rng = np.random.default_rng(2)
    groups = [rng.normal(i / 3, 1 + i, size=n) for i, n in enumerate((6, 30, 11, 8))]
    y, error, df = zip(*((g.mean(), g.std(ddof=1) / np.sqrt(g.size), g.size - 1) for g in groups), strict=True)
    ours, theirs = meta_analysis.welch_homogeneity(y, error, df), anova_oneway(groups, use_var="unequal")
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-10)
    pair = meta_analysis.welch_homogeneity(y[:2], error[:2], df[:2])
    t = stats.ttest_ind(groups[0], groups[1], equal_var=False)
    assert (pair.statistic, pair.p) == pytest.approx((t.statistic**2, t.pvalue), rel=1e-10)


# what follows


@pytest.mark.parametrize("k", [2, 3, 5, 10])
@pytest.mark.parametrize("df", [5.0, 29.0, np.inf])
def test_the_interval_holds_the_variances_that_the_test_does_not_reject(k: int, df: float) -> None:
    y, error = some(k)
    low, high, _ = meta_analysis.between_interval(y, error, df)
    point = meta_analysis.between_variance(y, error, df)
    assert (low <= high).all()
    at = meta_analysis.welch_homogeneity(y, error, df).p
    assert ((low > 0) == (at < 0.025)).all()
    for end, p in ((low, 0.025), (high, 0.975)):
        inside = end > 0
        found = meta_analysis.welch_homogeneity(y[inside], error[inside], df, end[inside]).p
        assert found == pytest.approx(np.full(inside.sum(), p), abs=1e-8)
    there = point > 0
    assert meta_analysis.welch_homogeneity(y, error, df, point).statistic[there] == pytest.approx(1, rel=1e-8)
    assert (meta_analysis.welch_homogeneity(y, error, df).statistic[~there] <= 1).all()


def test_the_distribution_has_the_ends_of_the_interval_as_quantiles_and_the_weight_of_p_at_none() -> None:
    y, error = some(5)
    found = meta_analysis.spread(y, error, 29.0)
    assert found.variance.shape == found.weight.shape == (40, 1 + meta_analysis.NODES)
    assert found.weight.sum(axis=-1) == pytest.approx(1, abs=1e-12)
    none = meta_analysis.welch_homogeneity(y, error, 29.0).p
    assert found.weight[:, 0] == pytest.approx(none, abs=1e-14)
    assert (found.variance[:, 0] == 0).all()
    assert (np.diff(found.variance, axis=-1) > 0).all()
    # the weight up to a value is p there, but for half a node's own
    p = meta_analysis.welch_homogeneity(y[:, None], error[:, None], 29.0, found.variance).p
    upto = found.weight.cumsum(axis=-1)
    assert (upto[:, 1:] >= p[:, 1:] - 1e-9).all()
    assert (upto[:, :-1] <= p[:, 1:] + 1e-9).all()


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_another_unit_changes_nothing_but_the_unit(factor: float) -> None:
    y, error = some(4)
    one, other = (meta_analysis.between_interval(y * f, error * f, 9.0) for f in (1.0, factor))
    assert other.high / factor**2 == pytest.approx(one.high, rel=1e-7)
    p = [meta_analysis.welch_homogeneity(y * f + 7 * f, error * f, 9.0).p for f in (1.0, factor)]
    assert p[0] == pytest.approx(p[1], rel=1e-6)


@pytest.mark.parametrize(
    ("ask", "rel"),
    [
        (meta_analysis.between_variance, 1e-8),
        (lambda *of: meta_analysis.spread(*of).variance, 1e-8),
        (lambda *of: meta_analysis.summary(*of, within=(-0.02, 0.02)), 1e-5),
        (meta_analysis.deleted, 1e-5),
    ],
)
def test_cells_are_answered_as_they_are_alone_and_in_any_order_of_the_sites(ask: Callable, rel: float) -> None:
    y, error = some(6)
    df = np.random.default_rng(3).uniform(4, 40, size=y.shape)
    order = np.random.default_rng(4).permutation(6)
    together, turned = leaves(ask(y, error, df)), leaves(ask(y[:, order], error[:, order], df[:, order]))
    alone = [leaves(ask(*each)) for each in zip(y, error, df, strict=True)]
    of_sites = ask is meta_analysis.deleted
    for i, (leaf, other) in enumerate(zip(together, turned, strict=True)):
        single = np.array([each[i] for each in alone])
        assert single == pytest.approx(np.broadcast_to(leaf, single.shape), rel=rel, abs=rel / 100)
        assert other == pytest.approx(leaf[:, order] if of_sites else leaf, rel=rel, abs=rel / 100)


def test_one_site_says_nothing_and_sites_that_agree_have_no_variance() -> None:
    assert np.isnan(meta_analysis.welch_homogeneity([1.0], [0.1], [9]).p)
    assert np.isnan(meta_analysis.cochran_q([1.0], [0.1]).p)
    assert np.isnan(meta_analysis.between_variance([1.0], [0.1], 9))
    assert meta_analysis.between_interval([1.0, 1.0, 1.0], [0.1, 0.2, 0.1], 9)[:2] == (0.0, 0.0)
    assert meta_analysis.welch_homogeneity([1.0, 1.0], [0.1, 0.2], 9).p == pytest.approx(1.0)


def test_the_mean_of_two_sites_has_satterthwaites_degrees_of_freedom() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=12), rng.normal(size=12)
    found = meta_analysis.weighted([x.mean(), y.mean()], [x.std(ddof=1), x.std(ddof=1)], [11, 11], 0.0)
    assert found.df == pytest.approx(22)  # equal variances: those of both
    assert stats.t.ppf(0.975, found.df) == pytest.approx(2.0739, abs=1e-4)


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
