"""The command: what it prints, what it leaves, and its exit status."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from infrabench import cli
from infrabench.core import InfrabenchError
from infrabench.experiment.campaign import checks, engine, summary
from infrabench.experiment.campaign.file import Campaign
from infrabench.experiment.campaign.plan import Stand
from infrabench.experiment.campaign.summary import Span
from infrabench.notebook import headless
from tests.support.campaigns import write_notebook
from tests.support.places import ROOT

Written = Callable[[str], Campaign]
GOOD = "name: c\nstudies: {camp: {profile: few}}\nsites: {here: local}\n"


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = cli.main(["campaign", *argv])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_dry_run_prints_the_plan_alone(home: Path, written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "plan", str(written(GOOD).path), "--at-once", "3")
    assert status == 0
    assert out.splitlines()[0] == "campaign c: 1 job on 1 site"
    assert "camp: few, 3 trials in 3 blocks (plain)" in out
    assert not (home / "out").exists()
    assert not (home / "data").exists()


def test_the_status_says_what_is_missing_and_asks_no_site(
    home: Path, written: Written, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(GOOD).path
    monkeypatch.setattr("infrabench.experiment.campaign.checks.ask_all", lambda *rest: pytest.fail("a site was asked"))
    status, out, err = call(capsys, "status", str(path))
    assert status == 1
    assert "here camp: missing (data/runs/camp/c.here.camp): not begun" in out
    assert "0 of 1 sessions are complete" in out
    assert "exclusive: 0 trials on 0 sites" in out
    assert "`infrabench campaign run` goes on with what is missing" in err


def test_the_status_of_slurm_needs_no_slurm(home: Path, written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    places = "".join(f"  {name}: {{target: local, slurm: {{nodes: {name}}}}}\n" for name in ("n1", "n2"))
    path = written(GOOD.split("sites:")[0] + f"sites:\n{places}").path
    assert "0 of 2 sessions are complete" in call(capsys, "status", str(path))[1]
    assert "sites n1 and n2 are one" in call(capsys, "plan", str(path))[2]


def test_a_refusal_exits_2_with_all_faults(home: Path, written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "bad.yml"
    path.write_text(GOOD.replace("few", "fw").replace("local", "lokal"))
    status, out, err = call(capsys, "run", str(path))
    assert (status, out) == (2, "")
    assert "2 problems; nothing was started" in err
    assert "unknown profile of study 'camp' 'fw'" in err
    assert "unknown site" in err


@pytest.mark.parametrize("most", ["0", "-1"])
def test_less_than_one_site_at_once_is_refused(written: Written, capsys: pytest.CaptureFixture[str], most: str) -> None:
    status, out, err = call(capsys, "plan", str(written(GOOD).path), "--at-once", most)
    assert (status, out) == (2, "")
    assert "--at-once is 1 or more" in err


def test_a_site_in_nobodys_home_is_unknown(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "plan", str(written(GOOD.replace("local", "~nobody-here/x.yml")).path))
    assert (status, out) == (2, "")
    assert "unknown site" in err
    assert "~nobody-here/x.yml" in err


def test_a_system_that_a_site_cannot_run_is_named_with_its_reason(home: Path, written: Written) -> None:
    planned = checks.read_plan(written(GOOD))
    (job,) = planned.jobs
    job.folder.mkdir(parents=True)
    said = {"format": 1, "parameters": {}, "not_run": {"docker": "there is no guest image"}}
    (job.folder / "session.json").write_text(json.dumps(said))
    assert list(summary.lines(summary.write(planned)))[1] == "  docker not run: there is no guest image"


def test_the_proof_is_of_what_the_start_measured_alone(
    home: Path, written: Written, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "b.yml").write_text("name: b\nhosts: {server: {address: 192.0.2.1}}\n")
    campaign = written(GOOD.replace("here: local", "big: {target: local, slurm: {partition: bench}}, b: b.yml"))
    monkeypatch.setattr(summary, "spans", lambda site, folder: [Span(site, folder.name, (1,), "t", 0.0, 1.0)])
    status = ("status", str(campaign.path))
    assert "\nexclusive: 2 trials on 2 sites" in call(capsys, *status)[1]  # jobs of Slurm disturb nobody here
    started = checks.read_plan(campaign, "slurm")
    assert started.alone == frozenset()
    summary.write(replace(started, alone=frozenset({"b"})))  # the host of b turned out to be this machine
    for _ in range(2):  # the status leaves it so
        assert "NOT exclusive: 2 trials on 2 sites" in call(capsys, *status)[1]
    assert checks.check_all(campaign, "slurm", without=["b"]).alone == {"b"}  # which is not asked now


def test_what_is_measured_alone_is_known_when_the_engine_starts(
    home: Path, written: Written, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*rest: object) -> None:
        assert json.loads((engine.folder("c") / summary.FILE).read_text())["alone"] == ["here"]
        raise InfrabenchError("Snakemake was killed")

    monkeypatch.setattr(engine, "require", lambda executor: None)
    monkeypatch.setattr(engine, "run", kill)
    status, _, err = call(capsys, "run", str(written(GOOD).path))
    assert status == 1
    assert "Snakemake was killed" in err


def test_a_site_whose_file_is_gone_can_be_left_out(
    home: Path, written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = written(GOOD.replace("here: local", "here: local, b: b.yml"))
    path = str(campaign.path)
    status, _, err = call(capsys, "plan", path)
    assert (status, "1 problem; nothing was started" in err) == (2, True)
    status, out, _ = call(capsys, "plan", path, "--without", "b")
    assert status == 0
    assert "b (lost b.yml)" in out
    told = "b camp: missing (data/runs/camp/c.b.camp): "
    assert f"{told}unknown site" in call(capsys, "status", path)[1]
    planned = checks.check_all(campaign, without=["b"])
    assert f"{told}its site was left out; before: unknown site" in "\n".join(summary.lines(summary.write(planned)))
    folder = planned.jobs[1].folder
    folder.mkdir(parents=True)
    site = {"name": "rack-b", "kind": "inventory"}
    (folder / "session.json").write_text(json.dumps({"format": 1, "parameters": {}, "site": site}))
    found = checks.read_plan(campaign).jobs[1].site  # called as when it was measured, so that its session is one of it
    assert (found.name, found.kind) == ("rack-b", "inventory")


def test_a_site_with_a_damaged_session_can_be_left_out(
    home: Path, written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = written(GOOD)
    folder = home / "data/runs/camp/c.here.camp"
    folder.mkdir(parents=True)
    (folder / "session.json").write_text("{")
    assert call(capsys, "plan", str(campaign.path))[0] == 2
    assert "camp: left out, 3 trials" in call(capsys, "plan", str(campaign.path), "--without", "here")[1]
    planned = checks.check_all(campaign, without=["here"])
    engine.run(planned, engine.How())  # nothing is left to do
    status, out, _ = call(capsys, "status", str(campaign.path))
    assert status == 1
    assert re.search(r"here camp: failed \(data/runs/camp/c.here.camp\): .*is not JSON", out)
    assert re.search(r"exclusive: 0 trials .*\n  without here camp, which cannot be read: ", out)


@pytest.mark.parametrize(
    ("event", "why"), [("begun", "measured; its notebook was not executed to its end"), ("finished", None)]
)
def test_a_session_is_done_when_its_notebook_is(
    event: str, why: str | None, home: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = checks.read_plan(written(GOOD))
    monkeypatch.setattr("infrabench.experiment.campaign.plan.read_stand", lambda job: Stand("complete", 3, 3))
    state = engine.own(planned.jobs[0], "c")["state"]
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"event": event, "reason": None}))
    path = summary.write(planned)
    (entry,) = json.loads(path.read_text())["sessions"]
    assert (entry["state"], entry["reason"]) == ("complete", why)
    assert summary.complete(path) is (why is None)


def test_the_analysis_over_sites_gets_the_campaign(home: Path, written: Written) -> None:
    planned = checks.read_plan(written(GOOD))
    path = summary.write(planned)
    assert list(headless.analyse_campaign(path)) == ["not analysed over sites: no session is complete"]
    data = json.loads(path.read_text())
    assert data == {
        "name": "c",
        "alone": ["here"],
        "sessions": [
            {
                "site": "here", "study": "camp", "label": "camp", "session": "data/runs/camp/c.here.camp",
                "state": "missing", "reason": "not begun", "not_run": {},
            }
        ],
    }  # fmt: skip
    data["sessions"][0]["state"] = "complete"
    path.write_text(json.dumps(data))
    assert list(headless.analyse_campaign(path)) == [
        f"not analysed over sites: there is no {home / 'notebooks/sites.ipynb'}"
    ]
    printing = "import json; print(json.load(open(campaign))['name'], out)"
    write_notebook(home / "notebooks/sites.ipynb", "campaign = None\nout = 'out'", printing)
    (told,) = headless.analyse_campaign(path)
    assert told == str(engine.folder("c") / "sites.ipynb")
    (output,) = nbformat.read(told, 4).cells[-1]["outputs"]
    assert output["text"] == "c out/campaigns/c\n"


def test_make_hands_the_file_on_as_it_is(home: Path) -> None:
    (home / "env/bin").mkdir(parents=True)
    fake = home / "env/bin/infrabench"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >"{home}/argv"\n')
    fake.chmod(0o755)
    name = f"x'; touch '{home}/pwned'; echo `touch {home}/pwned`$(touch {home}/pwned)\" ; y.yml"
    command = ["make", "-o", "env", f"ENV={home}/env", "campaign", "DRY=1"]
    done = subprocess.run([*command, f"FILE={name}"], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert not (home / "pwned").exists()
    assert (home / "argv").read_text().split("\0")[:-1] == ["campaign", "plan", name]


def test_another_executor_gets_its_profile_and_no_resource_of_this_machine(home: Path, written: Written) -> None:
    planned = checks.read_plan(written(GOOD), "kubernetes")
    how = engine.How("kubernetes", profile="/there")
    command = engine.command(planned, how, home)
    assert command[command.index("--executor") + 1] == "kubernetes"
    assert command[command.index("--profile") + 1] == "/there"
    assert command[command.index("--jobs") + 1] == "1"
    assert command[-1] == "site_0=1"
