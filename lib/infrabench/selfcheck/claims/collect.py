"""All claims of the recorded sessions and of the published numbers, source by source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from infrabench.analysis import session_data
from infrabench.core import unknown_name
from infrabench.ledger import catalogue
from infrabench.selfcheck.claims import reanalysis, recorded_numbers, remeasurement
from infrabench.selfcheck.claims.claim import LEVELS, REANALYSIS, REMEASUREMENT, Claim

CAMPAIGN = "campaign.json"  # beside recorded sessions that are the sites of a campaign


def sources() -> dict[str, Path]:
    """Return the recorded sessions by name, ``STUDY/SESSION``: folders or archives."""
    found = sorted(catalogue.recorded().items(), key=lambda each: (each[1].parent.name, each[0]))
    return {f"{path.parent.name}/{name}": path for name, path in found}


def names() -> list[str]:
    """Return what claims can be asked of: folders of recorded sessions, the sessions, and the published numbers."""
    every = sources()
    return [*dict.fromkeys(name.partition("/")[0] for name in every), *every, reanalysis.PUBLISHED]


def collect_claims(
    wanted: Sequence[str] = (), levels: Sequence[str] = LEVELS, sessions: Sequence[str] | None = None
) -> Iterator[Claim]:
    """Yield the claims of the sources in `wanted` (all by default) on these levels, checked one after the other.

    `sessions`: those measured here that are asked, see `remeasurement.claims`. Raises `DesignError` for a source or a
    level that is none, and `LedgerError` for a recorded session whose numbers nobody has written down.
    """
    for each in levels:
        if each not in LEVELS:
            raise unknown_name("level", each, LEVELS)
    chosen = {name: path for name, path in sources().items() if is_wanted(name, wanted)}
    if REANALYSIS in levels:
        for source, recorded in chosen.items():
            yield from reanalysis.claims(source, recorded)
        if is_wanted(reanalysis.PUBLISHED, wanted):
            yield from reanalysis.published_claims()
    if REMEASUREMENT in levels:
        for source, recorded in chosen.items():
            if not (recorded.parent / CAMPAIGN).exists():  # a site of a campaign is not another machine's to measure
                yield from remeasurement.claims(source, recorded, sessions)


def is_wanted(source: str, wanted: Sequence[str]) -> bool:
    """Tell whether a source is wanted, by its name or its folder's; all are, where none is named."""
    known = names()
    for name in wanted:
        if name not in known:
            raise unknown_name("source of claims", name, known)
    return not wanted or source in wanted or source.partition("/")[0] in wanted


def record(name: str) -> Path:
    """Write down what a recorded session, or the audit, says now, and return the file; done once, and looked at."""
    if name == reanalysis.PUBLISHED:
        reanalysis.findings_path().write_text(reanalysis.format_findings(), encoding="utf-8")
        return reanalysis.findings_path()
    chosen = {source: path for source, path in sources().items() if name in (source, source.partition("/")[2])}
    if not chosen:
        raise unknown_name("recorded session", name, [*sources(), reanalysis.PUBLISHED])
    recorded = next(iter(chosen.values()))
    session = session_data.open_session(catalogue.find(None, str(recorded)))
    path = recorded_numbers.file_of(recorded)
    path.write_text(recorded_numbers.format_numbers(recorded_numbers.of(session)), encoding="utf-8")
    return path
