"""From names that a person types to a session folder: the one way that the command line and notebooks share."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infrabench import session
from infrabench.archive import unpack
from infrabench.core import DesignError, Study, unknown_name
from infrabench.design import Design
from infrabench.interrupts import one_is_enough
from infrabench.progress import OnProgress
from infrabench.records import SESSION

log = logging.getLogger(__name__)

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}"
VARIABLE = "INFRABENCH_HOME"
ARCHIVE = ".tar.xz"


@dataclass(frozen=True, slots=True)
class SiteName:
    """Name and kind of a site that is not open."""

    name: str
    kind: str


def home() -> Path:
    """Return the folder that holds ``data/``: ``INFRABENCH_HOME``, or the checkout around the working folder."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "lib" / "infrabench" / "core.py").is_file():
            return folder
    return here


def resolved(spec: str) -> str:
    """Return `spec`, and for ``auto`` the best site that this user has here."""
    from infrabench.site import resolve  # needs Fabric; reading sessions does not

    return resolve(spec)


def site_name(spec: str) -> SiteName:
    """Return name and kind of the site `spec` without opening it; `SiteError` when there is no such site."""
    from infrabench.site import name_and_kind  # needs Fabric; reading sessions does not

    return SiteName(*name_and_kind(spec))


def folder_for(study: Study, wanted: Design, site: SiteName, name: str | None = None) -> Path:
    """Return the session folder of a request: the same request finds the same folder, unless `name` names another."""
    if name is not None:
        _check_name(name)
        if os.sep in name:
            return Path(name)
    chosen = name or session.name_of(session.parameters(study, wanted, site))
    return home() / "data" / "runs" / study.name / chosen


def is_name(name: object) -> bool:
    """Tell whether this can be the name of a session: of a folder, and of a label of what systems make."""
    return isinstance(name, str) and re.fullmatch(NAME, name) is not None


def _check_name(name: str) -> None:
    """Raise `DesignError` unless `name` can be the name of a session, or the path of one that can.

    It becomes the name of a folder, and a label of what systems make.
    """
    if not isinstance(name, str) or not is_name(name.rstrip(os.sep).rpartition(os.sep)[2]) or "\0" in name:
        shown = str(name)[:60]
        raise DesignError(
            f"session name {shown!r}: take letters, digits, dots, dashes and underscores, no dot or dash first, and at "
            "most 128 of them"
        )


def carry_out(
    wanted: Design, *, site: str, name: str | None = None, on_progress: OnProgress | None = None,
    look: session.LookAt | None = None, say: Callable[[str], None] = log.info,
) -> Path:  # fmt: skip
    """Run `wanted` on the site `site` (``lab``, ``local``, an inventory or a kubeconfig); return the session folder.

    The site is not even opened for a session that is complete.
    """
    site = resolved(site)
    known = site_name(site)
    study = session.at(session.study_of(wanted), known)
    folder = folder_for(study, wanted, known, name)
    if session.is_complete(folder, study, wanted, session.parameters(study, wanted, known)):
        say(f"{folder} is complete; give another session name to measure anew")
        return folder
    session.check_folder(study, wanted, folder)
    from infrabench.site import open_site

    with one_is_enough(say), open_site(site, say) as opened:
        return session.carry_out(study, wanted, opened, folder=folder, on_progress=on_progress, look=look)


def find(study: str | None, name: str | None) -> Path:
    """Return the folder of a session that exists: a path, a name among runs and recorded ones, or the only recorded.

    An archive is unpacked below ``data/runs/.recorded`` and checked.
    """
    if name and _is_file(Path(name) / SESSION):
        return Path(name)
    if name and name.endswith(ARCHIVE) and _is_file(Path(name)):
        return unpack(Path(name), _unpacked())
    found = sessions(study)
    if name is None:
        found = {each: path for each, path in found.items() if is_recorded(path)}
        if len(found) != 1:
            told = ", ".join(sorted(found)) or "none"
            raise DesignError(f"name the session of study {study!r} to load; recorded are: {told}")
        name = next(iter(found))
    if name not in found:
        raise unknown_name("session", name, found)
    path = found[name]
    return unpack(path, _unpacked()) if path.name.endswith(ARCHIVE) else path


def sessions(study: str | None = None) -> dict[str, Path]:
    """Return the sessions below ``data/`` by name: those made here, and recorded ones (folders or archives)."""
    return recorded(study) | made(study)


def recorded(study: str | None = None) -> dict[str, Path]:
    """Return the project's recorded sessions by name: archives, or folders, in ``data/recorded/STUDY``."""
    return _below("recorded", study)


def made(study: str | None = None) -> dict[str, Path]:
    """Return the sessions that were made on this machine by name: folders, or archives, in ``data/runs/STUDY``."""
    return _below("runs", study)


def _below(place: str, study: str | None) -> dict[str, Path]:
    base, pattern = home() / "data" / place, study or "[!.]*"
    folders = {path.parent.name: path.parent for path in base.glob(f"{pattern}/[!.]*/{SESSION}")}
    archives = base.glob(f"{pattern}/[!.]*{ARCHIVE}")
    return folders | {path.name.removesuffix(ARCHIVE): path for path in archives}


def is_recorded(path: Path) -> bool:
    """Tell whether a session belongs to the project's recorded ones, which are never changed."""
    return path.resolve().is_relative_to((home() / "data" / "recorded").resolve())


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # longer than any name
        return False


def _unpacked() -> Path:
    folder = home() / "data" / "runs" / ".recorded"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
