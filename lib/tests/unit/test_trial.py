"""Steps that rescue: only after what failed, before the cleanup, kept like any other, and also on an interrupt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.core import Guards, Measurement, NotAsClaimed, Step, Target, Trial
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
    (said, is_removed), = finished.left.items()
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
