"""The first page in JupyterLab: the studies, what this machine can run of them, and the sessions there are.

JupyterLab is opened on it: on this machine's loopback alone, and with a token.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench import registry
from infrabench.analysis.results import Shown, paragraph
from infrabench.analysis.tables.notation import Link, html_table, markdown
from infrabench.core import PROFILES, InfrabenchError, LedgerError, Study
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import HEADLESS, words
from infrabench.experiment.provenance import labels
from infrabench.ledger import archive, catalogue
from infrabench.ledger.fields import check_present
from infrabench.ledger.records import read_session
from infrabench.machines.sites.platforms import Outlook, find_platforms

SHOWN = ("study", "profile", "systems", "blocks", "site", "created_utc")  # fields of a session
Looked = Mapping[str, Mapping[str, Outlook]]
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


def execute_page(home: Path) -> Path:
    """Return the first page, executed now, as a path below `home`; without its tables where they cannot be made."""
    from infrabench.notebook import headless  # papermill is slow to import

    page = home / FOLDER / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / "notebooks" / PAGE, page)
    log.info("Looking at what this machine can run and which sessions there are (some seconds)")
    try:
        headless.execute(page, page, {}, cell_timeout_s=PAGE_S)
    except InfrabenchError as error:
        log.warning("the first page is not whole: %s", error)
    return page.relative_to(home)


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


def serve(*, port: int | None = None, browser: bool = True) -> None:
    """Become JupyterLab on this checkout; does not return."""
    home = catalogue.home().resolve()
    if not (home / "notebooks" / PAGE).is_file():
        raise InfrabenchError(f"{home} has no notebooks/{PAGE}: go to the checkout, or name it by {catalogue.VARIABLE}")
    argv = command(home, execute_page(home), port=port, browser=browser)
    environment = {name: value for name, value in os.environ.items() if name != HEADLESS}
    environment[catalogue.VARIABLE] = str(home)
    os.chdir(home)
    os.execve(argv[0], argv, environment)


def list_studies() -> list[str]:
    """Return the studies that have a notebook."""
    return [name for name in registry.names("studies") if _notebook(name).is_file()]


def look_around(studies: Sequence[str] | None = None) -> dict[str, dict[str, Outlook]]:
    """Return what this machine could run, by study and system, making nothing; some seconds.

    `studies`: their names; None: every study that has a notebook.
    """
    platforms, cached = find_platforms(), dict[str, bool]()
    found = {}
    for name in list_studies() if studies is None else studies:
        study = registry.study(name)
        usual = _design_profiles(study)
        systems = tuple(dict.fromkeys(system for each in usual.values() for system in each.systems)) or study.systems
        disk_bytes = max((case.disk_bytes for case in usual["quick"].cases), default=0) if "quick" in usual else 0
        found[name] = platforms.check_systems(study, systems, disk_bytes, cached)
    return found


def studies_table(found: Looked) -> Shown:
    """Return the studies with what each asks, how long it takes, and what is made first; `found`: of `look_around`."""
    rows = describe_studies(found)
    return _table([{**row, "study": _link(row["study"])} for row in rows])


def describe_studies(found: Looked) -> list[dict[str, str]]:
    """Return the rows of `studies_table`, with an empty time where a study has no such profile."""
    platforms, rows = find_platforms(), []
    for name, systems in found.items():
        study = registry.study(name)
        times = dict.fromkeys(PROFILES, "") | {
            profile: words(designs.expected_study_cost(study, wanted).seconds)
            for profile, wanted in _design_profiles(study).items()
        }
        first = platforms.seconds([each for one in systems.values() for each in one.first])
        runs_here = sum(None in (each.lab, each.local) for each in systems.values())
        rows.append({
            "study": name, "question": study.title, "systems that run here": f"{runs_here} of {len(systems)}",
            **times, "made first, once": f"about {words(first)}" if first else "nothing",
        })  # fmt: skip
    return rows


def machine_table(found: Looked) -> Shown:
    """Return whether each system can run here, in the lab and on this host itself; `found`: of `look_around`.

    Systems of a study with the same answers share a row.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, systems in found.items():
        for system, each in systems.items():
            places = ("yes" if reason is None else f"not run: {reason}" for reason in (each.lab, each.local))
            alike.setdefault((name, *places), []).append(system)
    return _table([
        {"study": name, "systems": ", ".join(systems), "in the lab": lab, "on this host itself": local}
        for (name, lab, local), systems in alike.items()
    ])  # fmt: skip


def recorded_table() -> Shown:
    """Return the sessions that come with the project, which every notebook reads without any hardware."""
    rows = [_recorded(name, path) for name, path in catalogue.recorded().items()]
    return _table(rows) if rows else paragraph("There is no recorded session.")


def own_table() -> Shown:
    """Return the sessions made on this machine: how far each is, and how to go on with it or to look at it."""
    rows = [_own(name, path) for name, path in catalogue.local().items()]
    return _table(rows) if rows else paragraph("There is no session of this machine yet.")


def _recorded(name: str, path: Path) -> dict[str, Any]:
    try:
        data = read_session(path) if path.is_dir() else archive.peek(path)
        check_present(path, data, SHOWN)
    except (LedgerError, OSError) as error:
        return {"session": name, "study": str(error)}
    return {
        "session": name, "study": _link(data["study"]), "profile": data["profile"],
        "systems": ", ".join(data["systems"]), "blocks": str(data["blocks"]), "begun": data["created_utc"][:10],
    }  # fmt: skip


def _own(name: str, path: Path) -> dict[str, Any]:
    try:
        if not path.is_dir():
            return {"state": "packed"} | _recorded(name, path)
        data = read_session(path)
        check_present(path, data, SHOWN)
        now, names, given = runs.read_state(path), labels.of(path), runs.notebook_parameters(path)
    except (InfrabenchError, OSError) as error:
        return {"session": name, "study": "", "state": str(error)}
    progress = f"{now.done} of {now.planned} trials, {now.whole} of {now.blocks} blocks whole"
    return {
        "session": name, "study": _link(data["study"]), "profile": data["profile"],
        "systems": ", ".join(names.get(each, each) for each in data["systems"]),
        "begun": data["created_utc"].replace("T", " ")[:16], "state": f"{now.word}: {progress}",
        "next": _next(path.name, data["site"], now, given),
    }  # fmt: skip


def _next(name: str, site: Mapping[str, str], now: runs.State, given: Mapping[str, Any] | None) -> str:
    if now.word == runs.RUNNING:
        return "It is being measured now."
    if now.word == runs.INTERRUPTED:
        campaign, *more = name.split(".")
        if len(more) == 2 and (catalogue.home() / "out/campaigns" / campaign).is_dir():
            return f"infrabench campaign run, with the file of the campaign {campaign}, goes on with it."
        if given is None:
            return "The command that began it goes on with it."
        file = "" if "site" in given else f", with the {site['kind']} of {site['name']} (its file) as site"
        return f"To go on, set in its notebook{file}, and run it: {runs.cell_text(given)}"
    if given is None:
        return ""
    parameters = {name: value for name, value in given.items() if name not in ("mode", "systems", "workloads", "site")}
    return f"To look at it, set in its notebook: {runs.cell_text(parameters)}"


def _design_profiles(study: Study) -> dict[str, Design]:
    return {each: session.request(study, profile=each) for each in PROFILES if each in study.profiles}


def _link(study: str) -> Link | str:
    notebook = _notebook(study)
    return Link(study, os.path.relpath(notebook, Path.cwd())) if notebook.is_file() else study


def _notebook(study: str) -> Path:
    return catalogue.home() / "notebooks" / f"{study}.ipynb"


def _table(rows: list[dict[str, Any]]) -> Shown:
    """Return the rows as a table with the columns of the fullest: what cannot be read has fewer."""
    frame = pd.DataFrame(rows, columns=list(max(rows, key=len))).astype("object").fillna("")
    return Shown(html_table(frame, words=True), markdown(frame))
