"""What a notebook shows of a running session: in place, not too often, and never at the price of the session."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from infrabench import registry
from infrabench.core import Interrupted
from infrabench.ledger.records import recorded
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import live
from tests.support.analysis_fixtures import write_session
from tests.support.fakes import PLUGINS, run_session

Shelf = list[list[Any]]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """What is displayed, by the place where it stands."""
    places: Shelf = []

    def display(what: Any, display_id: bool) -> SimpleNamespace:
        assert display_id
        places.append([what])
        return SimpleNamespace(update=places[-1].append)

    monkeypatch.setattr(live, "display", display)
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    return places


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROGRESS_S", "ESTIMATES_S"):
        monkeypatch.setattr(live, name, 0.0)
    monkeypatch.setattr(live, "SHARE", 1e9)


def run(folder: Path, **more: Any) -> Path:
    with live.shown("fakes tiny") as step:
        return run_session(registry.study("fakes"), folder, on_progress=step, **more)


@pytest.mark.usefixtures("often")
def test_progress_and_estimates_have_one_place_each_and_are_drawn_as_blocks_end(shelf: Shelf, tmp_path: Path) -> None:
    run(tmp_path / "s")
    assert len(shelf) == 2
    told = [*map(repr, shelf[0])]
    assert len(told) == 14  # the start, twelve trials, the end
    assert told[0].startswith("fakes tiny: 0 of 12 trials, block 1 of 3, about ")
    assert re.search(r"12 of 12 trials, block 3 of 3, done after \d+ s$", told[-1])
    drawn = [*map(repr, shelf[1])]
    assert len(drawn) == 4  # three blocks, and then nothing: the notebook goes on with the estimates themselves
    assert [each.count("fake-other") for each in drawn] == [2, 2, 2, 0]
    assert "without test or verdict" in drawn[0]
    assert "verdict" not in drawn[-1]
    pages = [each._repr_html_() for each in shelf[1]]
    assert "data:image/png;base64" in pages[2]
    assert max(map(len, pages)) < 150_000


def test_it_is_not_drawn_at_every_trial(shelf: Shelf, tmp_path: Path) -> None:
    run(tmp_path / "s")
    assert len(shelf[0]) <= 3
    assert len(shelf[1]) <= 3


def test_an_interrupt_before_the_first_trial_says_so(shelf: Shelf) -> None:
    with pytest.raises(Interrupted, match=r"^no trial is recorded, "), live.shown("a"):
        raise KeyboardInterrupt
    assert shelf == []


@pytest.mark.usefixtures("often")
def test_a_drawing_that_fails_ends_no_session(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(stored: SessionFolder) -> None:
        raise ValueError("no such colour")

    monkeypatch.setattr(live, "estimates", broken)
    assert len(recorded(run(tmp_path / "s"))) == 12
    assert caplog.text.count("the session goes on without them") == 1
    assert "12 of 12 trials" in repr(shelf[0][-1])


def test_a_large_session_is_drawn_small(tmp_path: Path) -> None:
    """The primary metrics of a session with as many trials as `quick` has; the picture stays one of a screen."""
    made = write_session(tmp_path / "s", blocks=30)
    shown = live.estimates(SessionFolder(made))
    assert shown._repr_html_().count("<img") == 1
    assert len(shown._repr_html_()) < 200_000
    assert repr(shown).count("\n| web |") == 8 * 3


FLOOD = """
from infrabench.notebook import live
from infrabench.experiment.execution.progress import Progressed
live.PROGRESS_S = 0.0
with live.shown("flood") as step:
    for done in range(500):
        step(Progressed(done, 500, 60.0, {"failed": done}, None))
"""
AGAIN = """
from pathlib import Path
from infrabench.ledger.session_folder import SessionFolder
board = live._Board("again")
for _ in range(4):
    board.place("estimates", live.estimates(SessionFolder(Path(FOLDER))))
"""


def test_a_saved_notebook_holds_the_last_drawing_alone(tmp_path: Path) -> None:
    """In a real kernel, drawn as often as can be, and saved by who executes notebooks without a browser."""
    made = write_session(tmp_path / "s", blocks=3)
    cells = [nbformat.v4.new_code_cell(text) for text in (FLOOD, AGAIN.replace("FOLDER", repr(str(made))))]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    flood, again = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in (*flood, *again)] == ["display_data", "display_data"]
    assert "499 of 500 trials" in flood[0].data["text/plain"]
    assert len(str(flood)) < 2_000
    assert again[0].data["text/html"].count("<img") == 1
    assert len(nbformat.writes(notebook)) < 150_000
