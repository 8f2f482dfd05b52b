"""A real TeX for tests: what it makes of a source, and what it complains of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT

TYPESET = ROOT / "scripts" / "typeset"
tex = pytest.mark.skipif(
    not (shutil.which("pdflatex") and shutil.which("pdftotext")),
    reason="not run: pdflatex and pdftotext are not installed; `make paper` installs them, as root",
)


def typeset(source: Path, out: Path) -> str:
    """Return the text of the PDF; what TeX stops at, does not know or has no sign for is an `AssertionError`."""
    words = [str(TYPESET), str(source), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    log = (out / f"{source.stem}.log").read_text(encoding="utf-8", errors="replace")
    for complaint in ("Missing character", "undefined", "multiply defined", "Font shape", "Overfull"):
        assert complaint not in log, re.findall(rf".*{complaint}.*\n?.*", log)[:5]
    argv = ["pdftotext", "-layout", str(out / f"{source.stem}.pdf"), "-"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
