"""The cell with controls in JupyterLab: moved by a person, with nothing from a network, and what is saved of it."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Page, Request

from tests.browser import lab_pages
from tests.browser.lab_pages import Server

pytestmark = [pytest.mark.timeout(300)]
NAME = "notebooks/look.ipynb"
FIGURE = ".jupyter-widgets img"
LOAD_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a notebook that has of a study's the parameters, the session, its results, and the cell."""
    home = lab_pages.a_home(tmp_path_factory.mktemp("lab") / "home")
    notebook = nbformat.read(home / "notebooks/containers.ipynb", 4)
    wanted = ("import", "ib.request(", "ib.run_or_load(", "ib.results(", "ib.explore(", "mode = ")
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code" and any(
        each in cell.source for each in wanted
    )]  # fmt: skip
    for cell in notebook.cells:
        cell.source = cell.source.replace("ib.answer(results)", "")
    nbformat.write(notebook, home / NAME)
    with lab_pages.serving(home) as running:
        yield running


@pytest.fixture
def page(server: Server) -> Iterator[Page]:
    with lab_pages.browsing(server.home / "browser") as context:
        yield context.new_page()


def shows(page: Page, text: str) -> None:
    """Wait until the caption of the live figure has a text."""
    page.wait_for_selector(f'.jupyter-widgets figcaption:has-text("{text}")', timeout=1000 * LOAD_S)


def choose(page: Page, control: str, option: str) -> None:
    page.select_option(f'.widget-dropdown:has-text("{control}") select', label=option)


def test_a_reader_chooses_and_the_notebook_keeps_the_last_picture(server: Server, page: Page) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    lab_pages.opened(page, server, NAME)
    lab_pages.run_all(page)
    shows(page, "sysbench-cpu, threads=1: events in 1/s of every trial, by block")
    assert page.locator(".jp-OutputArea img:visible").count() == 1  # the one that is saved is not seen twice
    choose(page, "Workload", "web")
    shows(page, "web, users=1000: requests in 1/s of every trial, by block")
    choose(page, "Scenario", "users=2000")
    page.click('button:has-text("Order of trials")')
    shows(page, "web, users=2000: requests in 1/s of every trial in executed order")
    page.click('.widget-checkbox:has-text("lxd") input')
    shows(page, "n = 30 docker, 30 lxc, 30 native.")
    page.click('button:has-text("Ratio with interval")')
    shows(page, "Ratio of means to native over 30 blocks")
    choose(page, "Study: session", "cnis: lab-quick-2026-11-cnis")
    shows(page, "Ratio of means to flannel")
    page.click('button:has-text("Distribution")')
    shows(page, "iperf3, tcp plain two-nodes: throughput in Gbit/s")
    assert page.evaluate(f"document.querySelector('{FIGURE}').naturalWidth") > 1000
    saved = lab_pages.finished(page, server, NAME, timeout_s=LOAD_S)
    assert not lab_pages.errors(saved)
    controls, picture = saved.cells[-1].outputs
    assert list(controls.data) == ["application/vnd.jupyter.widget-view+json", "text/plain"]
    assert picture.data["text/html"].count("data:image/png") == 1
    assert "iperf3, tcp plain two-nodes: throughput in Gbit/s" in picture.data["text/plain"]
    assert "widgets" not in saved.metadata  # the state of the controls
    assert not [url for url in asked if not url.startswith((server.url, "data:", "blob:"))]
    # The page anew, with the same kernel: the controls are there, and still lead.
    page.reload()
    page.wait_for_selector(lab_pages.READY, timeout=90_000)
    page.click('button:has-text("Values by block")')
    shows(page, "by block")
    assert page.locator(".jp-OutputArea img:visible").count() == 1
