"""From a campaign, or a list of sessions, to what its sites say together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench.analysis import session_data
from infrabench.core import DesignError, LedgerError, SchemaError
from infrabench.core.request import parse_names
from infrabench.experiment.provenance.comparability import Between, between_sites
from infrabench.ledger import catalogue
from infrabench.notebook import api
from infrabench.stats import sites

USED = ("complete", "partial")  # states of a session that has something to say
STATES = (*USED, "failed", "missing")


@dataclass(frozen=True)
class Member:
    """A site of a campaign and its session: the folder's name or path, how far it is, and why no further."""

    site: str
    session: str
    state: str
    reason: str


@dataclass(frozen=True)
class Across:
    """What the sites of one study say together.

    `data`: ``session.json`` of the first site, systems of all; `rows` and `over`: the tables of `stats.sites`;
    `folders`: the session of every site that has one; figures and tables are written below `folder`.
    """

    name: str
    members: tuple[Member, ...]
    data: dict[str, Any]
    rows: pd.DataFrame
    over: pd.DataFrame
    between: Between
    folders: dict[str, Path]
    folder: Path

    @property
    def sites(self) -> list[str]:
        """Every planned site, in the campaign's order."""
        return [each.site for each in self.members]


def opened(
    campaign: str | Path | None = None, sessions: Sequence[str] | str | None = None,
    labels: Sequence[str] | str | None = None, out: str = "out",
) -> tuple[Across, ...]:  # fmt: skip
    """Return the analysis over sites of every study of a campaign, or of some sessions of one study.

    Parameters
    ----------
    campaign
        A ``campaign.json``, here or from the project's home: ``{"name", "sessions": [{"site", "study", "session",
        "state", "reason"}]}``, with paths from there, or names, of sessions. Entries with a ``label`` of their own are
        a study each. It goes before `sessions`.
    sessions
        Names, folders or archives of sessions, one a site, called as in `labels` (default: by the sessions' names).
    out
        Where figures and tables go, relative to the project's home.

    Raises
    ------
    DesignError
        The file is no campaign, a site is there twice, or the sessions and labels are not equally many.
    SchemaError, NotComparable
        Sites were asked for different things: other studies, baselines, parameters, margins.
    """
    if campaign:
        path = Path(campaign)
        name, groups = _campaign(path if path.exists() else catalogue.home() / path)
    else:
        name, groups = "", {"": _listed(parse_names(sessions) or (), parse_names(labels))}
    return tuple(
        _across(f"{name}-{label}" if name else label, mine, catalogue.home() / out, strict=not campaign)
        for label, mine in groups.items()
    )


def _campaign(path: Path) -> tuple[str, dict[str, list[Member]]]:
    """The campaign's name, and its members by study."""
    try:
        data = json.loads(path.read_bytes())
        name, entries = str(data["name"]), list(data["sessions"])
        groups: dict[str, list[Member]] = {}
        for each in entries:
            state = str(each["state"])
            if state not in STATES:
                raise DesignError(f"{path}: state {state!r} of {each['site']}: known are {', '.join(STATES)}")
            groups.setdefault(str(each.get("label") or each["study"]), []).append(
                Member(str(each["site"]), str(each.get("session") or ""), state, str(each.get("reason") or ""))
            )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DesignError(f"{path} is not a campaign.json ({type(error).__name__}: {error}); a campaign writes one") \
            from error  # fmt: skip
    if not groups:
        raise DesignError(f"{path} names no session")
    for mine in groups.values():
        _once(mine)
    return name, groups


def _listed(sessions: Sequence[str], labels: Sequence[str] | None) -> list[Member]:
    if not sessions:
        raise DesignError("name sessions, one of each site, or a campaign.json")
    if labels is not None and len(labels) != len(sessions):
        raise DesignError(f"{len(sessions)} sessions and {len(labels)} labels: give each session one")
    names = labels or [Path(each).name.removesuffix(catalogue.ARCHIVE) for each in sessions]
    mine = [
        Member(site, str(catalogue.find(None, each)), "complete", "")
        for site, each in zip(names, sessions, strict=True)
    ]
    _once(mine)
    return mine


def _once(members: Sequence[Member]) -> None:
    for what in ("site", "session"):
        names = [getattr(each, what) for each in members if getattr(each, what)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DesignError(f"{what} {', '.join(twice)} is there twice: a site has one session in an analysis")


def _across(name: str, members: Sequence[Member], folder: Path, *, strict: bool) -> Across:
    """The analysis of one study; with `strict` a session that cannot be read is an error, else its site is missing."""
    lost, parts, told = {}, {}, []
    for each in members:
        part, own = _open_member(each, strict=strict)
        told.append(own)
        if part is None:
            lost[each.site] = f"{own.state}: {own.reason}" if own.reason else own.state
        else:
            parts[each.site] = part
    folders = {site: part.folder for site, part in parts.items()}
    between = between_sites(folders) if folders else Between({}, (), "")
    data = _together(parts)
    frames = {site: api.contrasts(part) for site, part in parts.items()}
    primary = [tuple(each) for each in data.get("primary", [])]
    rows, over = sites.over_sites(sites.per_site(frames), [each.site for each in members], primary, lost)
    study = str(data.get("study", "sites"))
    # it becomes the name of folders
    called = re.sub(r"[^A-Za-z0-9_+-]+", "-", name or f"sites-{study}").strip("-") or "sites"
    return Across(called, tuple(told), data, rows, over, between, folders, folder)


def _open_member(member: Member, *, strict: bool) -> tuple[session_data.Session | None, Member]:
    """The session of a member that has something to say, and the member as it was found."""
    if member.state not in USED:
        return None, member
    inside = catalogue.home() / member.session
    try:
        return session_data.open_session(str(inside) if inside.is_dir() else member.session), member
    except (DesignError, LedgerError, SchemaError) as error:
        if strict:
            raise
        return None, replace(member, state="missing", reason=str(error))


def _together(parts: Mapping[str, session_data.Session]) -> dict[str, Any]:
    data = dict(next(iter(parts.values())).data) if parts else {}
    data["systems"] = list(dict.fromkeys(name for part in parts.values() for name in part.data["systems"]))
    return data
