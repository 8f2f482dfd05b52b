"""Blocks are completed or discarded whole; invalid trials are repeated in their own block; rules may add blocks."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from infrabench import registry
from infrabench.analysis import session_data
from infrabench.analysis.tidy import missing, tidy
from infrabench.cli.session import describe_state
from infrabench.core import (
    Case,
    DesignError,
    LedgerError,
    Measurement,
    Profile,
    ProvisionError,
    Request,
    SiteError,
    Variant,
)
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import blocks, monitor, reparse, runs, session
from infrabench.experiment.execution import trial as trials
from infrabench.experiment.execution.reparse import check_plan
from infrabench.experiment.execution.runner import Look, Runner
from infrabench.experiment.provenance import collect
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import plan_tables, session_tables
from tests.support.fakes import DyingHost, MemoryHost, fake_site, stop_after
from tests.support.fakes import interrupt_session as interrupted
from tests.support.fakes import run_session as run


@pytest.fixture
def spoil(monkeypatch):
    """Make attempts invalid, by rule: a function (system, scenario, block, attempt) -> bool."""
    rule = [lambda *_: False]
    now: list[tuple] = [()]
    real = trials.execute_turns

    def judged(*given):
        found = monitor.judge(*given)
        return found._replace(invalid=["neighbours"]) if rule[0](*now[0]) else found

    def execute(turns, *rest):
        [(trial, _)] = turns
        now[0] = (trial.system, trial.scenario, trial.block, trial.attempt)
        return real(turns, *rest)

    monkeypatch.setattr(trials, "judge", judged)
    monkeypatch.setattr("infrabench.experiment.execution.runner.execute_turns", execute)
    return rule


def test_an_invalid_trial_is_repeated_at_the_end_of_its_own_block(tmp_path, study, spoil):
    spoil[0] = lambda system, scenario, block, attempt: (block, attempt) == (1, 0) and scenario == "value=1"
    folder = run(study, tmp_path / "s")
    found = sorted(records.read_trials(folder), key=lambda r: r.started_utc)
    again = [r for r in found if r.trial.attempt]
    assert {(r.trial.block, r.trial.system, r.state) for r in again} == {
        (1, "fake-base", "ok"), (1, "fake-other", "ok"),
    }  # fmt: skip
    order = [r.trial.block for r in found]
    assert order == sorted(order)
    inside = [r.trial.attempt for r in found if r.trial.block == 1]
    assert inside == sorted(inside)
    assert records.verify(folder) == []
    table = tidy(folder)
    assert Counter(table["state"]) == {"ok": 12, "invalid": 2}
    assert table["started_utc"].is_monotonic_increasing
    assert (table[table["state"] == "ok"].groupby(["block", "system", "scenario"]).size() == 1).all()
    assert missing(folder).empty
    places = [(each.trial.position, each.trial.attempt) for each in records.read_trials(folder)]
    assert places == sorted(places)


def test_repeats_end(tmp_path, study, spoil):
    spoil[0] = lambda system, scenario, block, attempt: system == "fake-other" and block == 0
    folder = run(study, tmp_path / "s", runs=1)
    assert Counter((r.trial.system, r.state) for r in records.read_trials(folder)) == {
        ("fake-base", "ok"): 2, ("fake-other", "invalid"): 2 * (1 + study.repeats),
    }  # fmt: skip
    site = fake_site()
    run(study, tmp_path / "s", site, runs=1)
    assert site.facts["log"] == []


def test_an_interrupt_between_repeats_is_made_good(tmp_path, study, spoil):
    spoil[0] = lambda system, scenario, block, attempt: attempt == 0 and block == 0
    interrupted(study, tmp_path / "s", 6, runs=1)
    assert runs.read_state(tmp_path / "s") == runs.State("interrupted", 4, 4, 1, 1)
    done = records.recorded(tmp_path / "s")
    run(study, tmp_path / "s", runs=1)
    assert done < records.recorded(tmp_path / "s")
    found = sorted(records.read_trials(tmp_path / "s"), key=lambda r: r.started_utc)
    assert Counter((r.trial.attempt, r.state) for r in found) == {(0, "invalid"): 4, (1, "ok"): 4}
    cases = [r.trial.scenario for r in found if r.trial.attempt]  # systems of one case follow one another again
    assert cases[0] == cases[1] != cases[2] == cases[3]


def test_a_block_interrupted_for_long_is_discarded_whole_and_another_is_run(tmp_path, study):
    hasty, folder = replace(study, block_gap_s=0.0), tmp_path / "s"
    interrupted(hasty, folder, 5)
    begun = records.read_trials(folder)[-1].trial.block
    run(hasty, folder)
    assert set(SessionFolder(folder).discarded) == {begun}
    assert "interrupted for" in SessionFolder(folder).discarded[begun]
    table = tidy(folder)
    gone = table[table["state"] == "discarded"]
    assert len(gone) == 1
    assert gone["value"].isna().all()
    assert sorted(table[table["state"] == "ok"]["block"].unique()) == [0, 2, 3]
    assert len(table[table["state"] == "ok"]) == 12
    assert missing(folder).empty
    assert records.verify(folder) == []
    run(hasty, folder)
    assert len(records.recorded(folder)) == 13


def test_a_kill_between_a_discard_and_its_block_is_made_good(tmp_path, study, monkeypatch):
    hasty, folder = replace(study, block_gap_s=0.0), tmp_path / "s"
    interrupted(hasty, folder, 5)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SessionFolder, "append_block", killed)
        with pytest.raises(KeyboardInterrupt):
            run(hasty, folder)
    assert len(records.read_plan(folder)) == 12
    wanted = session.request(hasty, profile="tiny")
    assert blocks.select_promised(SessionFolder(folder)) == [(3, 0, [])]
    assert not blocks.is_finished(SessionFolder(folder), hasty, wanted)
    run(hasty, folder)
    assert blocks.select_promised(SessionFolder(folder)) == []
    assert len(records.read_plan(folder)) == 16
    assert list(SessionFolder(folder).discarded) == [1]


def test_deployments_share_the_blocks_and_systems_are_made_ready_anew(tmp_path, study):
    site = fake_site()
    folder = run(study, tmp_path / "s", site, runs=6, deployments=3)
    table = tidy(folder)
    assert table.groupby("deployment")["block"].unique().map(sorted).to_dict() == {0: [0, 1], 1: [2, 3], 2: [4, 5]}
    assert site.facts["log"].count("deploy fake-base") == 3
    assert site.facts["log"].count("remove fake-base") == 3


def test_a_deployment_that_was_interrupted_is_discarded_whole_and_between_two_nothing_is(tmp_path, study):
    interrupted(study, tmp_path / "between", 8, runs=6, deployments=3)
    assert SessionFolder(run(study, tmp_path / "between", runs=6, deployments=3)).discarded == {}
    folder = tmp_path / "s"
    interrupted(study, folder, 14, runs=6, deployments=3)  # in the second deployment, its second block
    run(study, folder, runs=6, deployments=3)
    assert set(SessionFolder(folder).discarded) == {2, 3}
    ok = tidy(folder).query("state == 'ok'")
    assert ok.groupby("deployment")["block"].unique().map(sorted).to_dict() == {0: [0, 1], 2: [4, 5], 3: [6, 7]}
    assert len(ok) == 24
    assert missing(folder).empty


def test_a_kill_between_the_blocks_of_a_discarded_deployment_makes_no_deployment_more(tmp_path, study, monkeypatch):
    folder = tmp_path / "s"
    interrupted(study, folder, 14, runs=6, deployments=3)
    append, noted = SessionFolder.append_block_note, []

    def die(self, block, what, data):
        if what == records.DISCARDED and noted:
            raise KeyboardInterrupt
        noted.append(what) if what == records.DISCARDED else None
        append(self, block, what, data)

    with monkeypatch.context() as patch:
        patch.setattr(SessionFolder, "append_block_note", die)
        with pytest.raises(KeyboardInterrupt):
            run(study, folder, runs=6, deployments=3)
    run(study, folder, runs=6, deployments=3)
    ok = tidy(folder).query("state == 'ok'")
    assert ok.groupby("deployment")["block"].unique().map(sorted).to_dict() == {0: [0, 1], 2: [4, 5], 3: [6, 7]}


def test_an_aa_session_measures_one_deployment_under_two_labels(tmp_path, study):
    site = fake_site()
    folder = run(study, tmp_path / "s", site, aa="fake-other")
    table = tidy(folder)
    assert set(table["system"]) == {"fake-other", "fake-other-again"}
    assert site.facts["log"].count("deploy fake-other") == 1
    assert "deploy fake-base" not in site.facts["log"]
    data = records.read_session(folder)
    assert data["baseline"] == "fake-other"
    assert data["parameters"]["variants"]["fake-other-again"]["system"] == "fake-other"


def test_a_variant_is_switched_on_for_its_own_trials_only(tmp_path, study):
    log = tmp_path / "log"
    note = ("sh", "-c", 'echo "$1" >>"$2"', "sh")
    varied = replace(
        study, systems=("fake-base", "loud"),
        profiles={"tiny": Profile(3, (Case("fake", "a"),))},
        variants={
            "loud": Variant(
                "fake-base", prefix=("env", "LOUD=1"),
                enter=(("server", (*note, "on", str(log))),), leave=(("server", (*note, "off", str(log))),),
            )
        },
    )  # fmt: skip
    folder = run(varied, tmp_path / "s")
    words = log.read_text().split()
    assert words == ["on", "off"] * (len(words) // 2)
    assert words
    argv = {r.trial.system: r.steps[1]["argv"] for r in records.read_trials(folder)}
    assert argv["loud"][:2] == ["env", "LOUD=1"]
    assert argv["fake-base"][0] == "timeout"


def test_an_effect_that_cannot_be_switched_on_ends_the_session(tmp_path, study):
    broken = replace(
        study, systems=("fake-base", "loud"), variants={"loud": Variant("fake-base", enter=(("server", ("false",)),))}
    )
    with pytest.raises(ProvisionError, match=r"cannot enter loud: false on here exited with 1.*as root"):
        run(broken, tmp_path / "s")
    twice = replace(broken.variants["loud"], leave=(("server", ("sh", "-c", "exit 7")),))
    with pytest.raises(ProvisionError, match="cannot enter loud"):  # not that leaving failed too
        run(replace(broken, variants={"loud": twice}), tmp_path / "t")


def grown(study, folder, widths, most=100, **more):
    """Run with a stopping rule whose looks see these widths, one after the other."""
    seen = iter(widths)
    counts = []

    def look(where, spent_s):
        ok = tidy(where).query("state == 'ok'")
        n = int(ok.groupby(["system", "scenario"]).size().min())
        counts.append(n)
        width = next(seen)
        reason = "target" if width <= 0.02 else "n_max" if n >= most else ""
        return Look(n, {"cell": width}, bool(reason), reason)

    site = fake_site()
    run(study, folder, site, runs=30, precision=0.02, most=most, look=look, **more)
    return counts


def test_blocks_are_added_in_batches_until_the_intervals_are_narrow(tmp_path, study):
    folder = tmp_path / "s"
    assert grown(study, folder, [0.05, 0.03, 0.01]) == [30, 35, 40]
    looks = records.read_blocks(folder, records.LOOK)
    assert [each["reason"] for each in looks] == ["", "", "target"]
    assert [each["n"] for each in looks] == [30, 35, 40]
    assert len(records.read_plan(folder)) == 40 * 4
    assert records.verify(folder) == []
    assert grown(study, folder, []) == []  # finished: nobody looks again
    assert grown(study, tmp_path / "most", [0.05] * 3, most=37) == [30, 35, 37]
    assert records.read_blocks(tmp_path / "most", records.LOOK)[-1]["reason"] == "n_max"


def test_an_interrupt_between_added_blocks_goes_on_with_them(tmp_path, study):
    with pytest.raises(KeyboardInterrupt):
        grown(study, tmp_path / "s", [0.05], on_progress=stop_after(125))
    assert grown(study, tmp_path / "s", [0.01]) == [35]


def test_a_rule_that_nobody_looks_for_is_refused(tmp_path, study):
    with pytest.raises(DesignError, match="needs a look"):
        run(study, tmp_path / "s", runs=30, precision=0.02)


def test_a_lost_host_is_noted_as_the_reason_to_stop(tmp_path, study):
    lethal = replace(study, profiles={"tiny": Profile(30, (Case("fake", "bad", {"does": "fail"}),))})
    with pytest.raises(SiteError, match="connection lost"):
        run(
            lethal, tmp_path / "s", fake_site(DyingHost("cannot open device")), precision=0.02,
            look=lambda *_: Look(30, {}, True, "target"),
        )  # fmt: skip
    assert records.read_blocks(tmp_path / "s", records.LOOK)[0]["reason"] == "error"


def test_a_drift_probe_is_recorded_and_the_site_checked_before_each_block(tmp_path, study):
    site, folder, checked = fake_site(), tmp_path / "s", []
    site.checks.append(lambda: checked.append(len(records.recorded(folder))))
    run(replace(study, probe_s=0.01), folder, site)
    assert checked == [0, 4, 8]
    probes = records.read_blocks(folder, records.PROBE)
    assert [each["block"] for each in probes] == [0, 1, 2]
    assert all(each["bytes"] > 0 and each["seconds"] >= 0.01 for each in probes)
    assert [each["position"] for each in probes] == [0, 4, 8]  # of the first trial of the block


def test_a_system_on_machines_of_its_own_is_probed_watched_and_described_there(tmp_path, study, monkeypatch):
    system, own = registry.system("fake-other"), {role: MemoryHost(f"other-{role}") for role in ("control", "worker1")}
    real, of_host, names = system.deploy, collect.of_host, {each.name for each in own.values()}

    @contextmanager
    def deploy(site, spec):
        with real(site, spec) as made:
            yield replace(made, machines=own)

    monkeypatch.setattr(system, "deploy", deploy)
    study, folder = replace(study, probe_s=0.01), tmp_path / "s"
    interrupted(study, folder, 6)
    probes = [each["host"] for each in records.read_blocks(folder, records.PROBE) if each["block"] == 0]
    assert sorted(probes) == sorted(["here", *names])
    for each in records.read_trials(folder):
        assert {*each.conditions} & {"here", *names} == (names if each.trial.system == "fake-other" else {"here"})
    assert names < {*records.list_provenance(folder)}
    changed = {"hostname": "another"}
    monkeypatch.setattr(collect, "of_host", lambda host: of_host(host) | (changed if host is own["worker1"] else {}))
    with pytest.raises(LedgerError, match=r"other-worker1 has changed since .*'another' now"):
        run(study, folder)


@pytest.mark.parametrize("asked", [{}, {"order": "williams"}])
def test_the_systems_of_a_case_stand_side_by_side_unless_another_order_is_asked_for(tmp_path, study, asked):
    site = fake_site()
    folder = run(study, tmp_path / "s", site, **asked)
    for block in designs.by_block(records.read_plan(folder)).values():
        cases = [trial.scenario for trial in block]
        assert cases[0] == cases[1] != cases[2] == cases[3]
    data = records.read_session(folder)
    assert {data["order"], data["parameters"]["order"]} == {asked.get("order", "adjacent")}
    assert sum(line.startswith("deploy") for line in site.facts["log"]) == 2  # a switch makes nothing ready anew


@pytest.mark.parametrize("kind", ["random", "adjacent"])
def test_a_session_goes_on_in_the_order_that_it_was_begun_in(tmp_path, study, kind):
    """Whatever the default is: sessions were recorded while it was another one."""
    interrupted(study, tmp_path / "s", 5, order=kind, runs=4)
    request = Request.from_session(records.read_session(tmp_path / "s"))
    assert request.order == kind
    run(study, tmp_path / "s", order=request.order, runs=4)
    assert check_plan(SessionFolder(tmp_path / "s")) == []
    planned = designs.trials(session.request(study, profile="tiny", order=kind, runs=4))
    assert tuple(records.read_plan(tmp_path / "s")) == planned
    if kind == "random":
        with pytest.raises(LedgerError, match="other parameters"):
            run(study, tmp_path / "s", runs=4)
        data = records.read_session(tmp_path / "s")
        del data["order"], data["parameters"]["order"]
        assert Request.from_session(data).order == "random"  # before it was said, there was no other


def test_a_repeat_that_no_planned_trial_explains_is_damage(tmp_path, study, spoil):
    spoil[0] = lambda system, scenario, block, attempt: attempt == 0 and block == 0
    folder = run(study, tmp_path / "s", runs=1)
    again = next(r for r in records.read_trials(folder) if r.trial.attempt)
    path = folder / "trials" / again.trial.id
    other = path.with_name("0" * 16)
    path.rename(other)
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(again.trial.id, other.name))
    assert any("the plan knows no such trial" in each for each in records.verify(folder))
    with pytest.raises(LedgerError, match="the plan knows no such trial"):
        tidy(folder)


def test_a_session_with_repeats_and_discards_is_read_again_and_copied_whole(tmp_path, study, spoil, monkeypatch):
    spoil[0] = lambda system, scenario, block, attempt: attempt == 0 and block == 2
    hasty, folder = replace(study, block_gap_s=0.0, probe_s=0.01), tmp_path / "s"
    interrupted(hasty, folder, 5)
    run(hasty, folder)
    assert reparse.compare(folder).differences == ()
    copy = reparse.write(folder, tmp_path / "copy")
    assert records.verify(copy) == []
    assert records.recorded(copy) == records.recorded(folder)
    assert SessionFolder(copy).discarded == SessionFolder(folder).discarded
    assert records.read_plan(copy) == records.read_plan(folder)
    assert tidy(copy).drop(columns="session").equals(tidy(folder).drop(columns="session"))
    other = [Measurement("value", 7.0, "1/s", "higher")]
    monkeypatch.setattr(registry.workload("fake"), "parse", lambda capture: other)
    assert len(reparse.compare(folder).differences) == len(records.recorded(folder))  # of repeats too


@pytest.mark.parametrize(
    ("stood_s", "allowed_s", "refused"), [(599.0, 600.0, False), (601.0, 600.0, True), (59.0, 0.0, False)]
)
def test_a_session_that_stood_still_within_a_block_says_so_and_ends(study, stood_s, allowed_s, refused):
    hasty = SimpleNamespace(study=replace(study, block_gap_s=allowed_s))
    told = "the session stood still for 601 s within a block"
    with pytest.raises(SiteError, match=told) if refused else nullcontext():
        Runner.refuse_gap(hasty, stood_s)


def test_a_metric_that_the_parser_has_learnt_since_is_reported_and_no_difference(tmp_path, study, monkeypatch):
    folder = run(study, tmp_path / "s", runs=1)
    workload = registry.workload("fake")
    real, learnt = workload.parse, Measurement("learnt", 7.0, "1", "lower")
    monkeypatch.setattr(workload, "parse", lambda capture: [*real(capture), learnt])
    count = len(records.read_trials(folder))
    monkeypatch.setattr(reparse, "digests_of", lambda parts: dict.fromkeys(parts, "another parser"))
    assert reparse.compare(folder) == reparse.RawOutputCheck((), (f"new metric: fake learnt, of {count} trials",))
    again = reparse.reparse_record(folder, records.read_trials(folder)[0], registry.workload)
    assert again.measurements[-1] == learnt  # a session that is written anew has it
    copy = reparse.write(folder, tmp_path / "copy")
    monkeypatch.setattr(reparse, "digests_of", lambda parts: dict.fromkeys(parts, "one more parser"))
    monkeypatch.setattr(workload, "parse", real)
    lost = reparse.compare(copy)
    assert len(lost.differences) == count  # a recorded metric that the parser does not give any more
    assert lost.new_metrics == ()
    renamed = Measurement("renamed", 7.0, "1", "lower")
    monkeypatch.setattr(workload, "parse", lambda capture: [*real(capture), renamed])
    both = reparse.compare(copy)
    assert (len(both.differences), both.new_metrics) == (count, (f"new metric: fake renamed, of {count} trials",))


def test_a_metric_that_the_same_parser_gives_is_missing_in_the_record(tmp_path, study, monkeypatch):
    folder = run(study, tmp_path / "s", runs=1)
    workload = registry.workload("fake")
    real, more = workload.parse, Measurement("more", 7.0, "1", "lower")
    monkeypatch.setattr(workload, "parse", lambda capture: [*real(capture), more])
    found = reparse.compare(folder)
    assert found.new_metrics == ()
    assert len(found.differences) == len(records.read_trials(folder))
    assert "more = 7 1" in found.differences[0]


def test_the_size_of_a_session_is_accounted_for(tmp_path, study):
    fixed = session_data.open_session(run(study, tmp_path / "fixed"))
    assert session_tables.size_table(fixed).to_dict("records") == [
        {"blocks": 3, "then": "fixed before the first trial"}
    ]
    grown(study, tmp_path / "s", [0.05, 0.01])
    told = session_tables.size_table(session_data.open_session(tmp_path / "s"))
    assert told["blocks"].tolist() == [30, 35]
    assert told["widest half-width %"].tolist() == [5.0, 1.0]
    assert told["then"].tolist() == ["5 blocks added", "stopped: target"]
    hasty = replace(study, block_gap_s=0.0)
    interrupted(hasty, tmp_path / "t", 5)
    gone = session_tables.blocks_table(session_data.open_session(run(hasty, tmp_path / "t")))
    assert gone[["block", "trials"]].to_numpy().tolist() == [[1, 1]]
    assert session_tables.blocks_table(fixed).empty


def test_a_look_stores_which_lost_trials_keep_it_from_stopping(tmp_path, study):
    said = "docker: 9 of 30 timed out (native: 0 of 30 lost): no verdict on the rest"
    looks = iter([Look(30, {"cell": 0.01}, False, "", {"cell": said}), Look(35, {"cell": 0.01}, True, "target")])
    folder = tmp_path / "s"
    run(study, folder, runs=30, precision=0.02, most=40, look=lambda where, spent_s: next(looks))
    first, last = records.read_blocks(folder, records.LOOK)
    assert first["unequal"] == {"cell": said}
    assert "unequal" not in last
    assert records.verify(folder) == []
    told = session_tables.size_table(session_data.open_session(folder))
    assert told["no width counts"].tolist() == [said, ""]
    assert f"    no width of it counts: {said}" in list(describe_state(folder))
    path = next(folder.glob("blocks/*-look*"))
    path.write_text(json.dumps(first | {"unequal": [said]}))
    with pytest.raises(LedgerError, match="unequal is"):
        records.read_blocks(folder, records.LOOK)


def test_a_real_rule_looks_at_the_recorded_trials(tmp_path, study, monkeypatch):
    monkeypatch.setattr(plan_tables.session, "study_of", lambda wanted: study)
    noise = iter(np.random.default_rng(4).normal(100, 6, 1000))
    monkeypatch.setattr(
        registry.workload("fake"), "parse", lambda capture: [Measurement("value", next(noise), "1/s", "higher")]
    )
    wanted = session.request(study, profile="tiny", runs=30, precision=0.02, most=60)
    site = fake_site()
    folder = run(study, tmp_path / "s", site, runs=30, precision=0.02, most=60, look=plan_tables.look_of(wanted))
    looks = records.read_blocks(folder, records.LOOK)
    assert looks[-1]["reason"] == "target"
    assert 30 < looks[-1]["n"] < 60
    assert max(looks[-1]["widths"].values()) <= 0.02 < max(looks[0]["widths"].values())
