from __future__ import annotations

import json
import logging
import socket
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from infrabench import registry
from infrabench.analysis import session_data
from infrabench.analysis.tidy import tidy
from infrabench.core import (
    Case,
    Deployment,
    Guards,
    LedgerError,
    NotRunnable,
    Param,
    Profile,
    Request,
    SiteError,
    Target,
    default_params,
)
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import preflight, runner, session
from infrabench.experiment.provenance import collect
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.host import LocalHost
from infrabench.notebook import api, session_tables
from tests.support.fakes import PLUGINS, DyingHost, fake_site
from tests.support.fakes import interrupt_session as interrupt
from tests.support.fakes import run_session as run


def states(folder):
    return {(each.trial.system, each.trial.scenario): each for each in records.read_trials(folder)}


def test_a_session_records_every_planned_trial_once_and_its_table_is_read(tmp_path, study):
    seen = []
    folder = run(study, tmp_path / "s", on_progress=seen.append)
    assert records.verify(folder) == []
    plan = records.read_plan(folder)
    assert records.recorded(folder) == {trial.id for trial in plan}
    assert len(plan) == 3 * 2 * 2
    assert [p.done for p in seen] == list(range(13))
    assert seen[-1].remaining_s == 0
    table = tidy(folder)
    assert list(table["value"].unique()) in ([1.0, 2.0], [2.0, 1.0])
    assert (table["state"] == "ok").all()
    order = table.drop_duplicates("trial").sort_values("started_utc")["position"]
    assert order.is_monotonic_increasing


def test_a_trial_folder_holds_raw_output_monitor_and_its_own_sums(tmp_path, study):
    folder = run(study, tmp_path / "s")
    trial = records.read_plan(folder)[0]
    own = folder / "trials" / trial.id
    assert {path.name for path in own.iterdir()} == {"SHA256SUMS", "trial.json", "tool.stdout", "monitor-here.jsonl"}
    assert (own / "tool.stdout").read_bytes().startswith(b"value=")
    rows = [json.loads(line) for line in (own / "monitor-here.jsonl").read_text().splitlines()]
    assert rows[0]["mark"] == rows[-1]["mark"] == trial.id
    record = records.read_trial(folder, trial.id)
    assert record.conditions["here"]["window_s"] >= record.tool_s > 0
    assert [step["phase"] for step in record.steps] == ["prepare", "measure", "cleanup"]


def test_session_json_says_what_the_session_is(tmp_path, study):
    data = records.read_session(run(study, tmp_path / "s", runs=1, seed=5))
    assert data["format"] == 1
    assert (data["seed"], data["blocks"], data["systems"]) == (5, 1, ["fake-base", "fake-other"])
    assert data["site"] == {"name": "fake", "kind": "inventory"}
    assert data["primary"] == [["fake", "value"]]
    assert data["margins"] == {"": 0.02}
    assert len(data["parameters_sha256"]) == 64
    host = json.loads((tmp_path / "s/provenance/here.json").read_text())
    assert host["kernel"]["release"]
    assert all(key in host for key in ("cpu", "memory", "mitigations", "virtualisation", "missing"))
    tools = json.loads((tmp_path / "s/provenance/deployments.json").read_text())["fake-base"]["tools"]
    assert tools == {"fake": "fake 1.0"}


@pytest.mark.parametrize(
    ("does", "state", "said"),
    [
        ("ok", "ok", ""),
        ("fail", "failed", "exited with 3: cannot open device"),
        ("hang", "timeout", "timed out after 1 s"),
        ("garbage", "unparsable", "no numbers here"),
        ("half", "unparsable", "'val'"),
        ("nothing", "unparsable", "empty output"),
        ("nan", "unparsable", "is no measurement"),
        ("mistake", "unparsable", "has a mistake: ValueError"),
    ],
)
def test_a_broken_tool_spoils_its_trial_only(broken, does, state, said):
    folder, found = broken
    for system in ("fake-base", "fake-other"):
        record = found[system, f"does={does}"]
        assert record.state == state
        assert said in record.reason
        assert bool(record.measurements) == (state == "ok")
        raw = folder / "trials" / record.trial.id / "tool.stdout"
        assert raw.exists() == (does not in ("fail", "hang", "nothing"))
        assert record.steps[-1]["name"] == "tidy"


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(registry.VARIABLE, str(PLUGINS))
        logging.getLogger("infrabench.experiment.execution.trial").setLevel(logging.CRITICAL)
        folder = run(registry.study("fakes"), tmp_path_factory.mktemp("broken") / "s", profile="broken")
        logging.getLogger("infrabench.experiment.execution.trial").setLevel(logging.NOTSET)
    return folder, states(folder)


def test_systems_are_deployed_once_and_only_the_measured_one_runs(tmp_path, study):
    site = fake_site()
    folder = run(study, tmp_path / "s", site)
    log = site.facts["log"]
    assert log[:4] == ["deploy fake-base", "pause fake-base", "deploy fake-other", "pause fake-other"]
    assert log[4:6] == ["resume fake-base", "resume fake-other"]
    assert log[-2:] == ["remove fake-other", "remove fake-base"]
    running, switches = {"fake-base", "fake-other"}, 0
    for line in log[6:-2]:
        verb, name = line.split()
        assert (name in running) == (verb == "pause")
        running ^= {name}
        switches += verb == "resume"
    systems = [trial.system for trial in records.read_plan(folder)]
    changes = sum(a != b for a, b in pairwise(systems))
    assert switches == changes + 1  # the last resume is for the removal


def test_a_finished_session_is_returned_and_other_parameters_are_refused_by_name(tmp_path, study):
    run(study, tmp_path / "s", runs=1)
    site = fake_site()
    run(study, tmp_path / "s", site, runs=1)
    assert site.facts["log"] == []
    with pytest.raises(LedgerError, match=r"blocks: recorded 1, asked 2.*seed"):
        run(study, tmp_path / "s", runs=2, seed=1)


def test_what_a_system_that_could_not_run_left_is_kept_with_the_session(tmp_path, study):
    site = fake_site(unmade={"fake-other": ("it makes no pod here", "an event\nopened 192.0.2.7: no device\n")})
    site.private = {"192.0.2.7": "server"}
    folder = run(study, tmp_path / "s", site, runs=1)
    assert records.read_session(folder)["not_run"] == {"fake-other": "it makes no pod here"}
    kept = json.loads((folder / "provenance/not-run.json").read_text())
    assert kept == {"fake-other": ["an event", "opened server: no device"]}
    assert records.verify(folder) == []
    assert "provenance/not-run.json" in (folder / "SHA256SUMS").read_text()
    assert "not-run" not in session_tables.provenance_table(session_data.open_session(folder)).columns  # it is no host
    quiet = run(study, tmp_path / "quiet", fake_site(refuse={"fake-other": "no engine here"}), runs=1)
    data = records.read_session(quiet)
    assert (data["not_run"], data["systems"]) == ({"fake-other": "no engine here"}, ["fake-base"])
    assert {trial.system for trial in records.read_plan(quiet)} == {"fake-base"}
    assert not (quiet / "provenance/not-run.json").exists()


def test_a_tool_whose_output_no_test_has_is_named_and_used(tmp_path, study, monkeypatch, caplog):
    quiet = session_data.open_session(run(study, tmp_path / "quiet", runs=1))
    assert (session_tables.validity_table(quiet)["note"] == "").all()
    monkeypatch.setattr(registry.workload("fake"), "READS", ("fake 0.8", "fake 0.9"), raising=False)
    caplog.clear()
    opened = session_data.open_session(run(study, tmp_path / "s", runs=1))
    told = "no test has an output of fake 1.0; those of fake 0.8, fake 0.9 are read"
    kept = json.loads((tmp_path / "s/provenance/deployments.json").read_text())
    assert {name: each["untested"] for name, each in kept.items()} == {
        "fake-base": {"fake": told}, "fake-other": {"fake": told},
    }  # fmt: skip
    assert f"fake on fake-other: {told}" in caplog.text
    assert (session_tables.validity_table(opened)["note"] == told).all()
    both = session_data.pool([tmp_path / "quiet", tmp_path / "s"], stamped=True)
    assert (session_tables.validity_table(both)["note"] == told).all()
    assert (session_tables.deployments_table(opened).loc["untested.fake"] == told).all()
    assert (opened.table["state"] == "ok").all()


def test_where_the_baseline_cannot_run_the_named_systems_are_compared_with_the_first(tmp_path, study):
    refused = fake_site(refuse={"fake-base": "broken"})
    said = "baseline 'fake-base' cannot run on fake: broken. Name systems that can: where the study's baseline is not"
    with pytest.raises(NotRunnable, match=said):
        run(study, tmp_path / "s", refused)
    assert not (tmp_path / "s").exists()
    folder = run(study, tmp_path / "s", refused, systems=["fake-third", "fake-other"])
    assert records.read_session(folder)["baseline"] == "fake-third"
    opened = session_data.open_session(folder)
    assert set(api.contrasts(opened)["baseline"]) == {"fake-third"}
    wanted = session.request(study, profile="tiny", systems=["fake-other"])
    narrowed = api.run_or_load(wanted, mode="load", session=str(folder))
    assert narrowed.data["baseline"] == "fake-other"
    assert session.baseline_text(wanted) == "; compared with fake-other"
    assert session.baseline_text(session.request(study, profile="tiny")) == ""


def test_through_a_kubeconfig_no_guard_judges_this_machine(tmp_path, study):
    strict = replace(study, guards=Guards(runnable_per_cpu=-1.0), probe_s=0.1)
    site = fake_site()
    folder = run(strict, tmp_path / "here", site, runs=1)
    assert {record.state for record in states(folder).values()} == {"invalid"}
    site.kind = "kubeconfig"
    folder = run(strict, tmp_path / "there", site, runs=1)
    assert {record.state for record in states(folder).values()} == {"ok"}
    assert set(records.read_session(folder)["guards"].values()) == {None}
    assert records.read_blocks(folder, records.PROBE) == []


def test_an_interrupt_keeps_what_is_recorded_and_the_session_goes_on(tmp_path, study):
    site = fake_site()
    interrupt(study, tmp_path / "s", 5, site=site)
    assert site.facts["log"][-1] == "remove fake-base"
    before = records.recorded(tmp_path / "s")
    plan = (tmp_path / "s/plan.jsonl").read_bytes()
    assert len(before) == 5
    with pytest.raises(LedgerError, match="fake-other cannot run now: gone"):
        run(study, tmp_path / "s", fake_site(refuse={"fake-other": "gone"}))
    times = {name: (tmp_path / "s/trials" / name / "trial.json").read_bytes() for name in before}
    run(study, tmp_path / "s")
    assert (tmp_path / "s/plan.jsonl").read_bytes() == plan
    assert all((tmp_path / "s/trials" / name / "trial.json").read_bytes() == data for name, data in times.items())
    assert len(records.recorded(tmp_path / "s")) == 12
    assert (tmp_path / "s/provenance/here.resumed-1.json").exists()
    assert records.verify(tmp_path / "s") == []


@pytest.mark.parametrize("torn", [0, 7])
def test_what_a_writer_that_was_killed_at_its_very_end_did_not_list_is_listed(tmp_path, study, torn):
    folder = run(study, tmp_path / "s")
    sums = (folder / "SHA256SUMS").read_bytes()
    *others, last = sums.splitlines(keepends=True)
    (folder / "SHA256SUMS").write_bytes(b"".join(others) + last[:torn])
    assert records.verify(folder) == []
    run(study, folder)
    assert (folder / "SHA256SUMS").read_bytes() == sums


def test_a_lost_host_ends_the_session_and_its_trial_is_aborted_for_good(tmp_path, study):
    cases = (Case("fake", "bad", {"does": "fail"}), Case("fake", "good"))
    lethal = replace(study, profiles={"tiny": Profile(1, cases)})
    with pytest.raises(SiteError, match=r"connection lost\. The session stops here; run it again"):
        run(lethal, tmp_path / "s", fake_site(DyingHost("cannot open device")))
    (bad,) = [each for each in records.read_trials(tmp_path / "s") if each.state == "aborted"]
    assert "connection lost" in bad.reason
    assert bad.conditions["cleanup_failed"] == ["tidy"]
    run(lethal, tmp_path / "s", fake_site(DyingHost("no such word")))
    assert records.read_trial(tmp_path / "s", bad.trial.id).state == "aborted"
    assert len(records.recorded(tmp_path / "s")) == 4


def test_beside_what_a_trial_could_not_remove_no_trial_is_valid_until_it_is_gone(tmp_path, study, monkeypatch):
    execute, tries = runner.execute_turns, [True, False, False, False]

    def leaving(trials, workload):
        return [
            replace(each, left={"it may still run": tries.pop} if trials[0][0].position == 2 else {})
            for each in execute(trials, workload)
        ]

    monkeypatch.setattr(runner, "execute_turns", leaving)
    folder = run(replace(study, repeats=0), tmp_path / "s")
    found = sorted(records.read_trials(folder), key=lambda each: each.trial.position)
    assert [each.state for each in found] == ["ok"] * 3 + ["invalid"] * 3 + ["ok"] * 6
    assert {each.reason for each in found[3:6]} == {"it may still run"}


def test_a_missing_tool_is_found_before_the_first_trial(tmp_path, study, monkeypatch):
    monkeypatch.setattr(
        registry.workload("fake"), "version", lambda target: target.check(("no-such-tool", "-V"), timeout_s=5).decode()
    )
    with pytest.raises(SiteError, match=r"fake on fake-base: its tool does not run on server here: .*no-such-tool"):
        run(study, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_on_this_machine_alone_a_study_goes_on_without_what_is_not_installed(tmp_path, study, monkeypatch):
    two = replace(study, profiles={"tiny": Profile(1, (Case("fake", "a"), Case("fake-two", "a")))})
    workload = registry.workload("fake")
    missing = {name: getattr(workload, name) for name in ("PARAMS", "plan", "version", "parse")}
    other = type("Other", (), {**{k: staticmethod(v) if callable(v) else v for k, v in missing.items()}})
    other.supported = staticmethod(lambda deployment: "not installed")
    known = {"workloads": ("fake", "fake-two")}
    monkeypatch.setattr(registry, "names", lambda kind, extra=(): known.get(kind, ()))
    real = registry.workload
    monkeypatch.setattr(registry, "workload", lambda name, extra=(): other if name == "fake-two" else real("fake"))
    site = fake_site()
    site.kind = "local"
    folder = run(two, tmp_path / "s", site)
    assert records.read_session(folder)["left_out"] == {"fake-two": "fake-base: not installed"}
    with pytest.raises(SiteError, match="fake-two on fake-base: not installed"):
        run(two, tmp_path / "t", site, workloads=["fake", "fake-two"])


def test_a_disk_too_small_is_found_before_the_first_trial(tmp_path, study):
    huge = replace(study, profiles={"tiny": Profile(1, (Case("fake", "huge", disk_bytes=10**18),))})
    with pytest.raises(SiteError, match=r"fake-base, / \(fake huge\) has \d+ MiB free and the plan needs"):
        run(huge, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_ledger_that_cannot_be_written_is_found_before_anything_is_deployed(tmp_path, study, monkeypatch):
    site = fake_site()
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match=r"s: .*/file is no folder that this user can write to"):
        run(study, tmp_path / "file" / "s", site)
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 2**10))
    with pytest.raises(SiteError, match=r"the ledger's disk \(.*\) has 0 MiB free and the plan needs"):
        run(study, tmp_path / "s", site)
    assert site.facts["log"] == []


def test_a_damaged_file_is_named_before_anything_is_deployed(tmp_path, study):
    site, folder = fake_site(), tmp_path / "s"
    interrupt(study, folder, 2, site=site)
    site.facts["log"].clear()
    path = next(folder.glob("trials/*/tool.stdout"))
    path.write_bytes(b"value=9\nend\n")
    with pytest.raises(LedgerError, match=f"{path} is damaged"):
        run(study, folder, site)
    assert site.facts["log"] == []


def test_a_port_that_is_taken_is_found_before_the_first_trial(study):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        cases = tuple(Case("fake", f"port={each}", {"port": each}) for each in (1, port))
        wanted = designs.design(replace(study, profiles={"tiny": Profile(1, cases)}), Request("fakes", "tiny"))
        site, workload = fake_site(LocalHost("here")), registry.workload("fake")
        made = {"fake-base": Deployment("fake-base", {"server": Target("server", site.hosts["server"])}, {})}
        asked = replace(wanted, cases=cases[:1]), site, made, {"fake": replaced(workload)}
        assert preflight.check(*asked).refused == {}
        assert preflight.check(wanted, *asked[1:]).refused == {
            "fake": f"fake-base: something listens on port {port} there; stop it (ss -ltnp tells what it is)"
        }


def replaced(workload):
    """The fake workload, with a plan that takes a port and leaves it alone."""
    return SimpleNamespace(
        supported=workload.supported, version=workload.version, PARAMS={**workload.PARAMS, "port": Param(1)},
        plan=lambda params, roles: workload.plan({**default_params(workload), **params}, roles),
    )  # fmt: skip


def test_a_start_that_was_cut_short_is_compared_with_the_next(tmp_path, study, monkeypatch):
    store, of_host = SessionFolder.append_file, collect.of_host

    def cut_short(self, path, *content):
        if path == "provenance/suite.json":
            raise KeyboardInterrupt
        store(self, path, *content)

    monkeypatch.setattr(SessionFolder, "append_file", cut_short)
    with pytest.raises(KeyboardInterrupt):
        run(study, tmp_path / "s")
    monkeypatch.setattr(collect, "of_host", lambda host: of_host(host) | {"hostname": "another"})
    with pytest.raises(LedgerError, match=r"here has changed .*'another' now"):
        run(study, tmp_path / "s")
