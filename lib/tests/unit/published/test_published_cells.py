"""What notebooks show of a session beside the papers: printed values, ratios, metrics, classes, score, and reasons."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import infrabench as ib
from infrabench import registry
from infrabench.analysis import results as analysis
from infrabench.analysis.published import derived_metrics
from infrabench.analysis.published.comparison import targets
from infrabench.analysis.published.printed_numbers import NO_RESULTS, numbers, published, read_toml
from infrabench.analysis.published.statements import statements
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.notebook import published_cells, published_coverage, quality_classes
from infrabench.notebook.published_cells import compare_published, read_cells
from infrabench.notebook.published_coverage import SCORE, find_first, find_reasons
from infrabench.stats.verdicts import PAIRED_T
from tests.support import analysis_fixtures, storage_fixtures
from tests.support.analysis_fixtures import NOTHING_MISSING, SYSTEMS, lose, results_in
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


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    return results_in(tmp_path_factory.mktemp("stores"), storage_fixtures.write_session)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    how = {"blocks": 6, "systems": SYSTEMS, "not_run": {}, "faults": False}
    return results_in(tmp_path_factory.mktemp("containers"), analysis_fixtures.write_session, **how)


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


def test_every_published_ratio_is_shown_with_its_word_and_the_figure_is_written(containers: analysis.Results) -> None:
    rows = compare_published(containers)
    shown = ib.published(containers)
    assert f"{len(rows)} comparisons with published ratios: agrees in size " in shown.text
    assert set(rows.loc[rows["n_pairs"] == 0, "metric"]) == {"average_B_per_s", "transfer_B_per_s"}
    assert f"{(rows['n_pairs'] == 0).sum()} of them because nothing was measured" in shown.text
    assert (containers.folder / "figures/containers/published.pdf").is_file()
    assert (containers.folder / "tables/containers/published.csv").is_file()
    assert shown.html.count("<details>") == 5


def test_a_ratio_that_was_not_measured_says_why(tmp_path: Path) -> None:
    how = {"blocks": 4, "not_run": {"lxd": "the LXD daemon did not answer"}, "faults": False}
    rows = compare_published(results_in(tmp_path, analysis_fixtures.write_session, **how))
    gone = rows[rows["system"] == "lxd"]
    assert len(gone)
    assert set(gone["reason"]) == {"not measured: the LXD daemon did not answer"}
    rate = rows[(rows["system"] == "docker") & (rows["metric"] == "transfer_B_per_s")].iloc[0]
    assert rate["reason"] == "not measured: not part of this session (profile quick)"
    means = rows[rows["system"] == derived_metrics.MEAN]
    assert len(means)
    assert set(means["reason"]) == {"not measured: lxd: the LXD daemon did not answer"}
    fewer = compare_published(results_in(tmp_path / "fewer", analysis_fixtures.write_session, **how | {"not_run": {}}))
    assert set(fewer.loc[fewer["system"] == derived_metrics.MEAN, "reason"]) == {"not measured: lxd: not asked for"}


def test_a_ratio_of_which_no_trial_is_valid_says_how_they_ended(containers: analysis.Results, tmp_path: Path) -> None:
    table = containers.table.copy()
    lose(table, table["workload"] == "ftp", "failed")
    rows = compare_published(analysis.results(containers.data, table, NOTHING_MISSING, tmp_path))
    rows = rows[rows["workload"] == "ftp"]
    assert set(rows["system"]) >= {"docker", "lxc", "lxd"}
    assert set(rows["reason"]) == {"not measured: none of its 24 trials is valid (24 failed)"}


def test_a_rebuild_is_compared_at_the_papers_own_sizes_and_never_across_sizes(tmp_path: Path) -> None:
    found = results_in(tmp_path, storage_fixtures.write_session, profile="long")
    table = found.table[found.table["workload"] == "rebuild"]
    own = table.assign(scenario=table["scenario"].str.replace(" GB", "0 GB"), trial=table["trial"] + "0")
    both = pd.concat([table, own]).astype(table.dtypes)
    for trials, sizes in ((table, ["4 / 2"]), (own, ["40 / 20"]), (both, ["4 / 2", "40 / 20"])):
        each = analysis.results(found.data, trials.reset_index(drop=True), NOTHING_MISSING, tmp_path)
        ours = published_cells.compare_ratios(each)["ours"]
        assert set(published_cells.compare_ratios(each)["p_method"]) == {PAIRED_T}
        assert sorted(" / ".join(re.findall(r"(\d+) GB", text)) for text in ours) == sorted(2 * sizes)
    mixed = both[both["scenario"].str.match("(4|20) GB")].reset_index(drop=True)
    rows = published_cells.compare_ratios(analysis.results(found.data, mixed, NOTHING_MISSING, tmp_path))
    assert set(rows["reason"].str.partition(";")[0]) == {"no two of the measured sizes are those of this pair"}


def test_ratios_of_two_cells_are_those_of_the_study_alone(
    quick: analysis.Results, stores: analysis.Results, containers: analysis.Results
) -> None:
    rows = compare_published(quick)
    assert rows["printed"].notna().all()
    assert rows["reason"].str.contains(NO_KATA, regex=False).any()
    assert compare_published(containers)["printed"].isna().all()
    assert "kata, 40 containers / containerd, 10 containers" in ib.published(quick).text
    rows = compare_published(stores)
    assert set(rows.loc[rows["printed"].isna(), "system"]) == {"ceph"}
    assert set(rows.loc[rows["ratio_low"].notna(), "p_method"]) == {PAIRED_T}  # names the interval in the caption
    assert set(rows["printed"].dropna()) == {f"{each}, 40 GB used / {each}, 20 GB used" for each in ("ceph", "zfs")}


def test_the_papers_metrics_have_a_verdict_or_a_reason(containers: analysis.Results) -> None:
    shown = ib.published_metrics(containers).text
    assert "memory: not measured: not part of this session (profile quick)." in shown  # two of its four kernels
    assert "the web server's time per request, users=1000, docker: " in shown
    assert "web, time per request below 3 s: kept in 32 of 32 cells" in shown
    assert "ftp, below 1 s: not measured" in shown


def test_a_session_without_all_rows_says_which_row_of_the_score_it_lacks(containers: analysis.Results) -> None:
    assert ib.published_score(containers).text == (
        "The composite score is not measured: stream has no value of average_B_per_s."
    )


def test_the_bounds_are_those_of_tables_1_and_2_in_si_units() -> None:
    throughput = {each.name: (each.low, each.high) for each in quality_classes.classes("throughput")}
    assert throughput == {"very good": (76e3, 100e3), "good": (51e3, 75e3), "poor": (26e3, 50e3)}
    latency = [(each.name, each.low, each.high) for each in quality_classes.classes("latency")]
    assert [name for name, *_ in latency] == ["very good", "good", "poor"]
    assert latency[0][1] == 0
    assert [high for *_, high in latency] == pytest.approx([0.150, 0.300, 0.450])


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (76e3, "throughput", "very good"), (100e3, "throughput", "very good"), (60e3, "throughput", "good"),
        (26e3, "throughput", "poor"), (75.5e3, "throughput", "between two classes"),
        (25e3, "throughput", "beyond the last class"), (100.1e3, "throughput", "above the scale"),
        (1e-5, "latency", "very good"), (0.2, "latency", "good"), (0.449, "latency", "poor"),
        (0.451, "latency", "beyond the last class"),
    ],
)  # fmt: skip
def test_a_value_gets_the_class_that_the_tables_give_it(value: float, kind: quality_classes.Kind, name: str) -> None:
    graded = quality_classes.grade(value, kind)
    assert graded.name == name
    assert graded.times == pytest.approx(value / (100e3 if kind == "throughput" else 0.150))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_what_is_no_throughput_has_no_class(value: float) -> None:
    with pytest.raises(SchemaError, match="has no class"):
        quality_classes.grade(value, "throughput")


RESULTS = [row.id for row in published().itertuples() if row.statistic not in NO_RESULTS]
HAVE = (
    {each for of in targets() for target in of.values() for each in target.ids}
    | {cell.row.id for study in ("containers", "runtimes", "storage") for cell in read_cells(study)[0]}
    | {bound.printed for bound in derived_metrics.bounds()}
    | {number for each in statements() for number in each.printed}
    | {SCORE.format(engine) for engine in ("docker", "lxc", "lxd")}
)


def test_every_result_has_a_counterpart_repeats_one_or_has_a_reason() -> None:
    nowhere = [each for each in RESULTS if find_first(each) not in HAVE and not find_reasons(each)]
    assert not nowhere


def test_no_result_has_both_a_counterpart_and_a_reason_for_none() -> None:
    assert not [each for each in RESULTS if find_first(each) in HAVE and find_reasons(each)]


def test_every_entry_is_of_a_printed_result_and_leads_to_one() -> None:
    data, known = read_toml("coverage.toml"), numbers().rows
    patterns = [*data["same"], *(pattern for each in data["reason"] for pattern in each["printed"])]
    used = {pattern for pattern in patterns if any(published_coverage._pattern(pattern).fullmatch(i) for i in RESULTS)}
    assert set(patterns) == used
    assert {find_first(each) for each in RESULTS} <= known.keys()


@pytest.mark.parametrize(
    ("number", "first"),
    [
        ("A.overall.sum.lxc.003", "A.overall.percent.lxc.000"),
        ("A.web.overhead.high.lxd.003", "A.web.rate-decrease.high.lxd.000"),
        ("A.overall.percent.lxd.000.sec-3.4.3", "A.overall.percent.lxd.000"),
        ("C.copy.read.rate.ceph.002", "C.copy.read.rate.ceph.002"),
    ],
)
def test_a_number_that_is_printed_again_leads_to_the_first(number: str, first: str) -> None:
    assert find_first(number) == first
