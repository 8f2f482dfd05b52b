"""Which code made which trial of a session: the digests that it was begun with, and those of each mixture since.

Code is a mapping of parts (``measurement``, ``plan``, ``system NAME``, ``workload NAME``, ``parser NAME``) to digests.
``session.json`` has that of the beginning under `CODE`, a note of that name on a block each later one. A trial's record
names the code of its own workload and of every system, since a contrast is between systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infrabench.core import LedgerError, digest

CODE = "code"
OF_WORKLOAD = ("workload", "parser")  # parts that speak of one workload's trials alone
LABEL = " (code "  # between the name of a workload and the number of its code
LATEST = None  # in the place of a code: that of trials still to come


def known_codes(session: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, str]]:
    """Return the codes of a session's trials, the first one first: empty for one from before codes were recorded."""
    codes = [session.get(CODE, {})]
    for note in notes:
        # A code that no trial was made with is not one of the session's.
        codes = [*(codes if note.get("after") else ()), note.get("parts")]
    for parts in codes:
        if not isinstance(parts, dict) or not all(isinstance(each, str) for each in parts.values()):
            raise LedgerError(
                f"the session's {CODE} is {str(parts)[:60]!r}, no digests by part; restore it from a copy"
            )
    return codes


def trial_code(session: Mapping[str, Any], parts: Mapping[str, str], workload: str) -> str:
    """Return the digest for the trials of a workload: of the code, and of the parameters of their session."""
    if not parts:
        return ""
    own = {
        part: value
        for part, value in parts.items()
        if part.partition(" ")[0] not in OF_WORKLOAD or part.partition(" ")[2] == workload
    }
    return digest([own, session.get("parameters_sha256")])


def unnamed_code(trial_id: str) -> LedgerError:
    """Return the error for a record whose code the session does not name."""
    return LedgerError(f"trial {trial_id} was made with code that the session does not name; restore it from a copy")


def code_labels(
    session: Mapping[str, Any], notes: Sequence[Mapping[str, Any]], workloads: Iterable[str]
) -> dict[str, dict[str | None, str]]:
    """Return workload -> code (or `LATEST`) -> what its trials are called: ``web``, ``web (code 2)``."""
    codes = known_codes(session, notes)
    found: dict[str, dict[str | None, str]] = {}
    for name in workloads:
        distinct = dict.fromkeys(trial_code(session, parts, name) for parts in codes)
        labels: dict[str | None, str] = {
            code: name if number == 1 else f"{name}{LABEL}{number})" for number, code in enumerate(distinct, start=1)
        }
        found[name] = {**labels, LATEST: labels[trial_code(session, codes[-1], name)]}
    return found
