"""Write a figure as PDF, SVG and PNG, the same bytes every time, with a side-car that names what made it."""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from infrabench.analysis.figures.theme import COLUMN_MM, MM, PAGE_MM, style
from infrabench.core.names import file_name

DPI = 300
# dates and versions would change the bytes of an unchanged figure
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "infrabench"},
    "svg": {"Date": None, "Creator": "infrabench"},
    "png": {"Software": None},
}


def save(
    figure: Figure, folder: Path, name: str, data: pd.DataFrame, parameters: Mapping[str, Any], caption: str = "",
    other: Figure | None = None, kinds: Sequence[str] = tuple(METADATA),
) -> list[Path]:  # fmt: skip
    """Write ``name.pdf``, ``.svg``, ``.png`` (300 dpi) and ``.json`` into `folder` and return the paths.

    Of the formats those of `kinds`, all by default, and always the ``.json``, the side-car.
    `figure` is written at its own size (what is 85 mm wide here is 85 mm wide in print), and its layout fixed by this;
    `other` is the same at a journal's other width, written as ``name-85mm.pdf`` or ``name-174mm.pdf`` beside it. The
    side-car has the size of `data`, the table that the figure shows, and a digest of every column; and the `parameters`
    that were chosen to draw it (JSON values). Raises `SchemaError` when the name cannot be that of a file.
    """
    folder, name = Path(folder), file_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {folder / f"{name}.{kind}": figure for kind in kinds}
    if other is not None:
        for width in (COLUMN_MM, PAGE_MM):
            (folder / f"{name}-{width:g}mm.pdf").unlink(missing_ok=True)  # of an earlier session that had another shape
        drawn[folder / f"{name}-{_size(other)[0]:g}mm.pdf"] = other
    with _uncollected(), style(), mpl.rc_context({"figure.constrained_layout.use": False}):  # or none would mean this
        for each in dict.fromkeys(drawn.values()):
            _fix_layout(each)
        for path, each in drawn.items():
            each.savefig(path, dpi=DPI, metadata=METADATA[path.suffix[1:]])
    sessions = sorted(data["session"].unique()) if "session" in data else parameters.get("session", [])
    car = {
        "figure": name,
        "caption": caption,
        "size_mm": _size(figure),
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in drawn},
        "data": {
            "sessions": [sessions] if isinstance(sessions, str) else list(sessions),
            "rows": len(data),
            "columns": {str(column): _digest(data[column]) for column in data},
            "csv_sha256": hashlib.sha256(data.to_csv(index=False).encode()).hexdigest(),
        },
        "parameters": dict(parameters),
        "made_with": {package: importlib.metadata.version(package) for package in ("infrabench", "matplotlib")},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(car, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*drawn, path]


def overhang_mm(figure: Figure) -> float:
    """Return by how much what is drawn sticks out of the paper, 0.1 or less where nothing does."""
    canvas = FigureCanvasAgg(figure)
    with style():
        figure.draw_without_rendering()  # as `save` does
        canvas.draw()
        drawn, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    return float(max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height) / MM)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold garbage collection: for every 700 of the objects that fonts are made of it would look at older ones."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _fix_layout(figure: Figure) -> None:
    """Lay the figure out for the last time: for each format it would be drawn twice, to see that its layout holds."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)  # the first layout sees other tick labels than those that are drawn
        engine.execute(figure)
        figure.set_layout_engine(None)


def _size(figure: Figure) -> list[float]:
    """Return width and height in mm."""
    return [round(float(inch) / MM, 1) for inch in figure.get_size_inches()]


def _digest(column: pd.Series) -> dict[str, Any]:
    """Return what tells whether a column is the same: of numbers what can be compared with a tolerance."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return {"sha256": hashlib.sha256("\n".join(map(str, column)).encode()).hexdigest()}
    values = column.dropna().to_numpy(dtype=float)
    if not values.size:
        return {"values": 0}
    numbers = {"sum": values.sum(), "smallest": values.min(), "largest": values.max(), "first": values[0]}
    return {"values": int(values.size)} | {name: float(value) for name, value in numbers.items()}
