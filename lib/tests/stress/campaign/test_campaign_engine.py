"""Campaigns on the real engine: failures stay with their site, and what is killed goes on with nothing doubled."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import DesignError, InfrabenchError
from infrabench.experiment.campaign import checks, engine, summary
from infrabench.experiment.campaign.file import Campaign
from infrabench.experiment.campaign.plan import Plan
from infrabench.ledger import records
from tests.support.campaigns import Inventory, planned, refused, set_apart
from tests.support.started_commands import LONGEST_S, end_command, start_command
from tests.support.storm import marked_processes

Written = Callable[[str], Campaign]
MARK = "INFRABENCH_CAMPAIGN_UNDER_TEST"


def told(found: Plan) -> dict[str, tuple[str, str | None]]:
    """Return state and reason of every job, as ``campaign.json`` has them."""
    data = json.loads(summary.write(found).read_text())
    assert data["name"] == found.campaign
    assert all(not Path(each["session"]).is_absolute() for each in data["sessions"])
    return {f"{each['site']}.{each['label']}": (each["state"], each["reason"]) for each in data["sessions"]}


def executed(home: Path) -> list[str]:
    return sorted((home / "executed").read_text().split())


def test_a_failed_job_stops_its_site_alone_and_the_same_campaign_goes_on(
    home: Path, written: Written, inventory: Inventory
) -> None:
    inventory("a")
    inventory("b")
    campaign = written(
        "name: c\nstudies: {camp: {profile: few, runs: 2}, again: {study: camp, profile: few, runs: 1}}\n"
        "sites: {a: a.yml, b: b.yml}\nshares: [[a, b]]\n"
    )
    apart = set_apart(home, planned(campaign))
    (home / "broken-a").touch()
    (home / "fails-c.b.camp").touch()
    engine.run(apart, engine.How(at_once=2))
    found = told(apart)
    assert found["a.camp"][0] == "failed"
    assert "a is broken: mend it" in (found["a.camp"][1] or "")
    assert found["a.again"] == ("missing", "not begun: camp did not end well on this site")
    # It has measured, so its site goes on; only its notebook has failed.
    assert found["b.camp"][0] == "complete"
    assert "its analysis fails" in (found["b.camp"][1] or "")
    assert found["b.again"] == ("complete", None)
    assert not summary.complete(engine.folder("c") / "campaign.json")
    assert executed(home) == ["c.b.again", "c.b.camp"]
    assert (engine.folder("c") / "a" / "camp.log").read_text().count("is broken") == 1  # nothing is tried twice
    (home / "broken-a").unlink()
    before = {path: path.read_bytes() for path in (home / "data/runs/camp").rglob("*") if path.is_file()}
    engine.run(apart, engine.How(at_once=2))
    assert {state for state, _ in told(apart).values()} == {"complete"}
    assert executed(home) == ["c.a.again", "c.a.camp", "c.b.again", "c.b.camp", "c.b.camp"]
    assert {path: path.read_bytes() for path in before} == before
    assert summary.describe_overlaps(apart)[1]
    assert {path.name for path in (engine.folder("c") / "b").glob("*.ipynb")} == {"camp.ipynb", "again.ipynb"}
    (home / "fails-c.b.camp").unlink()
    engine.run(planned(campaign), engine.How())  # measures nothing, and executes the one notebook that failed
    assert set(told(apart).values()) == {("complete", None)}
    begun = time.monotonic()
    engine.run(planned(campaign), engine.How())  # no engine is needed
    assert time.monotonic() - begun < 5
    assert len(executed(home)) == 6


def test_a_site_that_is_lost_for_good_is_missing_and_the_others_finish(
    home: Path, written: Written, inventory: Inventory, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory("a")
    inventory("b")
    campaign = written("name: c\nstudies: {camp: {profile: many}}\nsites: {a: a.yml, b: b.yml}\nshares: [[a, b]]\n")
    apart = set_apart(home, planned(campaign))

    def lose() -> None:
        while not list(home.glob("data/runs/camp/c.a.camp/trials/[!.]*")):
            time.sleep(0.05)
        inventory.lost("a")

    watcher = threading.Thread(target=lose, daemon=True)
    watcher.start()
    engine.run(apart, engine.How(at_once=2))
    watcher.join(5)
    found = told(apart)
    assert found["b.camp"] == ("complete", None)
    assert found["a.camp"][0] == "partial"
    assert re.search("server: (the connection|cannot)", found["a.camp"][1] or "")
    # It is still lost: nothing is begun with it, and the rest goes on without it.
    (said,) = refused(campaign)
    assert "sites.a: server: cannot connect" in said
    assert cli.main(["campaign", "run", str(campaign.path), "--without", "a"]) == 1
    out = capsys.readouterr().out
    assert "camp: left out, 6 trials" in out
    assert "a camp: partial (data/runs/camp/c.a.camp): its site was left out; before: " in out
    assert refused(campaign, without=["a", "x"]) == ["there is no site 'x' to leave out"]


# ------------------------------------------------------------------------------------------------- kill -9


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What every process of a campaign under test has in its environment; those that are left at the end are killed.

    They have a temporary folder of their own: a Snakemake that is killed leaves one in it. Its path is short, as there
    are sockets of kernels below it.
    """
    name = f"campaign-{os.getpid()}"
    monkeypatch.setenv(MARK, name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield name
        for pid in marked_processes(MARK, name):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def started(path: Path) -> subprocess.Popen[str]:
    return start_command("campaign", "run", str(path), "--at-once", "2")


def until(what: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not what():
        assert time.monotonic() < deadline, marked_processes(MARK, os.environ[MARK])
        assert child.poll() is None, end_command(child)
        time.sleep(0.05)


def trials(home: Path) -> int:
    return len(list(home.glob("data/runs/camp/*/trials/[!.]*")))


def gone(mark: str) -> float:
    """Return after how many seconds no process of a campaign was left."""
    begun = time.monotonic()
    while found := marked_processes(MARK, mark):
        assert time.monotonic() - begun < LONGEST_S, found
        time.sleep(0.1)
    return time.monotonic() - begun


def test_killed_anywhere_it_goes_on_and_nothing_is_doubled_or_met(
    home: Path, written: Written, inventory: Inventory, mark: str
) -> None:
    inventory("a")
    inventory("b")
    campaign = written("name: c\nstudies: {camp: {profile: many}}\nsites: {a: a.yml, b: b.yml}\nshares: [[a, b]]\n")
    found = planned(campaign)
    first = started(campaign.path)
    until(lambda: trials(home) >= 2, first)
    # While it runs, nobody else may.
    with pytest.raises(InfrabenchError, match="campaign c is being run by another process"):
        engine.run(found, engine.How())
    first.kill()
    first.wait()
    # At once, while what it had started is still ending.
    second, before = started(campaign.path), trials(home)
    until(lambda: trials(home) >= before + 2, second)
    (snakemake,) = [pid for pid, command in marked_processes(MARK, mark).items() if " -m snakemake " in command]
    os.kill(snakemake, signal.SIGKILL)
    status, said = end_command(second)
    assert status == 1
    assert "Snakemake was killed by signal 9" in said
    assert gone(mark) < 5  # its jobs have ended with it
    assert told(found)["a.camp"][0] in ("partial", "complete")
    third = started(campaign.path)
    status, said = end_command(third)
    assert status == 0, said
    assert "exclusive: 12 trials on 2 sites; no two that must not meet overlap" in said
    assert set(told(found).values()) == {("complete", None)}
    assert trials(home) == 12
    for job in found.jobs:
        assert records.verify(job.folder) == []
        assert {each.trial.attempt for each in records.read_trials(job.folder)} == {0}
    assert summary.describe_overlaps(checks.read_plan(campaign))[1]
    assert gone(mark) < 5


def test_stopped_politely_it_says_what_is_there(home: Path, written: Written, inventory: Inventory, mark: str) -> None:
    inventory("a")
    campaign = written("name: c\nstudies: {camp: {profile: many}}\nsites: {a: a.yml}\n")
    child = started(campaign.path)
    until(lambda: trials(home) >= 1, child)
    child.send_signal(signal.SIGINT)
    status, said = end_command(child)
    assert status == 130
    assert "the same command goes on" in said
    assert gone(mark) < 5
    data = json.loads((engine.folder("c") / summary.FILE).read_text())["sessions"]
    assert [(each["state"], each["reason"]) for each in data] == [("partial", "the campaign was stopped")]


# ----------------------------------------------------------------------------------------- what it is told


def test_nothing_that_anybody_types_reaches_a_shell(home: Path, written: Written) -> None:
    campaign = written("name: c\nstudies: {camp: {profile: few}}\nsites: {here: local}\n")
    found = checks.read_plan(campaign)
    begun = engine.folder("c") / "engine" / "x"
    begun.mkdir(parents=True)
    (spec,) = engine.described(found, engine.How(), found.jobs, begun)
    assert spec["notebook_parameters"] == {
        "profile": "few", "mode": "run", "site": "local", "session": "c.here.camp", "out": "out/campaigns/c/here/camp",
    }  # fmt: skip
    command = engine.command(found, engine.How(at_once=2), begun)
    assert command[command.index("--retries") + 1] == "0"
    assert "--keep-going" in command
    assert command[-2:] == ["site_0=1", "here=2"]
    rule = (Path(engine.__file__).parent / "Snakefile").read_text()
    assert rule.count("shell:") == 1
    assert '"{params.python:q} -m infrabench.experiment.campaign.job {params.jobs:q} {params.id:q}"' in rule


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DesignError, match=r"pip install 'infrabench\[campaign\]'"):
        engine.require("local")
