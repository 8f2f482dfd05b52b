"""An executed notebook as it was found: how far it came, what it says of its sessions, nothing of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from infrabench.core import NotRunnable
from infrabench.notebook import session_tables

Hide = Callable[[str], str]
KEPT = ("kernelspec", "language_info")  # of a notebook's metadata; papermill's names paths and the environment
# Where a path begins and ends in a text. Embedded pictures may look as if they had one, between other letters.
BEGINS, ENDS = r"(?P<before>\A|\x1b\[[\d;]*m|[^\w.+/-])", r"(?=[/\\\s\"'`,;:)\]<>&\x1b]|\Z)"
# In prose: a page of the checkout, which does not go with a report
TO_CHECKOUT = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
FAILED = "papermill-error-cell-tag"  # of a cell that papermill adds; its message is in the cell that failed


@dataclass(frozen=True)
class Executed:
    """An executed notebook.

    `name` is its file's name without the ending; `trouble` says why it is not whole (empty: it is), `seen` whether
    anything of it was executed; `began` and `ended` are Unix times, None where the notebook does not say.
    """

    name: str
    node: NotebookNode
    trouble: str
    seen: bool
    abstracts: tuple[dict[str, Any], ...]
    began: float | None
    ended: float | None

    @property
    def question(self) -> str:
        """The notebook's first heading, as Markdown; empty where there is none."""
        cells = (cell.source for cell in self.node.cells if cell.cell_type == "markdown")
        found = re.search(r"^#\s+(.+)$", "\n".join(cells), re.MULTILINE)
        return found[1].strip() if found else ""

    @property
    def study(self) -> str:
        """The study whose session it shows; of several, or without one, its own name."""
        studies = {told["study"] for told in self.abstracts}
        return studies.pop() if len(studies) == 1 else self.name


def read(path: Path, hide: Hide) -> Executed:
    """Return the notebook in `path`, all its text through `hide`; one that cannot be read is all trouble."""
    try:
        node = nbformat.read(path, as_version=4)
        nbformat.validate(node)
    # converting what is no notebook, or a torn one, fails in as many ways as there are versions
    except (OSError, ValueError, TypeError, LookupError, AttributeError, nbformat.ValidationError) as error:
        page = hide(f"Cannot be read as a notebook: {error}")
        return Executed(path.stem, nbformat.v4.new_notebook(), page, False, (), None, None)
    times = node.metadata.get("papermill", {})
    node.metadata = NotebookNode({key: node.metadata[key] for key in KEPT if key in node.metadata})
    node.cells = [cell for cell in node.cells if FAILED not in cell.metadata.get("tags", [])]
    for cell in node.cells:
        cell.source = TO_CHECKOUT.sub(r"\1", cell.source) if cell.cell_type == "markdown" else cell.source
        cell.metadata = NotebookNode({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
    node = nbformat.from_dict(_through(hide, node))
    code = [cell for cell in node.cells if cell.cell_type == "code" and cell.source.strip()]
    outputs = [output for cell in code for output in cell.outputs]
    began, ended = (
        datetime.fromisoformat(times[name]).timestamp() if times.get(name) else None
        for name in ("start_time", "end_time")
    )
    return Executed(
        path.stem, node, _trouble(code), any(cell.execution_count is not None for cell in code),
        tuple(session_tables.find_abstracts(outputs)), began, ended,
    )  # fmt: skip


def make_path_filter(places: Mapping[Path, str]) -> Hide:
    """Return what replaces each of these folders in a text by a word; an empty one leaves paths relative to it."""
    words = {str(path): word for path, word in places.items() if len(path.parts) > 1}  # never / itself
    if not words:
        return str
    names = "|".join(re.escape(each) for each in sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"{BEGINS}(?P<path>{names}){ENDS}(?P<slash>/?)")

    def word(found: re.Match[str]) -> str:
        told, slash = words[found["path"]], found["slash"]
        return found["before"] + (told + slash if told else "" if slash else ".")

    return lambda text: pattern.sub(word, text)


def _through(hide: Hide, value: Any) -> Any:
    """Return what a notebook holds with every text in it through `hide`."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {hide(str(key)): _through(hide, each) for key, each in value.items()}
    return [_through(hide, each) for each in value] if isinstance(value, list) else value


def _trouble(code: list[NotebookNode]) -> str:
    done = [cell for cell in code if cell.execution_count is not None]
    for number, cell in enumerate(code, start=1):
        for output in (each for each in cell.outputs if each.output_type == "error"):
            if output.ename == NotRunnable.__name__:
                return f"Not run: {output.evalue}"
            return f"Stopped at its code cell {number} of {len(code)}: {output.ename}: {output.evalue}"
    if code and not done:
        return "Never executed"
    if len(done) < len(code):
        return f"Interrupted: {len(done)} of its {len(code)} code cells were executed"
    return ""
