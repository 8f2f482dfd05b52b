"""All checks, and how they are run: in order, with a fixed seed, each outcome as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infrabench.core import DesignError
from infrabench.selfcheck.validation import (
    comparisons,
    controls,
    diagnosis,
    estimation,
    events,
    independence,
    losses,
    ordering,
    pipeline,
    sites,
    verdicts,
)
from infrabench.selfcheck.validation.check import SEED, Check, Outcome, carry_out

CHECKS: dict[str, Check] = {
    check.id: check
    for check in sorted(
        (
            *estimation.CHECKS, *comparisons.CHECKS, *diagnosis.CHECKS, *pipeline.CHECKS, *sites.CHECKS,
            *events.CHECKS, *verdicts.CHECKS, *independence.CHECKS, *losses.CHECKS, *ordering.CHECKS,
            *controls.CHECKS, *sites.CONTROLS,
        ),
        key=lambda check: (check.id[0] == "N", int(check.id[1:])),
    )
}  # fmt: skip


def chosen(only: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of these ids, or all; `DesignError` names those that do not exist."""
    wanted = list(CHECKS) if only is None else list(only)
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown:
        raise DesignError(f"unknown check {', '.join(unknown)}: there are {', '.join(CHECKS)}")
    return tuple(CHECKS[name] for name in CHECKS if name in wanted)


def run(only: Iterable[str] | None = None, *, full: bool = False, seed: int = SEED) -> Iterator[Outcome]:
    """Yield every outcome of the checks of these ids, or of all: fast (about 2 000 replicates) or `full`."""
    for check in chosen(only):
        yield from carry_out(check, full=full, seed=seed)
