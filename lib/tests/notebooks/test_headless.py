from __future__ import annotations

import subprocess
import sys

import nbformat
import pytest

from infrabench import cli
from infrabench.core import DesignError, InfrabenchError
from infrabench.notebook import headless


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    monkeypatch.delenv(headless.HEADLESS, raising=False)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    made.cells = [
        nbformat.v4.new_markdown_cell("# A title"),
        nbformat.v4.new_code_cell("runs = 1\nsystems = None", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("import os\nprint(runs, systems, os.path.basename(os.getcwd()))\nassert runs != 13"),
    ]
    path = tmp_path / "source" / "study.ipynb"
    path.parent.mkdir()
    nbformat.write(made, path)
    return path


def test_a_parameter_that_the_notebook_has_not_is_refused(notebook, tmp_path):
    with pytest.raises(DesignError, match=r"unknown parameter of study.ipynb 'run': did you mean runs"):
        headless.execute(notebook, tmp_path / "out.ipynb", {"run": 3})
    assert not (tmp_path / "out.ipynb").exists()


def test_a_notebook_is_executed_in_its_own_folder(notebook, tmp_path):
    out = headless.execute(notebook, tmp_path / "out" / "study.ipynb", {"runs": 3, "systems": ["native"]})
    text = "".join(o.get("text", "") for c in nbformat.read(out, 4).cells for o in c.get("outputs", []))
    assert text.strip() == "3 ['native'] source"


@pytest.mark.parametrize("spelled", ["out.ipynb", "./x/../out.ipynb", "link.ipynb"])
def test_of_two_runs_into_one_file_the_second_is_refused(notebook, tmp_path, monkeypatch, spelled):
    """Whatever the second calls that file; nothing of the first is touched, and a run that has ended refuses nobody."""
    (tmp_path / "x").mkdir()
    (tmp_path / "link.ipynb").symlink_to("out.ipynb")
    texts = []

    def second(*_args, **_more):
        (tmp_path / "out.ipynb").write_text("of the first")
        with pytest.raises(InfrabenchError, match="is being written by another run"):
            headless.execute(notebook, tmp_path / spelled, {"runs": 5})
        texts.append((tmp_path / "out.ipynb").read_text())

    monkeypatch.setenv(headless.HEADLESS, "1")
    monkeypatch.setattr(headless.papermill, "execute_notebook", second)
    for _ in range(2):
        headless.execute(notebook, tmp_path / "out.ipynb", {"runs": 4})
    assert texts == ["of the first"] * 2
    with pytest.raises(DesignError, match="cannot be written: Is a directory"):
        headless.execute(notebook, tmp_path / "x", {})


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("python3 /usr/bin/papermill in.ipynb out.ipynb -p mode run -p runs 30", "out.ipynb"),
        ("python3 -m papermill -p runs 30 --log-output in.ipynb a/out.ipynb", "a/out.ipynb"),
        ("python3 /usr/bin/papermill in.ipynb", None),
        ("python3 /usr/bin/papermill in.ipynb -", None),
        ("python3 /usr/bin/papermill in.ipynb s3://bucket/out.ipynb", None),
        ("python3 /usr/bin/jupyter-lab in.ipynb out.ipynb", None),
        ("python3 my-campaign in.ipynb out.ipynb", None),
        ("", None),
    ],
)
def test_what_a_papermill_command_writes_is_read_off_its_arguments(words, out):
    assert headless.output_of(words.split()) == out


def test_of_two_papermill_commands_into_one_file_one_fails_and_the_other_s_result_is_there(notebook, tmp_path):
    """The first waits in its cell until the second, which its cell starts, has ended."""
    made, out = nbformat.read(notebook, 4), tmp_path / "out.ipynb"
    second = [sys.executable, "-m", "papermill", str(notebook), str(out), "--no-progress-bar", "-p", "runs", "2"]
    made.cells[2].source = (
        "import subprocess\nfrom infrabench.notebook import headless\nheadless.claim_output()\n"
        f"if runs == 1:\n    print('second:', subprocess.run({second}, capture_output=True).returncode)"
    )
    nbformat.write(made, notebook)
    first = [sys.executable, "-m", "papermill", str(notebook), "out.ipynb", "--no-progress-bar"]
    assert subprocess.run(first, cwd=tmp_path, capture_output=True).returncode == 0
    cells = nbformat.read(out, 4).cells
    assert [text for cell in cells for text in (o.get("text") for o in cell.get("outputs", []))] == ["second: 1\n"]


def test_a_cell_that_fails_is_named_and_the_notebook_kept(notebook, tmp_path):
    with pytest.raises(InfrabenchError, match=r"study.ipynb, cell 3, failed: AssertionError"):
        headless.execute(notebook, tmp_path / "out.ipynb", {"runs": 13})
    assert (tmp_path / "out.ipynb").exists()


def test_what_was_shown_is_on_disk_while_a_cell_runs_and_kept_when_the_kernel_dies(notebook, tmp_path):
    made, out = nbformat.read(notebook, 4), tmp_path / "out.ipynb"
    made.cells.append(nbformat.v4.new_markdown_cell("More"))
    copied = f"import shutil; shutil.copy({str(out)!r}, {str(tmp_path / 'copy.ipynb')!r}); os._exit(1)"
    made.cells.append(nbformat.v4.new_code_cell(copied))
    nbformat.write(made, notebook)
    with pytest.raises(InfrabenchError, match=r"study.ipynb did not finish: Kernel died"):
        headless.execute(notebook, out, {})
    for path in (tmp_path / "copy.ipynb", out):
        cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert [output["text"] for cell in cells for output in cell.outputs] == ["1 None source\n"]
    assert nbformat.read(tmp_path / "copy.ipynb", 4).cells[-1].metadata.papermill["status"] == "running"


def test_a_study_that_its_site_cannot_run_at_all_is_not_a_failure_but_not_run(notebook, tmp_path, capsys):
    made = nbformat.read(notebook, 4)
    reason = "raise NotRunnable('no machines for a cluster')"
    made.cells.append(nbformat.v4.new_code_cell(f"from infrabench.core import NotRunnable\n{reason}"))
    nbformat.write(made, notebook)
    assert cli.main(["notebook", "run", str(notebook), str(tmp_path / "out.ipynb")]) == cli.NOT_RUN
    assert "study is not run: no machines for a cluster" in capsys.readouterr().err


def test_a_file_that_is_no_notebook_is_refused(tmp_path):
    nameless = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("n = 1", metadata={"tags": ["parameters"]})])
    for text in ("{", nbformat.writes(nameless)):
        (tmp_path / "bad.ipynb").write_text(text)
        with pytest.raises(DesignError, match="is not a notebook that names its kernel"):
            headless.execute(tmp_path / "bad.ipynb", tmp_path / "out.ipynb", {})


@pytest.mark.parametrize(
    ("text", "value"), [("30", 30), ("true", True), ('["a"]', ["a"]), ("lab", "lab"), ("2.5", 2.5), ("null", None)]
)
def test_values_are_json_or_text(text, value):
    assert headless.value(text) == value


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 10_000, '{"a":', ""], ids=["deep", "long", "half", "none"])
def test_what_is_no_json_that_can_be_read_is_text(text):
    assert headless.value(text) == text
