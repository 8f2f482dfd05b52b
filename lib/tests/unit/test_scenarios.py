"""Scenarios compared within each system: the same statistics as between systems, the other way round."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis import results
from infrabench.analysis.scenarios import between, levels
from infrabench.analysis.tidy import PLAN_COLUMNS
from infrabench.notebook import session_figures
from infrabench.stats import contrasts
from tests.support.analysis_fixtures import DATA_A, MARGINS, NOTHING_MISSING, table_of

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
) -> results.Results:
    """Return results of some scenarios, of which docker lacks one."""
    tables = [table_of(values, scenario=name, blocks_per_deployment=blocks) for name, values in cases.items()]
    data = DATA | {"not_applicable": [{"system": "docker", "workload": "sysbench-cpu", **absent}]}
    return results.results(data, pd.concat(tables, ignore_index=True), NOTHING_MISSING, out)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> results.Results:
    return analyse(CASES, 5, {"scenario": "service", "reason": "it has none"}, tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def levelled(tmp_path_factory: pytest.TempPathFactory) -> results.Results:
    """Two operations at two levels, one of them at a third that a longer word begins."""
    cases = {
        scenario: {name: [value * (1 + i) + b for b in range(4)] for i, name in enumerate(("native", "docker"))}
        for scenario, value in LEVELS.items()
    }
    absent = {"scenario": "write strict own", "reason": "no own path"}
    return analyse(cases, 2, absent, tmp_path_factory.mktemp("out"))


def test_it_is_the_paired_contrast_of_the_two_scenarios(found: results.Results) -> None:
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


def test_trials_without_a_record_are_planned_and_the_unit_is_that_of_the_session(
    found: results.Results, tmp_path: Path
) -> None:
    later = (found.table["system"] == "docker") & (found.table["deployment"] == found.table["deployment"].max())
    less = results.results(found.data, found.table[~later], found.table.loc[later, list(PLAN_COLUMNS)], tmp_path)
    turned = between(less, "sysbench-cpu", "plain", ["second"], "ways")
    assert (turned.contrasts["pair_unit"] == "deployments").all()
    assert (turned.estimates["planned"] == len(DATA_A["native"])).all()


def test_its_words_figures_and_folders_are_its_own(found: results.Results) -> None:
    turned = between(found, "sysbench-cpu", "plain", ["second", "service"], "ways")
    assert turned.systems == ["plain", "second"]
    told = results.findings(turned, "sysbench-cpu", "events_per_s").text
    assert "native, second: " in told
    assert "times plain" in told
    assert "service at docker: not run: it has none." in told
    assert "Ratio of means to plain" in session_figures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text
    folder: Path = turned.folder / "figures"
    assert [path.name for path in folder.iterdir()] == ["containers-ways"]
    assert "second" in results.table(turned, "contrasts", ["sysbench-cpu"]).text


def test_levels_are_compared_within_each_system_and_for_each_beginning_of_a_name(levelled: results.Results) -> None:
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


def test_a_level_of_two_words_is_not_the_one_that_begins_it(levelled: results.Results) -> None:
    turned = levels(levelled, "sysbench-cpu", "strict", ["strict own"], "own")
    rows = turned.contrasts.set_index(["scenario", "system"])
    assert set(rows.index) == {("native, read", "strict own"), ("docker, read", "strict own")}
    assert rows.loc[("native, read", "strict own"), "ratio"] == pytest.approx(61.5 / 51.5)
    told = results.findings(turned, "sysbench-cpu", "events_per_s").text
    assert "strict own at docker, write: not run: no own path." in told


def test_levels_of_a_workload_that_was_not_run_are_nothing_to_compare(levelled: results.Results) -> None:
    told = results.findings(levels(levelled, "web", "plain", ["strict"], "none"), "web", "requests_per_s").text
    assert told.startswith(
        "There is nothing to compare plain with. Not run: plain: not part of this session (profile quick)"
    )


def test_where_there_is_nothing_to_compare_it_says_so(found: results.Results) -> None:
    for base, others in (("plain", ["nowhere"]), ("nowhere", ["plain"]), ("nowhere", ["never"])):
        turned = between(found, "sysbench-cpu", base, others, "ways")
        told = results.findings(turned, "sysbench-cpu", "events_per_s").text
        assert told.startswith(f"There is nothing to compare {base} with. Not run: ")
        assert "not part of this session (profile quick)" in told
        assert session_figures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text
