"""Write a figure as PDF, SVG and PNG, the same bytes every time, with a side-car that names what made it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from infrabench.figures.look import MM, style

DPI = 300
# dates and versions would change the bytes of an unchanged figure
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "infrabench"},
    "svg": {"Date": None, "Creator": "infrabench"},
    "png": {"Software": None},
}


def save(
    figure: Figure, folder: Path, name: str, data: pd.DataFrame, parameters: Mapping[str, Any], caption: str = ""
) -> list[Path]:
    """Write ``name.pdf``, ``.svg``, ``.png`` (300 dpi) and ``.json`` into `folder` and return the four paths.

    Parameters
    ----------
    figure
        Written at its own size: what is 85 mm wide here is 85 mm wide in print.
    data
        The table that the figure shows; its rows are counted and hashed (SHA-256 of its CSV).
    parameters
        What was chosen to draw it: workload, metric, scenarios ...; JSON values.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in METADATA]
    with style():
        figure.draw_without_rendering()  # the first layout sees other tick labels than those that are drawn
        for path in paths:
            figure.savefig(path, dpi=DPI, metadata=METADATA[path.suffix[1:]])
    width, height = (round(float(inch) / MM, 1) for inch in figure.get_size_inches())
    sessions = sorted(data["session"].unique()) if "session" in data else parameters.get("session", [])
    car = {
        "figure": name,
        "caption": caption,
        "size_mm": [width, height],
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths},
        "data": {
            "sessions": [sessions] if isinstance(sessions, str) else list(sessions),
            "rows": len(data),
            "columns": list(data.columns),
            "csv_sha256": hashlib.sha256(data.to_csv(index=False).encode()).hexdigest(),
        },
        "parameters": dict(parameters),
        "made_with": {package: importlib.metadata.version(package) for package in ("infrabench", "matplotlib")},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(car, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*paths, path]
