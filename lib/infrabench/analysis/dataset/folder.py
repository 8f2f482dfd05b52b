"""A data set: the folder of its parts. Sessions are added, and read again only when something was added to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from infrabench.analysis.dataset import part
from infrabench.analysis.dataset.part import SessionPart
from infrabench.core import DesignError, LedgerError
from infrabench.core.names import is_name
from infrabench.ledger import catalogue, ledger
from infrabench.ledger.files import TMP, read_bytes
from infrabench.ledger.records import SESSION

FORMAT = 1
MARK = "dataset.json"  # a folder that has it was made by this
DEEP = 3  # STUDY/SITE/SESSION


class Updated(NamedTuple):
    """What came of one session: its part, and whether it was read, or was there already."""

    part: SessionPart
    read: bool


def is_one(folder: Path) -> bool:
    """Tell whether a folder is a data set."""
    return (folder / MARK).is_file()


def begin(root: Path) -> None:
    """Make `root` a data set, where it is not one yet; `DesignError` when it is another folder with something in it."""
    if is_one(root):
        return
    if root.exists() and (not root.is_dir() or any(not path.name.startswith(TMP) for path in root.iterdir())):
        raise DesignError(f"{root} is not a data set of infrabench: name a folder that is empty, or not there yet")
    ledger.replace_file(root / MARK, json.dumps({"format": FORMAT}).encode() + b"\n")


def update(sessions: Sequence[str | Path], root: Path, site: str = "") -> Iterator[Updated]:
    """Bring the parts of these sessions in the data set `root` up to date, and yield each as it is done.

    A session is read when it has no whole part yet, or when something was added to it since. `site` stands for the
    name of the site that the sessions give themselves: every embedded lab is called ``lab``.

    Raises `DesignError`, and writes nothing, where two sessions would be one part, a name cannot be that of a folder,
    or `root` is another folder than a data set; `LedgerError` for a damaged session, or another writing process.
    """
    folders = [catalogue.find(None, str(each)) for each in sessions]
    places = [root.joinpath(*part.place_of(folder, site)) for folder in folders]
    known: dict[Path, Path] = {}
    for folder, place in zip(folders, places, strict=True):
        if known.setdefault(place, folder) != folder:
            told = "add them one after the other, each with a --site of its own"
            raise DesignError(f"{folder} and {known[place]} would both be {place}: {told}")
        there = place / SESSION
        if there.is_file() and read_bytes(there) != read_bytes(folder / SESSION):
            hint = "give this one a --site of its own, or remove that folder"
            raise DesignError(f"{place} is of another session called {folder.name}: {hint}")
    begin(root)
    with ledger.claimed(root):
        for place, folder in known.items():
            there = _find_current(place, part.source_of(folder, site))
            yield Updated(there or part.write(folder, place, site), read=there is None)


def parts(root: Path) -> tuple[list[SessionPart], list[str]]:
    """Return the parts of a data set by study, site and session, and a sentence for everything else that lies there.

    Links are not followed, and a folder that says it is another part than its place is not one. Raises `LedgerError`
    when `root` is no data set or its format is another one.
    """
    try:
        mark = json.loads(read_bytes(root / MARK))
    except ValueError as error:
        raise LedgerError(f"{root / MARK} is not JSON ({error})") from error
    if not isinstance(mark, dict) or mark.get("format") != FORMAT:
        raise LedgerError(f"{root / MARK} does not name the format {FORMAT}, which this version of infrabench reads")
    found: list[SessionPart] = []
    foreign: list[str] = []
    for path in _below(root, DEEP, foreign):
        try:
            each = part.read(path)
        except LedgerError as error:
            foreign.append(f"left out: {error}")
            continue
        if (each.study, each.site, each.session) == path.relative_to(root).parts:
            found.append(each)
        else:
            foreign.append(f"left out: {path} says that it is {each.study}/{each.site}/{each.session}")
    return found, foreign


def _below(folder: Path, levels: int, foreign: list[str]) -> Iterator[Path]:
    """Yield the folders so many levels down; what lies on the way and is none goes to `foreign`."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(TMP) or path.name == MARK:  # being written, or left by a writer that was killed
            continue
        if path.is_symlink() or not path.is_dir() or not is_name(path.name):
            foreign.append(f"left out: {path} is not of this data set")
        elif levels > 1:
            yield from _below(path, levels - 1, foreign)
        else:
            yield path


def _find_current(place: Path, source: str) -> SessionPart | None:
    """Return the part at `place` when it is undamaged and of this state of its session."""
    try:
        found = part.read(place)
        part.verify(found)
    except LedgerError:
        return None
    return found if found.source == source else None
