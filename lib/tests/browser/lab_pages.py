"""JupyterLab as a person meets it: a server of its own on a copy of the notebooks, and a browser that opens them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.reader import NotJSONError
from playwright.sync_api import BrowserContext, Page, sync_playwright

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-dev-shm-usage",
]  # fmt: skip
START_S = 120.0
RUN_ALL = "Run All Cells"
READY = '.jp-StatusBar-Left :text("| Idle")'
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
IDLE = f'{PANEL} .jp-Notebook-ExecutionIndicator[data-status="idle"]'


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its home, address, token and process."""

    home: Path
    url: str
    token: str
    process: subprocess.Popen[bytes]

    def address(self, path: str) -> str:
        """Return a page of a workspace of its own: another one brings tabs back, and a menu may act on one of them."""
        return f"{self.url}lab/workspaces/{uuid.uuid4().hex}/tree/{path}?token={self.token}"


def a_home(folder: Path) -> Path:
    """Return a copy of what a checkout has for its notebooks, with sessions and output of its own."""
    (folder / "data").mkdir(parents=True)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    (folder / "data/recorded").symlink_to(ROOT / "data/recorded")
    return folder


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """Yield JupyterLab as `make notebook` starts it; it and its kernels are ended with the context."""
    own = {name: str(home / "jupyter" / name) for name in (
        "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR",
    )}  # fmt: skip
    runtime = tempfile.mkdtemp(prefix="ib-")  # a Unix socket's path is short
    own["JUPYTER_RUNTIME_DIR"] = runtime
    environment = {**os.environ, **own, "INFRABENCH_HOME": str(home)}
    environment.pop("INFRABENCH_HEADLESS", None)  # another test of this process may have executed a notebook
    argv = [sys.executable, "-m", "infrabench.cli", "notebook", "open", "--no-browser"]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            told = _told(home, Path(runtime), process)
            yield Server(home, told["url"], told["token"], process)
        finally:
            process.send_signal(signal.SIGTERM)  # the server ends its kernels
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            shutil.rmtree(runtime)


def _told(home: Path, runtime: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, (home / "server.log").read_text()
        for file in runtime.glob("jpserver-*.json"):
            try:
                return json.loads(file.read_text())
            except ValueError:  # it is being written
                pass
        time.sleep(0.2)
    raise AssertionError(f"no server after {START_S:g} s: {(home / 'server.log').read_text()}")


@contextmanager
def browsing(profile: Path, **how: Any) -> Iterator[BrowserContext]:
    """Yield Debian's chromium with a fresh profile."""
    size = how.pop("viewport", {"width": 1280, "height": 900})
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile), executable_path=CHROMIUM, headless=True, args=ARGUMENTS, viewport=size, **how
        )
        try:
            yield context
        finally:
            context.close()


def opened(page: Page, server: Server, path: str) -> Page:
    """Show a notebook and wait until its kernel is there."""
    page.goto(server.address(path))
    page.wait_for_selector(READY, timeout=90_000)
    return page


def run_all(page: Page) -> None:
    """Choose Run, Run All Cells, as a person does."""
    page.click('.lm-MenuBar-itemLabel:text-is("Run")')
    page.click(f'.lm-Menu-itemLabel:text-is("{RUN_ALL}")')


def finished(page: Page, server: Server, path: str, *, timeout_s: float) -> nbformat.NotebookNode:
    """Wait until the notebook is idle again, save it, and return what was saved."""
    file = server.home / path
    deadline = time.monotonic() + timeout_s
    page.wait_for_timeout(500)  # the cells are being sent
    page.wait_for_selector(IDLE, timeout=1000 * timeout_s)
    while True:
        page.keyboard.press("Control+s")
        page.wait_for_timeout(300)
        with suppress(NotJSONError):  # the server writes it in place, and half of it may be there
            saved = nbformat.read(file, 4)
            code = [cell for cell in saved.cells if cell.cell_type == "code" and cell.source.strip()]
            if all(cell.execution_count for cell in code) or errors(saved):
                return saved
        assert time.monotonic() < deadline, f"{path} did not finish"


def until(holds: Callable[[], bool], page: Page, server: Server, *, timeout_s: float) -> None:
    """Wait until something holds; if it never does, say what the page shows and what the server has logged."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            shown = page.evaluate("() => document.body.innerText")
            log = (server.home / "server.log").read_text(errors="replace")
            raise AssertionError(f"not within {timeout_s:g} s\n{shown[-3000:]}\n{log[-3000:]}")
        page.wait_for_timeout(120)


def sought(page: Page, selector: str, pattern: str, *, timeout_s: float) -> None:
    """Scroll through the notebook, again and again, until something is there whose text has the pattern in it.

    JupyterLab keeps cells that are out of sight out of the document.
    """
    deadline, text = time.monotonic() + timeout_s, ""
    while time.monotonic() < deadline:
        # Asked in one go: what is drawn anew is another element a moment later.
        text = page.evaluate(
            """wanted => { const found = document.querySelector(wanted);
                           found?.scrollIntoView(); return found ? found.innerText : ''; }""",
            f"{PANEL} {selector}",
        )
        if re.search(pattern, text):
            return
        page.evaluate(
            """panel => {
              const box = document.querySelector(panel + ' .jp-WindowedPanel-outer');
              const end = box.scrollTop + box.clientHeight >= box.scrollHeight - 5;
              box.scrollTop = end ? 0 : box.scrollTop + 0.6 * box.clientHeight;
            }""",
            PANEL,
        )
        page.wait_for_timeout(120)
    raise AssertionError(f"{selector} with {pattern} did not come within {timeout_s:g} s; last it said {text!r}")


def errors(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what went wrong in a notebook, in words."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [f"{each.ename}: {each.evalue}" for each in outputs if each.output_type == "error"]


def images(page: Page) -> Mapping[str, int]:
    """Return the pictures that a notebook shows while it is scrolled from top to bottom: alt text -> width."""
    return page.evaluate(
        """async () => {
          const box = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer');
          const seen = {};
          for (let at = 0, last = -1; at !== last; ) {
            last = at;
            for (const each of box.querySelectorAll('.jp-OutputArea img')) {
              await each.decode().catch(() => null);
              const place = each.getBoundingClientRect();
              if (place.width > 0 && place.height > 0) seen[each.alt] = each.naturalWidth;
            }
            box.scrollTop += box.clientHeight * 0.8;
            await new Promise(done => setTimeout(done, 60));
            at = box.scrollTop;
          }
          return seen;
        }"""
    )
