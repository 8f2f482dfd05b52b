"""The order of the treatments inside a block: pure functions of seed, block and counts.

``adjacent``, the default: the cases come in random order, and inside each case its systems follow one another in a
random order of their own. What is compared is then as near in time as can be, so that a machine whose speed wanders
adds little to a ratio. Cases of a group share what is costly to make for each system: they are one such case, in which
each system does them all, in random order.

``random``: one fresh permutation of all treatments. Where cases are in groups it is one of the units (system, group),
and inside each unit one of its cases: no group has a place of its own.

``williams``: for suspected carry-over; the cases come in random order, and inside each case the systems come in a row
of a Williams square, so that over a full set of rows every system stands at every place equally often and follows every
other system equally often (Williams 1949).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from infrabench.core import DesignError, check_known

DEFAULT = "adjacent"
ORDERS = (DEFAULT, "random", "williams")
# Keep the random numbers of the squares apart from those of the blocks.
_LABELS, _ROWS = 2**31, 2**31 + 1
Item = TypeVar("Item")


def check(kind: str, groups: Sequence[str] = ()) -> None:
    """Raise `DesignError` for an unknown kind of order, and for one that cannot keep `groups` together."""
    check_known("order", [kind], ORDERS)
    if kind == "williams" and any(groups):
        raise DesignError(
            f"cases that stand together ({', '.join(dict.fromkeys(filter(None, groups)))}) cannot be in the order "
            "'williams', in which the systems follow each other inside each case: take 'adjacent'"
        )


def order(
    kind: str, *, seed: int, block: int, systems: int, cases: int, groups: Sequence[str] = ()
) -> list[tuple[int, int]]:
    """Return the treatments of a block in order, as (system, case) numbers; each once.

    `groups`: the group of each case, empty where it stands alone. The order hangs on the arguments alone, so planning
    more blocks leaves earlier ones as they were. Raises `DesignError` as `check` does.
    """
    check(kind, groups)
    rng = np.random.default_rng([seed, block])
    if kind == "williams":
        row = _row(seed, block, systems)
        return [(system, int(case)) for case in rng.permutation(cases) for system in row]
    groups = groups or [""] * cases
    every = [(system, case) for case in range(cases) for system in range(systems)]
    if kind == "random":
        # a treatment that stands alone is a unit of its own, the permutation of units then one of all treatments
        return _shuffle(rng, every, [lambda each: (each[0], groups[each[1]] or each[1])])
    return _shuffle(rng, every, [lambda each: groups[each[1]] or each[1], lambda each: each[0]])


def order_repeats(
    kind: str, trials: Iterable[Item], *, seed: int, block: int, draw: int,
    case: Callable[[Item], Hashable], system: Callable[[Item], Hashable],
) -> list[Item]:  # fmt: skip
    """Return the trials that are repeated at the end of a block in a random order of their own.

    `draw`: tells several rounds of repeats apart. `case`, `system`: those of a trial; in every order but ``random``
    the repeats of one case, or of one group of cases, follow one another, its systems one by one.
    """
    rng = np.random.default_rng([seed, block, draw])
    return _shuffle(rng, list(trials), [] if kind == "random" else [case, system])


def williams(k: int) -> list[list[int]]:
    """Return the rows of a Williams design for `k` treatments: k rows when k is even, 2 k when it is odd.

    Over all rows each treatment is at each place equally often and directly after each other one equally often.
    Source: Williams 1949 (Australian Journal of Scientific Research A 2, 149-168).
    """
    # 0, 1, k-1, 2, k-2, ...: the differences of neighbours are all different modulo k
    zigzag = [0] + [(i + 1) // 2 if i % 2 else k - i // 2 for i in range(1, k)]
    rows = [[(start + step) % k for step in zigzag] for start in range(k)]
    return rows if k % 2 == 0 else rows + [row[::-1] for row in rows]


def _shuffle(rng: np.random.Generator, items: Sequence[Item], keys: Sequence[Callable[[Item], Hashable]]) -> list[Item]:
    """Return `items` in random order: those with one first key together, inside them those with one second."""
    if not keys:
        return [items[i] for i in rng.permutation(len(items))]
    units: dict[Hashable, list[Item]] = {}
    for item in items:
        units.setdefault(keys[0](item), []).append(item)
    every = list(units.values())
    return [item for unit in rng.permutation(len(every)) for item in _shuffle(rng, every[unit], keys[1:])]


def _row(seed: int, block: int, systems: int) -> list[int]:
    """Return the row of a block: rows of a set in random order, systems given to its numbers at random, once."""
    rows = williams(systems)
    number, place = divmod(block, len(rows))
    labels = np.random.default_rng([seed, _LABELS]).permutation(systems)
    shuffled = np.random.default_rng([seed, _ROWS, number]).permutation(len(rows))
    return [int(labels[i]) for i in rows[shuffled[place]]]
