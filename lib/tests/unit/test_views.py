"""A session seen another way: scenarios compared within each system, and pairs of runtimes taken apart by layer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis import layers
from infrabench.analysis import results as analysis
from infrabench.analysis.scenarios import between, levels
from infrabench.analysis.tidy import PLAN_COLUMNS
from infrabench.core import DesignError
from infrabench.notebook import sections, session_figures
from infrabench.stats import contrasts
from tests.support.analysis_fixtures import DATA_A, MARGINS, NOTHING_MISSING, lose, results_in, table_of
from tests.support.runtimes_fixtures import NO_KATA, write_session

pytestmark = pytest.mark.usefixtures("sketches")

DATA = {"baseline": "native", "systems": ["native", "docker"], "study": "containers", "title": "T", "profile": "quick",
        "blocks": 10, "seed": 1, "margins": MARGINS, "primary": [["sysbench-cpu", "events_per_s"]], "not_run": {},
        "site": {"name": "lab", "kind": "lab"}}  # fmt: skip
WAYS = {"plain": ("native", "docker"), "second": ("lxc", "lxd")}  # scenario -> whose reference values each system has


CASES = {  # scenario -> system -> values
    way: dict(zip(("native", "docker"), (DATA_A[name] for name in names), strict=True)) for way, names in WAYS.items()
}
LEVELS = {"read plain": 100.0, "read strict": 50.0, "write plain": 80.0, "write strict": 20.0, "read strict own": 60.0}


def analyse(
    cases: dict[str, dict[str, list[float]]], blocks: int, absent: dict[str, str], out: Path
) -> analysis.Results:
    """Return results of some scenarios, of which docker lacks one."""
    tables = [table_of(values, scenario=name, blocks_per_deployment=blocks) for name, values in cases.items()]
    data = DATA | {"not_applicable": [{"system": "docker", "workload": "sysbench-cpu", **absent}]}
    return analysis.results(data, pd.concat(tables, ignore_index=True), NOTHING_MISSING, out)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    return analyse(CASES, 5, {"scenario": "service", "reason": "it has none"}, tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def levelled(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    """Two operations at two levels, one of them at a third that a longer word begins."""
    cases = {
        scenario: {name: [value * (1 + i) + b for b in range(4)] for i, name in enumerate(("native", "docker"))}
        for scenario, value in LEVELS.items()
    }
    absent = {"scenario": "write strict own", "reason": "no own path"}
    return analyse(cases, 2, absent, tmp_path_factory.mktemp("out"))


def test_it_is_the_paired_contrast_of_the_two_scenarios(found: analysis.Results) -> None:
    turned = between(found, "sysbench-cpu", "plain", ["second", "service"], "ways")
    rows = turned.contrasts.set_index("scenario")
    assert list(rows.index) == ["docker", "native"]
    for system, names in (("native", ("native", "lxc")), ("docker", ("docker", "lxd"))):
        values = dict(zip(("plain", "second"), (DATA_A[name] for name in names), strict=True))
        alone = contrasts(table_of(values, blocks_per_deployment=5), "plain", MARGINS).iloc[0]
        for name in ("ratio", "ratio_low", "ratio_high", "p", "n_pairs", "pair_unit"):
            assert rows.loc[system, name] == alone[name], name
    assert (rows["pair_unit"] == "deployments").all()
    assert rows["adjustment"].str.contains("exploratory").all()


def test_trials_without_a_record_are_planned_in_the_unit_of_a_session(found: analysis.Results, tmp_path: Path) -> None:
    later = (found.table["system"] == "docker") & (found.table["deployment"] == found.table["deployment"].max())
    less = analysis.results(found.data, found.table[~later], found.table.loc[later, list(PLAN_COLUMNS)], tmp_path)
    turned = between(less, "sysbench-cpu", "plain", ["second"], "ways")
    assert (turned.contrasts["pair_unit"] == "deployments").all()
    assert (turned.estimates["planned"] == len(DATA_A["native"])).all()


def test_its_words_figures_and_folders_are_its_own(found: analysis.Results) -> None:
    turned = between(found, "sysbench-cpu", "plain", ["second", "service"], "ways")
    assert turned.systems == ["plain", "second"]
    told = analysis.findings(turned, "sysbench-cpu", "events_per_s").text
    assert "native, second: " in told
    assert "times plain" in told
    assert "service at docker: not run: it has none." in told
    assert "Ratio of means to plain" in session_figures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text
    folder: Path = turned.folder / "figures"
    assert [path.name for path in folder.iterdir()] == ["containers-ways"]
    assert "second" in analysis.table(turned, "contrasts", ["sysbench-cpu"]).text


def test_levels_are_compared_within_each_system_and_for_each_beginning_of_a_name(levelled: analysis.Results) -> None:
    turned = levels(levelled, "sysbench-cpu", "plain", ["strict"], "levels")
    rows = turned.contrasts.set_index(["scenario", "system"])
    assert set(rows.index) == {
        (f"{name}, {what}", "strict") for name in ("native", "docker") for what in ("read", "write")
    }
    assert rows.loc[("native, write", "strict"), "ratio"] == pytest.approx(21.5 / 81.5)
    assert (rows["baseline"] == "plain").all()
    alone = between(levelled, "sysbench-cpu", "write plain", ["write strict"], "alone").contrasts.set_index("scenario")
    for name in ("ratio", "ratio_low", "ratio_high", "p", "n_pairs", "pair_unit"):
        assert rows.loc[("docker, write", "strict"), name] == alone.loc["docker", name], name


def test_a_level_of_two_words_is_not_the_one_that_begins_it(levelled: analysis.Results) -> None:
    turned = levels(levelled, "sysbench-cpu", "strict", ["strict own"], "own")
    rows = turned.contrasts.set_index(["scenario", "system"])
    assert set(rows.index) == {("native, read", "strict own"), ("docker, read", "strict own")}
    assert rows.loc[("native, read", "strict own"), "ratio"] == pytest.approx(61.5 / 51.5)
    told = analysis.findings(turned, "sysbench-cpu", "events_per_s").text
    assert "strict own at docker, write: not run: no own path." in told


def test_levels_of_a_workload_that_was_not_run_are_nothing_to_compare(levelled: analysis.Results) -> None:
    told = analysis.findings(levels(levelled, "web", "plain", ["strict"], "none"), "web", "requests_per_s").text
    assert told.startswith(
        "There is nothing to compare plain with. Not run: plain: not part of this session (profile quick)"
    )


def test_where_there_is_nothing_to_compare_it_says_so(found: analysis.Results) -> None:
    for base, others in (("plain", ["nowhere"]), ("nowhere", ["plain"]), ("nowhere", ["never"])):
        turned = between(found, "sysbench-cpu", base, others, "ways")
        told = analysis.findings(turned, "sysbench-cpu", "events_per_s").text
        assert told.startswith(f"There is nothing to compare {base} with. Not run: ")
        assert "not part of this session (profile quick)" in told
        assert session_figures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text


EMULATED = ("containerd-kata", "crio-kata")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    return results_in(tmp_path_factory.mktemp("quick"), write_session)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    """All seven pairs; Kata emulated, and under CRI-O with room for ten pods only."""
    every = ["containerd-runc", "crio-runc", "containerd-crun", "crio-crun", "containerd-runsc", *EMULATED]
    how = {"systems": every, "not_run": {}, "emulated": EMULATED, "fits": dict.fromkeys(EMULATED, 10)}
    return results_in(tmp_path_factory.mktemp("wide"), write_session, **how)


@pytest.mark.parametrize("name", ["split_layer", "join_layers", "turn_layers", "cross_layers"])
def test_trials_without_a_record_are_planned_in_every_view(wide: analysis.Results, name: str) -> None:
    last, cell = wide.table["block"] == wide.table["block"].max(), ["workload", "scenario", "system"]
    missing = wide.table.loc[last, list(PLAN_COLUMNS)].drop_duplicates("trial")
    less = analysis.results(wide.data, wide.table[~last], missing, wide.folder)
    more = ["high"] if name == "split_layer" else []
    views = [getattr(layers, name)(each, *more) for each in (wide, less)]
    whole, rest = (view.estimates.groupby(cell)["planned"].max() for view in views)
    assert rest.equals(whole)


def test_trials_without_a_record_of_pooled_sessions_are_planned_each(wide: analysis.Results) -> None:
    one = wide.table[wide.table["workload"] == wide.table["workload"].iloc[0]]
    both = pd.concat([one, one.assign(session="again")], ignore_index=True).astype(one.dtypes)
    last, cell = both["block"] == both["block"].max(), ["workload", "scenario", "system"]
    missing = both.loc[last, ["session", *PLAN_COLUMNS]].drop_duplicates(["session", "trial"])
    whole, rest = (
        layers.cross_layers(analysis.results(wide.data, rows, absent, wide.folder))
        for rows, absent in ((both, missing.iloc[:0]), (both[~last], missing))
    )
    planned = whole.estimates.groupby(cell)["planned"].max()
    assert rest.estimates.groupby(cell)["planned"].max().equals(planned)


@pytest.mark.parametrize(("layer", "holds"), [("high", "-runc"), ("low", "containerd-")])
def test_a_layer_has_the_ratios_of_pairs_that_share_the_other(wide: analysis.Results, layer: str, holds: str) -> None:
    alone = layers.split_layer(wide, layer)  # type: ignore[arg-type]
    cell = ["workload", "scenario", "metric", "system"]
    pairs = wide.contrasts.set_index(cell)["ratio"]
    mine = alone.contrasts
    assert len(mine) == sum(holds in name for name in wide.contrasts["system"])
    for row in mine.itertuples(index=False):
        whole = f"{row.system}-runc" if layer == "high" else f"containerd-{row.system}"
        assert row.ratio == pairs[row.workload, row.scenario, row.metric, whole]


def test_a_layer_is_called_by_its_own_name(wide: analysis.Results, quick: analysis.Results) -> None:
    high, low = layers.split_layer(wide, "high"), layers.split_layer(wide, "low")
    assert (high.systems, high.data["baseline"]) == (["containerd", "crio"], "containerd")
    assert (low.systems, low.data["baseline"]) == (["runc", "crun", "runsc", "kata (emulated)"], "runc")
    assert (high.name, low.name) == ("runtimes-high", "runtimes-low")
    assert "kata (emulated) at 20 pods: not run: 20 pods do not fit, 10 do" in analysis.findings(
        low, "pods-startup", "all_ready_s"
    ).text  # fmt: skip
    assert layers.split_layer(quick, "low").data["not_run"] == {"kata": NO_KATA}
    assert layers.split_layer(quick, "high").data["not_run"] == {}
    told = session_figures.figure(layers.split_layer(quick, "low"), "curves", "pods-startup", "all_ready_s").text
    assert f"Not run: kata ({NO_KATA})" in told


def test_the_layers_add_up_where_the_ratio_is_the_same_above_every_low_one(wide: analysis.Results) -> None:
    both = layers.join_layers(wide)
    assert (both.systems, both.data["baseline"]) == (["containerd", "crio"], "containerd")
    rows = both.interactions.set_index(["workload", "metric"])
    assert set(rows.index.get_level_values("workload")) >= {"pods-startup, 10 pods", "pods-startup, 20 pods"}
    assert rows.loc[("pods-startup, 10 pods", "all_ready_s"), "levels"] == 3  # runc, crun, kata: no crio-runsc
    assert rows.loc[("pods-startup, 20 pods", "all_ready_s"), "levels"] == 2
    cells = set(both.contrasts["scenario"])
    assert cells == {"runc", "crun", "kata (emulated)"}


def doubled(found: analysis.Results) -> analysis.Results:
    """Return a session in which crun takes twice as long to make pods ready under CRI-O."""
    mine = found.table["system"].eq("crio-crun") & found.table["metric"].eq("all_ready_s")
    return replace(found, table=found.table.assign(value=found.table["value"].where(~mine, 2 * found.table["value"])))


def test_a_part_that_is_not_the_sum_is_found(wide: analysis.Results) -> None:
    p = {
        name: layers.join_layers(found).interactions.set_index(["workload", "metric"])["p_adjusted"]
        for name, found in (("sum", wide), ("slow", doubled(wide)))
    }
    key = ("pods-startup, 20 pods", "all_ready_s")
    assert p["slow"][key] < 0.001 < p["sum"][key]


def test_layers_that_share_one_low_level_runtime_cannot_be_asked(tmp_path: Path) -> None:
    systems = ["containerd-runc", "crio-runc", "containerd-runsc"]
    found = results_in(tmp_path, write_session, systems=systems, not_run={})
    told = analysis.table(layers.join_layers(found), "interactions").text
    assert told == "There is nothing for the table of interactions in this session."


def test_a_low_layer_is_set_beside_the_baselines_within_every_high_one(wide: analysis.Results) -> None:
    turned = layers.turn_layers(wide)
    assert (turned.name, turned.systems[0], turned.data["baseline"]) == ("runtimes-options", "runc", "runc")
    mine = turned.contrasts.set_index(["workload", "scenario", "metric", "system"])["ratio"]
    plain = layers.split_layer(wide, "low").contrasts
    for row in plain[plain["system"] == "crun"].itertuples(index=False):
        assert mine[row.workload, f"containerd, {row.scenario}", row.metric, "crun"] == row.ratio
    assert mine["pods-startup", "crio, 10 pods", "all_ready_s", "crun"] == pytest.approx(1.06 / 1.12, rel=0.05)


def test_what_layers_do_to_each_other_is_a_ratio_of_ratios_with_its_interval(wide: analysis.Results) -> None:
    cell = ("pods-startup", "crio / containerd, 10 pods", "all_ready_s", "crun")
    for found, truth in ((wide, 1.06 / 0.95 / 1.12), (doubled(wide), 2 * 1.06 / 0.95 / 1.12)):
        crossed = layers.cross_layers(found)
        row = crossed.contrasts.set_index(["workload", "scenario", "metric", "system"]).loc[cell]
        assert row["ratio_low"] < truth < row["ratio_high"]
        assert row["ratio_high"] / row["ratio_low"] < 1.2
    assert (crossed.name, crossed.systems) == ("runtimes-crossed", ["runc", "crun", "kata (emulated)"])


def test_a_lost_trial_is_lost_to_every_ratio_that_it_was_part_of(wide: analysis.Results) -> None:
    gone = wide.table["system"].eq("containerd-crun") & wide.table["workload"].eq("pods-pi") & wide.table["block"].gt(2)
    first = gone & ~wide.table[gone].duplicated("trial").reindex(wide.table.index, fill_value=True)
    table = wide.table.copy()
    lose(table, gone, "failed")
    crossed = layers.cross_layers(replace(wide, table=table[~gone | first]))
    rows = crossed.contrasts[(crossed.contrasts["workload"] == "pods-pi") & (crossed.contrasts["system"] == "crun")]
    assert rows["reason"].str.contains("3 of 6 failed").all()
    assert rows["verdict"].eq("not comparable").all()


def test_a_metric_that_counts_has_no_ratio_of_ratios(wide: analysis.Results) -> None:
    names = {"time_s": "failed_requests", "all_done_s": "total_s"}
    rows = wide.table[(wide.table["workload"] == "pods-pi") & wide.table["metric"].isin(list(names))]
    table = rows.assign(workload="web", metric=rows["metric"].map(names)).astype(wide.table.dtypes)
    crossed = layers.cross_layers(replace(wide, table=table.reset_index(drop=True)))
    assert set(crossed.contrasts["metric"]) == {"total_s"}


def test_a_pair_that_was_not_run_is_named_beside_the_others(quick: analysis.Results) -> None:
    missing = {f"kata with {high}": NO_KATA for high in ("containerd", "crio")}
    for view in (layers.turn_layers(quick), layers.cross_layers(quick)):
        assert view.data["not_run"] == missing
        assert f"kata with crio: not run: {NO_KATA}" in sections.answer(view).text


def test_systems_without_a_second_layer_have_the_default(quick: analysis.Results) -> None:
    new = {"containerd-runc": "flannel", "crio-runc": "cilium", "containerd-runsc": "flannel-direct"}
    data = quick.data | {"systems": list(new.values()), "baseline": "flannel", "not_run": {}}
    rows = quick.table[quick.table["system"].isin(list(new))].reset_index(drop=True)
    found = analysis.results(data, rows.assign(system=rows["system"].map(new)), NOTHING_MISSING, quick.folder)
    turned = layers.turn_layers(found)
    assert (turned.systems, turned.data["baseline"]) == (["default", "direct"], "default")
    assert set(turned.contrasts["system"]) == {"direct"}
    assert layers.cross_layers(found).contrasts.empty
    assert "nothing to compare" in session_figures.figure(layers.cross_layers(found), "forest").text


def test_the_baseline_alone_is_no_error(quick: analysis.Results) -> None:
    rows = quick.table[quick.table["system"] == "containerd-runc"].reset_index(drop=True)
    data = quick.data | {"systems": ["containerd-runc"], "not_run": {"crio-runc": "gone"}}
    alone = analysis.results(data, rows, NOTHING_MISSING, quick.folder)
    assert (
        "There is nothing to compare" in analysis.findings(layers.split_layer(alone, "low"), "pods-pi", "time_s").text
    )
    told = analysis.findings(layers.split_layer(alone, "high"), "pods-pi", "time_s").text
    assert "crio: gone" in told
    assert "nothing" in analysis.table(layers.join_layers(alone), "interactions").text


def test_an_unknown_layer_is_refused(quick: analysis.Results) -> None:
    with pytest.raises(DesignError, match="unknown layer 'middle'"):
        layers.split_layer(quick, "middle")  # type: ignore[arg-type]
