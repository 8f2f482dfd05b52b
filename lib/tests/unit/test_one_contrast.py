"""The cells that work one contrast through: the table's numbers to the last digit, on whatever session is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

import infrabench as ib
from infrabench.analysis.results import Results, results
from infrabench.core import DesignError
from infrabench.notebook.api import OTHERWISE
from infrabench.publish.report import executed
from tests.support.analysis_fixtures import SYSTEMS, results_of, write_session
from tests.support.places import ROOT

STUDIES = ("containers", "cnis", "runtimes", "storage")
CHOICE = "ib.choose_contrast(results)"


def prose_and_code(study: str) -> tuple[str, list[str]]:
    """Return what is written of the contrast in a notebook, and its cells of code."""
    cells = nbformat.read(ROOT / f"notebooks/{study}.ipynb", 4).cells
    start = next(i for i, cell in enumerate(cells) if cell.source.startswith("## One contrast"))
    end = next(i for i, cell in enumerate(cells) if i > start and cell.source.startswith("## "))
    chosen = cells[start:end]
    return "\n\n".join(each.source for each in chosen if each.cell_type == "markdown"), [
        each.source for each in chosen if each.cell_type == "code"
    ]


def work_through(study: str, session: Results, choice: str = CHOICE) -> dict[str, Any]:
    """Execute the cells of a notebook with the choice of another contrast; return their names."""
    found: dict[str, Any] = {"ib": ib, "results": session}
    for cell in prose_and_code(study)[1]:
        exec(cell.replace(CHOICE, choice), found)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A session with a failed system, an invalid trial, counts and rates of fixed work."""
    folder = write_session(tmp_path_factory.mktemp("s") / "s", blocks=9, systems=SYSTEMS, not_run={})
    return results_of(folder, folder / "out")


@pytest.fixture(scope="module")
def deployed(found: Results) -> Results:
    data = {**found.data, "primary": [["web", "total_s"]]}
    table = found.table.assign(deployment=found.table["block"] // 3)
    return results(data, table, found.table[:0], found.folder)


@pytest.fixture(params=("blocks", "deployments"))
def either(request: pytest.FixtureRequest, found: Results, deployed: Results) -> Results:
    return found if request.param == "blocks" else deployed


def test_every_contrast_of_a_kind_that_can_be_worked_through_is_that_of_the_table(either: Results) -> None:
    worked = 0
    some = either.contrasts.iloc[::3]
    for row in some.itertuples():
        names = (row.workload, row.metric, row.scenario, row.system)
        choice = f"ib.choose_contrast(results, {', '.join(map(repr, names))})"
        try:
            ib.choose_contrast(either, *names)
        except DesignError:
            continue
        here = work_through("containers", either, choice)
        alike = here["alike"]
        ends = (alike.interval.low, alike.interval.high, alike.p, here["adjusted"], str(here["verdict"]))
        assert (here["ratio"], here["low"], here["high"], len(here["pairs"]), *ends) == (
            row.ratio, row.ratio_low, row.ratio_high, row.n_pairs, row.equivalence_low, row.equivalence_high,
            row.p_equivalence, row.p_equivalence_adjusted, row.verdict,
        ), names  # fmt: skip
        worked += 1
    assert worked > len(some) / 2


@pytest.mark.parametrize("study", STUDIES)
def test_the_cells_of_a_notebook_end_in_the_verdict_of_the_first_primary_contrast(study: str, found: Results) -> None:
    assert len(prose_and_code(study)[1]) == 5
    here = work_through(study, found)
    contrast = here["contrast"]
    assert [contrast.workload, contrast.metric] == list(found.data["primary"][0])
    assert str(here["verdict"]) == found.contrasts.loc[contrast.Index, "verdict"]
    assert here["ratio"] == found.contrasts.loc[contrast.Index, "ratio"]


@pytest.mark.parametrize("study", STUDIES)
def test_a_session_without_a_second_system_is_worked_through_to_nothing(study: str, found: Results) -> None:
    alone = replace(found, contrasts=found.contrasts[:0], data=found.data | {"systems": ["native"]})
    here = work_through(study, alone)
    assert str(here["verdict"]) == "not comparable"
    assert here["pairs"].empty
    assert "nothing to compare native with" in here["contrast"].reason


def test_what_is_made_otherwise_is_refused_with_the_reason_and_a_wrong_name_with_the_right_ones(found: Results) -> None:
    with pytest.raises(DesignError, match=OTHERWISE["count"]):
        ib.choose_contrast(found, "web", "failed_requests")
    with pytest.raises(DesignError, match=r"stream, docker cannot be worked through: .*no ok trial of docker"):
        ib.choose_contrast(found, "stream", system="docker")
    with pytest.raises(DesignError, match=r"unknown system 'lxe': .*known are: docker, lxc, lxd"):
        ib.choose_contrast(found, system="lxe")


@pytest.mark.parametrize("study", STUDIES)
def test_each_function_of_the_cells_leads_to_its_description_and_that_to_its_source(study: str) -> None:
    prose, code = prose_and_code(study)
    links = dict(re.findall(r"\[`(\w+)`\]\(\.\./docs/verdicts\.md#(\w+)\)", prose))
    assert list(links) == ["choose_contrast", "pair_blocks", "paired_fieller", "ratio_equivalence", "holm", "decide"]
    guide = (ROOT / "docs/verdicts.md").read_text()
    for name, anchor in links.items():
        assert name == anchor
        assert f"{name}(" in "".join(code)
        part = guide.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        source = re.search(r"\[Source\]\(\.\./(\S+)\)", part)
        assert source, name
        assert f"def {name}(" in (ROOT / source[1]).read_text()


def test_a_report_leads_to_no_page_of_the_checkout(tmp_path: Path) -> None:
    cell = nbformat.v4.new_markdown_cell("See [`holm`](../docs/verdicts.md#holm), or [a site](https://example.org).")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "n.ipynb")
    (shown,) = executed.read(tmp_path / "n.ipynb", str).node.cells
    assert shown.source == "See `holm`, or [a site](https://example.org)."
