"""Claims to read: a line each while they are checked, and all of them as a table with every column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import pandas as pd

from infrabench.claims.claim import ANEW, FAIL, NOT_RUN, OUTCOMES, PASS, Claim
from infrabench.progress import words

MB = 1e6
COLUMNS = (
    *("source", "level", "claim", "statement", "command", "expected time", "expected disk", "tolerance", "outcome"),
    "found",
)

WIDE = 160  # of a line on a terminal; the table has every word


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


def lines(claims: Iterable[Claim]) -> Iterator[str]:
    """Yield the claims source by source, as they are checked; what is not run for one reason stands together.

    The last line counts them. Whoever wants to know whether one has failed looks at the claims.
    """
    outcomes: Counter[str] = Counter()
    for (source, level), group in groupby(claims, key=lambda each: (each.source, each.level)):
        first, waiting = True, []
        for claim in group:
            if first:
                took = f"expected {words(claim.seconds)}, {claim.disk_bytes / MB:.0f} MB; tolerance: {claim.tolerance}"
                yield ""
                yield f"{source}, {level} ({took})"
                yield f"    {claim.command}"
                first = False
            outcomes[claim.judged.outcome] += 1
            if claim.judged.outcome == NOT_RUN:
                waiting.append(claim)
                continue
            passed = claim.judged.outcome == PASS
            yield f"  {claim.judged.outcome:12s}  {_short(claim.statement) if passed else claim.statement}"
            if level == ANEW or not passed:
                yield f"  {'':12s}  {claim.judged.found}"
        for reason, count in Counter(each.judged.found for each in waiting).items():
            yield f"  {NOT_RUN:12s}  {count} claim{'s' if count > 1 else ''}: {reason}"
    total = sum(outcomes.values())
    yield ""
    yield f"{total} claims: " + ", ".join(f"{outcomes[name]} {name}" for name in OUTCOMES)
    if outcomes[FAIL]:
        yield f"{outcomes[FAIL]} of them FAIL: see above what was found."


def _short(statement: str) -> str:
    return statement if len(statement) <= WIDE else f"{statement[:WIDE]} ..."
