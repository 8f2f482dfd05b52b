"""The analysis of a campaign over its sites: its notebook, executed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from infrabench.ledger import catalogue

NOTEBOOK = "sites.ipynb"


def analyse(path: Path) -> Iterator[str]:
    """Execute the notebook that analyses all sites of a campaign, and yield where it is."""
    if not any(each["state"] == "complete" for each in json.loads(path.read_text())["sessions"]):
        yield "not analysed over sites: no session is complete"
        return
    # The one place where a campaign meets the analysis over its sites.
    notebook = catalogue.home() / "notebooks" / NOTEBOOK
    if not notebook.is_file():
        yield f"not analysed over sites: there is no {notebook}"
        return
    from infrabench.notebook import headless  # papermill is slow to import

    given = {"campaign": str(path.resolve()), "out": os.path.relpath(path.parent, catalogue.home())}
    yield str(headless.execute(notebook, path.parent / NOTEBOOK, given))
