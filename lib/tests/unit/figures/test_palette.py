"""Systems that stand beside each other are told apart: with any colour vision, in grey print, and by sign and line."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from colorspacious import cspace_convert
from matplotlib.colors import to_rgb

from infrabench.analysis.figures import theme
from tests.unit.figures.test_printed import CARS

# Distances are of CAM02-UCS, where 1 is about the least that an eye tells apart side by side.
APART = {4: 35.0, 8: 20.0}
VISIONS = {
    "all colours": None,
    "no green cones": {"name": "sRGB1+CVD", "cvd_type": "deuteranomaly", "severity": 100},
    "no red cones": {"name": "sRGB1+CVD", "cvd_type": "protanomaly", "severity": 100},
}
# The same on a grey print. More systems have less room between black and white, so distances depend on their number.
GREY = {4: 15.0, 8: 7.0}
OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")


def seen(colours: tuple[str, ...], vision: str) -> np.ndarray:
    """Return the colours as an eye of this vision sees them, in CAM02-UCS: lightness first."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    if VISIONS[vision]:
        rgb = np.clip(cspace_convert(rgb, VISIONS[vision], "sRGB1"), 0, 1)
    return np.asarray(cspace_convert(rgb, "sRGB1", "CAM02-UCS"))


def printed(colours: tuple[str, ...]) -> np.ndarray:
    """Return the lightness of the greys of equal luminance, which a grey print has."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    luminance = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    grey = np.where(luminance <= 0.0031308, 12.92 * luminance, 1.055 * luminance ** (1 / 2.4) - 0.055)
    return np.asarray(cspace_convert(np.repeat(grey[:, None], 3, axis=1), "sRGB1", "CAM02-UCS"))[:, :1]


def least(points: np.ndarray) -> float:
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(points, 2))


def test_figures_show_no_more_systems_than_there_are_looks() -> None:
    shown = [json.loads(car.read_text(encoding="utf-8"))["parameters"].get("systems", []) for car in CARS]
    assert max(map(len, shown)) <= len(theme.COLOURS) == len(theme.MARKERS) == len(theme.DASHES)


@pytest.mark.parametrize("count", APART)
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_apart(vision: str, count: int) -> None:
    assert least(seen(theme.COLOURS[:count], vision)) > APART[count]


@pytest.mark.parametrize("count", GREY)
def test_lightness_alone_tells_them_apart_in_grey(count: int) -> None:
    assert least(printed(theme.COLOURS[:count])) > GREY[count]


def test_every_colour_is_seen_on_white() -> None:
    assert (printed(("#FFFFFF",)) - printed(theme.COLOURS) > 15).all()


def test_signs_and_lines_differ_too() -> None:
    every = theme.assign_styles([f"system {i}" for i in range(len(theme.COLOURS))]).values()
    for field in ("colour", "marker", "dash"):
        assert len({str(getattr(each, field)) for each in every}) == len(theme.COLOURS)


def test_the_demand_can_fail() -> None:
    """The palette that most colour-blind-safe figures have is not made for grey print."""
    assert least(printed(OKABE_ITO)) < GREY[8]
    red_and_green = ("#D62728", "#2CA02C")
    assert least(seen(red_and_green, "no green cones")) < least(seen(red_and_green, "all colours")) / 2
