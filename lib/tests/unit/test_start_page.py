"""The first page on a machine with sessions in every state, and JupyterLab, never without its token."""

from __future__ import annotations

import fcntl
import json
import os
from argparse import Namespace
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.cli import commands
from infrabench.core import InfrabenchError
from infrabench.experiment.execution.progress import HEADLESS
from infrabench.ledger import catalogue
from infrabench.ledger.archive import pack
from infrabench.machines.sites.platforms import Outlook
from infrabench.notebook import headless, start_page
from infrabench_platforms import provider
from tests.support.fakes import PLUGINS, FakeSite, MemoryHost, hide_engines, run_session
from tests.unit.test_progress import stopped

FOUND = {
    "containers": {
        "native": Outlook(None, None, ("guest",)),
        "docker": Outlook(None, "Docker does not answer", ("guest",)),
        "lxd": Outlook(None, "Docker does not answer", ("guest",)),
        "lxc": Outlook("no room", "no <lxc>", ()),
    }
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    hide_engines(tmp_path, monkeypatch)
    (tmp_path / "notebooks").mkdir()
    for name in ("fakes", "containers"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    (tmp_path / "notebooks/start.ipynb").write_text("{}")
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


@pytest.fixture
def writing(home: Path) -> Iterator[Path]:
    folder = stopped(home / "data/runs/fakes/now", 3)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield folder
    os.close(descriptor)


@pytest.mark.usefixtures("home")
def test_systems_with_the_same_answers_share_a_row() -> None:
    shown = start_page.machine_table(FOUND)
    assert "| containers | docker, lxd | yes | not run: Docker does not answer |" in repr(shown)
    assert repr(shown).count("\n| containers |") == 3
    assert "no &lt;lxc&gt;" in shown._repr_html_()


@pytest.mark.usefixtures("home")
def test_a_study_leads_to_its_notebook_and_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = start_page.studies_table(FOUND)
    assert '<a href="containers.ipynb">containers</a>' in shown._repr_html_()
    assert "| 3 of 4 |" in repr(shown)
    assert "What do Docker, LXC and LXD cost" in repr(shown)
    assert "about " in repr(shown)
    monkeypatch.setattr(start_page, "look_around", lambda: FOUND)
    lines = list(commands.plan(Namespace(pilot="", study=None)))
    assert "containers: What do Docker, LXC and LXD cost, compared with native?" in lines
    assert any(line.startswith("    smoke ") and "brief" in line and "3 of 4 systems" in line for line in lines)


@pytest.mark.usefixtures("home")
def test_studies_are_those_that_have_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(start_page.look_around(["containers"])["containers"]) == {"native", "docker", "lxc", "lxd"}
    monkeypatch.setattr(provider, "check_systems", lambda *_: {})
    assert list(start_page.look_around()) == ["containers", "fakes"]


def test_sessions_say_how_far_they_are_and_what_is_next(home: Path, writing: Path) -> None:
    stopped(home / "data/runs/fakes/left", 5)
    run_session(registry.study("fakes"), home / "data/runs/fakes/whole")
    broken = stopped(home / "data/runs/fakes/broken", 5)
    (broken / "plan.jsonl").write_text("{")
    rows = {line.split(" | ")[0].strip("| "): line for line in repr(start_page.own_table()).splitlines()[2:]}
    assert set(rows) == {"now", "left", "whole", "broken"}
    assert "running: 3 of 12 trials, 0 of 3 blocks whole | It is being measured now." in rows["now"]
    assert "interrupted: 5 of 12 trials, 1 of 3 blocks whole" in rows["left"]
    told = 'set in its notebook, with the inventory of fake (its file) as site, and run it: mode = "run"; profile ='
    assert told in rows["left"]
    assert "site =" not in rows["left"]  # which a notebook would take for the path of a file
    assert "complete: 12 of 12 trials" in rows["whole"]
    assert 'To look at it, set in its notebook: profile = "tiny"; session = "whole"' in rows["whole"]
    assert "plan.jsonl, line 1: not a trial" in rows["broken"]
    assert '<a href="fakes.ipynb">fakes</a>' in start_page.own_table()._repr_html_()


def test_a_session_of_this_machine_goes_on_as_its_notebook_is_told(home: Path) -> None:
    local: Any = FakeSite({"server": MemoryHost("here")}, {"log": []}, name="local", kind="local")
    stopped(home / "data/runs/fakes/left", 5, site=local)
    shown = repr(start_page.own_table())
    assert 'To go on, set in its notebook, and run it: mode = "run"; ' in shown
    assert 'site = "local"; session = "left"' in shown


def test_a_session_of_a_campaign_is_left_to_the_campaign(home: Path) -> None:
    stopped(home / "data/runs/fakes/racks.rack-a.fakes", 5)
    stopped(home / "data/runs/fakes/host.example.org", 5)
    assert repr(start_page.own_table()).count("set in its notebook") == 2
    (home / "out/campaigns/racks").mkdir(parents=True)
    rows = {line.split(" | ")[0].strip("| "): line for line in repr(start_page.own_table()).splitlines()[2:]}
    told = "infrabench campaign run, with the file of the campaign racks, goes on with it."
    assert [told in rows[name] for name in ("racks.rack-a.fakes", "host.example.org")] == [True, False]


def test_recorded_sessions_are_apart_from_those_of_this_machine(home: Path) -> None:
    assert repr(start_page.own_table()) == "There is no session of this machine yet."
    assert repr(start_page.recorded_table()) == "There is no recorded session."
    made = run_session(registry.study("fakes"), home / "one")
    pack(made, home / "data/recorded/fakes/one.tar.xz")
    assert "| one | fakes | tiny | fake-base, fake-other | 3 |" in repr(start_page.recorded_table())
    assert not (home / "data/runs").exists()
    assert repr(start_page.own_table()) == "There is no session of this machine yet."


def test_the_server_is_for_this_machine_and_keeps_its_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("DISPLAY", ":0")
    argv = start_page.command(home, Path("out/start/start.ipynb"))
    assert "--ServerApp.ip=127.0.0.1" in argv
    assert f"--ServerApp.root_dir={home}" in argv
    assert "--LabApp.default_url=/lab/tree/out/start/start.ipynb" in argv
    assert not [each for each in argv if "token" in each or "password" in each or "root=" in each or "browser" in each]
    monkeypatch.delenv("DISPLAY")
    for name in ("WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert "--ServerApp.open_browser=False" in start_page.command(home, Path("p"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    argv = start_page.command(home, Path("p"), port=8123, browser=False)
    assert {"--ServerApp.allow_root=True", "--ServerApp.port=8123", "--ServerApp.port_retries=0"} <= set(argv)


def test_nothing_is_fetched_unless_a_user_wants_it() -> None:
    told = json.loads((resources.files("infrabench.notebook") / start_page.SETTINGS / "overrides.json").read_text())
    assert told["@jupyterlab/apputils-extension:notification"] == {"fetchNews": "false", "checkForUpdates": False}


def test_the_page_is_there_also_where_it_cannot_be_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise InfrabenchError("start.ipynb, cell 3, failed")

    monkeypatch.setattr(headless, "execute", fails)
    assert start_page.execute_page(home) == Path("out/start/start.ipynb")
    assert (home / "out/start/start.ipynb").read_text() == "{}"
    assert "the first page is not whole" in caplog.text


def test_kernels_are_not_told_that_nobody_looks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(headless, "execute", lambda *_, **__: monkeypatch.setenv(HEADLESS, "1"))
    monkeypatch.setattr(os, "execve", lambda *given: seen.append(given))
    start_page.serve(port=8123, browser=False)
    program, argv, environment = seen[0]
    assert argv[0] == program
    assert HEADLESS not in environment
    assert environment[catalogue.VARIABLE] == str(home)


def test_a_folder_that_is_no_checkout_is_refused(home: Path) -> None:
    (home / "notebooks/start.ipynb").unlink()
    with pytest.raises(InfrabenchError, match=r"has no notebooks/start.ipynb"):
        start_page.serve()
