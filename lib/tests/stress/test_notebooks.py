"""The notebooks on a part of a recorded session: other systems or workloads alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cells
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("study", "given"),
    [
        ("containers", {"systems": ["native"]}),
        ("containers", {"workloads": ["stream"]}),
        ("cnis", {"systems": ["flannel"]}),
        ("cnis", {"workloads": ["netperf"]}),
        ("runtimes", {"systems": ["containerd-runc"]}),
        ("runtimes", {"workloads": ["pods-netperf"]}),
        ("storage", {"systems": ["ceph"]}),
        ("storage", {"workloads": ["rebuild"]}),
    ],
)
def test_a_narrowed_session_is_shown_without_errors(study: str, given: dict[str, list[str]], tmp_path: Path) -> None:
    assert len(cells.shown(ROOT / f"notebooks/{study}.ipynb", {"out": str(tmp_path), **given})) > 20
