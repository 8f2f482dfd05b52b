from __future__ import annotations

import pandas as pd
import pytest

from infrabench.analysis import figures
from infrabench.analysis.figures.theme import MM, assign_styles
from infrabench.analysis.published import score
from infrabench.core import SchemaError

SYSTEMS = ["native", *score.ENGINES]


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    return score.composite()


@pytest.fixture(scope="module")
def orders() -> dict[str, str]:
    return {version.label: score.order(version.name) for version in score.VERSIONS}


def test_every_score_and_its_bounds_are_drawn(scores: pd.DataFrame, orders: dict[str, str]) -> None:
    (axes,) = figures.composite(scores, orders, systems=SYSTEMS, names=score.ENGINES).figure.axes
    lines = [line for line in axes.lines if line.get_marker() == "None" and line.get_linewidth() == 1.4]
    dots = [line for line in axes.lines if line.get_marker() != "None"]
    assert sorted(tuple(line.get_xdata()) for line in lines) == sorted(zip(scores["low"], scores["high"], strict=True))
    assert sorted(line.get_xdata()[0] for line in dots) == sorted(scores["score"])
    assert {line.get_color() for line in dots} == {assign_styles(SYSTEMS)[engine].colour for engine in score.ENGINES}
    assert [text.get_text() for text in axes.texts] == list(orders.values())
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(orders)


@pytest.mark.parametrize("width_mm", [figures.COLUMN_MM, figures.PAGE_MM])
def test_nothing_is_cut_off(scores: pd.DataFrame, orders: dict[str, str], width_mm: float) -> None:
    figure = figures.composite(scores, orders, systems=SYSTEMS, names=score.ENGINES, width_mm=width_mm).figure
    figure.draw_without_rendering()
    assert figure.get_figwidth() == pytest.approx(width_mm * MM)
    page = figure.bbox
    (axes,) = figure.axes
    for text in [*axes.texts, *axes.get_yticklabels(), axes.xaxis.label, *figure.legends[0].get_texts()]:
        box = text.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1 + 1, text.get_text()


def test_unknown_engines_are_refused(scores: pd.DataFrame, orders: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="docker, lxc, lxd"):
        figures.composite(scores, orders, systems=["native", "lxc"])
    with pytest.raises(SchemaError, match="nothing"):
        figures.composite(scores.iloc[:0], orders, systems=SYSTEMS)
