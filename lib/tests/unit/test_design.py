"""From a request to a plan: complete blocks, their orders, and what they cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import Case, DesignError, Limits, Param, Profile, Request, Study, canonical
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.orders import order, order_repeats, williams

names = st.text("abcdefghij", min_size=1, max_size=6)
seeds = st.integers(0, 2**32)


CASES = (Case("cpu", "threads=1", {"threads": 1}), Case("disk", "default"))


def study(systems=("native", "docker"), cases=CASES, blocks=4):
    profiles = {"quick": Profile(blocks, tuple(cases))}
    return Study("s", "S", systems[0], tuple(systems), profiles, Limits(), (), {"": 0.02})


@st.composite
def studies(draw):
    systems = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    cells = draw(st.lists(st.tuples(names, names), min_size=1, max_size=6, unique=True))
    cases = [Case(workload, scenario, {"n": i}, seconds=float(i)) for i, (workload, scenario) in enumerate(cells)]
    return study(systems, cases, draw(st.integers(1, 8)))


def design(study, *, known_systems=(), declared=None, **asked):
    return designs.design(study, Request(study.name, **asked), known_systems, declared)


def plan(study, **asked):
    return designs.trials(design(study, **asked))


def treatment(trial):
    return trial.system, trial.workload, trial.scenario


@given(studies(), seeds)
def test_blocks_are_complete_permutations_of_the_treatments_and_the_same_again_byte_for_byte(study, seed):
    planned, again = (plan(study, profile="quick", seed=seed) for _ in range(2))
    assert canonical([t.as_json() for t in planned]) == canonical([t.as_json() for t in again])
    profile = study.profiles["quick"]
    wanted = Counter((system, case.workload, case.scenario) for case in profile.cases for system in study.systems)
    for block in range(profile.blocks):
        assert Counter(treatment(trial) for trial in planned if trial.block == block) == wanted
    assert [trial.position for trial in planned] == list(range(len(planned)))
    assert [trial.block for trial in planned] == sorted(trial.block for trial in planned)
    assert len({trial.id for trial in planned}) == len(planned)


@given(studies(), seeds, st.integers(1, 5))
def test_more_blocks_leave_the_earlier_ones_as_they_were(study, seed, more):
    blocks = study.profiles["quick"].blocks
    shorter = plan(study, profile="quick", seed=seed)
    longer = plan(study, profile="quick", seed=seed, runs=blocks + more)
    assert longer[: len(shorter)] == shorter


def test_another_seed_and_another_block_are_another_order():
    wide = study(cases=[Case("cpu", str(i)) for i in range(20)], blocks=2)
    one, two = (plan(wide, profile="quick", seed=seed) for seed in (1, 2))
    assert [treatment(t) for t in one] != [treatment(t) for t in two]
    assert {t.id for t in one}.isdisjoint(t.id for t in two)
    blocks = [[treatment(t) for t in one if t.block == block] for block in (0, 1)]
    assert blocks[0] != blocks[1]


def test_the_order_asked_for_does_not_change_the_plan():
    wide = study(("native", "docker", "lxc"))
    one, two = (plan(wide, profile="quick", systems=s) for s in (["lxc", "native"], ["native", "lxc"]))
    assert one == two
    assert {t.system for t in one} == {"native", "lxc"}


def test_parameters_are_completed():
    cases = [Case("cpu", "a", {"threads": 4}, "threads", 4)]
    planned = plan(study(cases=cases), profile="quick", declared={"cpu": {"threads": Param(1), "seconds": Param(2)}})
    assert planned[0].params == {"threads": 4, "seconds": 2}
    assert isinstance(planned[0].level, float)


def test_a_registered_workload_without_a_case_runs_at_its_defaults():
    planned = plan(study(), profile="quick", workloads=["null"], declared={"null": {"n": Param(1)}}, runs=1)
    assert {(t.workload, t.scenario, t.params["n"]) for t in planned} == {("null", "default", 1)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"profile": "quik"}, "unknown profile of study 's' 'quik': did you mean quick"),
        ({"systems": ["native", "dokcer"]}, "unknown system 'dokcer': did you mean docker"),
        ({"systems": ["native", "native"]}, "more than once"),
        ({"workloads": ["cpus"]}, "unknown workload 'cpus': did you mean cpu"),
        ({"runs": 2.5}, "runs must be a whole number of at least 1, got 2.5"),
        ({"runs": 7, "deployments": 3}, "7 blocks cannot be shared out to 3 deployments"),
        ({"runs": 20, "precision": 0.02}, "blocks are added from 30 upward: runs must be 30, not 20"),
        ({"runs": 30, "precision": 2.0}, "give a share between 0 and 1"),
        ({"runs": 30, "precision": 0.02, "most": 10}, "at most 10 blocks is fewer"),
        ({"runs": 30, "deployments": 6, "precision": 0.02}, "one deployment only"),
        ({"order": "willams"}, "unknown order 'willams': did you mean williams"),
        ({"aa": "dokcer"}, "unknown system 'dokcer': did you mean docker"),
        (
            {"declared": {"cpu": {"thread": Param(1)}}},
            "unknown parameter of workload 'cpu' 'threads': did you mean thread",
        ),
    ],
)
def test_a_bad_request_is_refused_by_name(asked, said):
    with pytest.raises(DesignError, match=said):
        plan(study(), **{"profile": "quick", **asked})


def test_without_the_studys_baseline_the_first_system_that_is_named_is_the_baseline():
    three = study(("native", "docker", "lxc"))
    theirs = design(three, profile="quick", systems=["docker"])
    assert (theirs.baseline, theirs.systems) == ("docker", ("docker",))
    first = design(three, profile="quick", systems=["lxc", "docker"])
    assert first.baseline == "lxc"
    assert designs.trials(first) == plan(three, profile="quick", systems=["docker", "lxc"])
    asked = replace(three, known=(("docker", "cpu", "events", 2.0),))
    assert designs.study_of(asked, first).baseline == "lxc"
    assert designs.study_of(asked, first).known == ()  # a known ratio is one to the study's own baseline
    assert designs.study_of(asked, design(asked, profile="quick")) == asked


def test_two_cases_of_the_same_name_are_refused():
    with pytest.raises(DesignError, match="'cpu' twice at scenario 'a'"):
        plan(study(cases=[Case("cpu", "a"), Case("cpu", "a", {"n": 2})]), profile="quick")


def test_cost_grows_with_trials_and_takes_the_largest_disk():
    cases = [Case("cpu", "a", seconds=2.0), Case("disk", "b", seconds=3.0, disk_bytes=7)]
    asked = replace(study(cases=cases), probe_s=1.0, deploy_s=7.0)
    cost = designs.expected_study_cost(asked, design(asked, profile="quick"))
    assert cost.seconds == pytest.approx(2 * 4 * (2 + 3) + 16 * designs.TRIAL_OVERHEAD_S + 4 * 1 + 2 * 7)
    assert cost.target_bytes == 7
    assert cost.ledger_bytes > 16 * designs.RECORD_BYTES


def test_a_case_that_applies_to_nobody_is_gone():
    every = [(system, "disk", "default") for system in ("native", "docker")]
    left = designs.without(design(study(), profile="quick"), excluded=every)
    assert [case.workload for case in left.cases] == designs.workloads(left) == ["cpu"]


def test_treatments_that_do_not_apply_cost_nothing():
    cases = [Case("cpu", "a", seconds=2.0), Case("disk", "b", seconds=3.0)]
    asked = study(cases=cases)
    wanted = design(asked, profile="quick")
    left = designs.without(wanted, excluded=[("native", "disk", "b")])
    costs = [designs.expected_study_cost(asked, each).seconds for each in (wanted, left)]
    assert costs[0] - costs[1] == pytest.approx(4 * (3 + designs.TRIAL_OVERHEAD_S))


def test_what_a_study_foresees_to_have_no_place_is_in_no_plan_and_out_of_the_way_once_systems_are_ready():
    asked = replace(study(("native", "docker", "lxc")), placeless={"docker": {("disk", "default")}})
    gone = {("docker", "disk", "default"), ("docker@29.6.1", "disk", "default")}
    wanted = design(asked, profile="quick", systems=["native", "docker", "docker@29.6.1"])
    planned = {(trial.system, trial.workload, trial.scenario) for trial in designs.trials(wanted)}
    assert wanted.excluded == gone
    assert len(planned) == 4
    assert designs.without(wanted).excluded == frozenset()
    twins = design(asked, profile="quick", aa="docker")
    assert {system for system, _ in designs.treatments(twins)} == set(twins.systems)
    assert {case.workload for _, case in designs.treatments(twins)} == {"cpu"}


def test_a_profile_may_name_its_own_systems():
    wide = study(("native", "docker", "lxc"))
    small = Profile(2, CASES, systems=("lxc", "native"))
    wide = replace(wide, profiles={"quick": small})
    assert design(wide, profile="quick").systems == ("native", "lxc")
    assert design(wide, profile="quick", systems=["native", "docker"]).systems == ("native", "docker")
    assert design(wide, profile="quick", aa="docker").systems == ("docker", "docker-again")


GROUPED = (
    *(Case(name, f"{pods} pods", {"n": pods}, group=f"{pods} pods") for pods in (10, 20) for name in ("cpu", "net")),
    Case("disk", "default"),
)


def units(planned):
    """The runs of one system and group, in order."""
    group = {(case.workload, case.scenario): case.group for case in GROUPED}
    return [unit for unit, _ in groupby((t.block, t.system, group[t.workload, t.scenario]) for t in planned)]


def test_cases_of_a_group_stand_together_for_each_system_in_every_block():
    wide = study(("native", "docker", "lxc"), GROUPED, blocks=6)
    planned = plan(wide, profile="quick")
    assert Counter(units(planned)) == Counter(
        (block, system, group) for block in range(6) for system in wide.systems for group in ("10 pods", "20 pods", "")
    )
    assert plan(wide, profile="quick", runs=9)[: len(planned)] == planned
    assert len({tuple(unit[1:] for unit in units(planned) if unit[0] == block) for block in range(6)}) == 6


@pytest.mark.parametrize(
    ("cases", "gone"),
    [
        (CASES, [("docker", "disk", "default")]),
        (GROUPED, [("docker", "cpu", "20 pods"), ("docker", "net", "20 pods")]),
    ],
    ids=["alone", "in groups"],
)
def test_what_does_not_apply_is_left_out_and_the_others_stay_where_they_are(cases, gone):
    wanted = design(study(cases=cases, blocks=6), profile="quick")
    left = designs.without(wanted, excluded=gone)
    assert designs.trials(left) == tuple(t for t in designs.trials(wanted) if treatment(t) not in gone)
    assert len(designs.trials(left)) == 6 * (2 * len(cases) - len(gone))
    there = {(name, case.workload, case.scenario) for name, case in designs.treatments(left)}
    assert there == {treatment(t) for t in designs.trials(wanted)} - {*gone}
    assert designs.block(left, 7) == tuple(t for t in designs.block(wanted, 7) if treatment(t) not in gone)


def pairs_apart(planned):
    """Trials between the two systems of each case, in the worst place."""
    at = {}
    for trial in planned:
        at.setdefault((trial.block, trial.workload, trial.scenario), []).append(trial.position)
    return max(max(each) - min(each) for each in at.values())


def test_by_default_the_systems_of_a_case_stand_next_to_each_other():
    wide = study(("native", "docker"), [Case("cpu", str(i)) for i in range(9)], blocks=20)
    assert pairs_apart(plan(wide, profile="quick")) == 1
    assert pairs_apart(plan(wide, profile="quick", order="random")) > 10
    assert plan(wide, profile="quick", order="adjacent") == plan(wide, profile="quick")


def test_groups_are_no_part_of_a_trials_identity():
    alone = [replace(case, group="") for case in GROUPED]
    ids = [{t.id for t in plan(study(cases=cases), profile="quick")} for cases in (GROUPED, alone)]
    assert ids[0] == ids[1]


def test_groups_are_refused_in_williams_squares_before_anything_starts():
    with pytest.raises(DesignError, match=r"\(10 pods, 20 pods\) cannot be in the order 'williams', in which the"):
        design(study(cases=GROUPED), profile="quick", order="williams")
    design(study(cases=GROUPED), profile="quick", order="williams", workloads=["disk"])


def test_what_cannot_run_is_left_out_of_every_block():
    wanted = designs.without(design(study(), profile="quick"), systems=["docker"], workloads=["disk"])
    planned = designs.trials(wanted)
    assert [treatment(t) for t in planned] == [("native", "cpu", "threads=1")] * 4


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
