"""A recorded session, or several pooled as one: what ``session.json`` says, its tidy table, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench.analysis.tidy import missing, tidy
from infrabench.experiment.provenance import labels
from infrabench.experiment.provenance.comparability import measures_alike, stamp
from infrabench.ledger import catalogue
from infrabench.ledger.codes import CODE, code_labels
from infrabench.ledger.records import not_applicable
from infrabench.ledger.session_folder import SessionFolder


@dataclass(frozen=True)
class Session:
    """A recorded session: its folder, ``session.json``, tidy table, and planned trials without a record.

    Systems are called by their labels in all of them (see `labels`). Of several that are put together, `folder` is the
    first one's, and each numbers its blocks from 0: a block is known by its session too.
    """

    folder: Path
    data: dict[str, Any]
    table: pd.DataFrame
    missing: pd.DataFrame
    pooled: tuple[Path, ...] = ()  # the folders of sessions that are put together

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of the session, or of each that is put together."""
        return self.pooled or (self.folder,)


def open_session(folder: str | Path) -> Session:
    """Return the session in `folder`, or in an archive made by `archive.pack`."""
    return read_stored(SessionFolder(catalogue.find(None, str(folder))))


def read_stored(stored: SessionFolder) -> Session:
    """Return the session in a folder, of whose files those are read that were not before."""
    names = labels.of(stored.path)
    frames = (tidy(stored), missing(stored).assign(session=stored.path.resolve().name))
    table, absent = (frame.assign(system=frame["system"].replace(names)) for frame in frames)
    return Session(stored.path, describe_session(stored), table, absent)


def describe_session(stored: SessionFolder) -> dict[str, Any]:
    """Return ``session.json`` with labels for systems, and for the workloads that other code made (`ledger.codes`).

    What holds of a workload holds of it under every label; a session that is a mixture says so in its stamp.
    """
    data = labels.renamed(stored.session, labels.of(stored.path))
    codes = code_labels(stored.session, stored.notes(CODE), data.get("workloads", ()))
    more = {name: [each for each in dict.fromkeys(found.values()) if each != name] for name, found in codes.items()}
    if not any(more.values()):
        return data
    return data | {
        "workloads": [*data["workloads"], *(each for found in more.values() for each in found)],
        "primary": [[each, metric] for name, metric in data["primary"] for each in (name, *more.get(name, ()))],
        "stamp": "A mixture: trials of other code are workloads of their own, called (code 2) and so on.",
    }


def pool(names: Sequence[str | Path], *, stamped: bool = False) -> Session:
    """Return several sessions of one study as one: each is a deployment of its own, and so the unit of analysis.

    Raises `SchemaError` for different studies or baselines, `NotComparable` when their checked provenance differs; with
    `stamped` they are pooled all the same, and every figure and table says what differs.
    """
    parts = [open_session(name) for name in names]
    folders = [part.folder for part in parts]
    measures_alike(folders)
    mark = stamp(folders, allow=stamped)
    data = together([part.data for part in parts], [folder.name for folder in folders], mark)
    table = pd.concat([part.table for part in parts], ignore_index=True)
    absent = pd.concat([part.missing for part in parts], ignore_index=True)
    return Session(folders[0], data, table, absent, tuple(folders))


def together(data: Sequence[Mapping[str, Any]], names: Sequence[str], stamped: str) -> dict[str, Any]:
    """Return what several sessions of one study say of themselves as one ``session.json``, with the stamp of `pool`.

    Where profile, order, seed or site are not alike it names them all; blocks and deployments are those of all
    together, and ``created_utc`` is when the first one began.
    """
    every = dict(data[0])
    for key, unsaid in (("profile", None), ("order", "random"), ("seed", None)):
        every |= _join(key, [each.get(key, unsaid) for each in data])
    for key in ("name", "kind"):
        every["site"] = every["site"] | _join(key, [each["site"][key] for each in data])
    every["created_utc"] = min(each["created_utc"] for each in data)
    every["stopping"] = next(filter(None, (each.get("stopping") for each in data)), None)
    every["deployments"] = sum(each.get("deployments") or 1 for each in data)
    every["systems"] = list(dict.fromkeys(name for each in data for name in each["systems"]))
    every["not_run"] = _left_everywhere(data, "systems", "not_run")
    every["left_out"] = _left_everywhere(data, "workloads", "left_out")
    everywhere = [not_applicable(each) for each in data]
    every["not_applicable"] = [
        dict(zip(("system", "workload", "scenario", "reason"), (*key, reason), strict=True))
        for key, reason in everywhere[0].items()
        if all(key in each for each in everywhere)
    ]
    every["blocks"] = sum(each["blocks"] for each in data)
    stamps = dict.fromkeys([*(each.get("stamp") or "" for each in data), stamped])
    every["pooled"], every["stamp"] = list(names), " ".join(each for each in stamps if each)
    return every


def _join(key: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the values of a key that not all sessions have alike as one text; nothing where they do."""
    distinct = list(dict.fromkeys(values))
    return {key: " and ".join(map(str, distinct))} if len(distinct) > 1 else {}


def _left_everywhere(data: Sequence[Mapping[str, Any]], what: str, left: str) -> dict[str, str]:
    """Return, of the systems (or workloads) that a session left out, those that none has run, with the reason."""
    ran = {name for each in data for name in each.get(what, ()) if name not in each.get(left, {})}
    return {name: why for each in data for name, why in each.get(left, {}).items() if name not in ran}
