"""A project of its own for campaigns under test: a tiny study with a tiny notebook, and sites behind real SSH."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from infrabench import registry
from infrabench.experiment.campaign import checks, file
from infrabench.experiment.campaign.file import Campaign
from infrabench.experiment.campaign.plan import Plan
from infrabench.ledger import catalogue
from tests.support.ssh_server import serving

PLUGINS = Path(__file__).parent / "campaign_plugins"
PARAMETERS = """mode = 'load'
profile = 'few'
runs = None
site = 'local'
session = None
out = 'out'"""
CELL = """import os, pathlib
from infrabench import registry
from infrabench.experiment.execution import runs as sessions, session as request
from infrabench.ledger import catalogue
from infrabench.machines.hosts import marks
assert mode == "run"
locks = catalogue.home() / f"locks-{pathlib.Path(site).stem}"
if locks.is_dir():
    os.environ[marks.LOCKS] = str(locks)
wanted = request.request(registry.study("camp"), profile=profile, runs=runs, site=site, session=session)
folder = sessions.carry_out(wanted).path
(catalogue.home() / "executed").open("a").write(session + "\\n")
assert not (catalogue.home() / f"fails-{session}").exists(), "its analysis fails"
print(folder)"""


def write_notebook(path: Path, parameters: str, *cells: str) -> None:
    """Write a notebook of code cells, the first one that of its parameters."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = [nbformat.v4.new_code_cell(each) for each in (parameters, *cells)]
    made[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's home with the notebook of the study `camp`; no guest image can be made in it."""
    (tmp_path / "notebooks").mkdir()
    write_notebook(tmp_path / "notebooks/camp.ipynb", PARAMETERS, CELL)
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(link_programs(tmp_path / "bin", "mmdebstrap")))
    return tmp_path


def link_programs(folder: Path, *absent: str) -> Path:
    """Return a folder with links to all programs of this machine but these."""
    folder.mkdir()
    for place in filter(lambda each: os.access(each, os.R_OK | os.X_OK), os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name not in absent and not link.is_symlink():
                link.symlink_to(program)
    return folder


class Inventory:
    """Writes inventories of servers that are really there, on this machine, until they are `lost`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._servers: dict[str, ExitStack] = {}

    def __call__(self, name: str, *, there: bool = True) -> Path:
        folder = self._home / f"ssh-{name}"
        folder.mkdir()
        server = self._servers[name] = ExitStack()
        login = server.enter_context(serving(folder))
        if not there:
            self.lost(name)
        reached = f"address: {login.address}, port: {login.port}, user: {login.user}, key: {login.key}"
        path = self._home / f"{name}.yml"
        path.write_text(f"name: {name}\nhosts:\n  server: {{{reached}}}\nknown_hosts: {login.known_hosts}\n")
        return path

    def lost(self, *names: str) -> None:
        """Let servers go, with their connections."""
        for name in names:
            self._servers.pop(name).close()

    def end(self) -> None:
        self.lost(*self._servers)


@pytest.fixture
def inventory(home: Path) -> Iterator[Inventory]:
    made = Inventory(home)
    yield made
    made.end()


@pytest.fixture
def written(home: Path) -> Callable[[str], Campaign]:
    """Write a campaign file into the home and read it."""

    def write(text: str) -> Campaign:
        path = home / "campaign.yml"
        path.write_text(text)
        return file.read(path)

    return write


def refused(campaign: Campaign, **how: object) -> list[str]:
    """Return everything that is wrong with a campaign."""
    with pytest.raises(file.Refused) as error:
        checks.check_all(campaign, **how)  # type: ignore[arg-type]
    return list(error.value.problems)


def set_apart(home: Path, found: Plan) -> Plan:
    """Return the plan as if its sites were machines of their own; each then has a lock of its own, as machines do."""
    for site in found.sites:
        (home / f"locks-{site}").mkdir()
    return replace(found, shares=(), alone=frozenset())


def planned(campaign: Campaign) -> Plan:
    """Return the plan of a campaign whose sites answer."""
    return checks.check_all(campaign)
