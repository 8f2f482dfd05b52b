"""Orders inside a block: each treatment once, and Williams squares balanced for place and for carry-over."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise

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


# What `random` gave before there were groups: recorded sessions were planned by it.
GOLDEN = (
    (20200315, 0, 4, 3, [(0, 2), (3, 2), (1, 1), (0, 1), (2, 0), (0, 0), (3, 1), (1, 0), (2, 1), (1, 2), (3, 0),
                         (2, 2)]),
    (20200315, 7, 2, 5, [(1, 2), (1, 0), (1, 1), (1, 3), (0, 1), (0, 3), (0, 0), (0, 4), (0, 2), (1, 4)]),
    (1, 29, 1, 6, [(0, 4), (0, 1), (0, 0), (0, 2), (0, 3), (0, 5)]),
)  # fmt: skip


@pytest.mark.parametrize(("seed", "block", "systems", "cases", "places"), GOLDEN)
def test_without_groups_the_order_is_what_it_always_was(seed, block, systems, cases, places):
    given = {"seed": seed, "block": block, "systems": systems, "cases": cases}
    assert order("random", **given) == order("random", **given, groups=[""] * cases) == places


groups = st.lists(st.sampled_from(["", "10 pods", "20 pods"]), min_size=1, max_size=8)


@settings(deadline=None, derandomize=True)
@given(groups, st.integers(0, 2**40), st.integers(0, 999), st.integers(1, 5))
def test_with_groups_every_treatment_comes_once_and_each_systems_group_stands_together(groups, seed, block, systems):
    given = {"seed": seed, "block": block, "systems": systems, "cases": len(groups), "groups": groups}
    places = order("random", **given)
    assert sorted(places) == [(s, c) for s in range(systems) for c in range(len(groups))]
    assert order("random", **given) == places
    units = [unit for unit, _ in groupby(places, key=lambda place: (place[0], groups[place[1]]))]
    together = [unit for unit in units if unit[1]]
    assert len(together) == len(set(together))


def test_units_and_the_cases_inside_them_come_in_every_order_equally_often():
    blocks = [
        order("random", seed=5, block=block, systems=2, cases=4, groups=["a", "b", "a", ""]) for block in range(6000)
    ]
    units = Counter(
        tuple(unit for unit, _ in groupby((s, "aba-"[c]) for s, c in places)) for places in blocks
    )  # fmt: skip
    assert len(units) == 720  # 3 units of each of 2 systems
    assert max(units.values()) < 8.3 + 6 * 8.3**0.5
    inside = Counter(places.index((1, 0)) < places.index((1, 2)) for places in blocks)
    assert abs(inside[True] - 3000) < 3.3 * 1500**0.5
    assert len({tuple(c for s, c in places if s == 0 and c in (0, 2)) == (0, 2) for places in blocks}) == 2


def test_groups_cannot_be_kept_together_in_williams_squares():
    with pytest.raises(DesignError, match=r"\(10 pods, 20 pods\) cannot be in the order 'williams'"):
        order("williams", seed=0, block=0, systems=2, cases=3, groups=["10 pods", "", "20 pods"])
    given = {"seed": 3, "block": 1, "systems": 3, "cases": 2}
    assert order("williams", **given, groups=["", ""]) == order("williams", **given)


def test_an_unknown_order_is_refused():
    with pytest.raises(DesignError, match="unknown order 'sequential'"):
        order("sequential", seed=0, block=0, systems=2, cases=1)
