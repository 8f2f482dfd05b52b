"""A real TeX: hostile labels come out as they went in, tables stay tables, and the example paper is typeset."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from infrabench.analysis.tables.tex import ACCENTED, SIGNS, escaped, tabular
from tests.support.sidecars import KEPT
from tests.support.typesetting import tex, typeset
from tests.unit import test_paper
from tests.unit.test_display import ESCAPED
from tests.unit.test_paper import EXAMPLE

written = test_paper.written  # the fixture of the module beside it in the gate
HEAD = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{lmodern,booktabs}\n\\begin{document}\n"


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
