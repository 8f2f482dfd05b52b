"""Notebooks: thin, without outputs, and they run from top to bottom on the recorded sessions, numbers included."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd
import pytest

import infrabench as ib
from infrabench.notebook import headless
from tests.support import sidecars
from tests.support.places import PLATFORMS, ROOT, SELFCHECK

pytestmark = pytest.mark.timeout(600)  # a notebook takes half a minute, and minutes beside the work of others

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STUDIES = ["containers", "cnis", "runtimes", "storage"]
FORBIDDEN = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.For, ast.While)
NOT_HERE = {"subprocess", "os", "re", "fabric", "time", "warnings"}


def test_there_is_a_notebook_for_every_study() -> None:
    assert {path.stem for path in NOTEBOOKS} >= set(STUDIES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_prose_with_thin_cells(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert sum(cell.cell_type == "markdown" for cell in cells) * 2 >= len(code)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1
    for cell in code:
        assert len(cell.source.splitlines()) <= 20
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, FORBIDDEN), cell.source
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not {name.split(".")[0] for name in names} & NOT_HERE, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_prose_types_no_result(path: Path) -> None:
    """A percentage, a decimal number or a number with a unit in prose would have been typed; levels are convention."""
    prose = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"]
    text = re.sub(r"`[^`]*`", "", "\n".join(prose))  # names and parameters
    typed = re.findall(r"\d+[.,]\d+|\d+\s*(?:%|ms|s|KiB|MiB|GiB|MB|GB|Mbit/s|MB/s)\b|\d+\s*%", text)
    assert set(typed) <= {"90 %", "95 %", "99.9"}, typed


class Executed(NamedTuple):
    """A notebook that papermill has executed: what its cells put out, and the folder of its figures and tables."""

    html: str
    text: str
    folder: Path


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Executed]]:
    """Execute a notebook on its recorded sessions when the first test asks for it, as if no platforms were installed.

    Only the validation has the package that checks the suite.
    """
    start = tmp_path_factory.mktemp("start") / "sitecustomize.py"  # what Python imports before anything else

    @cache
    def execute(name: str) -> Executed:
        folder = tmp_path_factory.mktemp(name)
        absent = [PLATFORMS.name] if name == "validation" else [PLATFORMS.name, SELFCHECK.name]
        start.write_text(f"import sys\nsys.modules |= dict.fromkeys({absent})\n")
        given = {"out": str(folder)} | ({"simulations": "none"} if name == "validation" else {})
        made = headless.execute(ROOT / f"notebooks/{name}.ipynb", folder / f"{name}.ipynb", given)
        outputs = [output for cell in nbformat.read(made, 4).cells for output in cell.get("outputs", [])]
        assert not [output for output in outputs if output.output_type == "error"]
        html, text = ("\n".join(str(output.get("data", {}).get(f"text/{kind}", "")) for output in outputs)
                      for kind in ("html", "plain"))  # fmt: skip
        return Executed(html, text, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(start.parent), prepend=os.pathsep)
        yield execute


@pytest.mark.parametrize("study", STUDIES)
def test_papermill_runs_it_on_the_recorded_session(study: str, executed: Callable[[str], Executed]) -> None:
    made = executed(study)
    assert made.html.count("data:image/png;base64") >= 5
    assert len(list((made.folder / "figures" / study).glob("*.pdf"))) >= 5
    assert (made.folder / "tables" / study / "results.tex").exists()
    sidecars.compare(made.folder / "figures", study)


def test_the_recorded_cnis_prove_their_path_and_stand_beside_the_paper(executed: Callable[[str], Executed]) -> None:
    session = ib.run_or_load(ib.request("cnis", profile="quick"), mode="load")
    paths, able = ib.paths_table(session), ib.capabilities_table(session)
    assert (paths["ok"] == paths["checked"]).all()
    assert {"flannel", "cilium"} <= set(paths["system"])
    across = paths[paths["scenario"].str.endswith("two-nodes") & paths["system"].isin(["flannel", "cilium"])]
    assert across["on the nodes"].str.contains("flannel.1|cilium_vxlan").all()
    assert able.loc["network_policy", "cilium"].startswith("enforced")
    assert able.loc["network_policy", "flannel"].startswith("not enforced")
    assert not ib.validity_table(session)["missing"].any()
    assert "16.2 Gbits/sec" in (executed("cnis").folder / "tables/cnis/published.md").read_text()


def test_papermill_runs_the_validation_on_the_recorded_sessions(executed: Callable[[str], Executed]) -> None:
    made = executed("validation")
    assert made.html.count("data:image/png;base64") >= 3
    assert "contains the truth" in made.html
    assert "different when swapped" in made.html
    sidecars.compare(made.folder / "figures", "containers-aa", "known-effects")


def test_papermill_runs_the_recorded_campaign_and_finds_the_planted_difference(
    executed: Callable[[str], Executed],
) -> None:
    made = executed("sites")
    assert "One machine measured as rack-a and rack-b and rack-c" in made.text
    over = pd.read_csv(made.folder / "tables/racks-containers/sites-heterogeneity.csv", keep_default_na=False)
    over = over[over["workload"] == "sysbench-cpu"].set_index(["metric", "scenario"])
    # Its containers have one and a half of two processors: nothing to one thread, a quarter of the rate to more.
    assert "rack-c" not in over.loc[("events_per_s", "threads=1"), "named"]
    for scenario in ("threads=2", "threads=4"):
        assert over.loc[("events_per_s", scenario), "across"] == "differs between sites"
        assert float(over.loc[("events_per_s", scenario), "p_sites"]) < 1e-6
        assert "rack-c" in over.loc[("events_per_s", scenario), "named"]
    sidecars.compare(made.folder / "figures", "racks-containers")
