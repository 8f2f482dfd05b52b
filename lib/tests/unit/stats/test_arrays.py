"""What holds of all array functions: lists will do, no value is missing or endless, cells do not see one another."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infrabench.stats import dependence, intervals, meta_analysis, pairwise, planning
from infrabench.stats.diagnostics import bimodal, modified_z, outlier_mask, shapiro, skewness, split, split_log
from infrabench.stats.omnibus import friedman, interaction, log_slope
from infrabench.stats.table import stacks

N = 12
X = (10 + np.random.default_rng(71).normal(size=N)).tolist()
Y = (10 + np.random.default_rng(72).normal(size=N)).tolist()
ERROR = (0.1 + np.random.default_rng(73).random(N)).tolist()

ONE: dict[str, Callable[[Any], Any]] = {
    "t_interval": intervals.t_interval,
    "log_t_interval": intervals.log_t_interval,
    "median_interval": intervals.median_interval,
    "hodges_lehmann": intervals.hodges_lehmann,
    "bootstrap_t": intervals.bootstrap_t,
    "autocorrelation": dependence.autocorrelation,
    "ljung_box": dependence.ljung_box,
    "kendall_trend": dependence.kendall_trend,
    "dependent": dependence.dependent,
    "effective_n": dependence.effective_n,
    "effective_interval": lambda x: dependence.effective_interval(x, 5.0),
    "modified_z": modified_z,
    "outlier_mask": outlier_mask,
    "shapiro": shapiro,
    "skewness": skewness,
    "split": split,
    "split_log": split_log,
    "bimodal": bimodal,
    "one_way": lambda x: planning.one_way(x, np.arange(N) // 3),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "paired_fieller": pairwise.paired_fieller,
    "paired_log_ratio": pairwise.paired_log_ratio,
    "paired_t": pairwise.paired_t,
    "log_moments": pairwise.log_moments,
    "signed_rank": pairwise.signed_rank,
    "paired_d": pairwise.paired_d,
    "share_above": pairwise.share_above,
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "friedman": friedman,
    "log_slope": lambda x: log_slope(x, [1.0, 2.0, 4.0]),
    "interaction": lambda x: interaction(np.stack([x, np.asarray(x)[..., ::-1, :]], axis=-3)),
}
SITES: dict[str, Callable[..., Any]] = {
    "cochran_q": lambda y, e, df: meta_analysis.cochran_q(y, e),
    "welch_homogeneity": meta_analysis.welch_homogeneity,
    "between_variance": meta_analysis.between_variance,
    "summary": meta_analysis.summary,
    "deleted": meta_analysis.deleted,
    "hartung_knapp": lambda y, e, df: meta_analysis.hartung_knapp(y, e, 0.0),
}
BAD = [np.nan, np.inf, -np.inf]


def spoilt(x: list[float], value: float) -> list[float]:
    return [*x[:4], value, *x[5:]]


def same(first: Any, other: Any) -> bool:
    if isinstance(first, tuple):
        return len(first) == len(other) and all(same(a, b) for a, b in zip(first, other, strict=True))
    return np.array_equal(first, other, equal_nan=np.asarray(first).dtype.kind == "f")


@pytest.mark.parametrize("function", ONE.values(), ids=ONE)
def test_one_sample(function: Callable[[Any], Any]) -> None:
    assert same(function(X), function(np.array(X)))
    for value in BAD:
        with pytest.raises(ValueError, match=r"has -?(nan|inf) at \[4\]: leave out what has no value"):
            function(spoilt(X, value))
    with pytest.raises(ValueError, match="single number"):
        function(3.0)


@pytest.mark.parametrize("function", TWO.values(), ids=TWO)
def test_pairs(function: Callable[[Any, Any], Any]) -> None:
    assert same(function(X, Y), function(np.array(X), np.array(Y)))
    for value in BAD:
        for pair in ((spoilt(X, value), Y), (X, spoilt(Y, value))):
            with pytest.raises(ValueError, match=r"at \[4\]"):
                function(*pair)
    for other in (Y[:1], Y[:-1], [Y] * 2):
        for pair in ((X, other), (other, X)):
            with pytest.raises(ValueError, match="one partner for every value"):
                function(*pair)


@pytest.mark.parametrize("function", ROWS.values(), ids=ROWS)
def test_systems_or_levels_in_blocks(function: Callable[[Any], Any]) -> None:
    rows = [X, Y, ERROR]
    assert same(function(rows), function(np.array(rows)))
    for value in BAD:
        with pytest.raises(ValueError, match="leave out what has no value"):
            function([X, spoilt(Y, value), ERROR])


def test_levels_are_one_for_each_row() -> None:
    with pytest.raises(ValueError, match="one level for each row"):
        log_slope([X, Y, ERROR], [1.0])


@pytest.mark.parametrize("function", SITES.values(), ids=SITES)
def test_sites(function: Callable[..., Any]) -> None:
    assert same(function(X, ERROR, 5), function(np.array(X), np.array(ERROR), np.full(N, 5.0)))
    for estimate, error in ((spoilt(X, np.nan), ERROR), (X, spoilt(ERROR, np.inf))):
        with pytest.raises(ValueError, match=r"at \[4\]"):
            function(estimate, error, 5)
    for other in (ERROR[:1], ERROR[:-1]):
        with pytest.raises(ValueError, match="one to each site"):
            function(X, other, 5)
    with pytest.raises(ValueError, match="not above 0"):
        function(X, spoilt(ERROR, 0.0), 5)


def leaves(found: Any) -> list[np.ndarray]:
    return [leaf for part in found for leaf in leaves(part)] if isinstance(found, tuple) else [np.asarray(found, float)]


CELLS = np.random.default_rng(74).normal(10, 1, (2, 2, 3, 3, N))  # x and y, cells, systems or levels, blocks
CELLS[:, 0, 1] = 4.0  # a constant cell leaves its neighbours as they are
ALL = {
    **{name: (function, 1) for name, function in ONE.items() if name != "one_way"},
    **{name: (function, 2) for name, function in TWO.items()},
    **{name: (function, 0) for name, function in ROWS.items()},
}


@pytest.mark.parametrize(("function", "samples"), ALL.values(), ids=ALL)
def test_cells_are_answered_as_they_are_alone(function: Callable[..., Any], samples: int) -> None:
    given = [each[:, :, 0] for each in CELLS[:samples]] if samples else [CELLS[0]]
    together = leaves(function(*given))
    for cell in np.ndindex(2, 3):
        for whole, alone in zip(together, leaves(function(*(each[cell] for each in given))), strict=True):
            value = whole[cell] if whole.shape[:2] == (2, 3) else whole
            assert value == pytest.approx(alone, rel=1e-9, abs=1e-12, nan_ok=True)


FEW = {name: each for name, each in ALL.items() if name != "effective_interval"}  # of n_eff values it needs some
OF_SPREAD = {"low", "high", "p", "iman_davenport_p"}


def unknown(found: Any) -> list[np.ndarray]:
    """Return what there is none of without spread: ends of intervals, p, and a number or a flag that stands alone."""
    if not isinstance(found, tuple):
        return [np.asarray(found)]
    fields = zip(found._fields, found, strict=True)
    parts = [part for name, part in fields if isinstance(part, tuple) or name in OF_SPREAD]
    return [each for part in parts for each in unknown(part)]


@pytest.mark.parametrize(("function", "samples"), FEW.values(), ids=FEW)
def test_too_little_and_equal_values_say_nothing_and_do_not_warn(function: Callable[..., Any], samples: int) -> None:
    rows = () if samples else (3,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((0,), (1,), (4, 0), (0, 5), (8,)):
            cells = shape[:-1]
            found = function(*[np.full((*cells, *rows, shape[-1]), 0.1)] * max(samples, 1))
            assert all(leaf.shape[: len(cells)] == cells or not leaf.shape for leaf in leaves(found))
            for each in unknown(found) if function is not pairwise.share_above else ():  # of no pair one is above
                assert np.isnan(each).all() if each.dtype.kind == "f" else not each.any()


DEPLOYED = np.ones(1, dtype=bool)


def means(x: np.ndarray, deployment: np.ndarray) -> np.ndarray:
    """The same by hand: complete blocks of each deployment, one after the other."""
    there = np.isfinite(x).all(axis=0)
    found = [x[:, (deployment == each) & there] for each in np.unique(deployment)]
    return np.array([each.mean(axis=1) for each in found if each.size]).T


def test_units_are_means_over_the_complete_blocks_of_a_deployment() -> None:
    rng = np.random.default_rng(3)
    deployment = np.repeat(np.arange(40), rng.integers(1, 9, 40))
    x = rng.normal(100, 1, (3, deployment.size))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[0, deployment == 7] = np.nan  # a deployment without one complete block is no unit
    (stack,) = (each for each in stacks(x[None], deployment, DEPLOYED) if len(each.cells))
    assert stack.numbers[0] == pytest.approx(means(x, deployment), rel=1e-14)


def test_equal_values_have_equal_means() -> None:
    deployment = np.repeat(np.arange(5), 7)
    (stack,) = (each for each in stacks(np.full((1, 2, 35), 0.1), deployment, DEPLOYED) if len(each.cells))
    assert (stack.numbers == 0.1).all()


def test_thousands_of_deployments_take_no_table_of_deployments_by_blocks() -> None:
    deployment = np.repeat(np.arange(2_000), 30)
    x = np.random.default_rng(5).normal(size=(1, 2, deployment.size))
    tracemalloc.start()
    try:
        (stack,) = (each for each in stacks(x, deployment, DEPLOYED) if len(each.cells))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stack.numbers.shape == (1, 2, 2_000)
    assert peak < 20 * x.nbytes
