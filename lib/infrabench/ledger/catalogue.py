"""From the name that a person types to a session folder: the one way that the command line and notebooks share."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from infrabench.core import DesignError, unknown_name
from infrabench.core.names import is_name
from infrabench.ledger.archive import unpack
from infrabench.ledger.records import SESSION

VARIABLE = "INFRABENCH_HOME"
ARCHIVE = ".tar.xz"


def home() -> Path:
    """Return the folder that holds ``data/``: ``INFRABENCH_HOME``, or the checkout around the working folder."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "lib" / "infrabench" / "core" / "__init__.py").is_file():
            return folder
    return here


def check_name(name: str) -> None:
    """Raise `DesignError` unless `name` can be the name of a session, or the path of one that can."""
    if not isinstance(name, str) or not is_name(name.rstrip(os.sep).rpartition(os.sep)[2]) or "\0" in name:
        shown = str(name)[:60]
        raise DesignError(
            f"session name {shown!r}: take letters, digits, dots, dashes and underscores, no dot or dash first, and at "
            "most 128 of them"
        )


def find(study: str | None, name: str | None) -> Path:
    """Return the folder of a session that exists: a path, a name among runs and recorded ones, or the only recorded.

    An archive is unpacked below ``data/runs/.recorded`` and checked. Raises `DesignError` for a name that no session
    has, or that several have (of two studies, say): those are told apart by their paths.
    """
    if name and os.path.isfile(Path(name) / SESSION):  # false also for a name longer than any
        return Path(name)
    if name and name.endswith(ARCHIVE) and os.path.isfile(name):
        return _unpack(Path(name))
    found = sessions(study)
    if name is None:
        found = {each: path for each, path in found.items() if is_recorded(path)}
        if len(found) != 1:
            known = ", ".join(sorted(found)) or "none"
            raise DesignError(f"name the session of study {study!r} to load; recorded are: {known}")
        name = next(iter(found))
    if name not in found:
        alike = sorted(str(path) for path in found.values() if session_name(path) == name)
        if alike:
            raise DesignError(f"{len(alike)} sessions are called {name!r}: take one by its path, {' or '.join(alike)}")
        if os.path.isdir(name):
            raise DesignError(f"{name} is no session: there is no {SESSION} in it")
        raise unknown_name("session", name, found)
    path = found[name]
    return _unpack(path) if path.name.endswith(ARCHIVE) else path


def sessions(study: str | None = None) -> dict[str, Path]:
    """Return the sessions below ``data/``, those made here and recorded ones (folders or archives), by name.

    Where several have one name, each stands under its path instead: `find` takes every key.
    """
    return _by_name("recorded", "runs", study=study)


def recorded(study: str | None = None) -> dict[str, Path]:
    """Return the project's recorded sessions as `sessions` does: archives, or folders, in ``data/recorded/STUDY``."""
    return _by_name("recorded", study=study)


def local(study: str | None = None) -> dict[str, Path]:
    """Return the sessions measured on this machine as `sessions` does: folders, or archives, in ``data/runs/STUDY``."""
    return _by_name("runs", study=study)


def foreign_folders() -> list[Path]:
    """Return the folders below ``data/`` that lie where sessions do and are none: they hold no ``session.json``."""
    places = [path for place in ("recorded", "runs") for path in (home() / "data" / place).glob("[!.]*/[!.]*")]
    return sorted(path for path in places if path.is_dir() and not os.path.isfile(path / SESSION))


def session_name(path: Path) -> str:
    """Return the name of the session in a folder or an archive."""
    return path.name.removesuffix(ARCHIVE)


def _by_name(*places: str, study: str | None) -> dict[str, Path]:
    if study and not is_name(study):  # it would be a pattern, or a path
        raise DesignError(f"{study[:60]!r} cannot be the name of a study")
    paths, pattern = list[Path](), study or "[!.]*"
    for base in (home() / "data" / place for place in places):
        paths += sorted(path.parent for path in base.glob(f"{pattern}/[!.]*/{SESSION}"))  # a disk's own order is any
        paths += sorted(base.glob(f"{pattern}/[!.]*{ARCHIVE}"))
    counts = Counter(map(session_name, paths))
    return {session_name(path) if counts[session_name(path)] == 1 else str(path): path for path in paths}


def is_recorded(path: Path) -> bool:
    """Tell whether a session belongs to the project's recorded ones, which are never changed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home() / "data" / "recorded"))


def is_unpacked(path: Path) -> bool:
    """Tell whether a session's folder is a copy of what an archive holds, as `find` makes one."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(_unpacked()))


def _unpacked() -> Path:
    return home() / "data" / "runs" / ".recorded"


def _unpack(archive: Path) -> Path:
    """Return the folder in which an archive is unpacked, beside others of its folder: a study's names are its own."""
    # realpath: a link that leads to itself has to be named as an archive that cannot be read.
    return unpack(archive, _unpacked() / Path(os.path.realpath(archive)).parent.name)
