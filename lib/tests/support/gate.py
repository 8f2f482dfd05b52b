"""The rules of the gate, held while one of its tests runs by audit events of the interpreter: no import evades them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from infrabench.experiment.provenance import collect
from tests.support.places import TESTS

# What a test may start besides programs that it wrote itself: what every machine has that can install this project.
PROGRAMS = frozenset({
    "python", "git", "make", "sh", "bash", "ssh-keygen", "tar",
    "cat", "chmod", "cp", "df", "du", "echo", "env", "false", "id", "mkdir", "mv", "nice", "rm", "sha256sum", "sleep",
    "sync", "timeout", "touch", "true",
    "fc-list",  # matplotlib asks it for fonts where it is, once in a folder of settings
})  # fmt: skip
LOOPBACK = ("127.", "::1", "localhost")
HOME = Path(os.environ["INFRABENCH_TEST_RUN"])
PROCESSOR_S = {"unit": 10.0, "notebooks": 60.0}  # of one test, here and in the processes that it waited for
EMULATED = "INFRABENCH_EMULATED"  # set where processor time says nothing: on an emulated machine

_of_suite = cache(collect.of_suite)
_test = ""  # that runs now; empty: none of the gate's


class RuleError(BaseException):
    """A test of the gate did what is not the same on every machine. No ``except Exception`` hides it."""


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not _test:
        return
    if event == "subprocess.Popen":
        executable, argv, _, environment = args
        name = os.fsdecode(executable or argv[0])
        path = shutil.which(name, path=(environment or os.environ).get("PATH"))
        own = path and Path(path).is_relative_to(gettempdir())
        if path and not own and Path(name).name.rstrip("0123456789.") not in PROGRAMS:
            raise RuleError(f"{_test} starts {name}: it belongs to lab/, browser/ or stress/")
    elif event == "socket.connect" and isinstance(args[1], tuple) and not str(args[1][0]).startswith(LOOPBACK):
        raise RuleError(f"{_test} connects to {args[1][0]}: only loopback is on every machine")


sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def keep_rules(item: pytest.Item) -> Iterator[None]:
    """Run a test, with its fixtures, in a home and a state folder of the run's own, and hold it to the rules.

    No disk is waited for, which only a power cut would tell; and what the files of this checkout are is asked once.
    pytest calls this for every test of a run; those of other folders than the gate's have no such rules.
    """
    global _test
    if _tier(item.path) not in PROCESSOR_S:
        return (yield)
    own = {"HOME": f"{HOME}/home", "INFRABENCH_STATE": f"{HOME}/state"}
    (HOME / "home").mkdir(exist_ok=True)
    earlier = {name: os.environ.get(name) for name in own}
    os.environ |= own
    _test = item.nodeid
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)
            patch.setattr(collect, "of_suite", _of_suite)
            return (yield)
    finally:
        _test = ""
        _restore(earlier)


@pytest.fixture(autouse=True)
def keep_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put environment, folder and umask back after each test, and fail one that takes more than its processor time.

    A fixture of a conftest.py is for the tests below its folder alone.
    """
    environment, folder, begin_s = dict(os.environ), Path.cwd(), _processor_s()
    yield
    spent_s = _processor_s() - begin_s
    _restore({name: environment.get(name) for name in {*environment, *os.environ}})
    os.chdir(folder)
    os.umask(0o022)
    limit_s = PROCESSOR_S[_tier(request.path)]
    if spent_s > limit_s and EMULATED not in os.environ:
        pytest.fail(f"{spent_s:.0f} s of processor time; a test of the gate has {limit_s:.0f} s", pytrace=False)


def _tier(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def _restore(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


def _processor_s() -> float:
    return sum(os.times()[:4])
