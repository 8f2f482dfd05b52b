"""A treatment that its system has no place for: left out of every block with its reason, shown, and never missing."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from infrabench import cli, registry
from infrabench.analysis import results, session_data
from infrabench.analysis.tidy import missing, tidy
from infrabench.core import Case, LedgerError, Profile, SiteError
from infrabench.experiment.execution import reparse
from infrabench.experiment.provenance import comparability
from infrabench.ledger import records
from infrabench.notebook import api, session_figures, session_tables
from infrabench.stats import contrasts, interactions, omnibus, stopping, tiers, trends
from tests.support.analysis_fixtures import SYSTEMS, lose, write_session
from tests.support.fakes import fake_site, interrupt_session
from tests.support.fakes import run_session as run

pytestmark = pytest.mark.usefixtures("sketches")
REASON = "there is no second interface"
CASES = tuple(
    Case("fake", f"{interface or 'primary'}={value:g}", {"interface": interface, "value": value}, "value", value, 0.01)
    for interface, value in (("", 1.0), ("", 2.0), ("second", 3.0), ("service", 4.0))
)
GONE = ("fake-other", "fake", "second=3")


@pytest.fixture
def study(fake_plugins):
    return replace(registry.study("fakes"), profiles={"tiny": Profile(3, CASES)})


def site_with(base=(), other=()):
    addresses = {"fake-base": dict.fromkeys(base, "192.0.2.1"), "fake-other": dict.fromkeys(other, "192.0.2.2")}
    return fake_site(addresses=addresses)


def held(folder):
    return {(t.system, t.workload, t.scenario) for t in records.read_plan(folder)}


def test_it_is_left_out_of_every_block_with_its_reason(tmp_path, study):
    assert records.not_applicable({"study": "s"}) == {}  # a session from before it was kept
    folder = run(study, tmp_path / "s", site_with(base=["second"]))
    data = records.read_session(folder)
    assert records.not_applicable(data) == {
        GONE: REASON,
        ("fake-base", "fake", "service=4"): "there is no service interface",
        ("fake-other", "fake", "service=4"): "there is no service interface",
    }
    assert GONE not in held(folder)
    assert ("fake-base", "fake", "second=3") in held(folder)
    assert len(records.read_plan(folder)) == 3 * 5
    assert not any("service" in scenario for *_, scenario in held(folder))
    assert records.recorded(folder) == {trial.id for trial in records.read_plan(folder)}
    assert missing(folder).empty
    assert records.verify(folder) == []


def test_the_plan_is_otherwise_that_of_a_session_with_everything(tmp_path, study):
    whole = run(study, tmp_path / "whole", site_with(base=["second", "service"], other=["second", "service"]))
    less = run(study, tmp_path / "less", site_with(base=["second", "service"], other=["service"]))
    assert records.read_plan(less) == tuple(
        t for t in records.read_plan(whole) if (t.system, t.workload, t.scenario) != GONE
    )


def test_what_is_found_counts_and_not_what_the_study_foresaw(tmp_path, study):
    wrong = {"fake-base": {("fake", "second=3"), ("fake", "primary=1")}, "fake-other": {("fake", "primary=2")}}
    folder = run(replace(study, placeless=wrong), tmp_path / "s", site_with(base=["second"]))
    assert records.read_plan(folder) == records.read_plan(run(study, tmp_path / "usual", site_with(base=["second"])))
    assert missing(folder).empty
    data = records.read_session(folder)
    assert reparse.recorded_design(data).excluded == records.not_applicable(data).keys()


def test_where_the_baseline_has_no_place_the_others_stay(tmp_path, study):
    folder = run(study, tmp_path / "s", site_with(other=["second"]))
    assert GONE in held(folder)
    assert ("fake-base", "fake", "second=3") not in held(folder)
    opened = session_data.open_session(folder)
    assert "second=3" not in set(api.contrasts(opened)["scenario"])
    estimated = api.results(opened).estimates
    row = estimated[estimated["scenario"] == "second=3"]
    assert list(row["system"]) == ["fake-other"]
    assert (row["n"] == 3).all()


def test_a_session_goes_on_only_with_the_same_treatments(tmp_path, study):
    interrupt_session(study, tmp_path / "s", 4, site=site_with(base=["second"]))
    with pytest.raises(LedgerError, match=r"the same treatments: fake second=3 on fake-base cannot run now"):
        run(study, tmp_path / "s", site_with())
    # What was left out stays so, although it could run now.
    run(study, tmp_path / "s", site_with(base=["second"], other=["second"]))
    assert len(records.recorded(tmp_path / "s")) == 3 * 5
    assert GONE not in held(tmp_path / "s")


def test_a_workload_named_by_hand_has_to_have_a_place(tmp_path, study):
    nowhere = replace(study, profiles={"tiny": Profile(1, CASES[2:])})
    with pytest.raises(SiteError, match="fake on fake-base: there is no second interface"):
        run(nowhere, tmp_path / "s", site_with(), workloads=["fake"])
    with pytest.raises(SiteError, match="can run no workload"):
        run(nowhere, tmp_path / "s", site_with())
    assert not (tmp_path / "s").exists()


def test_it_is_shown_as_not_run_and_not_as_missing(tmp_path, study, capsys):
    folder = run(study, tmp_path / "s", site_with(base=["second"]))
    rows = session_tables.validity_table(session_data.open_session(folder))
    assert rows["missing"].sum() == 0
    notes = rows[rows["system"] == "fake-other"]["note"].tolist()
    assert "second=3: not run: there is no second interface" in notes
    assert cli.main(["session", "list", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "fake-other, fake second=3: not run: there is no second interface" in told
    assert "missing" not in told


def test_treatments_of_one_system_and_one_reason_are_told_together():
    cells = [
        ("b", "web", "80 pods"),
        ("b", "net", "rr 80 pods"),
        ("b", "net", "stream 80 pods"),
        ("a", "web", "80 pods"),
    ]
    absent = dict.fromkeys(cells, "no room") | {("b", "disk", "default"): "no disk"}
    assert records.absences(absent) == {
        "b, web 80 pods; net rr 80 pods, stream 80 pods": "no room", "a, web 80 pods": "no room",
        "b, disk default": "no disk",
    }  # fmt: skip


def test_sessions_of_different_treatments_are_told_apart_and_pooled(tmp_path, study):
    one = run(study, tmp_path / "one", site_with(base=["second"]))
    two = run(study, tmp_path / "two", site_with(base=["second"], other=["second"]))
    told = [d for d in comparability.differences(one, two) if "not run" in d.key]
    assert [(d.where, d.key, d.first, d.second, d.checked) for d in told] == [
        ("system fake-other", "case fake second=3 not run", REASON, None, False)
    ]
    both = session_data.pool([one, two])
    assert GONE not in records.not_applicable(both.data)
    assert ("fake-other", "fake", "service=4") in records.not_applicable(both.data)


def test_of_pooled_sessions_only_what_none_has_run_is_not_run(tmp_path):
    gone = {"podman": "it is not installed"}
    one = write_session(tmp_path / "one", blocks=1, not_run=gone | {"lxd": "its daemon did not answer"})
    two = write_session(tmp_path / "two", blocks=1, systems=SYSTEMS, not_run=gone)
    three = write_session(tmp_path / "three", blocks=1, not_run={})  # was not asked for podman
    every = [records.read_session(each) for each in (one, two, three)]
    every[0] |= {"left_out": {"web": "no server", "fio": "no disk"}, "workloads": ["mail"]}
    for data in (every, every[::-1]):
        told = session_data.together(data, ["a", "b", "c"], "")
        assert told["not_run"] == gone
        assert told["left_out"] == {"fio": "no disk"}
        assert {*SYSTEMS} <= {*told["systems"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Synthetic: docker has no web at one level and no mail; the baseline has no ftp; nobody has fio."""
    folder = tmp_path_factory.mktemp("analysis")
    source = write_session(folder / "s", blocks=8, faults=False, not_run={})
    absent = [
        ("docker", "web", "users=3000", "it has no such port"),
        ("docker", "mail", "default", "it sends no mail"),
        ("native", "ftp", "size=16MiB", "it has no server"),
        *((name, "fio", "default", "no such disk") for name in ("native", "docker", "lxc")),
    ]
    data = records.read_session(source)
    keys = ("system", "workload", "scenario", "reason")
    data["not_applicable"] = [dict(zip(keys, each, strict=True)) for each in absent]
    table = tidy(source)
    gone = pd.MultiIndex.from_tuples([each[:3] for each in absent])
    table = table[~pd.MultiIndex.from_frame(table[["system", "workload", "scenario"]]).isin(gone)]
    return results.results(data, table.reset_index(drop=True), missing(source), folder / "out")


def test_there_is_no_contrast_of_a_cell_that_does_not_apply(found):
    cells = set(found.contrasts[["workload", "scenario", "system"]].itertuples(index=False, name=None))
    assert ("web", "users=3000", "docker") not in cells
    assert ("web", "users=3000", "lxc") in cells
    assert not {cell for cell in cells if cell[0] == "ftp"}
    assert ("mail", "default", "docker") not in cells
    assert not found.contrasts["reason"].str.startswith("no ok trial").any()


def test_a_system_that_was_tried_and_failed_keeps_its_contrast(found):
    failed = found.table.copy()
    lose(failed, (failed["workload"] == "mail") & (failed["system"] == "lxc"), "failed")
    rows = contrasts(failed, "native", {"": 0.02})
    rows = rows[rows["workload"] == "mail"]
    assert rows[["system", "reason"]].to_numpy().tolist() == [["lxc", "no ok trial of lxc"]]


def test_every_analysis_copes_with_cells_that_do_not_exist(found):
    table = found.table
    rows = omnibus(table).set_index(["workload", "scenario", "metric"])
    assert rows.loc[("web", "users=3000", "requests_per_s"), ["k", "n"]].tolist() == [2, 8]
    assert rows.loc[("web", "users=1000", "requests_per_s"), ["k", "n"]].tolist() == [3, 8]
    assert rows.loc[("ftp", "size=16MiB", "total_s"), "k"] == 2
    inner = interactions(table, "native").set_index(["workload", "metric", "system"])
    assert inner.loc[("web", "requests_per_s", "docker"), ["levels", "n"]].tolist() == [7, 8]
    assert inner.loc[("web", "requests_per_s", "lxc"), ["levels", "n"]].tolist() == [8, 8]
    letters = tiers(table)
    mine = letters[(letters["workload"] == "mail")].set_index("system")["letters"]
    assert mine["docker"] == ""
    assert mine["lxc"]
    assert not trends(table).empty
    seen = stopping.look(table, [("web", "requests_per_s"), ("mail", "messages_per_min")], 0.5, least=8)
    assert ("mail", "default", "messages_per_min", "docker") not in seen.widths
    assert seen.stop


@pytest.mark.parametrize("kind", ["estimates", "contrasts", "results", "omnibus", "tiers", "diagnostics", "trends"])
def test_every_table_is_made_without_them(found, kind):
    assert "web" in results.table(found, kind, ["web", "mail", "ftp"]).text


@pytest.mark.parametrize(
    ("kind", "scenario"),
    [("points", ""), ("points", "users=3000"), ("forest", ""), ("tiers", ""), ("scaling", ""), ("order", "users=3000"),
     ("ecdf", "users=3000"), ("power", "users=3000")],
)  # fmt: skip
def test_every_figure_is_made_without_them(found, kind, scenario):
    told = session_figures.figure(found, kind, "web", "requests_per_s", scenario=scenario).text
    assert told
    if kind in ("points", "scaling"):
        assert "Not run: docker at users=3000 (it has no such port)." in told


def test_findings_say_what_was_not_run(found):
    told = results.findings(found, "web", "requests_per_s").text
    assert "docker at users=3000: not run: it has no such port." in told
    assert results.findings(found, "ftp", "total_s").text == "- native at size=16MiB: not run: it has no server."
    assert (
        "fio: not run: native at default: no such disk; docker" in results.findings(found, "fio", "read_B_per_s").text
    )
    assert "no such disk" in session_figures.figure(found, "points", "fio", "read_B_per_s").text


def test_a_trial_that_contradicts_its_own_claim_is_invalid_and_repeated(tmp_path, study):
    astray = replace(
        study, profiles={"tiny": Profile(1, (Case("fake", "ok"), Case("fake", "astray", {"does": "astray"})))}
    )
    folder = run(astray, tmp_path / "s", fake_site())
    every = records.read_trials(folder)
    bad = [record for record in every if record.trial.scenario == "astray"]
    assert {record.state for record in bad} == {"invalid"}
    assert {record.reason for record in bad} == {"the traffic took another path"}
    assert not any(record.measurements for record in bad)
    assert sorted(record.trial.attempt for record in bad) == [0, 0, 1, 1, 2, 2]
    started = [record.trial.attempt for record in sorted(every, key=lambda record: record.started_utc)]
    assert started == sorted(started)  # repeats stand at the end of the block
    assert reparse.compare(folder).differences == ()


def test_reading_again_finds_what_contradicts_and_what_does_no_more(tmp_path, study, monkeypatch):
    folder = run(replace(study, profiles={"tiny": Profile(1, CASES[:2])}), tmp_path / "s", fake_site())
    ok = records.read_trials(folder)[0]
    workload = registry.workload("fake")
    real = workload.parse
    (folder / "trials" / ok.trial.id / "tool.stdout").write_bytes(b"value=1\nother path\n")
    now = reparse.reparse_record(folder, ok, registry.workload)
    assert (now.state, now.reason, now.measurements) == ("invalid", "the traffic took another path", ())
    assert len(reparse.compare(folder).differences) == 1
    monkeypatch.setattr(workload, "parse", lambda capture: real(records_capture(capture)))
    assert reparse.reparse_record(folder, now, registry.workload).state == "ok"
    guarded = replace(now, conditions={**now.conditions, "invalid": ["steal 0.5 > 0.02"]})
    mended = reparse.reparse_record(folder, guarded, registry.workload)
    assert (mended.state, mended.reason) == ("invalid", "steal 0.5 > 0.02")
    assert mended.measurements
    again = reparse.reparse_record(folder, now, registry.workload, repeated=True)  # a block has each treatment once
    assert (again.state, again.reason) == ("invalid", f"{now.reason}; read again it is valid, and its repeat counts")
    killed = replace(guarded, conditions={**guarded.conditions, "failed": ["killed for want of memory"]})
    assert reparse.reparse_record(folder, killed, registry.workload).state == "failed"


def records_capture(capture):
    """The capture as a mended tool would have left it."""
    step = replace(capture["tool"], stdout=capture["tool"].stdout.replace(b"other path", b"end"))
    return replace(capture, steps={**capture.steps, "tool": step})


def test_a_metric_is_not_told_of_scenarios_that_have_others(found):
    other = replace(found, table=found.table.copy())
    mine = (other.table["workload"] == "web") & (other.table["scenario"] == "users=3000")
    other.table.loc[mine, "metric"] = "other_" + other.table.loc[mine, "metric"]
    assert not results.not_applicable(other, "web", "requests_per_s")
    assert results.not_applicable(other, "web", "other_requests_per_s")
    assert results.not_applicable(other, "web") == {"docker at users=3000": "it has no such port"}
    everywhere = results.not_applicable(other)
    assert everywhere["docker at web users=3000"] == "it has no such port"
    assert everywhere["native at ftp size=16MiB"] == "it has no server"
