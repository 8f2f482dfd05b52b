"""JupyterLab on the notebooks, opened on its first page: on this machine's loopback alone, and with a token."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from infrabench.core import InfrabenchError
from infrabench.experiment.execution.progress import HEADLESS
from infrabench.ledger import catalogue
from infrabench.notebook import headless

PAGE = "start.ipynb"
FOLDER = "out/start"  # not in `out` itself: its notebooks become the report
PAGE_S = 300
OPTIONS = (
    # The token is Jupyter's own, drawn anew at each start.
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.allow_remote_access=False",
    # Unix sockets of this user's instead of open ports between server and kernels.
    "--KernelManager.transport=ipc",
    # A kernel that is shut down or restarted while it measures is given time to take its systems down.
    "--KernelManager.shutdown_wait_time=60",
    # Nothing of this asks any other machine for anything: no extensions from an index; for news see `SETTINGS`.
    "--LabApp.extension_manager=readonly",
)
SETTINGS = "jupyter"  # in this package: defaults of JupyterLab's settings, which a user's own go before
log = logging.getLogger(__name__)


def page(home: Path, say: Callable[[str], None] = log.info) -> Path:
    """Return the first page, executed now, as a path below `home`; without its tables where they cannot be made."""
    made = home / FOLDER / PAGE
    made.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / "notebooks" / PAGE, made)
    say("Looking at what this machine can run and which sessions there are (some seconds)")
    try:
        headless.execute(made, made, {}, cell_timeout_s=PAGE_S)
    except InfrabenchError as error:
        log.warning("the first page is not whole: %s", error)
    return made.relative_to(home)


def command(home: Path, first: Path, *, port: int | None = None, browser: bool = True) -> list[str]:
    """Return the command that serves `home` with JupyterLab, opened on the page `first`."""
    argv = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={home}"]
    argv.append(f"--LabApp.app_settings_dir={resources.files('infrabench.notebook').joinpath(SETTINGS)}")
    argv.append(f"--LabApp.default_url=/lab/tree/{first.as_posix()}")
    argv += [] if port is None else [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser or not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        argv.append("--ServerApp.open_browser=False")  # the address, with its token, is printed
    if os.geteuid() == 0:  # the lab needs root, and Jupyter wants to be asked for it
        argv.append("--ServerApp.allow_root=True")
    return argv


def serve(*, port: int | None = None, browser: bool = True, say: Callable[[str], None] = log.info) -> None:
    """Become JupyterLab on this checkout; does not return."""
    home = catalogue.home().resolve()
    if not (home / "notebooks" / PAGE).is_file():
        raise InfrabenchError(f"{home} has no notebooks/{PAGE}: go to the checkout, or name it by {catalogue.VARIABLE}")
    argv = command(home, page(home, say), port=port, browser=browser)
    environment = {name: value for name, value in os.environ.items() if name != HEADLESS}
    environment[catalogue.VARIABLE] = str(home)
    os.chdir(home)
    os.execve(argv[0], argv, environment)
