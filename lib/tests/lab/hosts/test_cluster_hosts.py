"""What making a cluster does on a host: unit files say what was meant, files arrive whole, errors are told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from infrabench_platforms.clusters import hosts
from tests.unit.clusters.test_cluster_hosts import NASTY


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="not run: no systemd-analyze here")
def test_systemd_accepts_a_unit_with_every_nasty_word(tmp_path: Path) -> None:
    (text,) = hosts.unit("nasty", ["/bin/true", *NASTY], {"VALUE": "a %h $b 'c\""}).values()
    (tmp_path / "infrabench-nasty.service").write_text(text)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", tmp_path / "infrabench-nasty.service"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert not [line for line in told.stderr.splitlines() if "infrabench-nasty" in line], told.stderr
