"""Bootstrap intervals against exact enumeration, scipy with the same draws, resamples made one by one, and coverage."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from infrabench.stats.bootstrap import (
    bootstrap_mean,
    bootstrap_quantile,
    bootstrap_quantile_ratio,
    bootstrap_ratio,
    bootstrap_spread,
    bootstrap_t,
)
from infrabench.stats.intervals import Interval
from infrabench.stats.resampling import (
    RESAMPLES,
    ROUNDING,
    SEED,
    bias_and_acceleration,
    means,
    resample_counts,
    resample_shares,
)
from tests.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
METHODS = ("percentile", "basic", "bca")
SYSTEMS = ("docker", "lxc", "lxd")
MANY = 10**6  # at 10^5 the simulation error of the far ends of BCa is 0.02

# limits by enumeration of all resamples, as printed
MEAN = {
    "native": {"percentile": (100.420, 101.950), "basic": (100.540, 102.070), "bca": (100.275, 101.871)},
    "docker": {"percentile": (98.735, 101.596), "basic": (98.476, 101.337), "bca": (98.904, 101.942)},
}
BIAS_ACCELERATION_ERROR = {
    "native": (-0.0513466, -0.0507408, 0.3930630),
    "docker": (0.0606284, 0.0588977, 0.7364200),
}
STUDENTISED = {"native": (99.3950, 101.9901), "docker": (98.6773, 102.8293)}
# four standard errors of simulation at 10^6, measured over seeds: the pivot of ten values has a long tail
STUDENTISED_ERROR = {"native": (0.045, 0.004), "docker": (0.008, 0.03)}
MEDIAN = {"native": (100.37, 102.17), "docker": (98.245, 101.49)}
RATIO = {"docker": (0.978214, 1.000572), "lxc": (0.991746, 0.999702), "lxd": (0.997910, 1.008570)}
RATIO_BCA = {"docker": (0.979763, 1.004592), "lxc": (0.991869, 0.999861), "lxd": (0.997957, 1.008624)}


# ------------------------------------------------------------------------------------------ enumeration


class Exact(NamedTuple):
    """All compositions of a resample of ten and their multinomial probabilities."""

    counts: np.ndarray
    weights: np.ndarray

    def quantile(self, made: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Inverse of the step distribution function."""
        order = np.argsort(made, kind="stable")
        below = np.cumsum(self.weights[order])
        return made[order][np.searchsorted(below, shares * (1 - 1e-12))]

    def bca(self, made: np.ndarray, estimate: float, jackknife: np.ndarray) -> tuple[np.ndarray, float, float]:
        tied = np.isclose(made, estimate, rtol=1e-12, atol=0)
        bias = special.ndtri(self.weights[(made < estimate) & ~tied].sum() + self.weights[tied].sum() / 2)
        pull = jackknife.mean() - jackknife
        a = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
        z = bias + special.ndtri([0.025, 0.975])
        return self.quantile(made, special.ndtr(bias + z / (1 - a * z))), float(bias), float(a)


@pytest.fixture(scope="module")
def exact() -> Exact:
    bars = np.array(list(combinations(range(19), 9)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), 19)])
    counts = np.diff(edges, axis=1) - 1
    weights = np.exp(special.gammaln(11) - special.gammaln(counts + 1.0).sum(axis=1) - 10 * np.log(10))
    assert len(counts) == 92378
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    return Exact(counts, weights)


def without_one(x: np.ndarray) -> np.ndarray:
    return np.array([np.delete(x, i).mean() for i in range(x.size)])


@pytest.mark.parametrize("system", MEAN)
def test_mean_against_enumeration(exact: Exact, system: str) -> None:
    x = A[system]
    made = exact.counts @ x / 10
    percentile = exact.quantile(made, np.array([0.025, 0.975]))
    bca, bias, a = exact.bca(made, x.mean(), without_one(x))
    error = np.sqrt(exact.weights @ (made - x.mean()) ** 2)
    limits = {"percentile": percentile, "basic": 2 * x.mean() - percentile[::-1], "bca": bca}
    for method in METHODS:
        assert limits[method] == pytest.approx(MEAN[system][method], abs=5.1e-4)
        assert bootstrap_mean(x, method, resamples=MANY)[:2] == pytest.approx(limits[method], abs=0.01)
    assert (bias, a, error) == pytest.approx(BIAS_ACCELERATION_ERROR[system], abs=5.1e-8)


@pytest.mark.parametrize("system", BIAS_ACCELERATION_ERROR)
def test_bias_acceleration_and_standard_error_of_the_mean(system: str) -> None:
    off = (A[system] - A[system].mean())[None]
    made = means(off, resample_shares(10, MANY))
    bias, a = bias_and_acceleration(made, np.zeros(1), np.array([ROUNDING * np.abs(off).max()]), off)
    expected = BIAS_ACCELERATION_ERROR[system]
    assert bias[0] == pytest.approx(expected[0], abs=0.005)  # four standard errors of simulation
    assert a[0] == pytest.approx(expected[1], abs=5.1e-8)
    assert made.std() == pytest.approx(expected[2], rel=0.003)


@pytest.mark.parametrize("system", STUDENTISED)
def test_studentised_mean_against_enumeration(exact: Exact, system: str) -> None:
    x = A[system]
    mean = exact.counts @ x / 10
    variance = exact.counts @ (x - x.mean()) ** 2 / 10 - (mean - x.mean()) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        pivot = (mean - x.mean()) / np.sqrt(np.where(variance > 1e-12, variance, 0))
    limits = x.mean() - exact.quantile(pivot, np.array([0.975, 0.025])) * x.std()
    assert limits == pytest.approx(STUDENTISED[system], abs=5.1e-5)
    found = np.array(bootstrap_t(x, resamples=MANY)[:2])
    assert (np.abs(found - limits) < STUDENTISED_ERROR[system]).all()


@pytest.mark.parametrize("system", MEDIAN)
def test_median_against_enumeration(exact: Exact, system: str) -> None:
    x = np.sort(A[system])
    reached = exact.counts.cumsum(axis=1)
    made = (x[(reached < 5).sum(axis=1)] + x[(reached < 6).sum(axis=1)]) / 2
    assert exact.quantile(made, np.array([0.025, 0.975])) == pytest.approx(MEDIAN[system], abs=1e-9)
    assert bootstrap_quantile(A[system], resamples=10**5)[:2] == pytest.approx(MEDIAN[system], abs=1e-9)


@pytest.mark.parametrize("system", SYSTEMS)
def test_paired_ratio_against_enumeration(exact: Exact, system: str) -> None:
    x, y = A[system], A["native"]
    made = (exact.counts @ x) / (exact.counts @ y)
    percentile = exact.quantile(made, np.array([0.025, 0.975]))
    bca, _, _ = exact.bca(made, x.mean() / y.mean(), without_one(x) / without_one(y))
    assert percentile == pytest.approx(RATIO[system], abs=5.1e-7)
    assert bca == pytest.approx(RATIO_BCA[system], abs=5.1e-7)
    assert bootstrap_ratio(x, y, resamples=MANY)[:2] == pytest.approx(percentile, abs=1e-4)
    assert bootstrap_ratio(x, y, "bca", resamples=MANY)[:2] == pytest.approx(bca, abs=1e-4)


# ---------------------------------------------------------------------------------- the same draws elsewhere


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [20, 30, 51])
def test_means_are_those_of_scipy(method: str, n: int) -> None:
    """n >= 20, as a resample that holds every trial once ties with the mean but for rounding, which scipy counts."""
    x = np.random.default_rng([1, n]).lognormal(3, 0.3, (6, n))
    found = bootstrap_mean(x, method)  # type: ignore[arg-type]
    for i, cell in enumerate(x):
        theirs = stats.bootstrap((cell,), np.mean, method=method, n_resamples=9999, rng=np.random.default_rng(SEED))
        assert (found.low[i], found.high[i]) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_small_samples_of_whole_numbers_are_those_of_scipy(method: str, n: int) -> None:
    """Sums of whole numbers are exact, so that scipy sees the ties too."""
    x = np.random.default_rng([2, n]).integers(0, 1000, (6, n)).astype(float)
    found = bootstrap_mean(x, method)  # type: ignore[arg-type]
    for i, cell in enumerate(x):
        theirs = stats.bootstrap((cell,), np.mean, method=method, n_resamples=9999, rng=np.random.default_rng(SEED))
        assert (found.low[i], found.high[i]) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_paired_ratios_are_those_of_scipy(method: str) -> None:
    x, y = np.random.default_rng(3).normal(10, 2, (2, 4, 30))
    found = bootstrap_ratio(x, y, method, seed=5)  # type: ignore[arg-type]
    for i in range(4):
        theirs = stats.bootstrap(
            (x[i], y[i]), lambda a, b, axis: a.mean(axis=axis) / b.mean(axis=axis), paired=True, vectorized=True,
            method=method, rng=np.random.default_rng(5),
        )  # fmt: skip
        assert (found.low[i], found.high[i]) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-12)


def resamples_of(x: np.ndarray, seed: int = SEED) -> np.ndarray:
    return x[..., np.random.default_rng(seed).integers(0, x.shape[-1], (RESAMPLES, x.shape[-1]))]


@pytest.mark.parametrize("n", [9, 30, 50, 130])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 0.99, 1.0])
def test_quantiles_are_those_of_resamples_made_one_by_one(n: int, share: float) -> None:
    x, y = np.round(np.random.default_rng([4, n]).normal(10, 2, (2, n)), 1)
    above, below = (np.quantile(resamples_of(sample), share, axis=-1) for sample in (x, y))
    limits = [0.025, 0.975]
    assert bootstrap_quantile(x, share)[:2] == pytest.approx(np.quantile(above, limits), rel=1e-12)
    assert bootstrap_quantile_ratio(x, y, share)[:2] == pytest.approx(np.quantile(above / below, limits), rel=1e-12)


@pytest.mark.parametrize("n", [8, 30])
def test_studentised_intervals_are_those_of_resamples_made_one_by_one(n: int) -> None:
    x = np.random.default_rng([5, n]).lognormal(2, 0.4, n)
    made = resamples_of(x)
    mean, sd = made.mean(axis=-1), made.std(axis=-1, ddof=1)
    t = np.quantile((mean - x.mean()) / sd, [0.975, 0.025])
    assert bootstrap_t(x)[:2] == pytest.approx(x.mean() - t * x.std(ddof=1), rel=1e-9)

    def pull(sample: np.ndarray, relative: bool) -> np.ndarray:
        """Error of log SD (or log CoV) by the influence of each value on it."""
        centre = sample.mean(axis=-1, keepdims=True)
        off = sample - centre
        influence = off**2 / (off**2).mean(axis=-1, keepdims=True) / 2 - 0.5 - (off / centre if relative else 0)
        return np.sqrt((influence**2).sum(axis=-1)) / sample.shape[-1]

    for relative in (False, True):
        value = x.std(ddof=1) / (x.mean() if relative else 1)
        values = sd / (mean if relative else 1)
        t = np.quantile(np.log(values / value) / pull(made, relative), [0.975, 0.025])
        expected = value * np.exp(-t * pull(x, relative))
        assert bootstrap_spread(x, relative)[:2] == pytest.approx(expected, rel=1e-9)


# ------------------------------------------------------------------------------------------ properties

ONE: dict[str, Callable[[np.ndarray], Interval]] = {
    **{method: lambda x, method=method: bootstrap_mean(x, method, resamples=499) for method in METHODS},
    "t": lambda x: bootstrap_t(x, resamples=499),
    "spread": lambda x: bootstrap_spread(x, resamples=499),
    "cov": lambda x: bootstrap_spread(x, relative=True, resamples=499),
    "median": lambda x: bootstrap_quantile(x, resamples=499),
}
TWO: dict[str, Callable[[np.ndarray, np.ndarray], Interval]] = {
    **{method: lambda x, y, method=method: bootstrap_ratio(x, y, method, resamples=499) for method in METHODS},
    "medians": lambda x, y: bootstrap_quantile_ratio(x, y, resamples=499),
}
values = st.lists(st.integers(400, 1200).map(lambda i: i / 8), min_size=6, max_size=30).map(np.array)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(values, st.sampled_from([0.5, 1024.0, 1e9, 1e-9]), st.integers(-5, 100))
def test_unit_and_origin(x: np.ndarray, unit: float, origin: int) -> None:
    for name, method in ONE.items():
        before, scaled, moved = method(x), method(x * unit), method(x + origin)
        factor = 1.0 if name == "cov" else unit
        np.testing.assert_allclose(scaled[:2], np.multiply(before[:2], factor), rtol=1e-7)
        if name != "cov":
            shift = 0 if name == "spread" else origin
            np.testing.assert_allclose(moved[:2], np.add(before[:2], shift), rtol=1e-7)
    for method in TWO.values():
        y = x[::-1] + 10
        np.testing.assert_allclose(method(x * unit, y * unit)[:2], method(x, y)[:2], rtol=1e-7)
        np.testing.assert_allclose(method(x * unit, y)[:2], np.multiply(method(x, y)[:2], unit), rtol=1e-7)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(values, st.floats(1e-3, 1e3))
def test_a_system_in_proportion_to_its_baseline_has_that_ratio(y: np.ndarray, c: float) -> None:
    for method in TWO.values():
        found = method(c * y, y)
        if np.ptp(y):
            assert found[:2] == pytest.approx((c, c), rel=1e-12)
        else:
            assert np.isnan(found).all()


def test_nothing_to_infer_from_is_not_a_number() -> None:
    rng = np.random.default_rng(6)
    noisy = rng.normal(0, 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.empty(0), np.ones(1), np.full(8, 0.1), np.zeros(8), np.empty((3, 0)), np.empty((0, 5))):
            for one in ONE.values():
                assert np.isnan(one(x)).all()
            for two in TWO.values():
                assert np.isnan(two(x, 2 * x)).all()
        for two in TWO.values():
            assert np.isnan(two(noisy + 3, noisy)).all()  # a baseline around 0
            assert np.isnan(two(noisy, np.zeros(12))).all()
        assert np.isnan(ONE["cov"](noisy)).all()
        assert np.isfinite(ONE["spread"](noisy)).all()
        for few in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0])):
            assert np.isnan(bootstrap_t(few)).all()
            assert np.isnan(bootstrap_spread(few)).all()
    with pytest.raises(ValueError, match="percentile"):
        bootstrap_mean(noisy, "BCa")  # type: ignore[arg-type]


def test_cells_are_told_apart() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(10, 1, (2, 3, 40, 11))
    x[1, 7] = y[1, 7] = 4.0
    for name, found in ((name, method(x)) for name, method in ONE.items()):
        assert found.low.shape == (3, 40)
        assert np.argwhere(np.isnan(found.low)).tolist() == [[1, 7]]
        np.testing.assert_allclose([end[2, 39] for end in found], ONE[name](x[2, 39]), rtol=1e-12)
    for name, found in ((name, method(x, y)) for name, method in TWO.items()):
        assert np.argwhere(np.isnan(found.low)).tolist() == [[1, 7]]
        np.testing.assert_allclose([end[2, 39] for end in found], TWO[name](x[2, 39], y[2, 39]), rtol=1e-12)


def test_memory_does_not_grow_with_the_number_of_cells() -> None:
    x = np.random.default_rng(12).normal(size=(4000, 30))
    tracemalloc.start()
    bootstrap_mean(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all resampled means at once would take 320 MB


def test_the_seed_decides() -> None:
    x = A["native"]
    assert bootstrap_mean(x) == bootstrap_mean(x, seed=SEED)
    assert bootstrap_mean(x) != bootstrap_mean(x, seed=1)
    counts = resample_counts(10)
    assert (counts.sum(axis=0) == 10).all()
    with pytest.raises(ValueError, match="read-only"):
        counts[0, 0] = 1


def test_a_thousand_cells_take_a_fraction_of_the_time_of_scipy() -> None:
    x = np.random.default_rng(8).normal(10, 1, (1000, 30))
    resample_counts.cache_clear()
    ours = min(timed(lambda: bootstrap_mean(x)) for _ in range(3))
    theirs = min(
        timed(lambda: [stats.bootstrap((cell,), np.mean, method="percentile", rng=1) for cell in x[:20]])
        for _ in range(3)
    )
    assert ours < 50 * theirs / 5  # 30 to 50 times faster on an idle machine; room for a busy one


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ------------------------------------------------------------------------------------------ coverage

R = 2000


def covered(found: Interval, truth: float) -> float:
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def test_spread_covers_nearly() -> None:
    x = np.random.default_rng(10).normal(10, 1, (R, 30))
    assert 0.925 <= covered(bootstrap_spread(x, resamples=1999), 1.0) <= 0.9655
    assert 0.925 <= covered(bootstrap_spread(x, relative=True, resamples=1999), 0.1) <= 0.9655


def test_ratios_cover_nearly_at_thirty_blocks() -> None:
    shared, a, b = np.random.default_rng(11).normal(size=(3, R, 30))
    x, y = 0.95 * (1 + 0.02 * (shared + a)), 1 + 0.02 * (shared + b)
    for method in ("percentile", "bca"):
        assert 0.915 <= covered(bootstrap_ratio(x, y, method, resamples=1999), 0.95) <= 0.9655  # type: ignore[arg-type]
    medians = bootstrap_quantile_ratio(x[:500], y[:500], resamples=999)
    assert 0.93 <= covered(medians, 0.95) <= 0.99
