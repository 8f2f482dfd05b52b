"""The forest over sites: squares at their ratios, a diamond for the mean, a line for a new site, and the words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Polygon

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, sites
from infrabench.analysis.figures.theme import COLOURS
from infrabench.core import SchemaError
from infrabench.stats.sites import over_sites, per_site
from tests.support.frames import contrasts_frame
from tests.support.look_at import check_paper, marked, texts

NAMES = ("rack-1", "rack-2", "rack-3", "rack-4")


def site(ratio: float, half: float = 0.01, **change: Any) -> pd.DataFrame:
    """Return the contrasts of a site: docker at `ratio` of native, lxc at 1, in 30 blocks."""
    rows = []
    for system, at in (("docker", ratio), ("lxc", 1.0)):
        ends = {"log_ratio": at, "log_low": at * np.exp(-half), "log_high": at * np.exp(half)}
        rows.append({"system": system, "verdict": "different" if at != 1 else "equivalent", **ends, **change})
    return contrasts_frame(*rows)


def frames(*ratios: float, **change: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    given = {name: site(ratio, **change) for name, ratio in zip(NAMES, ratios, strict=False)}
    return over_sites(per_site(given), [*given, "rack-9"], lost={"rack-9": "failed: no route to it"})


def diamonds(figure: Any) -> list[tuple[float, float, float]]:
    """Left end, top and right end of every diamond."""
    found = [p.get_xy() for p in figure.axes[0].patches if isinstance(p, Polygon) and len(p.get_xy()) == 5]
    return [(xy[0][0], xy[1][0], xy[2][0]) for xy in found]


def test_each_site_has_its_square_and_the_case_its_diamond_and_its_new_site() -> None:
    rows, over = frames(0.97, 0.96, 0.98, 0.97)
    figure = sites(rows, over, systems=("native", "docker", "lxc")).figure
    axes = figure.axes[0]
    squares = [line for line in axes.lines if line.get_marker() == "s"]
    assert [line.get_xdata()[0] for line in squares] == pytest.approx([0.97, 0.96, 0.98, 0.97, 1, 1, 1, 1])
    assert [line.get_color() for line in squares] == [COLOURS[1]] * 4 + [COLOURS[2]] * 4
    for end, (_, row) in zip(diamonds(figure), over.iterrows(), strict=True):
        assert end == pytest.approx((row["ratio_low"], row["ratio"], row["ratio_high"]))
    assert marked(axes, "|")[:, 0] == pytest.approx(over["ratio"])
    shown = texts(figure)
    assert "web: requests (higher is better)" in shown
    assert shown.count("mean of sites") == shown.count("a new site") == 2
    assert "users=1000  docker (SD between sites" in shown
    assert "missing: rack-9: failed: no route to it" in shown


def test_the_area_of_a_square_is_the_weight_of_its_site() -> None:
    given = {name: site(0.97, half) for name, half in zip(NAMES, (0.005, 0.01, 0.02, 0.04), strict=True)}
    rows, over = over_sites(per_site(given), NAMES)
    mine = rows["system"] == "docker"
    figure = sites(rows[mine], over[over["system"] == "docker"]).figure
    sizes = [line.get_markersize() for line in figure.axes[0].lines if line.get_marker() == "s"]
    weights = rows.loc[mine, "weight"].to_numpy()
    assert (np.diff(sizes) <= 0).all()
    assert (sizes[0] / sizes[1]) ** 2 == pytest.approx(weights[0] / weights[1])


def test_a_site_that_is_named_says_so_and_the_caption_counts_what_holds_where() -> None:
    figure, told = sites(*frames(0.97, 0.97, 0.97, 0.60))
    assert "stands out" in texts(figure)
    assert "differs between sites" in texts(figure)
    assert "docker at users=1000: rack-4 stands out" in told
    assert "Ratio of geometric means to native at 4 sites, squares, over 30 blocks each" in told
    assert "Over sites: differs between sites 1, holds everywhere 1." in told
    assert "prediction interval of a new site" in told


def test_two_sites_have_no_diamond_and_the_caption_says_why() -> None:
    figure, told = sites(*frames(0.97, 0.80), "One machine.")
    assert diamonds(figure) == []
    assert "mean of sites" not in texts(figure)
    assert "equal sites: p < 0.0001" in texts(figure)
    assert "Two sites give no mean over sites" in told
    assert told.endswith("One machine.")


def test_a_wide_new_site_ends_in_arrows_and_leaves_the_sites_room() -> None:
    rows, over = frames(0.97, 0.60, 1.3)
    docker = over[over["system"] == "docker"]
    axes = sites(rows[rows["system"] == "docker"], docker).figure.axes[0]
    assert docker["predicted_high"].iloc[0] > axes.get_xlim()[1]
    assert len(marked(axes, ">")) == len(marked(axes, "<")) == 1


def test_a_site_without_a_ratio_keeps_its_line_with_the_reason() -> None:
    given = {name: site(0.97) for name in NAMES[:3]}
    given["rack-4"] = site(0.97, log_ratio=np.nan, log_low=np.nan, log_high=np.nan, reason="no ok trial of docker")
    rows, over = over_sites(per_site(given), NAMES)
    assert "no ok trial of docker" in texts(sites(rows, over).figure)


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("ratios", [(0.97, 0.8), (0.97, 0.96, 0.98), (0.97, 0.5, 1.4, 0.99)])
def test_it_fits_its_paper_at_both_widths(width: float, ratios: tuple[float, ...]) -> None:
    rows, over = frames(*ratios)
    check_paper(sites(rows, over, width_mm=width).figure, width, axes_mm=20)


def test_there_has_to_be_something_to_draw() -> None:
    rows, over = frames(0.97, 0.96)
    with pytest.raises(SchemaError, match="no site has a ratio to draw"):
        sites(rows.iloc[:0], over)
