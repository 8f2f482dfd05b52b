"""The order of the treatments inside a block: pure functions of seed, block and counts.

``random``: one fresh permutation of all treatments. Where cases are in groups it is one of the units (system, group),
and inside each unit one of its cases: what a group shares is made once for each system, and no group has a place of its
own. ``williams``: for suspected carry-over; the cases come in random order, and inside each case the systems come in a
row of a Williams square, so that over a full set of rows every system stands at every place equally often and follows
every other system equally often (Williams 1949).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrabench.core import DesignError, unknown_name

ORDERS = ("random", "williams")
# Keep the random numbers of the squares apart from those of the blocks.
_LABELS, _ROWS = 2**31, 2**31 + 1


def check(kind: str, groups: Sequence[str] = ()) -> None:
    """Raise `DesignError` for an unknown kind of order, and for one that cannot keep `groups` together."""
    if kind not in ORDERS:
        raise unknown_name("order", kind, ORDERS)
    if kind == "williams" and any(groups):
        raise DesignError(
            f"cases that stand together ({', '.join(dict.fromkeys(filter(None, groups)))}) cannot be in the order "
            "'williams', in which the systems follow each other inside each case: take 'random'"
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
    if any(groups):
        return _grouped(rng, systems, groups)
    if kind == "random":
        # treatments are counted case by case
        return [(int(i) % systems, int(i) // systems) for i in rng.permutation(systems * cases)]
    row = _row(seed, block, systems)
    return [(system, int(case)) for case in rng.permutation(cases) for system in row]


def williams(k: int) -> list[list[int]]:
    """Return the rows of a Williams design for `k` treatments: k rows when k is even, 2 k when it is odd.

    Over all rows each treatment is at each place equally often and directly after each other one equally often.
    Source: Williams 1949 (Australian Journal of Scientific Research A 2, 149-168).
    """
    # 0, 1, k-1, 2, k-2, ...: the differences of neighbours are all different modulo k
    zigzag = [0] + [(i + 1) // 2 if i % 2 else k - i // 2 for i in range(1, k)]
    rows = [[(start + step) % k for step in zigzag] for start in range(k)]
    return rows if k % 2 == 0 else rows + [row[::-1] for row in rows]


def shuffled(count: int, *, seed: int, block: int, draw: int) -> list[int]:
    """Return the numbers 0 .. count - 1 in a random order of their own: for repeats at the end of a block."""
    return [int(i) for i in np.random.default_rng([seed, block, draw]).permutation(count)]


def _grouped(rng: np.random.Generator, systems: int, groups: Sequence[str]) -> list[tuple[int, int]]:
    """Return the units (system, group) in random order, the cases of each in one of their own."""
    units: dict[tuple[int, str | int], list[tuple[int, int]]] = {}
    for case, group in enumerate(groups):
        for system in range(systems):
            units.setdefault((system, group or case), []).append((system, case))
    every = list(units.values())
    return [every[unit][place] for unit in rng.permutation(len(every)) for place in rng.permutation(len(every[unit]))]


def _row(seed: int, block: int, systems: int) -> list[int]:
    """Return the row of a block: rows of a set in random order, systems given to its numbers at random, once."""
    rows = williams(systems)
    number, place = divmod(block, len(rows))
    labels = np.random.default_rng([seed, _LABELS]).permutation(systems)
    shuffled = np.random.default_rng([seed, _ROWS, number]).permutation(len(rows))
    return [int(labels[i]) for i in rows[shuffled[place]]]
