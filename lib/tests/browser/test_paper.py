"""What a paper takes from the recorded sessions, and the example paper: what it quotes exists, and it is typeset."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.sidecars import KEPT
from tests.support.typesetting import tex, typeset
from tests.unit import test_paper
from tests.unit.test_paper import EXAMPLE

written = test_paper.written  # the fixture of the module beside it in the gate


@tex
def test_the_example_is_typeset(written: Path) -> None:
    home = written.parents[1]
    shutil.copytree(EXAMPLE.parent, home / "paper")
    (home / "figures").symlink_to(KEPT)
    told = typeset(home / "paper" / "example.tex", home / "out" / "made")
    assert "Verdicts:" in told
    assert "??" not in told
