"""JupyterLab in a real browser: first page, every study as recorded, a run that is stopped and goes on, choices."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from playwright.sync_api import BrowserContext, Page

from infrabench.ledger.records import read_trials, recorded, verify
from tests.browser import lab_pages
from tests.browser.lab_pages import ROOT, Server
from tests.support.machine_noise import is_carried_out

NewPage = Callable[[], Page]
pytestmark = [pytest.mark.timeout(300)]
STUDIES = [name for name in ("containers", "cnis", "runtimes", "storage") if (ROOT / "data/recorded" / name).is_dir()]
FIGURES = 5  # every study has more; the test of its numbers is elsewhere
LOAD_S = 170.0
EXPLORED = "notebooks/look.ipynb"
CHOICE_S = 60.0
BLOCKS = 24  # a minute: a page of a busy machine is slow, and has to be looked at and stopped before the end
LIVE = {
    "mode": "run", "profile": "smoke", "runs": BLOCKS, "systems": ["native"], "workloads": ["sysbench-cpu"],
    "site": "local", "session": "stopped",
}  # fmt: skip


def write_explored(home: Path) -> None:
    """Write a notebook that has of a study's the parameters, the session, its results, and the cell with controls."""
    notebook = nbformat.read(home / "notebooks/containers.ipynb", 4)
    wanted = ("import", "ib.request(", "ib.run_or_load(", "ib.results(measured", "ib.explore(", "mode = ")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [cell for cell in code if any(each in cell.source for each in wanted)]
    for cell in notebook.cells:
        cell.source = cell.source.replace("ib.answer(results)", "")
    nbformat.write(notebook, home / EXPLORED)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = lab_pages.a_home(tmp_path_factory.mktemp("lab") / "home")
    write_explored(home)
    with lab_pages.serving(home) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[BrowserContext]:
    with lab_pages.browsing(server.home / "browser") as context:
        yield context


@pytest.fixture
def page_of(browser: BrowserContext) -> Iterator[NewPage]:
    """A function that opens a page; what a test leaves open, also a failed one, is not there for the next."""
    yield browser.new_page
    for page in browser.pages[1:]:  # the first is the window itself
        page.close()


def test_nobody_gets_in_without_the_token_or_from_another_machine(server: Server) -> None:
    for query in ("", "?token=", "?token=guess"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.url}api/contents{query}", timeout=10)
        assert refused.value.code == 403
    with urllib.request.urlopen(f"{server.url}api/contents?token={server.token}", timeout=10) as answer:
        assert json.load(answer)["type"] == "directory"
    assert len(server.token) >= 40
    processes = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
    listening = {
        each.laddr.ip for one in processes for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_the_first_page_lists_studies_systems_and_sessions(server: Server, page_of: NewPage) -> None:
    page = lab_pages.opened(page_of(), server, "out/start/start.ipynb")
    for study in STUDIES:
        page.wait_for_selector(f'.jp-RenderedHTML a:text-is("{study}")')
    page.wait_for_selector('.jp-RenderedHTML td:text-is("lab-quick-debian13-containers")')
    page.wait_for_selector('.jp-RenderedHTML td:has-text("containerd-kata")')
    assert not page.query_selector(".jp-OutputArea-output[data-mime-type*=error]")
    page.click('.jp-RenderedHTML a:text-is("containers")')
    page.wait_for_selector('.lm-TabBar-tab.lm-mod-current:has-text("containers.ipynb")')
    page.close()


def test_every_study_shows_its_recorded_session(server: Server, page_of: NewPage) -> None:
    """All are started before the first is looked at: they share the processors."""
    pages = {study: lab_pages.opened(page_of(), server, f"notebooks/{study}.ipynb") for study in STUDIES}
    for page in pages.values():
        page.bring_to_front()
        lab_pages.run_all(page)
    for study, page in pages.items():
        page.bring_to_front()
        saved = lab_pages.finished(page, server, f"notebooks/{study}.ipynb", timeout_s=LOAD_S)
        assert not lab_pages.errors(saved)
        shown = lab_pages.images(page)
        assert len(shown) >= FIGURES
        assert all(width > 300 and len(alt) > 40 for alt, width in shown.items()), shown
        page.close()


def shows(page: Page, text: str) -> None:
    """Wait until the caption of the live figure has a text."""
    page.wait_for_selector(f'.jupyter-widgets figcaption:has-text("{text}")', timeout=1000 * CHOICE_S)


def choose(page: Page, control: str, option: str) -> None:
    page.select_option(f'.widget-dropdown:has-text("{control}") select', label=option)


def test_a_reader_chooses_and_the_notebook_keeps_the_last_picture(server: Server, page_of: NewPage) -> None:
    asked: list[str] = []
    page = page_of()
    page.on("request", lambda request: asked.append(request.url))
    lab_pages.opened(page, server, EXPLORED)
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
    choose(page, "Study: session", "cnis: lab-quick-debian13-cnis")
    shows(page, "Ratio of means to flannel")
    page.click('button:has-text("Distribution")')
    shows(page, "iperf3, tcp plain two-nodes: throughput in Gbit/s")
    assert page.evaluate("document.querySelector('.jupyter-widgets img').naturalWidth") > 1000
    saved = lab_pages.finished(page, server, EXPLORED, timeout_s=CHOICE_S)
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


@pytest.mark.timeout(600)  # its own waits, which say what was there, end first
def test_a_run_is_watched_stopped_and_goes_on(server: Server, page_of: NewPage) -> None:
    name = "notebooks/live.ipynb"
    notebook = nbformat.read(server.home / "notebooks/containers.ipynb", 4)
    cell = next(each for each in notebook.cells if "parameters" in each.metadata.get("tags", []))
    cell.source += "\n" + "\n".join(f"{key} = {value!r}" for key, value in LIVE.items())
    nbformat.write(notebook, server.home / name)
    folder = server.home / "data/runs/containers/stopped"
    page = lab_pages.opened(page_of(), server, name)
    lab_pages.run_all(page)
    lab_pages.until((folder / "trials").is_dir, page, server, timeout_s=150)
    # Trials that the machine spoilt are repeated: there may be more than one for each block.
    far = rf"containers smoke: \d+ of \d+ trials, block \d+ of {BLOCKS}, about .* left, until \d\d:\d\d"
    lab_pages.sought(page, ".jp-OutputArea-output progress ~ b", far, timeout_s=60)
    lab_pages.sought(page, ".jp-OutputArea-output:has(h4) td", "sysbench-cpu", timeout_s=60)
    stop = f'{lab_pages.PANEL} [title^="Interrupt the kernel"]'  # tabs of other notebooks may be there, out of sight
    page.click(stop)
    page.click(stop)  # as impatient people do
    (told,) = lab_pages.errors(lab_pages.finished(page, server, name, timeout_s=60))
    assert re.search(r"\d+ of \d+ trials are recorded, and the systems are taken down. Run this cell again", told)
    assert "Traceback" not in told
    first = {each: (folder / "trials" / each / "trial.json").read_bytes() for each in recorded(folder)}
    assert first
    assert not Path("/sys/class/net/infrabench1").exists()
    lab_pages.run_all(page)
    saved = lab_pages.finished(page, server, name, timeout_s=180)
    assert not lab_pages.errors(saved)
    assert verify(folder) == []
    records = read_trials(folder)
    assert {record.trial.block for record in records} == set(range(BLOCKS))
    assert [record.reason for record in records if not is_carried_out(record)] == []
    assert {each: (folder / "trials" / each / "trial.json").read_bytes() for each in first} == first
    ran = next(each for each in saved.cells if "run_or_load" in each.source)
    assert len(nbformat.writes(nbformat.v4.new_notebook(cells=[ran]))) < 20_000
    told = [str(output.get("data", {}).get("text/plain", "")) for output in ran.outputs]
    assert any(re.search(rf"(\d+) of \1 trials, block {BLOCKS} of {BLOCKS}, done after", each) for each in told)
    page.close()
