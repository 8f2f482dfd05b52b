"""What a figure's PDF says of itself, read from its own bytes: no renderer that could be kind to it."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

POINT_MM = 25.4 / 72


def page_mm(path: Path) -> tuple[float, float]:
    """Return width and height of the one page, from its MediaBox."""
    (box,) = re.findall(rb"/MediaBox\s*\[\s*([^]]+?)\s*\]", path.read_bytes())
    left, bottom, right, top = map(float, box.split())
    return (right - left) * POINT_MM, (top - bottom) * POINT_MM


def text_points(path: Path) -> set[float]:
    """Return every size of text, in points, as it is printed.

    Text is drawn in the page's own content with matrices that turn and move and do not scale; another matrix around a
    text is an `AssertionError`, for its size would not be known.
    """
    sizes = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL):
        try:
            content = zlib.decompressobj().decompress(stream)  # does not mind the end of a line behind it
        except zlib.error:
            continue
        if b" Tf\n" not in content:  # a font, or the mark of a point
            continue
        for a, b, body in re.findall(rb"(-?[\d.]+) (-?[\d.]+) \S+ \S+ \S+ \S+ cm\nBT\n(.*?)\nET", content, re.DOTALL):
            assert abs(float(a) ** 2 + float(b) ** 2 - 1) < 1e-4, (path, a, b)
            sizes |= {float(size) for size in re.findall(rb"/\S+ ([\d.]+) Tf", body)}
        assert len(re.findall(rb"\bBT\n", content)) == len(re.findall(rb" cm\nBT\n", content)), path
    return sizes
