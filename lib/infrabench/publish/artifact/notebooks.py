"""Executed notebooks as they go into an archive: what they show stays, when and where they were executed does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError
from infrabench.ledger.archive import ArchiveMember
from infrabench.ledger.files import read_bytes

PATTERN = "*-recorded.ipynb"  # what `make figures` leaves
OF_A_RUN = ("papermill", "execution")  # times, and paths of the machine


def executed(folder: Path, prefix: str) -> Iterator[ArchiveMember]:
    """Yield the executed notebooks on recorded sessions that lie in `folder`, under `prefix`; none where none are."""
    for path in sorted(folder.glob(PATTERN)):
        try:
            book = json.loads(read_bytes(path))
            cleaned = _cleaned(book)
        except (ValueError, KeyError, TypeError) as error:
            raise InfrabenchError(f"{path} is not a notebook ({error}): make it again with make figures") from error
        text = json.dumps(cleaned, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        yield ArchiveMember(f"{prefix}{path.name}", text.encode())


def _cleaned(book: dict[str, Any]) -> dict[str, Any]:
    """Drop what differs from run to run: metadata of the execution, cells' random ids, and what was said meanwhile."""
    cells = []
    for number, cell in enumerate(book["cells"]):
        kept = {**cell, "metadata": _without(cell["metadata"]), "id": f"cell-{number}"}
        if "outputs" in cell:
            kept["outputs"] = [each for each in cell["outputs"] if each["output_type"] != "stream"]
        cells.append(kept)
    return {**book, "cells": cells, "metadata": _without(book["metadata"])}


def _without(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in OF_A_RUN}
