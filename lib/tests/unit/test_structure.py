"""`scripts/structure` runs wherever there is a Python."""

from __future__ import annotations

import subprocess
import sys

from tests.support.places import ROOT


def test_anybody_can_run_it_on_the_library() -> None:
    # -I -S: the standard library alone
    argv = [sys.executable, "-I", "-S", ROOT / "scripts/structure"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert "lib/infrabench: " in done.stdout
    assert any(line.split()[:1] == ["stats"] for line in done.stdout.splitlines())
