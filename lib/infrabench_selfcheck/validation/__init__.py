"""Simulations with known truth: the statistics must be right as often as they say, and bad habits must be caught.

All checks are run in order, with a fixed seed; each outcome is a line of text as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infrabench.core import DesignError, InfrabenchError
from infrabench_selfcheck.validation import comparisons, controls, estimation, histories, pipelines, sites
from infrabench_selfcheck.validation.check import SEED, Check, Outcome, carry_out

__all__ = ["CHECKS", "SEED", "choose_checks", "format_outcome", "lines", "run"]
PARTS = (estimation, comparisons, pipelines, sites, histories, controls)
BY_ID = {each.id: each for part in PARTS for each in part.CHECKS}
CHECKS: dict[str, Check] = dict(sorted(BY_ID.items(), key=lambda each: (each[0][0] == "N", int(each[0][1:]))))
HEAD = f"{'':4s}{'estimate':>9s}  {'allowed':17s}{'replicates':>10s}  {'':6s}{'seconds':>8s}"


def choose_checks(only: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of these ids, or all; `DesignError` names those that do not exist."""
    wanted = list(CHECKS) if only is None else list(only)
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown:
        raise DesignError(f"unknown check {', '.join(unknown)}: there are {', '.join(CHECKS)}")
    return tuple(CHECKS[name] for name in CHECKS if name in wanted)


def run(only: Iterable[str] | None = None, *, full: bool = False, seed: int = SEED) -> Iterator[Outcome]:
    """Yield every outcome of the checks of these ids, or of all: fast (about 2 000 replicates) or `full`."""
    for check in choose_checks(only):
        yield from carry_out(check, full=full, seed=seed)


def lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield a table of the outcomes as they come, a heading above each check.

    `InfrabenchError` after the last line when any has failed.
    """
    yield HEAD
    told, failed, seconds, last = 0, [], 0.0, ""
    for outcome in outcomes:
        if outcome.id != last:
            yield f"{outcome.id:4s}{CHECKS[outcome.id].what}"
        last = outcome.id
        yield format_outcome(outcome)
        told, seconds = told + 1, seconds + outcome.seconds
        if not outcome.passed:
            failed.append(f"{outcome.id} {outcome.what}")
    yield f"{told - len(failed)} of {told} passed, {seconds:.0f} s"
    if failed:
        raise InfrabenchError(f"{len(failed)} of {told} checks failed: " + "; ".join(failed))


def format_outcome(outcome: Outcome) -> str:
    """Return one row: estimate, band, replicates, passed or FAILED, seconds, what."""
    band = f"{outcome.low:.4f}..{outcome.high:.4f}"
    verdict = "passed" if outcome.passed else "FAILED"
    return (
        f"{'':4s}{outcome.estimate:9.4f}  {band:17s}{outcome.replicates:10d}  {verdict:6s}{outcome.seconds:8.2f}"
        f"  {outcome.what}"
    )
