from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pandas as pd
import pytest

from infrabench import figures, tables
from infrabench.core import InfrabenchError
from infrabench.report import external_references, report
from infrabench.stats import estimates
from infrabench.tidy import tidy
from tests.analysis_fixtures import write_session


def notebook(path: Path, markdown: str = "# Question", executed: bool = True, output: str = "<b>1</b>") -> Path:
    code = nbformat.v4.new_code_cell("1", execution_count=1 if executed else None)
    if executed:
        code.outputs = [nbformat.v4.new_output("execute_result", data={"text/html": output}, execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown), code]), path)
    return path


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_report_is_whole_and_offline(tmp_path: Path) -> None:
    session = write_session(tmp_path / "runs" / "s 1", blocks=2, skip_last=3)
    table = tidy(session)
    cells = estimates(table)
    figure = figures.points(table, cells, "ftp", "total_s")
    figures.save(figure, tmp_path / "made" / "containers", "ftp", table, {}, caption="Times & <n>.")
    tables.save(tables.estimates_table(cells), tmp_path / "made", "cells")
    (tmp_path / "made" / "other.json").write_text("{}")
    page = notebook(tmp_path / "containers.ipynb", "# Q\n$x$ and [a link](https://example.org)")
    index = report(
        [page], tmp_path / "out", figures=tmp_path / "made", tables=tmp_path / "made", sessions=[session], title="A & B"
    )
    assert index == tmp_path / "out" / "index.html"
    text = index.read_text()
    assert "A &amp; B" in text
    assert "Times &amp; &lt;n&gt;." in text
    assert "the LXD daemon did not answer" in text
    assert f"{102 - 3} of 102 recorded" in text
    for made in (index, tmp_path / "out" / "containers.html"):
        assert external_references(made.read_text()) == []
    links = Links()
    links.feed(text)
    local = [link for link in links.found if not link.startswith("data:")]
    assert len(local) == 1 + 1 + 4 + 3
    for link in local:
        assert (index.parent / unquote(link)).exists(), link


def test_what_lies_in_the_report_is_not_copied(tmp_path: Path) -> None:
    shown = pd.DataFrame({"metric": ["a"]})
    tables.save(shown, tmp_path / "out" / "mine", "t")
    report([], tmp_path / "out", tables=tmp_path / "out" / "mine")
    assert not (tmp_path / "out" / "tables").exists()
    assert 'href="mine/t.csv"' in (tmp_path / "out" / "index.html").read_text()


def test_an_empty_report_says_so(tmp_path: Path) -> None:
    assert report([], tmp_path / "out").read_text().count("none") >= 4


@pytest.mark.parametrize(
    "output",
    [
        '<img src="https://example.org/a.png">',
        "<link rel=stylesheet href='//example.org/a.css'>",
        "<style>@import url(https://example.org/a.css)</style>",
        "<style>p{background:url('http://example.org/a.png')}</style>",
    ],
)
def test_a_page_that_would_load_from_elsewhere_is_refused(tmp_path: Path, output: str) -> None:
    with pytest.raises(InfrabenchError, match=r"would load (https?:)?//example\.org/a"):
        report([notebook(tmp_path / "n.ipynb", output=output)], tmp_path / "out")


@pytest.mark.parametrize(
    "script",
    [
        '<script src="https://example.org/a.js"></script>',
        '<script type="module">import m from "https://example.org/m.mjs"; m()</script>',
        '<script>import("https://example.org/m.mjs")</script>',
    ],
)
def test_remote_scripts_are_seen_and_dropped(tmp_path: Path, script: str) -> None:
    assert external_references(script)
    report([notebook(tmp_path / "n.ipynb", output=script)], tmp_path / "out")
    assert "example.org" not in (tmp_path / "out" / "n.html").read_text()


def test_links_and_data_are_not_loads() -> None:
    assert external_references('<a href="https://example.org">x</a>') == []
    assert external_references("/* see https://example.org/x */ p{}") == []


def test_a_notebook_that_was_not_executed_or_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InfrabenchError, match="was never executed"):
        report([notebook(tmp_path / "n.ipynb", executed=False)], tmp_path / "out")
    (tmp_path / "bad.ipynb").write_text("{")
    for name in ("bad.ipynb", "absent.ipynb"):
        with pytest.raises(InfrabenchError, match="cannot be read as a notebook"):
            report([tmp_path / name], tmp_path / "out")


def test_a_figure_of_an_earlier_run_is_left_out(tmp_path: Path) -> None:
    table = tidy(write_session(tmp_path / "s", blocks=2))
    figure = figures.points(table, estimates(table), "ftp", "total_s")
    for name in ("old", "new"):
        figures.save(figure, tmp_path / "made" / "containers", name, table, {}, caption=f"The {name} one.")
    figures.save(figure, tmp_path / "made" / "other", "old", table, {}, caption="Of another study.")
    for path in (tmp_path / "made").rglob("old.json"):
        os.utime(path, (1, 1))
    page = notebook(tmp_path / "containers.ipynb")
    ran = nbformat.read(page, 4)
    ran.metadata["papermill"] = {"start_time": "2020-01-01T00:00:00.000000+00:00"}
    nbformat.write(ran, page)
    text = report([page], tmp_path / "out", figures=tmp_path / "made").read_text()
    assert "The new one." in text
    assert "The old one." not in text
    assert "Of another study." in text
