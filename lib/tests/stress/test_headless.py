"""Two notebooks that are executed at once, by two processes."""

from __future__ import annotations

import subprocess
import sys

import nbformat

from infrabench.notebook import headless
from tests.notebooks import test_headless

notebook = test_headless.notebook  # the fixture of the module beside it in the gate


def test_two_at_once_do_not_speak_with_each_others_kernel(notebook, tmp_path, monkeypatch):
    monkeypatch.delenv(headless.HEADLESS, raising=False)
    made = nbformat.read(notebook, 4)
    made.cells[2].source = "import time; time.sleep(2); print(runs)"
    nbformat.write(made, notebook)
    argv = [sys.executable, "-m", "infrabench.cli", "notebook", "run", str(notebook)]
    both = [subprocess.Popen([*argv, str(tmp_path / f"{n}.ipynb"), "-p", "runs", str(n)]) for n in (4, 5)]
    assert [child.wait(120) for child in both] == [0, 0]
    for n in (4, 5):
        cells = nbformat.read(tmp_path / f"{n}.ipynb", 4).cells
        assert "".join(o.get("text", "") for c in cells for o in c.get("outputs", [])).strip() == str(n)
    assert [path.name for path in notebook.parent.iterdir()] == ["study.ipynb"]
