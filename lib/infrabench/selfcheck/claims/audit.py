"""The findings about the published numbers as claims: each is computed again from what the papers print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from infrabench.analysis import published
from infrabench.analysis.published.findings import TOML
from infrabench.core import LedgerError
from infrabench.ledger.files import read_bytes
from infrabench.selfcheck.claims.claim import EXACT, FAIL, PASS, REANALYSIS, Claim, Judged

SOURCE = "published"
SECONDS = 1.0  # all of them together


def path() -> Path:
    """Return where the findings are written down as they were read and agreed with."""
    return TOML.with_name("findings.json")


def now() -> dict[str, dict[str, str]]:
    """Return every finding as it is computed now: claim, recomputation and verdict, by id."""
    rows = published.audit().to_dict("records")
    return {row["id"]: {name: str(row[name]) for name in ("claim", "recomputed", "verdict")} for row in rows}


def format_findings() -> str:
    """Return the findings of now as the text of their file."""
    return json.dumps(now(), indent=1, ensure_ascii=False) + "\n"


def claims() -> Iterator[Claim]:
    """Yield one claim for each finding: its sentences, numbers and all, come out as they were written down."""
    if not path().is_file():
        hint = f"read the findings, then `infrabench selfcheck claims --record {SOURCE}`"
        raise LedgerError(f"{path()} is missing: {hint}")
    then, made = json.loads(read_bytes(path())), now()
    for name in dict.fromkeys([*then, *made]):
        old, new = then.get(name), made.get(name)
        if old == new:
            judged = Judged(PASS, "the same words and numbers")
        else:
            judged = Judged(FAIL, f"now: {new['recomputed']}" if new else "no such finding any more")
        each = old or new
        yield Claim(
            SOURCE, REANALYSIS, name, f"{each['claim']} {each['recomputed']} {each['verdict'].capitalize()}.",
            f".venv/bin/infrabench selfcheck claims {SOURCE}", SECONDS, 0, EXACT, judged,
        )  # fmt: skip
