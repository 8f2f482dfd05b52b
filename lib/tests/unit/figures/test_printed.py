"""The figures that are kept, as a journal gets them: widths, fonts, sizes of text, nothing cut off or covered."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM
from tests.support.checks import check_each
from tests.support.pdf import page_mm, text_points
from tests.support.sidecars import KEPT

CARS = sorted(KEPT.glob("*/*.json"))
PDFS = sorted(KEPT.glob("*/*.pdf"))
SMALLEST_PT = 6.0


def names(path: Path) -> str:
    return path.relative_to(KEPT).as_posix()


def test_there_are_figures_of_every_recorded_study() -> None:
    studies = {path.name for path in (KEPT.parent / "data" / "recorded").iterdir() if path.is_dir()}
    called = {"aa": "containers-aa-docker", "racks": "racks-containers"}  # by their study, not by their folder
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
