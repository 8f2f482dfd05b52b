"""The printed cells of the paper on container runtimes beside a made-up session: values, ratios, grades."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.analysis import results as analysis
from infrabench.analysis.published.printed_numbers import numbers
from infrabench.analysis.tables import notation
from infrabench.notebook import published_cells, quality_classes
from infrabench.notebook.published_cells import read_cells
from tests.support import storage_fixtures
from tests.support.analysis_fixtures import lose, results_in
from tests.support.analysis_fixtures import table_rows as rows
from tests.support.runtimes_fixtures import NO_KATA, write_session

KATA = ("containerd-kata", "crio-kata")


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    """Kata runs for real, and CRI-O has no room for 40 pods."""
    how = {"profile": "forty", "not_run": {}, "fits": {"crio-runc": 31}}
    return results_in(tmp_path_factory.mktemp("forty"), write_session, **how)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    """Kata is not installed, and 40 pods are not asked for."""
    return results_in(tmp_path_factory.mktemp("quick"), write_session)


@pytest.mark.parametrize("name", ["containers", "runtimes", "storage"])
def test_every_cell_names_metrics_and_scenarios_that_the_study_has(name: str) -> None:
    (cells, pairs), study = read_cells(name), registry.study(name)
    cases = [case for profile in study.profiles.values() for case in profile.cases]
    for each in cells:
        assert any(case.workload == each.workload and each.is_at(case.scenario) for case in cases), each
        assert set(each.systems) <= set(study.systems)
        assert name != "runtimes" or (str(each.pods) in each.row.scenario) == bool(each.pods)
    assert len(pairs) == {"runtimes": 4, "storage": 2}.get(name, 0)
    for pair in pairs:
        for each in (pair.above, pair.below):
            assert any(case.workload == each.workload and each.is_at(case.scenario) for case in cases), pair


def told_of(shown: analysis.Shown, begins: str) -> list[dict[str, str]]:
    """Return the rows of a table of printed cells that are of this one."""
    return [row for row in rows(shown) if row["printed"].startswith(begins)]


def mean_of(found: analysis.Results, *case: str) -> float:
    return found.estimates.set_index(["workload", "metric", "scenario", "system"])["mean"][case]


def test_a_throughput_stands_beside_ours_in_both_readings_of_its_unit(forty: analysis.Results) -> None:
    told = told_of(published_cells.values(forty), "containerd, 10 containers: 2301.75")
    factors = {"as printed": 8e6, "as netperf prints it, 10⁶ bit/s": 1e6}
    assert {(row["read"], row["metric"]) for row in told} == {
        (reading, metric) for reading in factors for metric in ("throughput", "throughput per pair")
    }
    ours = mean_of(forty, "pods-netperf", "throughput_bit_per_s", "tcp_stream 10 pods", "containerd-runc")
    assert {row["read"]: row["ours / theirs"] for row in told if row["metric"] == "throughput"} == {
        reading: notation.short(ours / (2301.75 * factor)) for reading, factor in factors.items()
    }
    assert {row["system"] for row in told} == {"containerd-runc"}


def test_what_is_not_printed_is_every_one_of_ours_that_may_be_meant(forty: analysis.Results) -> None:
    shown = published_cells.values(forty)
    kata = told_of(shown, "kata, 40 containers")  # which runtime ran it
    assert {(row["system"], row["scenario"]) for row in kata} == {(name, "tcp_stream 40 pods") for name in KATA}
    latency = [row["scenario"] for row in rows(shown) if "0.359 ms" in row["printed"]]  # of how many containers
    assert latency == ["tcp_rr 10 pods", "tcp_rr 20 pods", "tcp_rr 40 pods"]


def test_why_ours_is_not_there_is_told(forty: analysis.Results, quick: analysis.Results) -> None:
    full = published_cells.values(forty).text
    assert "crio-runc: not run: 40 pods do not fit, 31 do: memory of the node" in full
    told = published_cells.values(quick).text
    assert f"containerd-kata and crio-kata: not run: {NO_KATA}; " in told
    assert "not part of this session (profile quick)" in told
    assert (quick.folder / "tables/runtimes/beside-values.csv").is_file()
    ratios = rows(published_cells.ratios(quick))
    assert len(ratios) == len(read_cells("runtimes")[1])
    assert {row["agreement"] for row in ratios} == {"not comparable"}
    assert "not part of this session (profile quick)" in ratios[2]["note"]
    assert NO_KATA in ratios[0]["note"]


def test_a_ratio_of_two_cells_is_paired_and_compared(forty: analysis.Results) -> None:
    told = told_of(published_cells.ratios(forty), "kata, 40 containers / containerd")
    assert {(row["metric"], row["ours"].split(",")[0]) for row in told} == {
        (metric, system) for metric in ("throughput", "throughput per pair") for system in KATA
    }
    one = told[0]
    assert one["theirs"] == "0.5886"
    cells = [("tcp_stream 40 pods", "containerd-kata"), ("tcp_stream 10 pods", "containerd-runc")]
    above, below = (mean_of(forty, "pods-netperf", "throughput_bit_per_s", *cell) for cell in cells)
    assert float(one["our ratio"]) == pytest.approx(above / below, rel=5e-3)
    low, high = (float(end) for end in one["95 % CI"].strip("[]").split(", "))
    assert low < above / below < high
    assert one["agreement"] == "agrees in direction"  # ours is far lower, and below 1 like theirs
    busy = told_of(published_cells.ratios(forty), "cri-o, 40 containers")  # how busy, not how fast
    assert [row["agreement"] for row in busy] == ["not comparable"] * 2


def test_a_ratio_of_two_cells_that_lost_many_trials_is_not_comparable_and_says_so(forty: analysis.Results) -> None:
    table = forty.table.copy()
    cell = (table["workload"] == "pods-netperf") & (table["scenario"] == "tcp_stream 40 pods")
    lose(table, cell & table["system"].isin(KATA) & (table["block"] % 2 == 0), "timeout")
    lost = published_cells.compare_ratios(replace(forty, table=table))
    lost = lost[lost["printed"].str.startswith("kata, 40 containers")]
    assert len(lost)
    assert set(lost["agreement"]) == {"not comparable"}
    assert lost["reason"].str.contains("timed out (below: 0 of ", regex=False).all()
    assert lost["reason"].str.contains("no verdict on the rest").all()
    assert lost["ratio"].isna().all()


def test_what_an_emulator_measured_is_never_compared(tmp_path: Path) -> None:
    found = results_in(tmp_path, write_session, profile="forty", not_run={}, emulated=KATA)
    told = [row for row in rows(published_cells.ratios(found)) if "kata" in row["printed"]]
    assert {row["agreement"] for row in told} == {"not comparable"}
    assert all("(emulated)" in row["ours"] and "ours is " in row["note"] for row in told)
    assert any("ours is containerd-kata (emulated)" in row["note"] for row in told)
    assert "containerd-kata (emulated)" in published_cells.values(found).text


def test_the_grades_are_those_of_every_value_and_say_nothing(forty: analysis.Results, quick: analysis.Results) -> None:
    told = rows(quality_classes.table(forty))
    theirs, ours = ([row for row in told if row["what"].startswith(who)] for who in ("the paper:", "ours:"))
    assert len(theirs) == 4 + 1 + 2
    assert len(ours) == 3 * len(forty.systems)
    assert {row["class"] for row in told if row["of the"] == "top of the scale"} == {"above the scale"}
    assert {row["class"] for row in told if row["of the"] == "first bound"} == {"very good"}
    worth = quality_classes.worth(forty).text
    assert "4.1 to 5.3 orders of magnitude above the top" in worth
    assert "2.1 MBps, stands in no table: it is 21 to 168 times the top" in worth
    count = (forty.estimates["metric"] == "latency_mean_s").sum()
    assert f"Ours: {count} cells of latency" in worth
    assert "each of them is 'very good'" in worth
    bare = replace(quick, estimates=quick.estimates[quick.estimates["workload"] == "pods-pi"])  # without a network
    assert len(rows(quality_classes.table(bare))) == 7
    assert "Ours" not in quality_classes.worth(bare).text


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    return results_in(tmp_path_factory.mktemp("stores"), storage_fixtures.write_session)


def test_every_printed_result_of_the_storage_paper_has_its_place() -> None:
    rows = [row for row in numbers().rows.values() if row.id.startswith("C.") and row.platform in ("ceph", "zfs")]
    means = {row.id for row in rows if row.statistic in ("mean", "not stated")}
    assert {each.row.id for each in read_cells("storage")[0]} == means


def test_a_printed_value_stands_beside_every_mode_and_metric_of_ours_that_may_be_meant(
    stores: analysis.Results,
) -> None:
    shown = published_cells.values(stores)
    told = told_of(shown, "zfs, 4k random write")
    assert [row["scenario"] for row in told] == ["random write default", "random write strict"]
    assert {(row["system"], row["theirs"], row["unit"]) for row in told} == {("zfs (user space)", "146", "1/s")}
    assert all("(C8)" in row["note"] and "(C12)" in row["note"] for row in told)
    ours = mean_of(stores, "fio-4k", "iops", "random write strict", "zfs (user space)")
    assert told[1]["ours / theirs"] == notation.short(ours / 146)
    database = [row for row in rows(shown) if "54 OLTP/s" in row["printed"]]  # transactions or queries
    assert {row["metric"] for row in database} == {"transactions", "queries"}
    assert {row["scenario"] for row in database} == {"read-write default", "read-write strict"}
    (rebuild,) = told_of(shown, "ceph, 20 GB used: 63 min")  # of the profile paper alone
    assert rebuild["note"].startswith("not part of this session (profile quick); recovery settings are not stated (C9)")
    # an engine in user space is compared by direction
    assert "ours is zfs (user space): by direction alone" in analysis.table(stores, "published").text
