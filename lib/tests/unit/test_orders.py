"""Orders inside a block: each treatment once, and Williams squares balanced for place and for carry-over."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.experiment.design.orders import order, order_repeats, williams


@pytest.mark.parametrize("k", range(1, 9))
def test_a_williams_square_is_balanced_for_place_and_for_first_order_carry_over(k):
    rows = williams(k)
    assert len(rows) == (k if k % 2 == 0 else 2 * k)
    assert all(sorted(row) == list(range(k)) for row in rows)
    share = len(rows) // k
    assert set(Counter((place, x) for row in rows for place, x in enumerate(row)).values()) == {share}
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(follows) == k * (k - 1)
    assert set(follows.values()) == ({share} if k > 1 else set())


@given(
    st.sampled_from(["adjacent", "random", "williams"]), st.integers(0, 2**40), st.integers(0, 999), st.integers(1, 6),
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


def repeated(kind, trials, **given):
    named = [(system, case, case[:1]) for case in ("a1", "a2", "b", "c") for system in "xyz"][:trials]
    found = order_repeats(kind, named, case=lambda t: t[2], system=lambda t: t[0], **given)
    assert sorted(found) == sorted(named)
    return found


@pytest.mark.parametrize("kind", ["adjacent", "random", "williams"])
def test_repeats_are_shuffled_by_seed_block_and_draw(kind):
    drawn = {tuple(repeated(kind, 12, seed=1, block=b, draw=d)) for b in range(5) for d in (1, 2)}
    assert len(drawn) > 5
    assert repeated(kind, 0, seed=1, block=0, draw=1) == []


def test_repeats_of_one_case_or_group_follow_one_another_system_by_system():
    for block in range(20):
        drawn = repeated("adjacent", 12, seed=1, block=block, draw=1)
        assert len([case for case, _ in groupby(drawn, key=lambda t: t[2])]) == 3
        assert len([unit for unit, _ in groupby(drawn, key=lambda t: (t[2], t[0]))]) == 9


def test_repeats_in_random_order_are_what_they_always_were():
    assert repeated("random", 6, seed=1, block=2, draw=1) == [
        (s, c, c[:1]) for s, c in [("y", "a1"), ("x", "a1"), ("z", "a1"), ("z", "a2"), ("x", "a2"), ("y", "a2")]
    ]


# Recorded sessions were planned by it, and are read by it: what it gives may never change.
GOLDEN = (
    ("random", 20200315, 0, 4, "...",
     [(0, 2), (3, 2), (1, 1), (0, 1), (2, 0), (0, 0), (3, 1), (1, 0), (2, 1), (1, 2), (3, 0), (2, 2)]),
    ("random", 20200315, 7, 2, ".....",
     [(1, 2), (1, 0), (1, 1), (1, 3), (0, 1), (0, 3), (0, 0), (0, 4), (0, 2), (1, 4)]),
    ("random", 1, 29, 1, "......", [(0, 4), (0, 1), (0, 0), (0, 2), (0, 3), (0, 5)]),
    ("adjacent", 20200315, 0, 3, "...", [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (1, 1), (0, 2), (2, 2), (1, 2)]),
    ("adjacent", 20200315, 7, 2, "a.ab", [(1, 3), (0, 3), (1, 2), (1, 0), (0, 2), (0, 0), (1, 1), (0, 1)]),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "seed", "block", "systems", "names", "places"), GOLDEN)
def test_an_order_is_what_it_always_was(kind, seed, block, systems, names, places):
    given = {"seed": seed, "block": block, "systems": systems, "cases": len(names)}
    groups = [name.strip(".") for name in names]
    assert order(kind, **given, groups=groups) == places
    assert any(groups) or order(kind, **given) == places


def test_over_blocks_each_case_has_each_order_of_its_systems_equally_often_and_of_its_own():
    blocks = [order("adjacent", seed=7, block=block, systems=3, cases=2) for block in range(3600)]
    rows = [tuple(tuple(s for s, c in places if c == case) for case in (0, 1)) for places in blocks]
    every = list(permutations(range(3)))
    both = Counter(rows)
    assert set(both) == {(one, other) for one in every for other in every}  # 36, of 100 blocks each
    assert sum((count - 100) ** 2 / 100 for count in both.values()) < 66.6  # chi-squared, 35 degrees, p = 0.001
    first = Counter(places[0][1] for places in blocks)
    assert abs(first[0] - 1800) < 3.3 * 30


@pytest.mark.parametrize(("kind", "left"), [("adjacent", 1 / 2), ("random", 1 / 15), ("williams", 1.0)])
def test_what_a_system_leaves_behind_meets_others_more_often_than_itself(kind, left):
    """The share of it that stays in a ratio of two systems, as docs/plan-a-study.md says."""
    follows: Counter = Counter()
    for block in range(1500):
        follows.update(pairwise(s for s, _ in order(kind, seed=4, block=block, systems=2, cases=8)))
    met = [follows[1, system] / (follows[0, system] + follows[1, system]) for system in (0, 1)]
    assert met[0] - met[1] == pytest.approx(left, abs=0.05)


groups = st.lists(st.sampled_from(["", "10 pods", "20 pods"]), min_size=1, max_size=8)


@given(st.sampled_from(["adjacent", "random"]), groups, st.integers(0, 2**40), st.integers(0, 999), st.integers(1, 5))
def test_with_groups_every_treatment_comes_once_and_what_is_shared_is_made_once(kind, groups, seed, block, systems):
    given = {"seed": seed, "block": block, "systems": systems, "cases": len(groups), "groups": groups}
    places = order(kind, **given)
    assert sorted(places) == [(s, c) for s in range(systems) for c in range(len(groups))]
    assert order(kind, **given) == places
    name = [group or str(case) for case, group in enumerate(groups)]
    units = [unit for unit, _ in groupby((name[c], s) for s, c in places)]
    assert len(units) == systems * len(set(name))  # each system's part of a group stands together
    if kind == "adjacent":
        assert len([each for each, _ in groupby(name[c] for _, c in places)]) == len(set(name))


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
