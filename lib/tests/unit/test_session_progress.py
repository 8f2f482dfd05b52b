"""How far a session is, and that what is said about going on with it leads to that session."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Stopping
from infrabench.experiment.execution import resume, session
from infrabench.ledger.records import read_session
from infrabench.notebook import api
from tests.support.fakes import PLUGINS, fake_site, interrupt_session, run_session


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))


def stopped(folder: Path, after: int, **choice: Any) -> Path:
    return interrupt_session(registry.study("fakes"), folder, after, **choice)


def test_a_session_is_interrupted_running_or_complete(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "s", 5)
    assert resume.state(folder) == resume.State("interrupted", 5, 12, 1, 3)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert resume.state(folder).word == "running"
    os.close(descriptor)
    run_session(registry.study("fakes"), folder)
    assert resume.state(folder) == resume.State("complete", 12, 12, 3, 3)


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({}, ""),
        ({"runs": 2, "seed": 5}, "runs = 2; seed = 5; "),
        ({"systems": ["fake-base"], "workloads": ["fake"]}, 'systems = ["fake-base"]; '),
        ({"systems": ["fake-other", "fake-third"], "deployments": 3},
         'systems = ["fake-other", "fake-third"]; deployments = 3; '),
        ({"order": "williams", "workloads": ["null"]}, 'workloads = ["null"]; order = "williams"; '),
        ({"order": "random"}, 'order = "random"; '),
        ({"order": "adjacent"}, ""),
    ],
)  # fmt: skip
def test_the_parameters_that_are_told_are_those_of_the_session(
    tmp_path: Path, choice: dict[str, Any], told: str
) -> None:
    folder = stopped(tmp_path / "s", 2, **choice)
    given = resume.parameters(folder)
    assert given is not None
    assert resume.lines(given) == (
        f'mode = "run"; profile = "tiny"; {told}site = "the inventory of fake"; session = "s"'
    )
    asked = {name: value for name, value in given.items() if name not in ("mode", "site", "session")}
    wanted = api.request("fakes", **asked)
    site = fake_site()
    assert session.parameters(session.study_of(wanted), wanted, site) == read_session(folder)["parameters"]


def test_a_stopping_rule_is_told_and_its_look_awaited(tmp_path: Path) -> None:
    rule = Stopping(0.02, most=40, budget_s=7200.0)
    choice = {"runs": 30, "precision": 0.02, "most": 40, "minutes": 120.0, "systems": ["fake-base"]}
    look = {"look": lambda folder, spent: pytest.fail("no look is due")}
    stopped(tmp_path / "s", 60, workloads=["fake"], **choice, **look)
    state, given = resume.state(tmp_path / "s"), resume.parameters(tmp_path / "s")
    assert (state.word, state.done) == ("interrupted", state.planned)
    assert given is not None
    assert (given["precision"], given["most"], given["minutes"]) == (0.02, 40, 120.0)
    wanted = api.request("fakes", **{k: v for k, v in given.items() if k not in ("mode", "site", "session")})
    assert wanted.stopping == rule


def test_a_session_that_its_notebook_cannot_ask_for_is_left_to_its_command(tmp_path: Path) -> None:
    assert resume.parameters(stopped(tmp_path / "s", 2, aa="fake-base")) is None
