"""docs/gallery.md shows every registered figure as the registry and the kept pictures are, and guides' calls draw."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from infrabench.analysis.figures import FIGURES
from infrabench.ledger import catalogue
from tests.support.pdf import page_mm
from tests.support.places import ROOT
from tests.support.scripts import load_script


@pytest.fixture(scope="module")
def gallery() -> Any:
    return load_script("gallery")


def test_the_page_is_the_one_that_the_script_writes(gallery: Any) -> None:
    written = (ROOT / "docs/gallery.md").read_text()
    assert written == gallery.page(), "a figure, its description or its picture has changed: scripts/gallery"
    assert re.findall(r"^## (\w+)$", written, re.MULTILINE) == list(FIGURES)


def test_each_call_names_its_figure_and_a_recorded_session(gallery: Any) -> None:
    calls = re.findall(r"^ib\.figure\(.*\)$", (ROOT / "docs/gallery.md").read_text(), re.MULTILINE)
    shown = []
    for line in calls:
        call = ast.parse(line).body[0].value  # type: ignore[attr-defined]
        session, kind, *about = (ast.literal_eval(each) for each in call.args)
        shown.append(kind)
        assert catalogue.find(None, session).exists()
        assert len(about) == (0 if kind in ("forest", "published") else 2)
        assert [each.arg for each in call.keywords] == ["scenario"] * FIGURES[kind].one_case
    assert shown == list(FIGURES)


def test_pictures_of_its_own_are_those_that_their_side_cars_name(gallery: Any) -> None:
    cars = sorted((ROOT / "docs/gallery").glob("*.json"))
    assert [car.stem for car in cars] == sorted([*gallery.DRAWN, "history"])
    for car in cars:
        told = json.loads(car.read_text(encoding="utf-8"))
        for name, known in told["files"].items():
            assert hashlib.sha256((car.parent / name).read_bytes()).hexdigest() == known
        assert not [path for kept in ROOT.glob("figures/*") for path in kept.glob(f"{car.stem}-*.json")], "it is kept"


def test_the_simulated_nights_have_the_one_change_that_was_planted(gallery: Any) -> None:
    nights = gallery.simulate_history()
    assert nights.changes[["system", "at", "explained"]].to_numpy().tolist() == [["docker", 28, ""]]


def test_the_figure_for_a_paper_is_drawn_as_the_guide_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(ROOT))
    monkeypatch.chdir(tmp_path)
    part = (ROOT / "docs/reporting.md").read_text().partition("### A figure for a paper")[2]
    exec(re.search(r"```python\n(.*?)```", part, re.DOTALL)[1], {})  # type: ignore[index]
    assert page_mm(tmp_path / "out/requests.pdf")[0] == pytest.approx(85)
    caption = json.loads((tmp_path / "out/requests.json").read_text())["caption"]
    assert "no engine" in caption
    assert "lxc" not in caption
