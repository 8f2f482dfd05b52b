"""Orders inside a block: each treatment once, and Williams squares balanced for place and for carry-over."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench.core import DesignError
from infrabench.orders import order, shuffled, williams


@pytest.mark.parametrize("k", range(2, 9))
def test_a_williams_square_is_balanced_for_place_and_for_first_order_carry_over(k):
    rows = williams(k)
    assert len(rows) == (k if k % 2 == 0 else 2 * k)
    assert all(sorted(row) == list(range(k)) for row in rows)
    share = len(rows) // k
    assert set(Counter((place, x) for row in rows for place, x in enumerate(row)).values()) == {share}
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(follows) == k * (k - 1)
    assert set(follows.values()) == {share}


def test_one_system_alone_has_one_order():
    assert williams(1) == [[0], [0]]


@settings(deadline=None, derandomize=True)
@given(
    st.sampled_from(["random", "williams"]), st.integers(0, 2**40), st.integers(0, 999), st.integers(1, 6),
    st.integers(1, 5),
)  # fmt: skip
def test_a_block_holds_every_treatment_once_and_is_the_same_again(kind, seed, block, systems, cases):
    given = {"seed": seed, "block": block, "systems": systems, "cases": cases}
    places = order(kind, **given)
    assert sorted(places) == [(s, c) for s in range(systems) for c in range(cases)]
    assert order(kind, **given) == places


@pytest.mark.parametrize(("systems", "blocks"), [(4, 4), (3, 6)])
def test_a_full_set_of_williams_blocks_is_balanced_in_every_case(systems, blocks):
    follows: Counter = Counter()
    for block in range(blocks):
        places = order("williams", seed=3, block=block, systems=systems, cases=2)
        for case in (0, 1):
            row = [s for s, c in places if c == case]
            follows.update(pairwise(row))
    assert set(follows.values()) == {2 * blocks // systems}


def test_sets_come_in_an_order_of_their_own():
    rows = [order("williams", seed=3, block=block, systems=4, cases=1) for block in range(40)]
    sets = [tuple(map(tuple, rows[i : i + 4])) for i in range(0, 40, 4)]
    assert len(set(sets)) > 5
    assert len({frozenset(each) for each in sets}) == 1


def test_repeats_are_shuffled_by_seed_block_and_draw():
    drawn = {tuple(shuffled(6, seed=1, block=b, draw=d)) for b in range(5) for d in (1, 2)}
    assert len(drawn) > 5
    assert all(sorted(each) == list(range(6)) for each in drawn)


def test_an_unknown_order_is_refused():
    with pytest.raises(DesignError, match="unknown order 'sequential'"):
        order("sequential", seed=0, block=0, systems=2, cases=1)
