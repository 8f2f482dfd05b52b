"""A study measured night after night: are changes named that are none, is one found that is there, and where?

A session's estimate is drawn around the level of its night with the standard error that six blocks leave, and nights
differ by more than that. Two systems with three metrics each are six series of one table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.stats.dependence import autoregressive
from infrabench.stats.segmentation import ChangePoint, Segmentation, find_changes
from infrabench_selfcheck.validation.check import Check, SimulatedCase, at_least, at_most, case, no_less
from infrabench_selfcheck.validation.generators import Rng, generator

SERIES, BLOCKS = 6, 6
NIGHTS_SD, ERROR = 0.005, 0.003  # between sessions, and of one: of log ratios
SHIFT = float(np.log(0.95))
Table = list[Segmentation]
Judge = Callable[[Table], bool]


@generator
def nights(
    rng: Rng, replicates: int, sessions: int, correlation: float = 0.0, heavy: bool = False, unequal: float = 1.0,
    changes: tuple[tuple[int, float], ...] = (),
) -> list[Table]:  # fmt: skip
    """Return what is found in tables of `SERIES` series; `changes`: of the first series, (place, size) each.

    `correlation`: of consecutive sessions; `heavy`: nights have the tails of t with 3 degrees of freedom; `unequal`:
    the largest error of a session over the smallest.
    """
    shape = (replicates, SERIES, sessions)
    noise = rng.standard_t(3, shape) / np.sqrt(3) if heavy else rng.normal(size=shape)
    error = ERROR * np.exp(rng.uniform(-0.5, 0.5, shape) * np.log(unequal))
    estimate = NIGHTS_SD * autoregressive(noise, correlation) + error * rng.normal(size=shape)
    for place, size in changes:
        estimate[:, 0, place:] += size
    said = error * np.sqrt(rng.chisquare(BLOCKS - 1, shape) / (BLOCKS - 1))
    return [find_changes(list(zip(*each, strict=True))) for each in zip(estimate, said, strict=True)]


def each_table(judge: Judge) -> Callable[[list[Table]], NDArray[np.bool_]]:
    """Return a procedure that asks `judge` of every table."""
    return lambda tables: np.array([judge(table) for table in tables])


def is_quiet(table: Table) -> bool:
    """Tell whether no change is named."""
    return not any(each.changes for each in table)


def _is_found(place: int, within: int = 0) -> Judge:
    return lambda table: any(abs(each.place - place) <= within for each in table[0].changes)


def _of_nearest(place: int, judge: Callable[[ChangePoint], bool]) -> Judge:
    """Ask `judge` of the first series' change that is nearest; true where none was found: it says nothing wrong."""

    def ask(table: Table) -> bool:
        changes = table[0].changes
        return not changes or judge(min(changes, key=lambda each: abs(each.place - place)))

    return ask


def _none(sessions: int, what: str = "", **how: Any) -> SimulatedCase:
    return case(
        f"{SERIES} series of {sessions} sessions{what}, no change", nights(sessions, **how),
        ("any change named", each_table(lambda table: not is_quiet(table)), at_most(0.05)), **SIZES,
    )  # fmt: skip


def _one(sessions: int, place: int, power: float, correlation: float = 0.0) -> SimulatedCase:
    what = f", correlation {correlation:g}" if correlation else ""
    covers = _of_nearest(place, lambda each: each.low <= SHIFT <= each.high)
    holds = _of_nearest(place, lambda each: each.first <= place <= each.last)
    return case(
        f"{sessions} sessions{what}, one series 5 % lower from session {place + 1} on",
        nights(sessions, correlation, changes=((place, SHIFT),)),
        ("found within one session", each_table(_is_found(place, 1)), at_least(power)),
        ("found at its place", each_table(_is_found(place)), at_least(power)),
        ("another one named", each_table(lambda t: len(t[0].changes) > 1 or not is_quiet(t[1:])), at_most(0.05)),
        ("interval of the size", each_table(covers), no_less(0.95)),
        ("places that fit hold it", each_table(holds), no_less(0.95)),
        **SIZES,
    )


SIZES = {"fast": 60, "full": 1_000, "batch": 100}
CHECKS = (
    Check("V30", "changes in the history of a study, sessions as the unit", (
        *(_none(n) for n in (10, 30)),
        *(_none(n, ", correlation 0.3", correlation=0.3) for n in (10, 30, 60)),
        _none(30, ", heavy tails", heavy=True),
        _none(30, ", errors 1 to 4", unequal=4.0),
        _one(12, 6, 0.95),
        _one(12, 9, 0.85),
        _one(40, 30, 0.95, 0.3),
        case("40 sessions, 5 % lower in 6 of them", nights(40, changes=((20, SHIFT), (26, -SHIFT))),
             ("both changes found within one session",
              each_table(lambda t: _is_found(20, 1)(t) and _is_found(26, 1)(t)), at_least(0.85)),
             **SIZES),
    )),
)  # fmt: skip
