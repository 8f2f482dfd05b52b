"""`ib.explore`: what a choice shows, in words and pictures; its controls, moved as a person moves them."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

from infrabench.analysis import results
from infrabench.analysis.figures import theme
from infrabench.analysis.results import Results
from infrabench.ledger import catalogue
from infrabench.notebook import explore
from infrabench.notebook.explore import VIEWS, Choice, show_choice
from tests.support.analysis_fixtures import MARGINS, results_of, table_of, write_session

pytestmark = pytest.mark.usefixtures("sketches")
WEB = Choice("web", "requests_per_s", "users=2000")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(write_session(tmp_path_factory.mktemp("s") / "one"), tmp_path_factory.mktemp("out"))


@pytest.fixture
def results_with(found: Results) -> Callable[..., Results]:
    """A function: system -> values by block (None: a failed trial), to the analysis of such a session."""

    def analyse(**values: list[float | None]) -> Results:
        return results.results({**found.data, "margins": MARGINS}, table_of(values), found.table.head(0), found.folder)

    return analyse


def test_without_a_front_end_it_is_the_first_primary_case_and_how_to_explore(found: Results) -> None:
    shown = explore.explore(found)
    assert shown is not None
    assert "In JupyterLab (make notebook, Run All Cells) this cell has controls" in shown.text
    assert "sysbench-cpu, threads=1: events in 1/s of every trial, by block" in shown.text
    assert "threads=1, docker: 0.9" in shown.text
    assert shown.html.count("data:image/png;base64") == 1
    assert not list(found.folder.rglob("*.p*"))  # no figure is written for it


@pytest.mark.parametrize("view", VIEWS)
def test_a_system_is_hidden_and_the_others_stay_as_they_were_analysed(view: str, found: Results) -> None:
    every = show_choice(found, replace(WEB, view=view))
    some = show_choice(found, replace(WEB, view=view, systems=("native", "lxc")))
    said = [line for line in every.text.splitlines() if line.startswith("- ")]
    assert [line for line in some.text.splitlines() if line.startswith("- ")] == [
        each for each in said if "lxc" in each
    ]
    assert "docker" in every.text
    assert "docker" not in some.text
    assert "data:image/png;base64" in some.html


def test_a_hidden_system_leaves_the_colours_of_the_others(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[list[str]]()
    assign = theme.assign_styles
    monkeypatch.setattr(theme, "assign_styles", lambda systems: [seen.append(list(systems)), assign(systems)][1])
    show_choice(found, replace(WEB, systems=("native", "lxc")))
    assert seen == [found.systems] * len(seen) != []


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (Choice("wbe"), "unknown workload 'wbe': did you mean web? known are: "),
        (Choice("web", "requests"), "unknown metric of web 'requests': "),
        (Choice("web", "requests_per_s", "users=1"), "unknown scenario of web requests_per_s 'users=1': "),
        (Choice(systems=("native", "dokcer")), "unknown system 'dokcer': did you mean docker? "),
        (Choice(view="blokcs"), "unknown view 'blokcs': did you mean blocks? "),
        (Choice(systems=()), "No system is chosen. This session has native, docker, lxc, lxd."),
        (replace(WEB, systems=("native",)), "no system is chosen that has a ratio to native."),
        (Choice("stream", systems=("docker",)), "docker failed: measure exited with 1: array too large."),
        (Choice("web", systems=("lxd",)), "no trial of lxd has a value of requests. None is recorded yet."),
    ],
)
def test_a_choice_that_cannot_be_shown_gets_a_sentence(wanted: Choice, sentence: str, found: Results) -> None:
    assert sentence in show_choice(found, wanted).text
    assert html.escape(sentence) in show_choice(found, wanted).html


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"native": [1.0, 2.0]}, "only native was measured, so there is no ratio; lxd not run: the LXD daemon did not"),
        ({"native": [1.0], "docker": [2.0]}, "not comparable (a single complete block: no interval)"),
        (
            {"native": [None, None], "docker": [None, None]},
            "has a value of any metric. Trials without a value, counted",
        ),
        ({"native": [None, None], "docker": [1.0, 2.0]}, "not comparable (no ok trial of native)"),
    ],
)
def test_sessions_with_little_in_them_say_so(
    values: dict[str, Any], sentence: str, view: str, results_with: Callable[..., Results]
) -> None:
    assert sentence in show_choice(results_with(**values), Choice(view=view)).text


def test_a_session_without_trials_says_so(results_with: Callable[..., Results]) -> None:
    nothing = results_with(native=[], docker=[])
    assert (
        show_choice(nothing, Choice()).text == "this session of containers has no trial yet: there is nothing to show."
    )


class Cell:
    """The outputs of an explorer's cell, and its controls by their names, as a front end has them."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def display(self, output: Any, **how: Any) -> Cell:
        self.outputs.append(output)
        return self  # the handle of the output that was shown last

    def update(self, output: Any) -> None:
        self.outputs[-1] = output

    @property
    def controls(self) -> dict[str, Any]:
        (bundle, _) = self.outputs
        waiting, found = [_instances[bundle["application/vnd.jupyter.widget-view+json"]["model_id"]]], {}
        while waiting:
            widget = waiting.pop()
            waiting += getattr(widget, "children", ())
            found[getattr(widget, "description", "") or type(widget).__name__] = widget
        return found

    def says(self, text: str) -> bool:
        """Tell whether the live view has a text; what is saved has to be the same."""
        live, saved = self.controls["HTML"].value, self.outputs[1].html
        shown = live.partition("</style>")[2].partition(">")[2].removesuffix("</div>")
        assert saved.endswith(f"{shown}</div>")
        return html.escape(text) in shown


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cell]:
    """A cell of JupyterLab, on a machine with the recorded sessions and one that cannot be read."""
    shown = Cell()
    monkeypatch.setattr(explore, "_is_watched", lambda: True)
    monkeypatch.setattr(explore, "display", shown.display)
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    yield shown
    ipywidgets.Widget.close_all()


def test_controls_follow_each_other_and_the_picture_that_is_saved_follows_them(found: Results, cell: Cell) -> None:
    assert explore.explore(found) is None
    assert cell.says("sysbench-cpu, threads=1: events in 1/s of every trial, by block")
    controls = cell.controls
    assert controls["Metric"].options == (("events (primary)", "events_per_s"),)
    controls["Workload"].value = "web"
    assert controls["Metric"].label == "requests (primary)"
    assert cell.says("web, users=1000: requests in 1/s")
    controls["Scenario"].value = "users=3000"
    controls["Metric"].value = "latency_p99_s"
    controls["ToggleButtons"].value = "order"
    assert cell.says("web, users=3000: ")
    assert cell.says("of every trial in executed order")
    assert cell.says("users=3000, docker: ")
    controls["docker"].value = False
    assert not cell.says("users=3000, docker: ")
    for name in ("native", "lxc", "lxd"):
        controls[name].value = False
    assert cell.says("No system is chosen.")
    assert cell.outputs[0]["text/plain"] == ""
    assert len(cell.outputs) == 2  # however much was chosen
    assert "this cell has controls" in cell.outputs[1].text


def test_a_wrong_name_leaves_controls_that_go_on(found: Results, cell: Cell) -> None:
    explore.explore(found, "wbe")
    assert cell.says("unknown workload 'wbe': did you mean web?")
    cell.controls["Workload"].value = "web"
    assert cell.says("web, users=1000: ")


def test_another_session_takes_the_place_of_the_notebooks_own(found: Results, cell: Cell, tmp_path: Path) -> None:
    write_session(tmp_path / "data/runs/cnis/other", blocks=3, faults=False)
    torn = write_session(tmp_path / "data/runs/cnis/torn", blocks=3)
    (torn / "plan.jsonl").write_text("{")
    explore.explore(found, "stream", view="ecdf")
    session = cell.controls["Study: session"]
    assert [label for label, _ in session.options] == ["containers: one (this notebook)", "cnis: other", "cnis: torn"]
    session.value = "other"
    assert cell.says("sysbench-cpu, threads=1: events in 1/s; higher is better. Share of trials")
    assert cell.says("n = 3 trials of each system")
    session.value = "torn"
    assert cell.says("plan.jsonl")
    assert not cell.says("Share of trials")
    assert cell.controls["Workload"].options == ()
    cell.controls["ToggleButtons"].value = "order"
    assert cell.says("plan.jsonl")
    session.value = ""
    assert cell.says("n = 10 docker, 10 lxc, 10 native.")


def test_an_error_leaves_no_figure_of_before(found: Results, cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    explore.explore(found)
    monkeypatch.setattr(explore, "figure", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cell.controls["ToggleButtons"].value = "forest"
    assert cell.says("This choice cannot be shown, by a mistake in the library")
    assert "data:image" not in cell.controls["HTML"].value
