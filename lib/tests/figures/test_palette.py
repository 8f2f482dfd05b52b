"""Systems that stand beside each other are told apart: with any colour vision, in grey print, and by sign and line."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from colorspacious import cspace_convert
from matplotlib.colors import to_rgb

from infrabench.figures import look
from tests.figures.test_printed import CARS

# Distances are of CAM02-UCS, where 1 is about the least that an eye tells apart side by side.
APART = 20.0
VISIONS = {
    "all colours": None,
    "no green cones": {"name": "sRGB1+CVD", "cvd_type": "deuteranomaly", "severity": 100},
    "no red cones": {"name": "sRGB1+CVD", "cvd_type": "protanomaly", "severity": 100},
}
# Lightness, of 100, by how many systems are shown: more have less room between black and what is seen on white.
GREY = {2: 15.0, 3: 15.0, 4: 12.0, 5: 7.0, 6: 7.0, 7: 7.0, 8: 7.0}
OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")


def seen(colours: tuple[str, ...], vision: str) -> np.ndarray:
    """Return the colours as an eye of this vision sees them, in CAM02-UCS: lightness first."""
    rgb = np.array([to_rgb(colour) for colour in colours])
    if VISIONS[vision]:
        rgb = np.clip(cspace_convert(rgb, VISIONS[vision], "sRGB1"), 0, 1)
    return np.asarray(cspace_convert(rgb, "sRGB1", "CAM02-UCS"))


def least(points: np.ndarray) -> float:
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(points, 2))


def test_figures_show_no_more_systems_than_there_are_looks() -> None:
    shown = [json.loads(car.read_text(encoding="utf-8"))["parameters"].get("systems", []) for car in CARS]
    assert max(map(len, shown)) <= len(look.COLOURS) == len(look.MARKERS) == len(look.DASHES)


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_apart(vision: str) -> None:
    assert least(seen(look.COLOURS, vision)) > APART


@pytest.mark.parametrize("count", GREY)
def test_lightness_alone_tells_them_apart_in_grey(count: int) -> None:
    lightness = seen(look.COLOURS[:count], "all colours")[:, :1]
    assert least(lightness) > GREY[count]


def test_every_colour_is_seen_on_white() -> None:
    white = seen(("#FFFFFF",), "all colours")[0, 0]
    assert (white - seen(look.COLOURS, "all colours")[:, 0] > 15).all()


def test_signs_and_lines_differ_too() -> None:
    every = look.looks([f"system {i}" for i in range(len(look.COLOURS))]).values()
    for field in ("colour", "marker", "dash"):
        assert len({str(getattr(each, field)) for each in every}) == len(look.COLOURS)


def test_the_demand_can_fail() -> None:
    """The palette that most colour-blind-safe figures have is not made for grey print."""
    assert least(seen(OKABE_ITO, "all colours")[:, :1]) < GREY[8]
    assert least(seen(("#D62728", "#2CA02C"), "no green cones")) < least(seen(("#D62728", "#2CA02C"), "all colours")) / 2
