"""A real TeX: hostile labels come out as they went in, tables stay tables, and the example paper is typeset."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infrabench.analysis.tables.tex import ACCENTED, SIGNS, escaped, tabular
from tests.support.places import ROOT
from tests.support.sidecars import KEPT
from tests.unit import test_paper
from tests.unit.test_display import ESCAPED
from tests.unit.test_paper import EXAMPLE

written = test_paper.written  # the fixture of the module beside it in the gate
TYPESET = ROOT / "scripts" / "typeset"
tex = pytest.mark.skipif(
    not (shutil.which("pdflatex") and shutil.which("pdftotext")),
    reason="not run: pdflatex and pdftotext are not installed; `make paper` installs them, as root",
)
HEAD = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{lmodern,booktabs}\n\\begin{document}\n"


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


@tex
def test_a_real_tex_prints_every_hostile_label(tmp_path: Path) -> None:
    labels = [*ESCAPED, "[x]", "*", "a & b \\\\ c", "\\end{tabular}", "%", "{", "}}", "$x$", "?`!`", "fi -- ffl"]
    rows = [[label, str(place)] for place, label in enumerate(labels)]
    source = tmp_path / "hostile.tex"
    source.write_text(HEAD + tabular(["[label]", "n"], rows, [True, False]) + "\\end{document}\n", encoding="utf-8")
    told = typeset(source, tmp_path / "out")
    for place, label in enumerate(labels):
        assert re.search(rf"\s{place}$", told, re.MULTILINE), label
    whole = (r"\input{/etc/passwd}", "a_b & c #1 $5 {x}", "--flag", "2026-11", "[U+4E2D]", r"\end{tabular}")
    assert all(text in told for text in (*whole, "a & b \\\\ c"))


@tex
def test_a_real_tex_knows_every_sign(tmp_path: Path) -> None:
    source = tmp_path / "signs.tex"
    signs = sorted({*SIGNS, *ACCENTED})
    body = "\n\n".join(f"{ord(sign)}: {escaped(sign)}" for sign in signs)
    source.write_text(f"{HEAD}{body}\n\\end{{document}}\n", encoding="utf-8")
    told = typeset(source, tmp_path / "out")
    assert all(f"{ord(sign)}:" in told for sign in signs)


@tex
def test_the_example_is_typeset(written: Path) -> None:
    home = written.parents[1]
    shutil.copytree(EXAMPLE.parent, home / "paper")
    (home / "figures").symlink_to(KEPT)
    told = typeset(home / "paper" / "example.tex", home / "out" / "made")
    assert "Verdicts:" in told
    assert "??" not in told
