"""The archive: the same commit gives the same bytes, and unpacked elsewhere it makes its own tables again."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.unit.artifact import test_artifact
from tests.unit.artifact.test_artifact import SESSION, Made

made = test_artifact.made  # the fixture of the module beside it in the gate


def run(made: Made, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the unpacked library, in the unpacked folder: neither this checkout nor its data are seen."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(made.unpacked / "lib"), "HOME": str(made.unpacked.parent)}
    argv = [sys.executable, *words]
    return subprocess.run(argv, cwd=made.unpacked, env=env, capture_output=True, text=True, timeout=300)


def test_unpacked_elsewhere_every_byte_of_the_tables_comes_out_again(made: Made) -> None:
    where = run(made, "-c", "import infrabench; print(infrabench.__file__)")
    assert where.stdout.startswith(str(made.unpacked))
    done = run(made, "-m", "infrabench.cli", "artifact", "reproduce")
    assert done.returncode == 0, done.stderr
    assert f"{SESSION}: " in done.stdout
    assert "every byte the same" in done.stdout
    again = run(made, "-m", "infrabench.cli", "selfcheck", "claims", "--level", "re-analysis")
    assert again.returncode == 0, again.stdout + again.stderr
    assert " 0 fail" in again.stdout
