"""JupyterLab in a real browser: the first page, every study as recorded, and a run that is stopped and goes on."""

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
BLOCKS = 24  # a minute: a page of a busy machine is slow, and has to be looked at and stopped before the end
LIVE = {
    "mode": "run", "profile": "smoke", "runs": BLOCKS, "systems": ["native"], "workloads": ["sysbench-cpu"],
    "site": "local", "session": "stopped",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = lab_pages.a_home(tmp_path_factory.mktemp("lab") / "home")
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
