from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import Case, DesignError, Limits, Param, Profile, Request, Study, canonical
from infrabench.experiment.design import design as designs

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
        ({"systems": 5}, "must be a list"),
        ({"workloads": ["cpus"]}, "unknown workload 'cpus': did you mean cpu"),
        ({"runs": 2.5}, "runs must be a whole number of at least 1, got 2.5"),
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
