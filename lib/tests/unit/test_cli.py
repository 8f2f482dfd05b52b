from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from infrabench import cli, registry
from infrabench.analysis import session_data
from infrabench.core import DesignError, Measurement
from infrabench.experiment.execution import runs, session
from infrabench.experiment.provenance.comparability import NotComparable
from infrabench.ledger import catalogue
from infrabench.ledger.archive import pack
from infrabench.ledger.records import read_session
from infrabench.notebook import api, plan_tables, session_tables
from tests.support.fakes import PLUGINS, fake_site

PLAN = ["plan", "fakes", "--profile", "tiny"]


@pytest.fixture(autouse=True)
def _home(fake_plugins, monkeypatch, tmp_path):
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))


@pytest.fixture
def site(monkeypatch):
    made = fake_site()

    @contextmanager
    def opened(spec, say=None, session=""):
        yield made

    monkeypatch.setattr("infrabench.machines.sites.site.open_site", opened)
    monkeypatch.setattr(runs, "site_name", lambda spec: runs.SiteName("fake", "inventory"))
    return made


def call(capsys, *argv):
    status = cli.main(list(argv))
    said = capsys.readouterr()
    return status, said.out, said.err


def recorded(capsys, site, *more):
    status, out, _ = call(capsys, "run", "fakes", "--profile", "tiny", "--runs", "2", *more)
    assert status == 0
    return next(line.split(": ")[0] for line in out.splitlines() if "of 8 trials" in line)


def test_plan_prints_every_trial_in_order_and_what_they_cost(capsys):
    status, out, _ = call(capsys, *PLAN, "--runs", "2")
    lines = out.splitlines()
    assert status == 0
    assert [int(line.split()[0]) for line in lines[1:-2]] == list(range(8))
    assert "8 trials in 2 blocks" in lines[-2]
    assert "MiB" in lines[-2]
    assert lines[-1].startswith("n = 2 blocks, paired: a difference of 11.55 SD of the log ratios is found with 80 %")
    assert "with Holm over 2 contrasts" in lines[-1]  # two scenarios of one workload


def test_plan_counts_what_runs_and_names_what_a_system_has_no_place_for(capsys):
    status, out, _ = call(capsys, "plan", "cnis", "--systems", "flannel,cilium,host")
    *rows, absent, cost, power = out.splitlines()
    assert status == 0
    assert len(rows) == 1 + 468  # as many as the recorded session has; two systems have 15 cases, the nodes 9
    assert absent.startswith("not in the plan, for its system has no place for it: host, iperf3 tcp plain two-nodes, ")
    assert absent.endswith("; pod-network multus, plain")
    assert cost.startswith("cnis quick: 468 trials in 12 blocks")
    assert "(2.72 with Holm over 16 contrasts)" in power


def test_tables_of_a_plan_count_what_runs():
    wanted = session.request(registry.study("cnis"), profile="quick")
    table = plan_tables.plan_table(wanted).set_index("scenario")
    assert list(table.loc["tcp plain two-nodes", ["systems", "trials"]]) == [2, 24]
    assert list(table.loc["tcp two-nodes", ["systems", "trials"]]) == [3, 36]
    said = plan_tables.plan_summary(wanted)
    assert said.startswith("468 trials: 12 blocks of 3 systems (flannel, cilium, host) x 15 cases, less 6 that")
    alone = session.request(registry.study("cnis"), profile="quick", systems=["host"])
    assert "pod-network" not in set(plan_tables.plan_table(alone)["workload"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["plan", "fake"], "unknown study 'fake': did you mean fakes"),
        ([*PLAN, "--workloads", "fakk"], "did you mean fake"),
        ([*PLAN, "--pilot", "no-such-session"], "unknown session 'no-such-session'"),
        (
            ["run", *PLAN[1:], "--precision", "0.02", "--runs", "30", "--workloads", "null"],
            "none of their workloads is asked for",
        ),
        (["session", "diff", "no-such-session", "other"], "unknown session 'no-such-session'"),
        (["run", *PLAN[1:], "--site", "labb"], "unknown site 'labb'"),
        (["selfcheck", "overhead", "--site", "labb"], "unknown site 'labb'"),
        (["selfcheck", "overhead", "--blocks", "5"], "blocks must be at least 6, not 5"),
        (["session", "verify", "no-such-session"], "unknown session 'no-such-session'"),
        (["session", "verify"], "there is no session below "),
        (["session", "history", "a**"], "'a**' cannot be the name of a study"),
        (["session", "history", "/abs/path"], "'/abs/path' cannot be the name of a study"),
        ([*PLAN[:3], "~nobody-here/own.yml"], "there is no profile file "),
        (["run", *PLAN[1:], "--site", "~nobody-here/own.yml"], "unknown site '~nobody-here/own.yml'"),
        (["notebook", "run", "none.ipynb", "out.ipynb"], "there is no notebook none.ipynb"),
        (["report", "--out", "nowhere"], "no executed notebook in nowhere"),
        (["session", "pack", "x", "y.zip"], "is called NAME.tar.xz"),
    ],
)
def test_what_does_not_exist_is_named_without_traceback_and_exits_2(capsys, argv, said):
    status, out, err = call(capsys, *argv)
    assert status == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert out == ""


def test_debug_gives_the_traceback():
    with pytest.raises(DesignError):
        cli.main(["--debug", "plan", "fake"])
    with pytest.raises(DesignError):
        cli.main(["plan", "fake", "--debug"])


def test_hosts_of_the_lab_have_plain_names(capsys, monkeypatch):
    monkeypatch.setattr("infrabench_platforms.lab.up", lambda *_, **__: pytest.fail("the lab went up"))
    assert cli.main(["lab", "up", "--hosts", "rack-a", "../b"]) == 2
    assert "a pair of hosts cannot be called '../b'" in capsys.readouterr().err


def test_a_session_is_run_listed_verified_shown_packed_and_removed(capsys, site, tmp_path):
    folder = recorded(capsys, site)
    assert folder.startswith(str(tmp_path / "data/runs/fakes/fake-tiny-"))
    assert "fake-base: 4 ok" in call(capsys, "session", "list")[1]
    assert call(capsys, "session", "verify")[0] == 0
    status, out, _ = call(capsys, "session", "show", folder)
    assert status == 0
    assert "Fieller" in out
    assert "fake-other" in out
    status, out, _ = call(capsys, "session", "pack", folder, str(tmp_path / "data/recorded/fakes/packed.tar.xz"))
    assert status == 0
    assert "MB" in out
    assert call(capsys, "session", "remove", folder, "--yes")[0] == 0
    assert "no session yet" not in call(capsys, "session", "list")[1]  # the recorded one


def test_a_pilot_says_how_many_blocks_each_goal_needs(capsys, site, monkeypatch):
    workload = registry.workload("fake")
    noise = iter([0.97, 1.0, 1.04, 1.01, 0.99, 1.02, 0.98, 1.03, 0.96, 1.05, 1.01, 0.98, 1.02, 0.99, 1.0, 1.03] * 9)
    monkeypatch.setattr(workload, "parse", lambda capture: [Measurement("value", next(noise), "1/s", "higher")])
    folder = recorded(capsys, site)
    status, out, _ = call(capsys, "plan", "--pilot", folder, "--goals", "1", "5")
    assert status == 0
    rows = [line.split("|")[1:-1] for line in out.splitlines() if line.startswith("| fake")]
    assert {row[4].strip() for row in rows} >= {"mean within ±1 %", "mean within ±5 %", "ratio within ±1 %"}
    sizes = {(row[1], row[3], row[4].strip()): row[7].strip() for row in rows}
    tight, loose = (float(sizes[" value=1 ", " fake-base ", f"mean within ±{goal} %"]) for goal in (1, 5))
    assert tight > loose
    assert out.rstrip().endswith("a pilot with --deployments says how many of them, and how many blocks in each.")


def test_a_pilot_of_several_deployments_says_how_many_and_how_many_blocks_in_each(capsys, site, monkeypatch):
    workload, noise = registry.workload("fake"), np.random.default_rng(4)
    monkeypatch.setattr(
        workload, "parse", lambda capture: [Measurement("value", noise.normal(100, 2), "1/s", "higher")]
    )
    status, out, _ = call(capsys, "run", "fakes", "--profile", "tiny", "--runs", "12", "--deployments", "4")
    assert status == 0
    assert "every system made ready 4 times (fake-base, fake-other x 2 cases)" in out
    folder = next(line.split(": ")[0] for line in out.splitlines() if "of 48 trials" in line)
    status, out, _ = call(capsys, "plan", "--pilot", folder, "--goals", "1", "5")
    assert status == 0
    _, told = out.split("Deployments, and blocks in each, at the least cost (Kalibera and Jones 2013)")
    lines = [line for line in told.splitlines() if "| fake" in line or "aim" in line]
    head, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    assert len(rows) == 2 * (2 + 1) * 2  # cases, means of two systems and a ratio, goals
    named = [dict(zip(head, row, strict=True)) for row in rows]
    assert {each["aim"] for each in named} >= {"mean within ±1 %", "ratio within ±5 %"}
    sized = [each for each in named if each["deployments"] not in ("", "n/a")]
    assert sized
    assert all(float(each["blocks in each"]) >= 1 and float(each["deployments"]) >= 2 for each in sized)


def test_the_same_command_goes_on_and_a_finished_session_is_not_run_again(capsys, site):
    folder = recorded(capsys, site)
    site.facts["log"].clear()
    assert recorded(capsys, site) == folder
    assert site.facts["log"] == []
    assert recorded(capsys, site, "--session", "other") != folder


def test_a_finished_session_says_when_a_system_could_not_run_and_what_tries_it_again(capsys, site, caplog):
    site.facts["refuse"] = {"fake-other": "no engine here"}
    asked = ("run", "fakes", "--profile", "tiny", "--runs", "1", "--session", "mine")
    assert call(capsys, *asked)[0] == 0
    begun = read_session(catalogue.local("fakes")["mine"])["created_utc"][:10]
    del site.facts["refuse"]  # it could run now
    site.facts["log"].clear()
    caplog.clear()
    with caplog.at_level("INFO", "infrabench.experiment.execution.session"):
        assert call(capsys, *asked)[0] == 0
    said = caplog.text
    assert f"fake-other could not run on {begun} and is not tried again here: no engine here" in said
    assert said.index("is not tried again") < said.index("is complete; give another session name to measure anew")
    assert site.facts["log"] == []


def test_what_the_system_refuses_is_said_in_one_line(capsys, site):
    folder = recorded(capsys, site)
    status, _, err = call(capsys, "session", "pack", folder, "/proc/none/packed.tar.xz")
    assert status == 1
    assert "/proc/none" in err
    assert "No such file or directory. Is there space" in err
    assert len(err.splitlines()) == 1


def test_remove_asks_and_leaves_what_is_recorded_or_no_session(capsys, site, monkeypatch, tmp_path):
    folder = recorded(capsys, site)
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115 (closed with the process)
    assert "stays" in call(capsys, "session", "remove", folder)[1]
    (tmp_path / "precious").mkdir()
    assert call(capsys, "session", "remove", str(tmp_path / "precious"), "--yes")[0] == 2
    assert (tmp_path / "precious").exists()
    kept = tmp_path / "data/recorded/fakes/kept"
    kept.parent.mkdir(parents=True)
    Path(folder).rename(kept)
    status, _, err = call(capsys, "session", "remove", "kept", "--yes")
    assert status == 2
    assert "is not removed" in err
    assert kept.exists()


def test_verify_reads_the_raw_output_again_and_names_what_differs(capsys, site, monkeypatch):
    folder = recorded(capsys, site)
    workload = registry.workload("fake")
    real = workload.parse
    monkeypatch.setattr(workload, "parse", lambda capture: [*real(capture), real(capture)[0]][:1] * 2)
    status, _, err = call(capsys, "session", "verify", folder)
    assert status == 1
    assert "8 differences" in err
    assert "recorded ok (value = " in err
    assert "found a metric twice" in err


def test_verify_checks_every_session_whatever_is_wrong_with_others(capsys, site, monkeypatch, tmp_path):
    def damage_value(folder):
        (next(folder.glob("trials/*/tool.stdout"))).write_bytes(b"value=9\nend\n")

    damages = {
        "a-value": damage_value, "b-unreadable": lambda folder: (folder / "session.json").write_text("{"),
        "c-torn": lambda folder: (folder / "plan.jsonl").unlink(),
        "d-lost": lambda folder: (folder / "session.json").unlink(),
        "z-good": lambda folder: None,
    }  # fmt: skip
    for name, damage in damages.items():
        damage(Path(recorded(capsys, site, "--session", name)))
    runs_of = tmp_path / "data/runs/fakes"
    (runs_of / "notes").mkdir()
    (runs_of / "y-archive.tar.xz").write_bytes(b"no archive")
    status, out, err = call(capsys, "session", "verify")
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    assert status == 1
    assert [Path(name).name for name in lines] == ["d-lost", "notes", *sorted({*damages, "y-archive"} - {"d-lost"})]
    assert lines.pop(str(runs_of / "z-good")).startswith("every file is as recorded")
    assert all(said.startswith("not sound: ") for said in lines.values())
    for name, part in {
        "a-value": "tool.stdout is damaged", "b-unreadable": "session.json", "c-torn": "plan.jsonl is missing",
        "y-archive": "y-archive.tar.xz", str(runs_of / "d-lost"): "there is no session.json in it",
        str(runs_of / "notes"): "there is no session.json in it",
    }.items():  # fmt: skip
        assert part in lines[name]
    assert err.startswith("infrabench: 6 of 7 are not sound: ")
    assert "z-good" not in err
    assert call(capsys, "session", "verify", "z-good")[0] == 0
    status, out, _ = call(capsys, "session", "verify", "no-such-session", "z-good")
    assert status == 1
    assert [line.split(": ")[1] for line in out.splitlines()] == [
        "not sound",
        "every file is as recorded, and raw output gives the same measurements",
    ]


def test_a_mended_parser_reads_an_old_session_again(capsys, site, monkeypatch, tmp_path):
    workload = registry.workload("fake")
    real = workload.parse
    with monkeypatch.context() as broken:
        broken.setattr(workload, "parse", lambda capture: [])
        folder = recorded(capsys, site)
    assert "fake-base: 4 unparsable" in call(capsys, "session", "list", folder)[1]
    assert workload.parse is real
    status, out, _ = call(capsys, "session", "reparse", folder, str(tmp_path / "mended"))
    assert status == 0
    assert "read again ok (value = " in out
    assert "fake-base: 4 ok" in call(capsys, "session", "list", str(tmp_path / "mended"))[1]
    assert call(capsys, "session", "verify", str(tmp_path / "mended"))[0] == 0


def test_what_is_damaged_is_not_written_anew(capsys, site, tmp_path):
    folder = recorded(capsys, site)
    next(Path(folder).glob("trials/*/tool.stdout")).write_bytes(b"value=9\nend\n")
    status, out, err = call(capsys, "session", "reparse", folder, str(tmp_path / "again"))
    assert (status, out) == (1, "")
    assert f"{folder} is damaged and is not written anew: " in err
    assert "tool.stdout is damaged" in err
    assert not (tmp_path / "again").exists()


def test_an_interrupt_says_that_the_same_command_goes_on(capsys, site, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("infrabench.experiment.execution.runner.execute_turns", interrupted)
    status, _, err = call(capsys, "run", *PLAN[1:])
    assert status == 130
    assert "the same command goes on" in err


def wanted(**more):
    return api.request("fakes", **{"profile": "tiny", "runs": 2, **more})


def test_a_notebook_runs_then_loads_the_same_table(capsys, site, tmp_path):
    ran = api.run_or_load(wanted(), mode="run", site="fake")
    capsys.readouterr()
    assert len(ran.table) == 8
    pack(ran.folder, tmp_path / "data/recorded/fakes/kept.tar.xz")
    loaded = api.run_or_load(wanted(), mode="load")
    assert loaded.table.drop(columns="session").equals(ran.table.drop(columns="session"))
    assert ".recorded" in loaded.folder.parts
    narrow = api.run_or_load(wanted(systems=["fake-base"]), mode="load")
    assert set(narrow.table["system"]) == {"fake-base"}


def test_loading_says_when_the_recorded_session_is_another_one(capsys, site, tmp_path):
    api.run_or_load(wanted(), mode="run", site="fake", session="mine")
    with pytest.raises(DesignError, match="runs 2, not 3; mode='run' measures that"):
        api.run_or_load(wanted(runs=3), mode="load", session="mine")
    assert api.run_or_load(wanted(runs=None), mode="load", session="mine").table["block"].nunique() == 2
    with pytest.raises(DesignError, match="order 'adjacent', not 'random'; mode='run' measures that"):
        api.run_or_load(wanted(order="random"), mode="load", session="mine")
    api.run_or_load(wanted(order="random"), mode="run", site="fake", session="shuffled")
    assert api.run_or_load(wanted(), mode="load", session="shuffled").data["order"] == "random"
    own = {"fake.value": [1.0, 2.0]}
    api.run_or_load(wanted(set=own), mode="run", site="fake", session="own")
    assert api.run_or_load(wanted(), mode="load", session="own").table["scenario"].nunique() == 2
    with pytest.raises(DesignError, match=r"has set .*2\.0.*, not .*; mode='run' measures that"):
        api.run_or_load(wanted(set={"fake.value": [3.0]}), mode="load", session="own")
    with pytest.raises(DesignError, match="name the session of study 'fakes' to load; recorded are: none"):
        api.run_or_load(wanted(), mode="load")
    with pytest.raises(DesignError, match="unknown mode 'laod': did you mean load"):
        api.run_or_load(wanted(), mode="laod")


def test_tables_of_a_session(capsys, site):
    site.facts["refuse"] = {"fake-other": "no engine"}
    ran = api.run_or_load(wanted(), mode="run", site="fake")
    validity = session_tables.validity_table(ran)
    assert validity[["system", "workload", "ok", "missing"]].values.tolist()[0] == ["fake-base", "fake", 4, 0]
    assert validity.iloc[-1]["note"] == "not run: no engine"
    provenance = session_tables.provenance_table(ran)
    assert list(provenance.columns) == ["here"]
    assert provenance.loc["kernel.release", "here"]
    deployments = session_tables.deployments_table(ran)
    assert deployments.loc["tools.fake", "fake-base"] == "fake 1.0"
    assert session_tables.reasons_table(ran).empty
    assert set(api.results(ran).estimates["n"]) == {2}


def test_the_data_are_those_of_the_checkout_around_the_working_folder(monkeypatch):
    monkeypatch.delenv(catalogue.VARIABLE)
    monkeypatch.chdir(PLUGINS)
    assert (catalogue.home() / "lib/infrabench/core/__init__.py").is_file()


def test_sessions_are_pooled_as_deployments_or_refused(capsys, site, tmp_path):
    one, two = recorded(capsys, site), recorded(capsys, site, "--seed", "9")
    pooled = session_data.pool([one, two])
    assert len(pooled.table) == 16
    assert pooled.data["stamp"] == ""
    assert set(api.contrasts(pooled)["pair_unit"]) == {"deployments"}
    names = [folder.name for folder in pooled.folders]
    assert names == pooled.data["pooled"]
    size = session_tables.size_table(pooled)
    assert size[["session", "blocks"]].to_numpy().tolist() == [[name, 2] for name in names]
    assert "session" not in session_tables.size_table(session_data.open_session(one))
    plan = session_tables.make_abstract(pooled, api.results(pooled))["plan"]
    blocks = plan["columns"].index("blocks")
    assert [row[blocks] for row in plan["rows"]] == ["4", "4"]
    note = {"block": 1, "reason": "interrupted", "trials": [], "adds": []}
    for folder in pooled.folders:
        (folder / "blocks").mkdir(exist_ok=True)
        (folder / "blocks/00001-discarded.json").write_text(json.dumps(note))
    discarded = session_tables.blocks_table(pooled)
    assert discarded[["session", "block"]].to_numpy().tolist() == [[name, 1] for name in names]
    assert list(session_tables.blocks_table(session_data.open_session(one))) == ["block", "reason", "trials"]
    path = Path(two) / "provenance" / "here.json"
    changed = json.loads(path.read_text())
    changed["kernel"]["release"] = "9.9"
    path.write_text(json.dumps(changed))
    with pytest.raises(NotComparable, match=r"here kernel\.release"):
        session_data.pool([one, two])
    stamped = session_data.pool([one, two], stamped=True)
    assert "here kernel.release" in stamped.data["stamp"]


def test_a_session_with_a_known_answer_is_asked_for_it(capsys, site):
    status, _, err = call(capsys, "selfcheck", "statistics", recorded(capsys, site))
    assert status == 2
    assert "no known answer" in err
    assert call(capsys, "selfcheck", "statistics", "no-such-session")[0] == 2
