"""The figures that are kept, as a journal gets them: widths, fonts, sizes of text, nothing cut off or covered."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infrabench.analysis.figures import COLUMN_MM, theme
from tests.support.pdf import page_mm, text_points
from tests.unit.figures.test_printed import PDFS, names

AROUND = 99  # points that are looked at outside of the page


poppler = pytest.mark.skipif(
    not shutil.which("pdffonts"), reason="not run: pdffonts and pdftotext are not installed (Debian: poppler-utils)"
)


@poppler
@pytest.mark.parametrize("pdf", PDFS, ids=names)
def test_fonts_are_embedded_and_none_is_of_type_3(pdf: Path) -> None:
    told = subprocess.run(["pdffonts", str(pdf)], capture_output=True, text=True, timeout=30, check=True).stdout
    fonts = told.splitlines()[2:]
    assert fonts
    for line in fonts:
        assert "Type 3" not in line
        assert re.search(r"(\S+) \s*(\S+) \s*(\S+) \s*\d+ \s*\d+\s*$", line).group(1) == "yes", line  # emb, sub, uni


@poppler
@pytest.mark.parametrize("pdf", PDFS, ids=names)
def test_every_word_is_on_the_page_and_covers_no_other(pdf: Path) -> None:
    words = boxes(pdf)
    assert words
    width, height = (mm / 25.4 * 72 for mm in page_mm(pdf))
    for text, x0, y0, x1, y1 in words:
        assert x0 > -0.5, (text, x0)
        assert x1 < width + 0.5, (text, x1, width)
        assert y0 > -2.5, (text, y0)  # boxes are as high as the font, words are not
        assert y1 < height + 2.5, (text, y1, height)
    covered = [(a[0], b[0]) for i, a in enumerate(words) for b in words[:i] if overlap(a, b)]
    assert not covered


@poppler
def test_the_demands_can_fail(tmp_path: Path) -> None:
    with theme.style():
        figure, axes = theme.canvas(COLUMN_MM, 40)
        axes.text(0.5, 0.5, "one", fontsize=8)
        axes.text(0.52, 0.52, "two", fontsize=5.5)
        figure.text(0.98, 0.5, "beyond the edge", fontsize=8)
        figure.savefig(tmp_path / "bad.pdf")
    assert min(text_points(tmp_path / "bad.pdf")) == 5.5
    words = {word[0]: word for word in boxes(tmp_path / "bad.pdf")}
    assert overlap(words["one"], words["two"])
    assert not overlap(words["one"], words["the"])
    assert words["edge"][3] > COLUMN_MM / 25.4 * 72 + 0.5


Box = tuple[str, float, float, float, float]


def boxes(pdf: Path) -> list[Box]:
    """Return every word and its box, in points from the upper left corner; a standing word's box stands too.

    pdftotext leaves out what lies outside of the page, which is what is looked for: it gets a larger page.
    """
    data, height = pdf.read_bytes(), page_mm(pdf)[1] / 25.4 * 72
    (box,) = re.findall(rb"/MediaBox\s*\[[^]]*\]", data)
    larger = b"/MediaBox [-%d -%d 999 999" % (AROUND, AROUND)
    data = data.replace(box, larger + b" " * (len(box) - len(larger) - 1) + b"]")
    argv = ["pdftotext", "-bbox", "-", "-"]
    told = subprocess.run(argv, input=data, capture_output=True, timeout=30, check=True).stdout
    found = re.findall(r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">(.*?)</word>', told.decode())
    ends = [(text, *map(float, numbers)) for *numbers, text in found]
    return [(text, x0 - AROUND, y0 - 999 + height, x1 - AROUND, y1 - 999 + height) for text, x0, y0, x1, y1 in ends]


def overlap(a: Box, b: Box) -> bool:
    """Tell whether two words cover each other by more than the air that their boxes have around them."""
    wide = min(a[3], b[3]) - max(a[1], b[1])
    high = min(a[4], b[4]) - max(a[2], b[2])
    # a third of a box's height (its width, where it stands) is air
    air = [0.34 * min(box[4] - box[2], box[3] - box[1]) for box in (a, b)]
    return wide > max(air) and high > max(air)
