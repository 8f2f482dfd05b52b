"""Figures that are laid out and drawn, but not written in print quality, for tests of what is in and around them.

What is written, in every format and byte by byte, is shown in tests/figures, and on the recorded sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

SCREEN_DPI = 40


@contextmanager
def sketched() -> Iterator[None]:
    """Lay figures out and draw them at both widths as ever, but write a small PNG alone: other files are empty."""
    written = Figure.savefig

    def sketch(figure: Figure, place: Any, **how: Any) -> None:
        if isinstance(place, Path) and place.suffix != ".png":
            place.touch()
        else:
            written(figure, place, **{**how, "dpi": SCREEN_DPI})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", sketch)
        yield
