"""The figures that are kept, as a journal gets them; and their colours, which any eye and a grey print tell apart."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from colorspacious import cspace_convert
from matplotlib.colors import to_rgb

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, theme
from tests.support.checks import check_each
from tests.support.pdf import page_mm, text_points
from tests.support.sidecars import KEPT

CARS = sorted(KEPT.glob("*/*.json"))
PDFS = sorted(KEPT.glob("*/*.pdf"))
SMALLEST_PT = 6.0


def names(path: Path) -> str:
    return path.relative_to(KEPT).as_posix()


def test_there_are_figures_of_every_recorded_study() -> None:
    studies = {path.parent.name for path in (KEPT.parent / "data" / "recorded").glob("*/*.tar.xz")}
    # by their study, not by their folder
    called = {
        "aa": "containers-aa-docker",
        "factors": "cnis-options",
        "racks": "racks-containers",
        "versions": "containers",
        "engines": "containers",
        "debian12": "containers",
        "load": "containers-load",
        "papers": "containers-papers",
    }
    assert {path.parent.name for path in CARS} >= {called.get(name, name) for name in studies} | {"published"}


def test_a_figure_comes_in_both_widths_and_is_the_one_that_its_side_car_names() -> None:
    def check(car: Path) -> list[str]:
        told = json.loads(car.read_text(encoding="utf-8"))
        widths = sorted(page_mm(car.parent / name)[0] for name in told["files"] if name.endswith(".pdf"))
        assert widths == [pytest.approx(COLUMN_MM, abs=1e-6), pytest.approx(PAGE_MM, abs=1e-6)]
        assert page_mm(car.with_suffix(".pdf")) == pytest.approx(told["size_mm"], abs=0.051)
        sums = {name: hashlib.sha256((car.parent / name).read_bytes()).hexdigest() for name in told["files"]}
        return [f"{name} is another file" for name, known in told["files"].items() if sums[name] != known]

    check_each(check, CARS, names)


def test_nothing_is_kept_that_no_side_car_names() -> None:
    named = {car.parent / name for car in CARS for name in json.loads(car.read_text(encoding="utf-8"))["files"]}
    assert {path for path in KEPT.glob("*/*") if path.suffix != ".json"} == named


def test_text_is_large_enough_in_print() -> None:
    def check(pdf: Path) -> None:
        sizes = text_points(pdf)
        assert sizes
        assert min(sizes) >= SMALLEST_PT

    check_each(check, PDFS, names)


# Distances are of CAM02-UCS, where 1 is about the least that an eye tells apart side by side.
APART = {4: 35.0, 8: 20.0}
VISIONS = {
    "all colours": None,
    "no green cones": {"name": "sRGB1+CVD", "cvd_type": "deuteranomaly", "severity": 100},
    "no red cones": {"name": "sRGB1+CVD", "cvd_type": "protanomaly", "severity": 100},
}
# The same on a grey print. More systems have less room between black and white, so distances depend on their number.
GREY = {4: 15.0, 8: 7.0}


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
