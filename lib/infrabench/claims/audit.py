"""The findings about the published numbers as claims: each is computed again from what the papers print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from infrabench import published
from infrabench.claims.claim import AGAIN, EXACT, FAIL, PASS, Claim, Judged
from infrabench.core import LedgerError
from infrabench.published.findings import TOML
from infrabench.records import read_bytes

SOURCE = "published"
SECONDS = 1.0  # all of them together


def path() -> Path:
    """Return where the findings are written down as they were read and agreed with."""
    return TOML.with_name("findings.json")


def now() -> dict[str, dict[str, str]]:
    """Return every finding as it is computed now: claim, recomputation and verdict, by id."""
    rows = published.audit().to_dict("records")
    return {row["id"]: {name: str(row[name]) for name in ("claim", "recomputed", "verdict")} for row in rows}


def written() -> str:
    """Return the findings of now as the text of their file."""
    return json.dumps(now(), indent=1, ensure_ascii=False) + "\n"


def claims() -> Iterator[Claim]:
    """Yield one claim for each finding: its sentences, numbers and all, come out as they were written down."""
    if not path().is_file():
        raise LedgerError(f"{path()} is missing: read the findings, then: infrabench claims --record {SOURCE}")
    then, made = json.loads(read_bytes(path())), now()
    for name in dict.fromkeys([*then, *made]):
        old, new = then.get(name), made.get(name)
        if old == new:
            judged = Judged(PASS, "the same words and numbers")
        else:
            judged = Judged(FAIL, f"now: {new['recomputed']}" if new else "no such finding any more")
        each = old or new
        yield Claim(
            SOURCE, AGAIN, name, f"{each['claim']} {each['recomputed']} {each['verdict'].capitalize()}.",
            f".venv/bin/infrabench claims {SOURCE}", SECONDS, 0, EXACT, judged,
        )  # fmt: skip
