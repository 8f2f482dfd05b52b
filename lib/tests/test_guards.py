from __future__ import annotations

import pytest

from infrabench.core import Guards
from infrabench.guards import judge

CPU = {"user": 0.0, "nice": 0.0, "system": 0.0, "irq": 0.0, "softirq": 0.0, "idle": 0.0, "iowait": 0.0, "steal": 0.0}


def sample(at, *, load=0.0, psi=0.0, throttled=0, kills=0, **cpu):
    return {
        "monotonic_s": at, "cpu": {**CPU, **cpu, "cpus": 2, "tick_s": 0.01}, "load": {"running": load},
        "psi": {"memory_full_s": psi},
        "cgroups": {"/c": {"cpu.stat:nr_throttled": throttled}, "/m": {"memory.events:oom_kill": kills}},
    }  # fmt: skip


def judged(after, before=None, guards=Guards(), cgroups=("/c", "/m")):  # noqa: B008 (frozen)
    return judge(guards, {"h": before or sample(0)}, {"h": after}, {"h": cgroups})


def test_a_quiet_trial_is_valid_and_its_conditions_are_kept():
    reasons, seen = judged(sample(10, user=5.0, idle=15.0))
    assert reasons == []
    assert seen["h"] == {
        "window_s": 10, "cpu_ticks": 2000, "steal_share": 0.0, "busy_share": 0.25, "runnable_per_cpu": 0.0,
        "memory_full_share": 0.0, "throttled_periods": 0, "oom_kills": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("after", "before", "said"),
    [
        (sample(10, idle=19.0, steal=1.0), sample(0), "stolen by the hypervisor (share) 0.05 > 0.02"),
        (sample(10, idle=20.0, throttled=4), sample(0, throttled=1), "throttled cgroup periods 3 > 0"),
        (sample(10, idle=20.0), sample(0, load=9.0), "runnable tasks per CPU just before the trial 4.5 > 4"),
        (sample(10, idle=20.0, psi=2.0), sample(0), "waiting for memory (share) 0.2 > 0.1"),
        (sample(10, idle=20.0, kills=2), sample(0), "2 processes of the system were killed"),
    ],
)
def test_each_rule_says_what_it_saw(after, before, said):
    reasons, _ = judged(after, before)
    assert len(reasons) == 1
    assert said in reasons[0]


def test_rules_can_be_switched_off_one_by_one():
    noisy = sample(10, idle=10.0, steal=10.0, throttled=5, psi=9.0)
    off = Guards(steal_share=None, throttled_periods=None, runnable_per_cpu=None, memory_full_share=None)
    assert judged(noisy, sample(0, load=99.0), off)[0] == []
    assert len(judged(noisy, sample(0, load=99.0))[0]) == 4


def test_a_window_too_short_to_tell_is_shown_and_not_judged():
    reasons, seen = judged(sample(0.1, idle=0.18, steal=0.02))
    assert reasons == []
    assert seen["h"]["steal_share"] == pytest.approx(0.1)


def test_what_a_host_does_not_tell_is_null_and_not_judged():
    blind = {**sample(10), "cpu": None, "psi": None, "load": None, "cgroups": {"/c": None}}
    reasons, seen = judge(Guards(), {"h": blind}, {"h": {**blind, "monotonic_s": 20}}, {"h": ("/c",)})
    assert reasons == []
    assert {key for key, value in seen["h"].items() if value is None} == set(seen["h"]) - {"window_s"}


def test_only_the_cgroups_of_the_measured_system_count():
    assert judged(sample(10, idle=20.0, throttled=4), cgroups=())[0] == []


def test_a_counter_that_runs_backwards_spent_nothing():
    _, seen = judged(sample(10, user=5.0, idle=1.0), sample(0, idle=2.0))
    assert seen["h"]["busy_share"] == 1.0
