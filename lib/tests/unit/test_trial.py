"""A trial: steps that rescue after what failed, and guards that make it invalid, or failed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.core import Guards, Measurement, NotAsClaimed, Step, Target, Trial
from infrabench.experiment.execution import monitor
from infrabench.experiment.execution.monitor import judge
from infrabench.experiment.execution.trial import Bench, execute
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import DyingHost

SPOILT = {"failed": "echo broken >&2; exit 3", "timeout": "sleep 60"}


class Quiet:
    """A monitor that watches no host."""

    def begin(self, mark, cgroups):
        return {}

    def end(self, mark):
        return {}


def trial():
    return Trial("t", 0, 0, "base", "w", "s", {}, None, None, 1.0, 0)


def workload(tmp_path, *, prepare="true", measure="echo 7", rescue="echo evidence", parse=None):
    """A workload that notes in a file, in order, what of it ran after the measurement."""

    def step(name, script, phase, role="server"):
        limit_s = 0.5 if script == SPOILT["timeout"] else 30.0
        return Step(name, role, ("sh", "-c", script), timeout_s=limit_s, phase=phase, host=phase == "rescue")

    log = tmp_path / "log"
    steps = [
        step("tidy", f"echo tidy >> {log}", "cleanup"),  # the order of phases does not hang on that of the list
        step("ready", prepare, "prepare"),
        step("tool", measure, "measure"),
        step("evidence", f"{rescue}; echo evidence >> {log}", "rescue", "control"),
        step("remove", f"echo remove >> {log}", "rescue", "control"),
    ]
    value = Measurement("value", 7.0, "1/s", "higher")
    return SimpleNamespace(plan=lambda params, roles: steps, parse=parse or (lambda capture: [value]), PARAMS={}), log


def bench(server=None):
    roles = {"server": Target("server", server or LocalHost("here")), "control": Target("control", LocalHost("there"))}
    return Bench(roles, Quiet(), {}, Guards(None, None, None, None))


def ran(log):
    return log.read_text().split() if log.exists() else []


def test_a_trial_that_went_well_needs_no_rescue(tmp_path):
    job, log = workload(tmp_path)
    finished = execute(trial(), job, bench())
    assert finished.record.state == "ok"
    assert ran(log) == ["tidy"]
    assert [step["phase"] for step in finished.record.steps] == ["prepare", "measure", "cleanup"]


@pytest.mark.parametrize("where", ["prepare", "measure"])
@pytest.mark.parametrize("state", ["failed", "timeout"])
def test_after_a_step_that_failed_evidence_is_kept_and_then_all_is_cleaned(tmp_path, where, state):
    job, log = workload(tmp_path, **{where: SPOILT[state]})
    finished = execute(trial(), job, bench())
    assert finished.record.state == state
    assert ran(log) == ["evidence", "remove", "tidy"]
    assert finished.blobs["evidence.stdout"] == b"evidence\n"
    assert [step["phase"] for step in finished.record.steps][-3:] == ["rescue", "rescue", "cleanup"]
    assert finished.record.tool_s == sum(s["duration_s"] for s in finished.record.steps if s["phase"] == "measure")
    assert "cleanup_failed" not in finished.record.conditions


def test_a_rescue_that_fails_is_noted_and_hinders_nothing(tmp_path):
    job, log = workload(tmp_path, measure=SPOILT["failed"], rescue="echo no such pod >&2; exit 1")
    finished = execute(trial(), job, bench())
    assert (finished.record.state, finished.record.reason) == ("failed", "measure step tool exited with 3: broken")
    assert ran(log) == ["remove", "tidy"]
    assert finished.record.conditions["cleanup_failed"] == ["evidence"]
    assert finished.blobs["evidence.stderr"] == b"no such pod\n"
    ((said, is_removed),) = finished.left.items()
    assert said == "base w: step evidence failed: what it made may still run"
    assert not is_removed()


def test_what_cleans_up_is_run_once_more_where_it_failed(tmp_path):
    once = f"mkdir {tmp_path}/once 2>/dev/null && exit 1; true"
    job, log = workload(tmp_path, measure=SPOILT["failed"], rescue=once)
    finished = execute(trial(), job, bench())
    assert [step["attempts"] for step in finished.record.steps] == [1, 1, 2, 1, 1]
    assert ran(log) == ["evidence", "remove", "tidy"]
    assert finished.left == {}


def test_a_rescue_that_knows_the_cause_says_it_beside_what_the_tool_said(tmp_path):
    job, _ = workload(tmp_path, measure=SPOILT["failed"], rescue="echo memory limit >&2; echo a log")
    record = execute(trial(), job, bench()).record
    assert record.reason == "measure step tool exited with 3: broken; memory limit"
    assert "cleanup_failed" not in record.conditions


def test_the_last_words_of_a_step_that_failed_are_kept(tmp_path):
    """As many as a population needs that names events, the runtime's complaint and its containers' states."""
    job, _ = workload(tmp_path, measure="printf '%0500d%0595d last' 1 2 >&2; exit 3")
    reason = execute(trial(), job, bench()).record.reason
    assert reason.endswith(f"exited with 3: {'0' * 594}2 last")


def test_what_a_lost_host_left_is_rescued_on_the_others(tmp_path):
    job, log = workload(tmp_path, measure="echo fatal")
    finished = execute(trial(), job, bench(DyingHost("echo fatal", inner=LocalHost())))
    assert finished.record.state == "aborted"
    assert "connection lost" in str(finished.fatal)
    assert ran(log) == ["evidence", "remove"]
    assert finished.record.conditions["cleanup_failed"] == ["tidy"]


def test_an_interrupt_rescues_too_and_goes_on_up(tmp_path):
    job, log = workload(tmp_path, measure="echo stop")
    host = LocalHost("here")

    class Interrupted:
        name, address = host.name, host.address

        def run(self, argv, *, timeout_s, stdin=b""):
            if "echo stop" in argv:
                raise KeyboardInterrupt
            return host.run(argv, timeout_s=timeout_s, stdin=stdin)

    with pytest.raises(KeyboardInterrupt):
        execute(trial(), job, bench(Interrupted()))
    assert ran(log) == ["evidence", "remove", "tidy"]


def test_output_that_contradicts_its_claim_left_nothing_to_rescue(tmp_path):
    def parse(capture):
        raise NotAsClaimed("another path")

    job, log = workload(tmp_path, parse=parse)
    assert execute(trial(), job, bench()).record.state == "invalid"
    assert ran(log) == ["tidy"]


class Watched(Quiet):
    """A monitor of one host whose samples are given."""

    def __init__(self, before, after):
        self.before, self.after = before, after

    def begin(self, mark, cgroups):
        return {"h": self.before}

    def end(self, mark):
        return {"h": [self.after]}


@pytest.mark.parametrize(
    ("counter", "state"), [("memory.events:oom_kill", "failed"), ("cpu.stat:nr_throttled", "failed"), (None, "invalid")]
)
def test_a_guard_that_the_system_trips_is_its_failure_and_one_of_the_machine_is_not(tmp_path, counter, state):
    job, _ = workload(tmp_path)
    cpu = dict.fromkeys(("user", "nice", "system", "irq", "softirq", "idle", "iowait", "steal"), 0.0)
    before = {"time_s": 9.0, "monotonic_s": 0.0, "cpu": {**cpu, "cpus": 2, "tick_s": 0.01}, "load": {"running": 1},
              "psi": None, "cgroups": {"/c": {counter: 0}}}  # fmt: skip
    spent = {"steal": 0.0 if counter else 1.0, "idle": 9.0}
    later = {"time_s": 14.0, "monotonic_s": 5.0, "cpu": {**before["cpu"], **spent}, "cgroups": {"/c": {counter: 1}}}
    after = {**before, **later}
    watched = Bench(bench().roles, Watched(before, after), {"h": ("/c",)}, Guards())
    record = execute(trial(), job, watched).record
    assert record.state == state
    assert record.conditions[state] == [record.reason]


PRIVATE = {"192.0.2.1": "server", "db1.example.org": "server"}


def test_what_a_trial_printed_and_asked_is_kept_without_addresses(tmp_path: Path) -> None:
    job, _ = workload(tmp_path, measure="echo to 192.0.2.1; echo from DB1.example.org >&2")
    finished = execute(trial(), job, replace(bench(), private=PRIVATE))
    assert (finished.blobs["tool.stdout"], finished.blobs["tool.stderr"]) == (b"to server\n", b"from server\n")
    (tool,) = [step for step in finished.record.steps if step["name"] == "tool"]
    assert tool["argv"][-1] == "echo to server; echo from server >&2"
    kept = json.dumps(finished.record.as_json()).encode() + b"".join(finished.blobs.values())
    assert not [private for private in PRIVATE if private.encode() in kept.lower()]


def test_why_a_trial_was_aborted_is_kept_without_addresses(tmp_path: Path) -> None:
    job, _ = workload(tmp_path, measure="echo fatal")
    lost = DyingHost("echo fatal", name="ssh me@192.0.2.1", inner=LocalHost())
    record = execute(trial(), job, replace(bench(lost), private=PRIVATE)).record
    assert (record.state, record.reason) == ("aborted", "a host was lost: ssh me@server: connection lost")


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
        (sample(10, idle=20.0, set_s=2.0), sample(0), "h: its clock was set by +2.00 s while"),
        (sample(10, idle=20.0), sample(0, set_s=31556952.0), "h: its clock was set by -31556952.00 s while"),
        (sample(1, idle=2.0, set_s=0.1), sample(0), "h: its clock was set by +0.10 s while"),
        (sample(1, idle=2.0), sample(0, set_s=0.1), "h: its clock was set by -0.10 s while"),
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


def test_a_clock_may_be_set_by_little_of_what_is_measured_and_never_by_half_a_second():
    assert [monitor.largest_step_s(each) for each in (0.0, 1.0, 10.0, 48.0, 3600.0)] == pytest.approx(
        [0.02, 0.03, 0.12, 0.5, 0.5]
    )
    assert judged(sample(1, idle=2.0, set_s=0.02))[0] == []
    assert judged(sample(3600, idle=7200.0, set_s=0.6))[0] != []


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
