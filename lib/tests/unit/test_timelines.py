"""What single trials saw: read from raw output through the records, labelled, and drawn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis import results
from infrabench.analysis.session_data import Session, open_session
from infrabench.core import DesignError, ParseError
from infrabench.ledger import records
from infrabench.notebook import timelines
from tests.support.analysis_fixtures import results_of
from tests.support.storage_fixtures import NO_LOOP, write_session

pytestmark = pytest.mark.usefixtures("sketches")

ZFS = "zfs (user space)"


Opened = tuple[Session, results.Results]


def opened(folder: Path, **how: object) -> Opened:
    stored = write_session(folder / "s", **how)  # type: ignore[arg-type]
    return open_session(stored), results_of(stored, folder / "out")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return opened(tmp_path_factory.mktemp("quick"))


def test_every_valid_trial_has_its_course(quick: Opened) -> None:
    session, _ = quick
    samples, events = timelines.courses(session, "rebuild")
    mine = session.table[session.table["workload"] == "rebuild"]
    assert set(samples["trial"]) == set(events["trial"]) == set(mine["trial"])
    assert set(samples["system"]) == {ZFS, "ceph"}
    assert set(samples["series"]) == {"foreground_iops", "foreground_latency_s", "copied_B"}
    took = mine[mine["metric"] == "rebuild_s"].set_index("trial")["value"]
    clean = events[events["event"] == "clean"].set_index("trial")["at_s"]
    assert (clean - took).abs().max() <= 0.5  # asked twice a second
    assert (events[events["event"] == "replaced"]["at_s"] == 0).all()


def test_its_figure_is_written_with_what_it_shows(quick: Opened) -> None:
    session, found = quick
    told = timelines.figure(found, session, "rebuild")
    assert "3 for each system and scenario" in told.text
    assert f"1 GB open, {ZFS}: lost at " in told.text
    folder = found.folder / "figures/storage"
    car = json.loads((folder / "timeline-rebuild.json").read_text())
    assert car["parameters"]["scenarios"] == ["1 GB default", "1 GB open"]
    assert car["data"]["sessions"] == [session.folder.name]
    assert car["caption"] == told.text
    one = timelines.figure(found, session, "rebuild", ["1 GB open", "not there"])
    assert "1 GB default" not in one.text
    assert (folder / "timeline-rebuild-1-GB-open.pdf").is_file()


def test_what_has_no_course_is_said(quick: Opened, tmp_path: Path) -> None:
    session, found = quick
    assert "no valid trial" in timelines.figure(found, session, "rebuild", ["40 GB open"]).text
    with pytest.raises(DesignError, match="trials of oltp have no course; those of rebuild have"):
        timelines.courses(session, "oltp")
    some = session.table["workload"] != "rebuild"
    rest = replace(session, table=session.table[some].reset_index(drop=True))
    less = results.results(rest.data, rest.table, rest.missing, tmp_path)
    assert timelines.figure(less, rest, "rebuild").text == "rebuild: not run: not part of this session (profile quick)."
    for how, said in (
        ({"failed": [("zfs", "rebuild")]}, f"{ZFS}: no valid trial."),
        ({"not_run": {"ceph": NO_LOOP}}, f"ceph not run: {NO_LOOP}."),
        ({"failed": [("zfs", "rebuild"), ("ceph", "rebuild")]}, "there is no valid trial to draw the course of"),
    ):
        other = opened(tmp_path / said[:4], profile="smoke", **how)
        assert said in timelines.figure(other[1], other[0], "rebuild").text


def test_raw_output_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    session, _ = opened(tmp_path, profile="smoke")
    trial = next(each.trial for each in records.read_trials(session.folder) if each.trial.workload == "rebuild")
    (session.folder / "trials" / trial.id / "rebuild.stdout").write_text("{}")
    with pytest.raises(ParseError):
        timelines.courses(session, "rebuild")


def test_trials_that_do_not_count_are_not_drawn(quick: Opened) -> None:
    session, _ = quick
    gone = session.table["block"] == 0
    states = session.table["state"].astype("object").where(~gone, "discarded")
    table = session.table.assign(state=pd.Series(states, dtype="str"))
    samples, _ = timelines.courses(replace(session, table=table), "rebuild")
    assert set(samples["block"]) == {1, 2}
