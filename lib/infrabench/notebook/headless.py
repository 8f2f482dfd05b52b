"""Executing a notebook without anyone looking, through papermill, with its parameters checked first.

papermill only warns about a parameter that the notebook does not have, and then runs with the defaults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.cli import papermill as papermill_command
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from infrabench.core import DesignError, InfrabenchError, NotRunnable, check_known, locks
from infrabench.core.locks import hold_lock
from infrabench.experiment.execution.progress import HEADLESS
from infrabench.ledger import catalogue

START_S = 120  # a kernel that has not started by then will not
CELL_S = 24 * 3600  # one cell runs a whole session; a dead kernel is noticed at once all the same
ENGINE = "infrabench"  # of papermill
TAKEN = "{out} is being written by another run: wait for it, or name another file"
SITES = "sites.ipynb"  # analyses a campaign over its sites


class _Engine(NBClientEngine):
    """Write the notebook when a cell of code starts, while it puts something out, and at the end.

    papermill also writes it before and after each cell of text and after each cell of code, with all of its figures.
    """

    @classmethod
    def execute_managed_notebook(cls, nb_man: NotebookExecutionManager, kernel_name: str, **more: Any) -> None:
        save = nb_man.save

        def save_running(**how: Any) -> None:
            states = [cell.metadata.papermill["status"] for cell in nb_man.nb.cells if cell.cell_type == "code"]
            if nb_man.RUNNING in states:
                save(**how)

        nb_man.save = save_running
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **more)
        finally:
            nb_man.save = save


papermill_engines.register(ENGINE, _Engine)


def execute(notebook: Path, out: Path, parameters: Mapping[str, Any], *, cell_timeout_s: int = CELL_S) -> Path:
    """Execute `notebook` with `parameters` into `out`, which is kept also when a cell fails, and return it.

    Raises `DesignError` where the notebook does not exist, has no such parameter, or its output cannot be written
    (nothing has been started); `NotRunnable` where the study cannot run on its site at all; `InfrabenchError` where a
    cell failed (which one, and how), or another run writes to `out`.
    """
    if not notebook.is_file():
        raise DesignError(f"there is no notebook {notebook}")
    try:
        known = papermill.inspect_notebook(str(notebook))
    except ValueError as error:
        raise DesignError(f"{notebook} is not a notebook that names its kernel: {error}") from error
    check_known(f"parameter of {notebook.name}", parameters, known)
    with ExitStack() as stack:
        # Of two that execute a notebook into one file, the one that ends first would lose what it wrote.
        try:
            # The file itself: papermill writes it in place.
            stack.enter_context(hold_lock(out, TAKEN.format(out=out), wait_s=0))
        except OSError as error:
            raise DesignError(f"{out} cannot be written: {error.strerror}") from error
        os.environ[HEADLESS] = "1"  # inherited by the kernel: its progress goes to a log
        # Unix sockets of this user's instead of open ports between papermill and kernel; and sockets of our own, for
        # those in the working folder would be taken for those of another notebook that is executed beside this one.
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="infrabench-"))
        try:
            papermill.execute_notebook(
                str(notebook), str(out), parameters=dict(parameters), kernel_name="python3", cwd=str(notebook.parent),
                engine_name=ENGINE,
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
                extra_arguments=["--log-level=CRITICAL"],  # of the kernel: it complains of being ended
                start_timeout=START_S, execution_timeout=cell_timeout_s, progress_bar=False,
                # What cells print (plan, progress) is for whoever waits; tables and figures are in the notebook.
                log_output=False, stdout_file=sys.stderr, stderr_file=sys.stderr,
            )  # fmt: skip
        except PapermillExecutionError as error:
            if error.ename == NotRunnable.__name__:
                raise NotRunnable(f"{notebook.stem} is not run: {error.evalue}") from error
            failure = f"{error.ename}: {error.evalue}"
            raise InfrabenchError(f"{notebook.name}, cell {error.exec_count}, failed: {failure}\nSee {out}") from error
        except (CellTimeoutError, DeadKernelError) as error:
            raise InfrabenchError(f"{notebook.name} did not finish: {error}\nSee {out}") from error
    return out


@cache
def claim_output() -> Path | None:
    """Hold the lock of the notebook that papermill writes, until this kernel ends, and return its path.

    For a kernel that a ``papermill`` command has started, which locks nothing. None, and nothing is held, where another
    program has: JupyterLab, `execute`, or a program that calls papermill as a library.

    Raises `InfrabenchError` when another run has the file. The other one writes it whole once more when it ends.
    """
    parent = Path(f"/proc/{os.getppid()}")
    try:
        words, folder = (parent / "cmdline").read_bytes().split(b"\0"), Path(os.readlink(parent / "cwd"))
    except OSError:
        return None
    out = output_of([os.fsdecode(word) for word in words[:-1]])
    if out is None:
        return None
    try:
        locks.take(folder / out, wait_s=0, create=True)
    except BlockingIOError:
        raise InfrabenchError(TAKEN.format(out=folder / out)) from None
    return folder / out


def output_of(words: Sequence[str]) -> str | None:
    """Return the file that a ``papermill`` command writes, given its arguments with the interpreter's; None for others.

    >>> output_of(["python3", "/usr/bin/papermill", "-p", "runs", "30", "in.ipynb", "out.ipynb"])
    'out.ipynb'
    """
    at = next((number for number, word in enumerate(words) if Path(word).name == "papermill"), len(words))
    parsed = papermill_command.make_context("papermill", [*words[at + 1 :]], resilient_parsing=True)
    out = parsed.params["output_path"] or ""
    return out if out not in ("", "-") and "://" not in out and "{" not in out else None


def analyse_campaign(path: Path) -> Iterator[str]:
    """Execute the notebook that analyses all sites of a campaign (its ``campaign.json``), and yield where it is."""
    if not any(each["state"] == "complete" for each in json.loads(path.read_text())["sessions"]):
        yield "not analysed over sites: no session is complete"
        return
    # The one place where a campaign meets the analysis over its sites.
    notebook = catalogue.home() / "notebooks" / SITES
    if not notebook.is_file():
        yield f"not analysed over sites: there is no {notebook}"
        return
    given = {"campaign": str(path.resolve()), "out": os.path.relpath(path.parent, catalogue.home())}
    yield str(execute(notebook, path.parent / SITES, given))


def value(text: str) -> Any:
    """Return a parameter typed on a command line: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
