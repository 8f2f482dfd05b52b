"""Changes in series of sessions: at their place, with their size, and none that a single session or chance makes.

That the chance of a false one is at most 5 % is simulated in the validation (V30).
"""

from __future__ import annotations

import numpy as np
import pytest

from infrabench.stats import segmentation
from infrabench.stats.segmentation import FEWEST, find_changes

ERROR = 0.004


def series(n: int, seed: int = 1, *, sd: float = 0.005, **shift: float) -> np.ndarray:
    """Return logarithms of n sessions; ``at_12=-0.05``: from that session on so much more."""
    y = np.random.default_rng(seed).normal(0, sd, n)
    for name, size in shift.items():
        y[int(name.removeprefix("at_")) :] += size
    return y


def changes(*many: np.ndarray) -> list[list[int]]:
    return [[each.place for each in said.changes] for said in find_changes([(y, np.full(y.size, ERROR)) for y in many])]


QUIET = [series(20, seed) for seed in range(2, 7)]


@pytest.mark.parametrize(
    ("y", "places"),
    [
        (series(20, at_13=-0.05), [13]),
        (series(40, at_20=-0.05, at_26=0.05), [20, 26]),  # a change that was taken back is two
        (series(40, at_20=0.05, at_27=0.05), [20, 27]),
        *((series(20) + 0.2 * (np.arange(20) == at), []) for at in (0, 7, 18, 19)),  # one session alone is none
        (np.full(20, 0.1), []),
        (np.repeat([0.0, 0.1], 10), [10]),
    ],
)
def test_changes_are_found_at_their_places_in_their_series_alone(y: np.ndarray, places: list[int]) -> None:
    assert changes(y, *QUIET) == [places, *([] for _ in QUIET)]


def test_its_size_has_an_interval_and_the_segments_their_levels() -> None:
    y = series(20, at_13=0.05)
    (said,) = find_changes([(y, np.full(20, ERROR))])
    (change,) = said.changes
    assert change.low < 0.05 < change.high
    assert change.size == pytest.approx(y[13:].mean() - y[:13].mean())
    assert (change.first, change.place, change.last) == (13, 13, 13)
    assert [each[:2] for each in said.segments] == [(0, 13), (13, 20)]
    assert said.segments[0][2] == pytest.approx(y[:13].mean())
    assert 0 < change.p < 0.001


def test_a_session_that_says_little_has_little_weight() -> None:
    y, error = series(20, at_13=0.05), np.full(20, ERROR)
    y[17], error[17] = 0.4, 0.3
    (said,) = find_changes([(y, error)])
    (change,) = said.changes
    assert change.place == 13
    assert change.size == pytest.approx(0.05, abs=0.015)


def test_the_more_series_the_more_it_takes() -> None:
    y = series(20, at_10=0.014)
    alone = find_changes([(y, np.full(20, ERROR))])[0].changes[0].p
    quiet = [(series(20, seed), np.full(20, ERROR)) for seed in range(30, 33)]
    (beside, *_) = find_changes([(y, np.full(20, ERROR)), *quiet])
    assert alone < 0.05
    assert [each.p for each in beside.changes] == pytest.approx([4 * alone] if 4 * alone < 0.05 else [])


def test_fewer_sessions_than_can_tell_have_no_change_and_no_detectable_size() -> None:
    y = series(FEWEST - 1, at_4=1.0)
    (said,) = find_changes([(y, np.full(y.size, ERROR))])
    assert said.changes == ()
    assert np.isnan(said.detectable)
    assert np.isfinite(said.segments[0][3])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_session_is_no_error(n: int) -> None:
    (said,) = find_changes([(np.zeros(n), np.full(n, ERROR))])
    assert said.changes == ()
    assert len(said.segments) == min(n, 1)
    assert n != 1 or np.isnan(said.segments[0][3])


def test_the_size_that_would_be_found_falls_with_the_number_of_sessions() -> None:
    sizes = [find_changes([(series(n, 4), np.full(n, ERROR))])[0].detectable for n in (8, 20, 40)]
    assert sizes == sorted(sizes, reverse=True)
    assert 0.004 < sizes[-1] < 0.02


def test_the_order_of_the_series_and_their_unit_change_nothing() -> None:
    first, second = series(20, at_13=-0.05), series(20, 9)
    assert changes(second, first) == changes(first, second)[::-1]
    (one,), (two,) = (
        find_changes([(factor * first, np.full(20, factor * ERROR))])[0].changes for factor in (1.0, 1000.0)
    )
    assert two.size == pytest.approx(1000 * one.size)
    assert (two.place, two.p) == (one.place, pytest.approx(one.p))


def test_a_drifting_machine_is_told_by_the_correlation_of_its_sessions() -> None:
    y = np.cumsum(np.random.default_rng(3).normal(0, 0.005, 40))
    (said,) = find_changes([(y - y.mean(), np.full(40, 0.001))])
    independent = find_changes([(series(40, 5), np.full(40, 0.001))])[0]
    assert abs(independent.lag1) < 0.3
    assert said.changes
    assert said.lag1 > independent.lag1


def test_p_is_that_of_the_simulated_series_and_goes_on_beyond_them() -> None:
    tail = segmentation._tail(20)
    assert segmentation._p_value(float(np.median(tail.maxima)), 20) == pytest.approx(0.5, abs=0.01)
    p = [segmentation._p_value(at, 20) for at in (tail.begin, 2 * tail.begin, 4 * tail.begin)]
    assert p[0] == pytest.approx(0.05, abs=0.001)
    assert p[1] / p[0] == pytest.approx(p[2] / p[1], rel=0.05)


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="leave out what has no value"):
        find_changes([([0.0, np.nan], [1.0, 1.0])])
