"""What a store's daemons inherit of whoever starts them, and what is said of those that are gone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench.machines.hosts import marks
from infrabench_platforms.stores.node import daemons, main
from infrabench_platforms.stores.node.config import Config, StoreError


def test_a_daemon_that_a_trial_starts_does_not_bear_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []

    def popen(words: list[str], *, env: dict[str, str], **_: Any) -> SimpleNamespace:
        started.append(env)
        return SimpleNamespace(pid=os.getpid())

    config = Config("ceph", "one", 2**30, 3 * 2**30, homes=str(tmp_path))
    for folder in (config.log, config.run):
        folder.mkdir(parents=True)
    monkeypatch.setattr(daemons, "_limited", lambda config: [])
    monkeypatch.setattr(daemons.subprocess, "Popen", popen)
    monkeypatch.setenv(marks.TRIAL, ":session/trial")
    monkeypatch.setenv("KEPT", "yes")
    daemons.start(config, "osd", ("ceph-osd", "-f"), environment={"CEPH_CONF": "x"})
    assert marks.TRIAL not in started[0]
    assert (started[0]["KEPT"], started[0]["CEPH_CONF"], started[0]["LC_ALL"]) == ("yes", "x", "C")


def test_a_command_that_waits_in_the_kernel_is_killed_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    killed: list[bool] = []

    def communicate(*_: str, timeout: float) -> None:
        waited.append(timeout)
        raise subprocess.TimeoutExpired("umount", timeout)

    child = SimpleNamespace(communicate=communicate, kill=lambda: killed.append(True))
    monkeypatch.setattr(daemons.subprocess, "Popen", lambda words, **_: child)
    with pytest.raises(StoreError, match=r"^umount /x did not end within 40 s$"):
        daemons.run(("umount", "/x"), timeout_s=40)
    assert (waited, killed) == ([40, daemons.KILL_S], [True])


@pytest.mark.parametrize(
    ("file", "text"),
    [("memory/{}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
     ("{}/memory.events", "low 0\nmax 71\noom 2\noom_kill 2\n")],
)  # fmt: skip
def test_what_the_memory_limit_has_ended_is_the_reason_and_begins_the_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: str, text: str
) -> None:
    config = Config("zfs", "one", 2**30, 3 * 2**30, homes=str(tmp_path / "homes"))
    config.log.mkdir(parents=True)
    (config.log / "nbdkit.log").write_text("up\n")
    monkeypatch.setattr(daemons, "CGROUPS", tmp_path)
    events = tmp_path / file.format("infrabench-store-one")
    events.parent.mkdir(parents=True)
    events.write_text(text)
    engine: Any = SimpleNamespace(evidence=daemons.log_ends)
    cause = "the store's memory limit of 3221225472 bytes has ended 2 of its processes"
    assert main.evidence(config, engine) == {"evidence": f"# {cause}\n# nbdkit.log\nup\n"}
    assert capsys.readouterr().err == f"{cause}\n"
    events.write_text(text.replace("oom_kill 2", "oom_kill 0"))
    assert main.evidence(config, engine) == {"evidence": "# nbdkit.log\nup\n"}
    assert not capsys.readouterr().err
