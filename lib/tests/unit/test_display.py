"""How numbers, units, titles and tables are written; text for LaTeX comes out as it went in, also from a real TeX."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.tex import ACCENTED, SIGNS, comment, escaped, tabular
from infrabench.core import UNITS


@pytest.mark.parametrize(
    ("values", "unit", "factor", "shown"),
    [
        ([115e6, 90e6], "B/s", 1e6, "MB/s"),
        ([10.2e9], "B/s", 1e9, "GB/s"),
        ([999.0], "B/s", 1, "B/s"),
        ([0.012], "s", 1e-3, "ms"),
        ([4.2e-5], "s", 1e-6, "µs"),
        ([7200.0], "s", 1, "s"),
        ([8e3], "1/s", 1, "1/s"),
        ([3.4e6], "1/s", 1e6, "10⁶ 1/s"),
        ([5e9], "1", 1, "1"),
        ([9.4e8], "bit/s", 1e6, "Mbit/s"),
        ([4.2e-10], "s/B", 1e-9, "s/GB"),
        ([8.5e-8, 1e-10], "s/B", 1e-9, "s/GB"),
        ([0.0], "s/B", 1e-9, "s/GB"),
        ([np.nan], "B/s", 1, "B/s"),
        ([0.0], "s", 1, "s"),
        ([], "s", 1, "s"),
    ],
)
def test_scale(values: list[float], unit: str, factor: float, shown: str) -> None:
    found = notation.scale(values, unit)
    assert found.factor == pytest.approx(factor)
    assert found.unit == shown


def test_scale_spells_the_prefix_out() -> None:
    assert notation.scale([2e6], "B/s").note == "1 MB/s = 10⁶ B/s"
    assert notation.scale([2e-10], "s/B").note == "1 s/GB = 10⁻⁹ s/B"
    assert all(notation.scale([123.0], unit).unit for unit in UNITS)


@pytest.mark.parametrize(
    ("low", "high", "null", "text"),
    [
        (100.3077323, 102.1822677, None, "[100.31, 102.18]"),
        (0.9742567286, 1.001833226, None, "[0.974, 1.002]"),
        (104_820.0, 107_910.0, None, "[104800, 107900]"),
        (-0.0004, 0.2, None, "[0.00, 0.20]"),
        (0.0, 0.1992, None, "[0.00, 0.20]"),
        (1.0, 1.0, None, "n/a"),
        (np.nan, np.nan, None, "n/a"),
        # an end never rounds onto no effect
        (0.98781, 0.999998, 1, "[0.987810, 0.999998]"),
        (0.98781, 0.999998, None, "[0.9878, 1.0000]"),
        (-0.0612, 0.00002, 0, "[-0.06120, 0.00002]"),
        (0.9742567286, 1.001833226, 1, "[0.974, 1.002]"),
        (0.0, 2.0, 0, "[0.0, 2.0]"),
        # without an upper end
        (1.1774, np.inf, 1, "[1.18, ∞)"),
        (1.00004, np.inf, 1, "[1.00004, ∞)"),
        (12.345, np.inf, None, "[12.3, ∞)"),
        (0.0, np.inf, None, "[0, ∞)"),
    ],
)
def test_interval_ends_have_two_significant_digits_of_the_half_width(
    low: float, high: float, null: float | None, text: str
) -> None:
    assert notation.interval(low, high, null) == text


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e6))
def test_rounding_moves_an_end_by_at_most_a_twentieth_of_the_half_width(middle: float, half: float) -> None:
    places = notation.decimals(middle - half, middle + half)
    if places is None:
        return
    actual = ((middle + half) - (middle - half)) / 2
    assert abs(float(notation.number(middle, places)) - middle) <= 0.051 * actual + 1e-9 * abs(middle)


def test_an_estimate_goes_to_the_place_of_its_interval_and_has_four_digits_without_one() -> None:
    assert notation.estimate(100.0314, 98.27, 101.79) == ("100.0", "[98.3, 101.8]")
    assert notation.estimate(104_321.0, 102_820.0, 105_822.0) == ("104300", "[102800, 105800]")
    assert notation.estimate(1.5, float("nan"), float("nan")) == ("1.500", "n/a")
    assert notation.estimate(np.inf, 1.1774, np.inf, 1) == ("∞", "[1.18, ∞)")
    values = (0.0, 123456.0, 0.0012345678, 2.5, -7.0, 24.6, float("nan"))
    assert [notation.number(v) for v in values] == ["0", "123500", "0.001235", "2.500", "-7", "24.60", "n/a"]


@pytest.mark.parametrize(
    ("write", "values", "texts"),
    [
        (notation.short, (0, 3, -0.126, 0.0123, 12.3456, 100, 2e-7, np.nan), "0 3 -0.13 0.012 12.35 100 2e-07 n/a"),
        (notation.chance, (0.0, 0.0004, 0.62345, 1.0, np.nan), "<0.1 <0.1 62.3 100 n/a"),
        (notation.p_value, (0.04321, 1e-9, np.nan, 0.0499889), "0.043 <0.0001 n/a 0.04999"),
    ],
)
def test_diagnostics_chances_and_p_are_short(write: Callable[[float], str], values: tuple, texts: str) -> None:
    assert [write(value).replace("< ", "<") for value in values] == texts.split()


def test_titles() -> None:
    assert notation.metric_title("cpu_s_per_B") == "CPU time per byte"
    assert notation.metric_title("cpu_percent") == "CPU busy"
    assert [notation.metric_title(m) for m in ("read_B_per_s", "latency_p99_s", "total_s", "failed_requests")] == [
        *("read", "latency p99", "total time", "failed requests"),
    ]
    megabytes, plain = notation.scale([2e6], "B/s"), notation.scale([2], "1")
    assert notation.axis_label("read_B_per_s", megabytes, "higher") == "Read (MB/s), higher is better"
    assert notation.axis_label("failed_requests", plain, "lower") == "Failed requests, lower is better"


def test_words_stand_to_the_left_and_numbers_to_the_right_and_nothing_is_markup() -> None:
    made = notation.html_table(pd.DataFrame({"system": ["<b>"], "n": [3]}))
    assert '<td style="text-align:left;vertical-align:top">&lt;b&gt;</td>' in made
    assert '<td style="text-align:right;vertical-align:top;white-space:nowrap">3</td>' in made
    assert "text-align:right" not in notation.html_table(pd.DataFrame({"n": [3]}), words=True)


def test_a_long_table_is_a_window_whose_headings_stay() -> None:
    short, long = (notation.html_table(pd.DataFrame({"mean": ["1 [0, 2]"] * rows})) for rows in (24, 25))
    assert "max-height" not in short
    assert "sticky" not in short
    assert long.startswith('<div style="max-height:36em;overflow:auto"><table')
    assert long.count("position:sticky") == 1
    assert 'white-space:nowrap">1 [0, 2]</td>' in long


def test_a_figure_is_as_wide_on_screen_as_its_width_in_print_asks_for() -> None:
    drawn = io.BytesIO()
    figure = Figure(figsize=(85 / 25.4, 1))
    figure.savefig(drawn, format="png", dpi=300)
    assert notation.png_width_mm(drawn.getvalue()) == pytest.approx(85, abs=0.2)
    assert notation.on_screen(85) == 434
    assert notation.png_width_mm(b"\x89PNG\r\n\x1a\n" + b"\0" * 20) is None


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
