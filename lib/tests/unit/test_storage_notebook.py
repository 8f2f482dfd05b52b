"""The notebook of the storage study: counts of answers and the course of single trials."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis import results as analysis
from infrabench.analysis.session_data import Session, open_session, pool
from infrabench.analysis.tables import Question, matrix_table
from infrabench.core import DesignError, ParseError
from infrabench.ledger import records
from infrabench.notebook import sections, storage_cells
from tests.support.analysis_fixtures import lose, results_in, table_of, table_rows
from tests.support.storage_fixtures import DEPTH, HALF_DEPTH, IOPS, NO_LOOP, write_session

pytestmark = pytest.mark.usefixtures("sketches")

ZFS = "zfs (user space)"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    return results_in(tmp_path_factory.mktemp("quick"), write_session)


def session_of(found: analysis.Results) -> Session:
    return open_session(found.folder.parent / "s")


@pytest.fixture(scope="module")
def session(quick: analysis.Results) -> Session:
    return session_of(quick)


def reanalysed(found: analysis.Results, table: pd.DataFrame) -> analysis.Results:
    """Return the analysis of a session as if its trials had reported this."""
    return analysis.results(found.data, table, session_of(found).missing, found.folder)


def rows(shown: analysis.Shown) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["scenario"], row["question"]): row for row in table_rows(shown)}


def test_the_matrix_counts_trials(quick: analysis.Results) -> None:
    told = rows(storage_cells.matrix(quick))
    assert list(dict.fromkeys(scenario for scenario, _ in told)) == [
        "a disk lost", "one copy damaged", "both copies damaged",
    ]  # fmt: skip
    one = {question: row for (scenario, question), row in told.items() if scenario == "one copy damaged"}
    light, read = one["damage found by the light scrub"], one["damage found by reading half of the files"]
    assert (light[ZFS], light["ceph"]) == ("has none", "0 of 4")
    assert (read[ZFS], read["ceph"]) == ("4 of 4", "2 of 4")
    assert one["no damage left after the repair"]["ceph"] == "4 of 4"
    assert told["both copies damaged", "no damage left after the repair"]["ceph"] == "0 of 4"
    assert told["both copies damaged", "files with the right hash after"]["ceph"] == "75 %"
    assert told["both copies damaged", "files that cannot be read after"]["ceph"] == "4"
    assert told["a disk lost", "files with the right hash without the lost disk"][ZFS] == "100 %"
    assert ("a disk lost", "damage found by the deep scrub") not in told
    assert "CI" not in storage_cells.matrix(quick).text
    assert (quick.folder / "tables/storage/answers-integrity.tex").is_file()


def test_both_copies_damaged_is_lost_and_not_fine(quick: analysis.Results, tmp_path: Path) -> None:
    told = storage_cells.outcomes(quick).text.splitlines()
    assert len(told) == 6
    assert told[0] == f"- a disk lost, {ZFS}: in 4 of 4 trials every file came back as it was written."
    assert told[-1] == "- both copies damaged, ceph: in 4 of 4 trials files were lost, and reading them said so."
    wrong = storage_cells.outcomes(results_in(tmp_path, write_session, wrong=True)).text.splitlines()
    assert wrong[:-1] == told[:-1]
    assert wrong[-1].endswith("ceph: in 4 of 4 trials files were read with another content and without an error.")


def test_an_outcome_that_differs_between_trials_is_counted(quick: analysis.Results) -> None:
    table = quick.table.copy()
    mine = (table["scenario"] == "one copy damaged") & (table["system"] == "ceph")
    first = table.loc[mine & (table["block"] == 0), "trial"].iloc[0]
    table.loc[(table["trial"] == first) & (table["metric"] == "lost_files"), "value"] = 2.0
    table.loc[(table["trial"] == first) & (table["metric"] == "intact_after"), "value"] = 14 / 16
    found = reanalysed(quick, table)
    assert (
        "- one copy damaged, ceph: in 1 of 4 trials files were lost, and reading them said so; in 3 of 4 trials every "
        "file came back as it was written."
    ) in storage_cells.outcomes(found).text
    told = rows(storage_cells.matrix(found))
    assert told["one copy damaged", "files with the right hash after"]["ceph"] == "87.50 to 100 %"
    assert told["one copy damaged", "files that cannot be read after"]["ceph"] == "0 to 2"


def test_runs_that_are_too_short_are_called_so(quick: analysis.Results) -> None:
    values = quick.table[quick.table["metric"] == "steady"].groupby("system", observed=True)["value"].mean()
    lines = storage_cells.settled(quick).text.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"- {ZFS}", "- ceph"]
    for line, system in zip(lines, (ZFS, "ceph"), strict=True):
        assert line.endswith("too short to be called steady." if values[system] < 0.9 else "long enough.")
    all_well = quick.table.assign(value=quick.table["value"].where(quick.table["metric"] != "steady", 1.0))
    found = reanalysed(quick, all_well)
    assert storage_cells.settled(found).text.count("long enough") == 2
    assert f"- {ZFS}: 32 of 32 trials were steady; 0 % not" in storage_cells.settled(found).text
    assert "random write strict" in storage_cells.matrix(found, "fio-4k").text


def test_trials_without_an_answer_are_counted_and_so_is_a_system_that_lost_all(quick: analysis.Results) -> None:
    table = quick.table.copy()
    files, of_ceph = table["workload"] == "integrity", table["system"] == "ceph"
    lose(table, files & of_ceph & (table["scenario"] == "one copy damaged") & (table["block"] == 0), "failed")
    lose(table, files & ~of_ceph & (table["scenario"] == "a disk lost"), "timeout")
    told = storage_cells.outcomes(reanalysed(quick, table)).text.splitlines()
    assert told[0] == f"- a disk lost, {ZFS}: 4 of 4 trials ended without an answer."
    came_back = "in 3 of 4 trials every file came back as it was written"
    assert f"- one copy damaged, ceph: {came_back}; 1 of 4 trials ended without an answer." in told
    assert len(told) == 6


def test_trials_that_ended_without_a_rate_are_named_beside_the_steady_ones(quick: analysis.Results) -> None:
    table = quick.table.copy()
    of_ceph = (table["workload"] == "fio-4k") & (table["system"] == "ceph")
    lose(table, of_ceph & (table["block"] == 0), "aborted")
    zfs, ceph = storage_cells.settled(reanalysed(quick, table)).text.splitlines()
    assert "without a rate" not in zfs
    assert re.search(r"of 30 trials were steady; [0-9.]+ % not \(10 more ended without a rate\), with 10 %", ceph)
    lose(table, of_ceph, "aborted")
    assert storage_cells.settled(reanalysed(quick, table)).text.endswith("ceph: 40 of 40 trials ended without a rate.")


@pytest.mark.parametrize(("unsteady", "said"), [(1, "long enough"), (2, "too short to be called steady")])
def test_as_many_unsteady_trials_as_allowed_are_fine(quick: analysis.Results, unsteady: int, said: str) -> None:
    values = [0.0] * unsteady + [1.0] * (10 - unsteady)
    table = table_of({"ceph": values}, workload="fio-4k", metric="steady", unit="1")
    found = reanalysed(quick, table)
    told = f"{10 - unsteady} of 10 trials were steady; {10 * unsteady} % not, with 10 % allowed"
    assert storage_cells.settled(found).text == f"- ceph: {told}: the runs are {said}."


def test_what_was_not_run_is_said(tmp_path: Path) -> None:
    found = results_in(tmp_path / "a", write_session, not_run={"ceph": NO_LOOP}, profile="smoke")
    assert storage_cells.outcomes(found).text.endswith(f"- ceph: not run: {NO_LOOP}.")
    assert storage_cells.settled(found).text.endswith(f"- ceph: not run: {NO_LOOP}.")
    assert "ceph" not in storage_cells.matrix(found).text
    failed = results_in(tmp_path / "b", write_session, failed=[("zfs", "integrity")], profile="smoke")
    told = rows(storage_cells.matrix(failed))
    assert told["a disk lost", "valid trials"][ZFS] == "0 of 2"
    assert told["a disk lost", "files with the right hash after"][ZFS] == "no valid trial"
    gone = [("zfs", "integrity"), ("ceph", "integrity")]
    both = results_in(tmp_path / "c", write_session, failed=gone, profile="smoke")
    for told_of in (storage_cells.matrix, storage_cells.outcomes):
        assert re.fullmatch(r"integrity: none of its \d+ trials is valid \(\d+ failed\)\.", told_of(both).text)
    rest = both.table[both.table["workload"] != "integrity"].reset_index(drop=True)
    less = reanalysed(both, rest)
    assert storage_cells.outcomes(less).text == "integrity: not run: not part of this session (profile smoke)."
    with pytest.raises(DesignError, match="unknown workload with answers 'oltp'"):
        storage_cells.matrix(found, "oltp")


def test_a_matrix_has_its_systems_and_scenarios_in_the_order_that_is_asked_for() -> None:
    table = table_of({"native": [1, 0, None], "docker": [1, 1, 1]}, scenario="b", metric="found", unit="1")
    made = matrix_table(
        table, "sysbench-cpu", [Question("found", "was it found", "flag")], scenarios=["a", "b"],
        systems=["docker", "native"],
    )  # fmt: skip
    assert list(made.columns) == ["scenario", "question", "docker", "native"]
    assert made.to_dict("records") == [
        {"scenario": "b", "question": "valid trials", "docker": "3 of 3", "native": "2 of 3"},
        {"scenario": "b", "question": "was it found", "docker": "3 of 3", "native": "1 of 2"},
    ]


def test_a_matrix_of_pooled_sessions_whose_trials_have_equal_ids_counts_them_all() -> None:
    kind = {"metric": "found", "unit": "1"}
    pooled = pd.concat([table_of({"native": [1, None]}, session=name, **kind) for name in ("a", "b")])
    made = matrix_table(
        pooled, "sysbench-cpu", [Question("found", "was it found", "flag")], scenarios=["default"], systems=["native"]
    )
    assert list(made["native"]) == ["2 of 4", "2 of 2"]


def test_every_valid_trial_has_its_course(session: Session) -> None:
    samples, events = storage_cells.courses(session, "rebuild")
    mine = session.table[session.table["workload"] == "rebuild"]
    assert set(samples["trial"]) == set(events["trial"]) == set(mine["trial"])
    assert set(samples["system"]) == {ZFS, "ceph"}
    assert set(samples["series"]) == {"foreground_iops", "foreground_latency_s", "copied_B"}
    took = mine[mine["metric"] == "rebuild_s"].set_index("trial")["value"]
    clean = events[events["event"] == "clean"].set_index("trial")["at_s"]
    assert (clean - took).abs().max() <= 0.5  # asked twice a second
    assert (events[events["event"] == "replaced"]["at_s"] == 0).all()


def test_trials_of_every_pooled_session_are_drawn(session: Session, tmp_path: Path) -> None:
    pooled = pool([session.folder, shutil.copytree(session.folder, tmp_path / "again")])
    for every, alone in zip(*(storage_cells.courses(each, "rebuild") for each in (pooled, session)), strict=True):
        assert every.groupby("session").size().to_dict() == {session.folder.name: len(alone), "again": len(alone)}
    found = analysis.results(pooled.data, pooled.table, pooled.missing, tmp_path)
    assert "8 for each system and scenario" in storage_cells.timeline(found, pooled, "rebuild").text


def test_a_stall_is_a_rate_of_nothing_and_no_latency(session: Session) -> None:
    samples, events = storage_cells.courses(session, "rebuild")
    ceph = samples[samples["system"] == "ceph"]
    still = ceph[(ceph["series"] == "foreground_iops") & (ceph["value"] == 0)]
    assert set(still["trial"]) == set(ceph["trial"])
    lost, noticed = (events[events["event"] == name].set_index("trial")["at_s"] for name in ("lost", "noticed"))
    assert still["at_s"].gt(still["trial"].map(lost)).all()
    assert still["at_s"].lt(still["trial"].map(noticed)).all()
    latency = samples[(samples["series"] == "foreground_latency_s")].set_index(["trial", "at_s"])["value"]
    assert latency.loc[[(row.trial, row.at_s) for row in still.itertuples()]].isna().all()
    assert latency.isna().sum() == len(still)


def test_the_figure_of_courses_is_written_with_what_it_shows(quick: analysis.Results, session: Session) -> None:
    told = storage_cells.timeline(quick, session, "rebuild")
    assert "4 for each system and scenario" in told.text
    assert f"1 GB open, {ZFS}: lost at " in told.text
    folder = quick.folder / "figures/storage"
    car = json.loads((folder / "timeline-rebuild.json").read_text())
    assert car["parameters"]["scenarios"] == ["1 GB default", "1 GB open"]
    assert car["data"]["sessions"] == [session.folder.name]
    assert car["caption"] == told.text
    one = storage_cells.timeline(quick, session, "rebuild", ["1 GB open", "not there"])
    assert "1 GB default" not in one.text
    assert (folder / "timeline-rebuild-1-GB-open.pdf").is_file()


def test_what_has_no_course_is_said(quick: analysis.Results, session: Session, tmp_path: Path) -> None:
    assert "no valid trial" in storage_cells.timeline(quick, session, "rebuild", ["40 GB open"]).text
    with pytest.raises(DesignError, match="trials of oltp have no course; those of rebuild have"):
        storage_cells.courses(session, "oltp")
    some = session.table["workload"] != "rebuild"
    rest = replace(session, table=session.table[some].reset_index(drop=True))
    less = analysis.results(rest.data, rest.table, rest.missing, tmp_path)
    nothing = "rebuild: not run: not part of this session (profile quick)."
    assert storage_cells.timeline(less, rest, "rebuild").text == nothing
    for how, said in (
        ({"failed": [("zfs", "rebuild")]}, f"{ZFS}: no valid trial."),
        ({"not_run": {"ceph": NO_LOOP}}, f"ceph: not run: {NO_LOOP}."),
        ({"failed": [("zfs", "rebuild"), ("ceph", "rebuild")]}, "rebuild: none of its "),
    ):
        other = results_in(tmp_path / said[:4], write_session, profile="smoke", **how)
        assert said in storage_cells.timeline(other, session_of(other), "rebuild").text


def test_raw_output_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    session = session_of(results_in(tmp_path, write_session, profile="smoke"))
    trial = next(each.trial for each in records.read_trials(session.folder) if each.trial.workload == "rebuild")
    (session.folder / "trials" / trial.id / "rebuild.stdout").write_text("{}")
    with pytest.raises(ParseError):
        storage_cells.courses(session, "rebuild")


def test_trials_that_do_not_count_are_not_drawn(session: Session) -> None:
    gone = session.table["block"] == 0
    states = session.table["state"].astype("object").where(~gone, "discarded")
    table = session.table.assign(state=pd.Series(states, dtype="str"))
    samples, _ = storage_cells.courses(replace(session, table=table), "rebuild")
    assert set(samples["block"]) == {1, 2, 3}


def test_systems_are_compared_by_their_requests_at_one_latency(tmp_path: Path) -> None:
    found = results_in(tmp_path, lambda folder: write_session(folder, profile="load"))
    shown = sections.load_knee(found, "fio-4k", rate="iops").text
    # A time of (depth + HALF_DEPTH) / most is twice that of one request at HALF_DEPTH + 2 of them.
    share = (HALF_DEPTH + 2) / (2 * HALF_DEPTH + 2) * (DEPTH + HALF_DEPTH) / DEPTH
    for pattern, name in (("randread", "random read"), ("randwrite", "random write")):
        row = re.search(rf"\| outstanding \({name}\) \| ceph \| 6 of 6 \| (\d+) \|", shown)
        assert row
        assert float(row[1]) == pytest.approx(share * IOPS[pattern, "strict"][1], rel=0.1)
        assert re.search(rf"- outstanding \({name}\) until latency_mean_s is 0.00\d+ s, ceph: 0.[34]\d+ times", shown)
