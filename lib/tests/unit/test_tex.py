"""Text for LaTeX: hostile labels come out as they went in, also from a real TeX, and tables stay tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench.analysis.tables.tex import ACCENTED, SIGNS, comment, escaped, tabular

ESCAPED = {
    "50 % of a_b & c #1 $5 {x}": r"50 \% of a\_b \& c \#1 \$5 \{x\}",
    r"\input{/etc/passwd}": r"\textbackslash{}input\{/etc/passwd\}",
    "~^|`": r"\textasciitilde{}\textasciicircum{}\textbar{}\textasciigrave{}",
    "10⁻⁹ s, r₁": r"10$^{-9}$ s, r$_{1}$",
    "5 µs ± 2 − 1 × 3": r"5 \textmu{}s $\pm$ 2 $-$ 1 $\times$ 3",
    "χ² ≤ 3, τ ≠ 0": r"$\chi$$^{2}$ $\leq$ 3, $\tau$ $\neq$ 0",
    "--flag, ''quoted'', <<x>>": "-{}-flag, '{}'quoted'{}', $<${}$<$x$>${}$>$",
    "[-0.2, -.5] 2026-11 1e-09 a-1": r"[$-$0.2, $-$.5] 2026-11 1e-09 a-1",
    "a\nb\tc\r\n  d": "a b c d",
    "10\u202fGB/s\u00a0x": r"10\,GB/s~x",
    "Café": "Café",
    "中 \x00 \u200b \U0001f600": "[U+4E2D] [U+0000] [U+200B] [U+1F600]",
}


@pytest.mark.parametrize("text", ESCAPED, ids=ascii)
def test_a_label_is_printed_as_it_stands(text: str) -> None:
    assert escaped(text) == ESCAPED[text]


@settings(max_examples=400)
@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_nothing_of_any_text_is_left_to_tex(text: str) -> None:
    made = escaped(text)
    assert "\n" not in made
    assert all(sign.isascii() or sign in ACCENTED for sign in made)
    left = made
    for command in sorted({*SIGNS.values(), "{}", r"$^{", r"$_{", "}$"}, key=len, reverse=True):
        left = left.replace(command, " ")
    assert not re.search(r"[\\%$#&_^~{}`|]", left)


def test_a_row_that_begins_like_an_argument_is_none() -> None:
    made = tabular(["[n]", "x"], [["*a", "1"], ["(b)", "[2]"], ["", "3"]], [True, False], "50 %\nof \\all\r{")
    assert made.splitlines() == [
        "% 50 % of \\all {", r"\begin{tabular}{lr}", r"\toprule", r"{[}n] & x \\", r"\midrule", r"{*}a & 1 \\",
        r"{(}b) & [2] \\", r" & 3 \\", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    assert comment("  ") == "%"
