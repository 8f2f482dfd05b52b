"""What a claim is, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

PASS, FAIL, INCONCLUSIVE, NOT_RUN = "pass", "fail", "inconclusive", "not run"
OUTCOMES = (PASS, FAIL, INCONCLUSIVE, NOT_RUN)
REANALYSIS, REMEASUREMENT = "re-analysis", "re-measurement"
LEVELS = (REANALYSIS, REMEASUREMENT)
EXACT = "none"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a claim: one of `OUTCOMES`, and in words what was found, or why nothing was."""

    outcome: str
    found: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement, how it is checked, what that takes, and what came of it here and now."""

    source: str  # "containers/lab-quick-2026-11": a recorded session; or "published"
    level: str  # of `LEVELS`
    what: str  # which claim of its source: "files", "web requests_per_s users=1000 docker", ...
    statement: str
    command: str  # checks it on this machine
    seconds: float  # expected
    disk_bytes: int  # expected, below data/
    tolerance: str
    judged: Judged
