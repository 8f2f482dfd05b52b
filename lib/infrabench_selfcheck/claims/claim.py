"""What a claim is and what became of it; a line each while claims are checked, and all of them as a table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from infrabench.experiment.execution.progress import words

PASS, FAIL, INCONCLUSIVE, NOT_RUN = "pass", "fail", "inconclusive", "not run"
OUTCOMES = (PASS, FAIL, INCONCLUSIVE, NOT_RUN)
REANALYSIS, REMEASUREMENT = "re-analysis", "re-measurement"
LEVELS = (REANALYSIS, REMEASUREMENT)
EXACT = "none"
MB = 1e6
COLUMNS = (
    *("source", "level", "claim", "statement", "command", "expected time", "expected disk", "tolerance", "outcome"),
    "found",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a claim: one of `OUTCOMES`, and in words what was found, or why nothing was."""

    outcome: str
    found: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement, how it is checked, what that takes, and what came of it here and now."""

    source: str  # "containers/lab-quick-debian13-containers": a recorded session; or "published"
    level: str  # of `LEVELS`
    what: str  # which claim of its source: "files", "web requests_per_s users=1000 docker", ...
    statement: str
    command: str  # checks it on this machine
    seconds: float  # expected
    disk_bytes: int  # expected, below data/
    tolerance: str
    judged: Judged


def table(claims: Iterable[Claim]) -> pd.DataFrame:
    """Return one row per claim, all text: what, how it is checked, what that takes, and what came of it here."""
    rows = [
        (
            each.source, each.level, each.what, each.statement, each.command, words(each.seconds),
            f"{each.disk_bytes / MB:.0f} MB", each.tolerance, each.judged.outcome, each.judged.found,
        )
        for each in claims
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype="str")


def lines(claims: Iterable[Claim], *, every: bool = False) -> Iterator[str]:
    """Yield the claims source by source, as they are checked; the last line counts them.

    Recorded numbers that come out again are counted and not listed, unless `every` is true; what is not run for one
    reason stands together. Whoever wants to know whether one has failed looks at the claims.
    """
    outcomes: Counter[str] = Counter()
    for (source, level), group in groupby(claims, key=lambda each: (each.source, each.level)):
        begin, first, counted = time.monotonic(), True, []
        for claim in group:
            if first:
                yield ""
                yield f"{source}, {level}: {claim.command}"
                first = False
            outcomes[claim.judged.outcome] += 1
            as_recorded = level == REANALYSIS and claim.judged.outcome == PASS
            if claim.judged.outcome == NOT_RUN or (as_recorded and not every):
                counted.append(claim)
                continue
            yield f"  {claim.judged.outcome:12s}  {claim.statement}"
            if not as_recorded:
                yield f"  {'':12s}  {claim.judged.found}"
        for (outcome, found), count in Counter((each.judged.outcome, each.judged.found) for each in counted).items():
            yield f"  {outcome:12s}  {count} claim{'s' if count > 1 else ''}: {found}"
        space = f", {claim.disk_bytes / MB:.0f} MB" if claim.disk_bytes else ""
        yield f"  {'':12s}  took {time.monotonic() - begin:.0f} s, expected {words(claim.seconds)}{space}"
    total = sum(outcomes.values())
    yield ""
    yield f"{total} claims: " + ", ".join(f"{outcomes[name]} {name}" for name in OUTCOMES)
