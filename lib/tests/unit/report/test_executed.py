"""How far a notebook came, what it says, and that nothing of this machine is in it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from infrabench.publish.report.executed import make_path_filter, read
from tests.support.report_fixtures import notebook, shown

HOME = Path("/home/someone/infrabench")
PAPERMILL = {
    "papermill": {
        "input_path": f"{HOME}/notebooks/x.ipynb", "environment_variables": {"TOKEN": "planted-secret"},
        "start_time": "2026-01-01T00:00:00+00:00", "end_time": "2026-01-01T00:01:00+00:00",
    }
}  # fmt: skip


def test_a_whole_notebook_has_no_trouble(tmp_path: Path) -> None:
    found = read(notebook(tmp_path / "n.ipynb", shown(text="1"), metadata=PAPERMILL), str)
    assert (found.name, found.trouble, found.seen) == ("n", "", True)
    assert found.question == "Does it matter?"
    assert found.ended - found.began == 60


@pytest.mark.parametrize(
    ("executed", "error", "trouble"),
    [
        (0, None, "Never executed"),
        (2, None, "Interrupted: 2 of its 3 code cells were executed"),
        (2, ("KeyError", "'x'"), "Stopped at its code cell 1 of 3: KeyError: 'x'"),
        (2, ("NotRunnable", "no KVM here"), "Not run: no KVM here"),
    ],
)
def test_what_is_not_whole_says_how_far_it_came(
    tmp_path: Path, executed: int, error: tuple[str, str] | None, trouble: str
) -> None:
    outputs = [nbformat.v4.new_output("error", ename=error[0], evalue=error[1], traceback=["t"])] if error else []
    found = read(notebook(tmp_path / "n.ipynb", *outputs, executed=executed, cells=3), str)
    assert (found.trouble, found.seen) == (trouble, executed > 0)


@pytest.mark.parametrize("content", ["{", "[]", '{"cells": 1}', None])
def test_what_is_no_notebook_is_all_trouble(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "bad.ipynb"
    if content is not None:
        path.write_text(content)
    found = read(path, str)
    assert not found.seen
    assert found.trouble.startswith("Cannot be read as a notebook: ")


def test_paths_and_environment_of_the_machine_are_not_kept(tmp_path: Path) -> None:
    hide = make_path_filter({HOME: "", Path("/home/someone"): "~"})
    output = shown(text=f"{HOME}/data/runs/x is complete; see {HOME}; /home/someone/.ssh/id and /home/someoneelse")
    found = read(notebook(tmp_path / "n.ipynb", output, metadata=PAPERMILL), hide)
    text = nbformat.writes(found.node)
    assert found.node.cells[1].outputs[0].data["text/plain"] == (
        "data/runs/x is complete; see .; ~/.ssh/id and /home/someoneelse"
    )
    assert str(HOME) not in text
    assert "planted-secret" not in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\n/home/someone/infrabench/b", "a\nb"),
        ("\x1b[32m/home/someone/infrabench\x1b[39m", "\x1b[32m.\x1b[39m"),
        ("--out=/home/someone/infrabench/out", "--out=out"),
        ("'/home/someone'", "'~'"),
        ("/srv/home/someone/x /home/someone-else", "/srv/home/someone/x /home/someone-else"),
    ],
)
def test_a_path_is_hidden_wherever_it_begins(text: str, told: str) -> None:
    assert make_path_filter({HOME: "", Path("/home/someone"): "~"})(text) == told


def test_a_picture_that_looks_like_a_path_stays(tmp_path: Path) -> None:
    hide = make_path_filter({Path("/root"): "~", Path("/"): "never"})
    markup = '<img src="data:image/png;base64,AA/root/BB+/root//root" alt="in /root/x">'
    found = read(notebook(tmp_path / "n.ipynb", shown(html=markup)), hide)
    assert found.node.cells[1].outputs[0].data["text/html"] == markup.replace("in /root/x", "in ~/x")
