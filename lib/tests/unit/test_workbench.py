"""How JupyterLab is started: on the loopback, never without its token, on a page that is there in any case."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import InfrabenchError
from infrabench.experiment.execution.progress import HEADLESS
from infrabench.ledger import catalogue
from infrabench.notebook import headless, start_page


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/start.ipynb").write_text("{}")
    return tmp_path


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
    told = json.loads(
        resources.files("infrabench.notebook").joinpath(start_page.SETTINGS, "overrides.json").read_text()
    )
    asked = told["@jupyterlab/apputils-extension:notification"]
    assert asked == {"fetchNews": "false", "checkForUpdates": False}


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
