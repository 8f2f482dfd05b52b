"""Steps that rescue: only after what failed, before the cleanup, kept like any other, and also on an interrupt."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes import DyingHost

from infrabench.core import Guards, Measurement, NotAsClaimed, Step, Target, Trial
from infrabench.host import LocalHost
from infrabench.trial import Bench, execute

SPOILT = {"failed": "echo broken >&2; exit 3", "timeout": "sleep 60"}


class Quiet:
    """A monitor that watches no host."""

    def begin(self, mark):
        return {}

    def end(self, mark):
        return {}


def trial():
    return Trial("t", 0, 0, "base", "w", "s", {}, None, None, 1.0, 0)


def workload(tmp_path, *, prepare="true", measure="echo 7", rescue="echo evidence", parse=None):
    """A workload that notes in a file, in order, what of it ran after the measurement."""

    def step(name, script, phase, role="server"):
        return Step(name, role, ("sh", "-c", script), timeout_s=0.5, phase=phase)

    log = tmp_path / "log"
    steps = [
        step("tidy", f"echo tidy >> {log}", "cleanup"),  # the order of phases does not hang on that of the list
        step("ready", prepare, "prepare"),
        step("tool", measure, "measure"),
        step("evidence", f"{rescue}; echo evidence >> {log}", "rescue", "control"),
        step("remove", f"echo remove >> {log}", "rescue", "control"),
    ]
    value = Measurement("value", 7.0, "1/s", "higher")
    return SimpleNamespace(plan=lambda params, roles: steps, parse=parse or (lambda capture: [value])), log


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


def test_what_a_lost_host_left_is_rescued_on_the_others(tmp_path):
    job, log = workload(tmp_path, measure="echo fatal")
    finished = execute(trial(), job, bench(DyingHost("echo fatal")))
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
