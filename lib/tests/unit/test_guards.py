from __future__ import annotations

import pytest

from infrabench.core import Guards
from infrabench.experiment.execution.guards import judge

CPU = {"user": 0.0, "nice": 0.0, "system": 0.0, "irq": 0.0, "softirq": 0.0, "idle": 0.0, "iowait": 0.0, "steal": 0.0}


def sample(at, *, load=0.0, own=None, psi=0.0, throttled=0, kills=0, hits=0, set_s=0.0, **cpu):
    return {
        "time_s": 1.8e9 + at + set_s, "monotonic_s": at, "cpu": {**CPU, **cpu, "cpus": 2, "tick_s": 0.01},
        "load": {"running": load} | ({} if own is None else {"own": own}), "psi": {"memory_full_s": psi},
        "cgroups": {
            "/c": {"cpu.stat:nr_throttled": throttled},
            "/m": {"memory.events:oom_kill": kills, "memory.events:max": hits},
        },
    }  # fmt: skip


def judged(after, before=None, guards=Guards(), cgroups=("/c", "/m")):  # noqa: B008 (frozen)
    return judge(guards, {"h": before or sample(0)}, {"h": after}, {"h": cgroups})


def test_a_quiet_trial_is_valid_and_its_conditions_are_kept():
    invalid, failed, seen = judged(sample(10, user=5.0, idle=15.0))
    assert invalid == failed == []
    assert seen["h"] == {
        "window_s": 10, "cpu_ticks": 2000, "steal_share": 0.0, "busy_share": 0.25, "runnable_per_cpu": 0.0,
        "own_runnable_per_cpu": None, "memory_full_share": 0.0, "memory_limit_hits": 0, "throttled_periods": 0,
        "oom_kills": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("after", "before", "said"),
    [
        (sample(10, idle=10.0, user=9.0, steal=1.0), sample(0), "(share of what was wanted) 0.099 > 0.02"),
        (sample(10, idle=990.0, user=9.5, steal=0.5), sample(0), "(share of what was wanted) 0.049 > 0.02"),
        (sample(0.1, idle=0.1, user=0.08, steal=0.02), sample(0), "(share of what was wanted) 0.1 > 0.02"),
        (sample(10, idle=20.0), sample(0, load=9.0), "runnable tasks per CPU just before the trial 4.5 > 4"),
        (sample(10, idle=20.0), sample(0, load=20.0, own={"/c": 9}), "just before the trial 10 > 4"),
        (sample(10, idle=20.0), sample(0, load=9.0, own={"/other": 9}), "just before the trial 4.5 > 4"),
        (sample(10, idle=20.0, psi=2.0), sample(0), "waiting for memory (share) 0.2 > 0.1"),
        (sample(10, idle=20.0, set_s=2.0), sample(0), "h: its clock was set by +2.0 s while"),
        (sample(10, idle=20.0), sample(0, set_s=31556952.0), "h: its clock was set by -31556952.0 s while"),
    ],
)
def test_what_the_machine_does_makes_a_trial_invalid(after, before, said):
    invalid, failed, _ = judged(after, before)
    assert failed == []
    assert len(invalid) == 1
    assert said in invalid[0]


@pytest.mark.parametrize(
    ("after", "before", "said"),
    [
        (sample(10, idle=20.0, throttled=4), sample(0, throttled=1), "throttled cgroup periods 3 > 0"),
        (sample(10, idle=20.0), sample(0, load=9.0, own={"/c": 8, "/m": 8}), "the trial 4.5 > 4, by the system itself"),
        (sample(10, idle=20.0, psi=2.0, hits=7), sample(0, hits=2), "memory (share) 0.2 > 0.1, by the system itself"),
        (sample(10, idle=20.0, kills=2), sample(0), "2 processes of the system were killed"),
    ],
)
def test_what_the_system_does_to_itself_is_its_failure_and_no_repeat_hides_it(after, before, said):
    invalid, failed, _ = judged(after, before)
    assert invalid == []
    assert len(failed) == 1
    assert said in failed[0]


def test_a_clock_that_is_wrong_all_the_time_or_put_right_slowly_is_no_reason():
    year = 31556952.0
    assert judged(sample(10, idle=20.0, set_s=year), sample(0, set_s=year))[0] == []
    assert judged(sample(100, idle=200.0, set_s=0.05))[0] == []


def test_rules_can_be_switched_off_one_by_one():
    noisy = sample(10, idle=10.0, steal=10.0, throttled=5, psi=9.0)
    off = Guards(steal_share=None, throttled_periods=None, runnable_per_cpu=None, memory_full_share=None)
    assert judged(noisy, sample(0, load=99.0), off)[:2] == ([], [])
    assert [len(each) for each in judged(noisy, sample(0, load=99.0))[:2]] == [3, 1]


def test_little_steal_is_judged_as_a_share_of_one_processor_where_less_was_wanted():
    reasons, _, _ = judged(sample(10, idle=19.6, user=0.3, steal=0.1))
    assert reasons == []
    reasons, _, _ = judged(sample(10, idle=19.3, user=0.4, steal=0.3))
    assert reasons == ["h: CPU time stolen by the hypervisor (share of what was wanted) 0.029 > 0.02"]


def test_one_tick_of_steal_may_be_of_before_the_window():
    reasons, _, seen = judged(sample(0.1, idle=0.1, user=0.09, steal=0.01))
    assert reasons == []
    assert seen["h"]["steal_share"] == pytest.approx(0.05)


def test_what_a_host_does_not_tell_is_null_and_not_judged():
    blind = {**sample(10), "cpu": None, "psi": None, "load": None, "cgroups": {"/c": None}}
    reasons, _, seen = judge(
        Guards(), {"h": blind}, {"h": {**blind, "time_s": 1.8e9 + 20, "monotonic_s": 20}}, {"h": ("/c",)}
    )
    assert reasons == []
    assert {key for key, value in seen["h"].items() if value is None} == set(seen["h"]) - {"window_s"}


def test_only_the_cgroups_of_the_measured_system_count():
    assert judged(sample(10, idle=20.0, throttled=4), cgroups=())[:2] == ([], [])


def test_a_counter_that_runs_backwards_spent_nothing():
    *_, seen = judged(sample(10, user=5.0, idle=1.0), sample(0, idle=2.0))
    assert seen["h"]["busy_share"] == 1.0
