"""Densities behind the means of `points`: where many trials have unlike shapes and there is room, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from infrabench.analysis.figures import points
from infrabench.stats import diagnostics, estimates
from tests.support.analysis_fixtures import table_of
from tests.support.look_at import make_view

RNG = np.random.default_rng(5)
ROUND = RNG.normal(100, 2, 40)
MODES = np.where(np.arange(40) % 4 == 0, 60.0, 100.0) + RNG.normal(0, 1, 40)
SKEWED = 100 + RNG.exponential(20, 40)


def drawn(values: dict[str, np.ndarray], *, flags: bool = True, **how: float) -> tuple[list[np.ndarray], str]:
    """Return the corners of every outline, and the caption."""
    table = table_of({name: list(each) for name, each in values.items()})
    found = diagnostics(table) if flags else diagnostics(table).head(0)
    view = make_view("sysbench-cpu", "events_per_s", table=table, estimates=estimates(table), diagnostics=found, **how)
    figure, caption = points(view)
    bodies = [each for each in figure.axes[0].collections if isinstance(each, PolyCollection)]
    return [each.get_paths()[0].vertices for each in bodies if len(each.get_paths()[0].vertices) > 100], caption


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"a": ROUND, "b": MODES}, 2),  # two modes
        ({"a": ROUND, "b": SKEWED}, 2),  # another shape
        ({"a": ROUND, "b": 1.5 * ROUND}, 0),  # another place alone
        ({"a": ROUND[:29], "b": MODES[:29]}, 0),  # too few
        ({"a": ROUND, "b": MODES, "c": np.full(40, 7.0)}, 2),  # one without a shape
        ({"a": MODES}, 1),
        ({f"s{i}": MODES + i for i in range(14)}, 0),  # no room
    ],
)
def test_outlines_stand_where_shapes_differ(values: dict[str, np.ndarray], count: int) -> None:
    outlines, caption = drawn(values)
    assert len(outlines) == count
    assert ("Outlined behind the means" in caption) == (count > 0)


def test_an_outline_ends_at_the_values_and_is_widest_at_the_larger_mode() -> None:
    outlines, _ = drawn({"a": ROUND, "b": MODES})
    body = outlines[1]
    assert (body[:, 1].min(), body[:, 1].max()) == pytest.approx((MODES.min(), MODES.max()))
    assert body[body[:, 0].argmax(), 1] == pytest.approx(100, abs=4)
    assert np.ptp(body[:, 0]) == pytest.approx(0.44, abs=0.01)


def test_without_diagnostics_the_values_alone_decide() -> None:
    assert len(drawn({"a": MODES, "b": MODES + 1e-3}, flags=False)[0]) == 0
    assert len(drawn({"a": ROUND, "b": SKEWED}, flags=False)[0]) == 2
