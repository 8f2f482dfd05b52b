"""Outcomes as lines of text, one each, and a last line that counts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infrabench.core import InfrabenchError
from infrabench.selfcheck.validation.check import Outcome
from infrabench.selfcheck.validation.suite import CHECKS

HEAD = f"{'':4s}{'estimate':>9s}  {'allowed':17s}{'replicates':>10s}  {'':6s}{'seconds':>8s}"


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
        yield line(outcome)
        told, seconds = told + 1, seconds + outcome.seconds
        if not outcome.passed:
            failed.append(f"{outcome.id} {outcome.what}")
    yield f"{told - len(failed)} of {told} passed, {seconds:.0f} s"
    if failed:
        raise InfrabenchError(f"{len(failed)} of {told} checks failed: " + "; ".join(failed))


def line(outcome: Outcome) -> str:
    """Return one row: estimate, band, replicates, passed or FAILED, seconds, what."""
    band = f"{outcome.low:.4f}..{outcome.high:.4f}"
    verdict = "passed" if outcome.passed else "FAILED"
    return (
        f"{'':4s}{outcome.estimate:9.4f}  {band:17s}{outcome.replicates:10d}  {verdict:6s}{outcome.seconds:8.2f}"
        f"  {outcome.what}"
    )
