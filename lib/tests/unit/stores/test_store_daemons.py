"""What a store's daemons inherit of whoever starts them."""

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
