"""What a store's daemons inherit of whoever starts them, and what is said of those that are gone."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench.machines.hosts import marks
from infrabench_platforms.stores.node import daemons
from infrabench_platforms.stores.node.config import Config


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


@pytest.mark.parametrize(
    ("file", "text"),
    [("memory/{}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
     ("{}/memory.events", "low 0\nmax 71\noom 2\noom_kill 2\n")],
)  # fmt: skip
def test_evidence_begins_with_what_the_memory_limit_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    config = Config("zfs", "one", 2**30, 3 * 2**30, homes=str(tmp_path / "homes"))
    config.log.mkdir(parents=True)
    (config.log / "nbdkit.log").write_text("up\n")
    monkeypatch.setattr(daemons, "CGROUPS", tmp_path)
    events = tmp_path / file.format("infrabench-store-one")
    events.parent.mkdir(parents=True)
    events.write_text(text)
    assert daemons.log_ends(config) == [
        "# processes ended by the memory limit of 3221225472 bytes: 2", "# nbdkit.log", "up", "",
    ]  # fmt: skip
