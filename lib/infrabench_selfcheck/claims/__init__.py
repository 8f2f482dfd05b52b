"""Claims: what the recorded studies say, one row each, and whether it holds on this machine now.

Two levels. *Re-analysis*: the recorded numbers come out of the recorded raw output again, to the last digit; seconds,
anywhere. *Re-measurement*: a session that was measured here says the same as the recorded one, by the rule in
`remeasurement`. No claim is typed: sentences are made from numbers that were written down when a session was recorded
(`reanalysis`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from infrabench.analysis import session_data
from infrabench.core import check_known, unknown_name
from infrabench.ledger import catalogue
from infrabench_selfcheck.claims import reanalysis, remeasurement
from infrabench_selfcheck.claims.claim import LEVELS, REANALYSIS, REMEASUREMENT, Claim

CAMPAIGN = "campaign.json"  # beside recorded sessions that are the sites of a campaign


def sources() -> dict[str, Path]:
    """Return the recorded sessions by name, ``STUDY/SESSION``: folders or archives."""
    found = sorted(catalogue.recorded().items(), key=lambda each: (each[1].parent.name, each[0]))
    return {f"{path.parent.name}/{name}": path for name, path in found}


def choose_sources(wanted: Sequence[str] = ()) -> dict[str, Path]:
    """Return the recorded sessions that are named, by themselves or by their folder; all, where none is.

    `DesignError` for a name that is neither of those nor the published numbers'.
    """
    every = sources()
    known = [*dict.fromkeys(name.partition("/")[0] for name in every), *every, reanalysis.PUBLISHED]
    check_known("source of claims", wanted, known)
    return {
        name: path for name, path in every.items() if not wanted or {name, name.partition("/")[0]}.intersection(wanted)
    }


def collect_claims(
    wanted: Sequence[str] = (), levels: Sequence[str] = LEVELS, sessions: Sequence[str] | None = None
) -> Iterator[Claim]:
    """Yield the claims of the sources in `wanted` (all by default) on these levels, checked one after the other.

    `sessions`: those measured here that are asked, see `remeasurement.claims`. Raises `DesignError` for a source or a
    level that is none, and `LedgerError` for a recorded session whose numbers nobody has written down.
    """
    check_known("level", levels, LEVELS)
    chosen = choose_sources(wanted)
    if REANALYSIS in levels:
        for source, recorded in chosen.items():
            yield from reanalysis.claims(source, recorded)
        if not wanted or reanalysis.PUBLISHED in wanted:
            yield from reanalysis.published_claims()
    if REMEASUREMENT in levels:
        for source, recorded in chosen.items():
            if not (recorded.parent / CAMPAIGN).exists():  # a site of a campaign is not another machine's to measure
                yield from remeasurement.claims(source, recorded, sessions)


def record(name: str) -> Path:
    """Write down what a recorded session, or the audit, says now, and return the file; done once, and looked at."""
    if name == reanalysis.PUBLISHED:
        path, numbers = reanalysis.findings_path(), reanalysis.current_findings()
    else:
        every = sources()
        recorded = next((each for source, each in every.items() if name in (source, source.partition("/")[2])), None)
        if recorded is None:
            raise unknown_name("recorded session", name, [*every, reanalysis.PUBLISHED])
        session = session_data.open_session(catalogue.find(None, str(recorded)))
        path, numbers = reanalysis.numbers_path(recorded), reanalysis.session_numbers(session)
    path.write_text(reanalysis.format_numbers(numbers), encoding="utf-8")
    return path
