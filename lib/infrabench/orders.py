"""The order of the treatments inside a block: pure functions of seed, block and counts.

``random``: one fresh permutation of all treatments. ``williams``: for suspected carry-over; the cases come in random
order, and inside each case the systems come in a row of a Williams square, so that over a full set of rows every
system stands at every place equally often and follows every other system equally often (Williams 1949).
"""

from __future__ import annotations

import numpy as np

from infrabench.core import DesignError

ORDERS = ("random", "williams")
# Keep the random numbers of the squares apart from those of the blocks.
_LABELS, _ROWS = 2**31, 2**31 + 1


def order(kind: str, *, seed: int, block: int, systems: int, cases: int) -> list[tuple[int, int]]:
    """Return the treatments of a block in order, as (system, case) numbers; each once.

    It hangs on its arguments alone, so planning more blocks leaves earlier ones as they were. Raises `DesignError` for
    an unknown kind.
    """
    if kind not in ORDERS:
        raise DesignError(f"unknown order {kind!r}: known are {', '.join(ORDERS)}")
    rng = np.random.default_rng([seed, block])
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


def _row(seed: int, block: int, systems: int) -> list[int]:
    """Return the row of a block: rows of a set in random order, systems given to its numbers at random, once."""
    rows = williams(systems)
    number, place = divmod(block, len(rows))
    labels = np.random.default_rng([seed, _LABELS]).permutation(systems)
    shuffled = np.random.default_rng([seed, _ROWS, number]).permutation(len(rows))
    return [int(labels[i]) for i in rows[shuffled[place]]]
