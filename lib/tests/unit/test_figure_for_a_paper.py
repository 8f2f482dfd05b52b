"""A figure drawn again for a paper: other systems, order, labels, words, width and file; the same numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import infrabench as ib
from infrabench.analysis.figures import COLUMN_MM, FIGURES, PAGE_MM
from infrabench.analysis.results import Results
from infrabench.core import DesignError
from infrabench.notebook import session_figures
from tests.support.analysis_fixtures import SYSTEMS, results_of, write_session
from tests.support.pdf import page_mm
from tests.support.sketches import sketched

ABOUT = ("web", "requests_per_s")
CASES = dict.fromkeys(FIGURES, ABOUT) | {"forest": (), "published": ()}
LABELS = {"docker": "Docker 20.10", "lxd": "LXD", "native": "bare", "web": "Apache", "users": "clients"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = write_session(tmp_path_factory.mktemp("s") / "s", blocks=8, systems=SYSTEMS, not_run={}, faults=False)
    return results_of(folder, folder / "out")


@pytest.mark.parametrize("kind", FIGURES)
def test_every_figure_is_drawn_with_other_systems_words_and_widths(kind: str, found: Results, tmp_path: Path) -> None:
    path = tmp_path / "paper/one.svg"
    words = {"higher is better": "lebih tinggi lebih baik", "n = ": "N = "}
    shown = ib.figure(
        found, kind, *CASES[kind], systems=["lxd", "docker"], labels=LABELS, words=words, width="page", path=path
    )
    drawn, car = path.read_text(), json.loads(path.with_suffix(".json").read_text())
    assert sorted(each.name for each in path.parent.iterdir()) == ["one.json", "one.svg"]
    assert car["caption"] == shown.text
    assert car["parameters"]["labels"] == LABELS
    assert car["size_mm"][0] == PAGE_MM
    text = drawn + shown.text
    assert "Docker 20.10" in text
    assert "Apache" in text
    assert "higher is better" not in text
    for name in ("docker", "native", "lxc"):
        assert f"<!-- {name}" not in drawn, name
    if kind in ("forest", "points", "curves"):
        assert "Ratio to bare" in drawn.replace("\n", " ")
    ib.figure(found, kind, *CASES[kind], width="column", path=tmp_path / "a.pdf")
    assert page_mm(tmp_path / "a.pdf")[0] == pytest.approx(COLUMN_MM, abs=1e-3)


def test_a_system_keeps_its_sign_and_its_numbers_whatever_is_drawn_beside_it(found: Results) -> None:
    few = session_figures.view_of(found, *ABOUT, "users=1000", systems=["lxd", "native"])
    whole = session_figures.view_of(found, *ABOUT, "users=1000")
    assert few.drawn == ["lxd", "native"]
    for name in few.drawn:
        assert few.marks[name] == whole.marks[name]
        np.testing.assert_array_equal(few.by_system[name], whole.by_system[name])
    rows = few.contrasts.set_index(["scenario", "system"])
    assert rows.equals(whole.contrasts.set_index(["scenario", "system"]).loc[rows.index])


def test_residuals_are_those_within_blocks_of_all_systems(found: Results) -> None:
    """Of fewer systems a block has another mean."""

    def points(systems: tuple[str, ...]) -> np.ndarray:
        view = session_figures.view_of(found, *ABOUT, "users=1000", systems=systems)
        panels = [axes for axes in FIGURES["qq"].draw(view).figure.axes if axes.get_title().startswith("docker")]
        return panels[0].lines[-1].get_ydata()

    np.testing.assert_array_equal(points(("docker", "lxc")), points(()))


def test_only_what_is_asked_for_is_written(found: Results, tmp_path: Path) -> None:
    mine = replace(found, folder=tmp_path)
    with sketched():
        assert "bare" in ib.figure(mine, "forest", labels={"native": "bare"}).text
        assert not list(tmp_path.rglob("*.*"))
        ib.figure(mine, "forest", width="column")
    assert {path.suffix for path in tmp_path.rglob("forest*.*")} == {".pdf", ".svg", ".png", ".json"}


def test_a_file_that_stands_there_under_a_like_name_stays(found: Results, tmp_path: Path) -> None:
    (tmp_path / "a-85mm.pdf").write_text("mine")
    ib.figure(found, "forest", path=tmp_path / "a.svg")
    assert (tmp_path / "a-85mm.pdf").read_text() == "mine"


def test_a_session_is_found_by_its_folder(found: Results, tmp_path: Path) -> None:
    folder = found.folder.parent
    ib.figure(folder, "lag", *ABOUT, path=tmp_path / "lag.png")
    assert (tmp_path / "lag.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"kind": "bars"}, "unknown figure 'bars': known are: blocks, curves, ecdf, forest"),
        ({"workload": "wbe"}, "unknown workload 'wbe': did you mean web.*known are: ftp, iozone, mail, stream"),
        ({"metric": "latency"}, "unknown metric of web 'latency'.*latency_p99_s"),
        ({"metric": ""}, "points shows one metric: .*; there are ftp total_s"),
        ({"scenario": "users=7"}, "unknown scenario of web 'users=7'.*users=1000"),
        ({"systems": ["dokcer"]}, "unknown system 'dokcer': did you mean docker.*known are: docker, lxc, lxd, native"),
        ({"labels": {"dokcer": "D"}}, "unknown name to label 'dokcer': did you mean docker"),
        ({"labels": {"docker": "LXC", "lxc": "LXC"}}, "labels call two names of a system 'LXC'"),
        ({"labels": {"docker": "lxc"}}, "labels call two names of a system 'lxc'"),
        ({"width": "wide"}, "unknown width 'wide': known are: column, page"),
        ({"path": "figure.eps"}, "unknown ending of a file 'eps': known are: pdf, png, svg"),
        ({"path": "figure"}, "unknown ending of a file '': known are: pdf, png, svg"),
        ({"kind": "forest", "metric": "", "words": {"Ratio": 30 * "wide "}}, "mm beyond the paper: shorten"),
        ({"workload": "redis"}, "redis: not run"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_right(found: Results, tmp_path: Path, asked: dict, told: str) -> None:
    given = {"kind": "points", "workload": "web", "metric": "requests_per_s", "path": "a.pdf"} | asked
    given["path"] = tmp_path / given["path"]
    with pytest.raises(DesignError, match=told):
        ib.figure(found, **given)
    assert not list(tmp_path.iterdir())
