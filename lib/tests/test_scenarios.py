"""Scenarios compared within each system: the same statistics as between systems, the other way round."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from infrabench import analysis, pictures
from infrabench.scenarios import between
from infrabench.stats import contrasts
from infrabench.tidy import PLAN_COLUMNS
from tests.analysis_fixtures import DATA_A, MARGINS, table_of

DATA = {"baseline": "native", "systems": ["native", "docker"], "study": "containers", "title": "T", "profile": "quick",
        "blocks": 10, "seed": 1, "margins": MARGINS, "primary": [["sysbench-cpu", "events_per_s"]], "not_run": {},
        "site": {"name": "lab", "kind": "lab"}}  # fmt: skip
WAYS = {"plain": ("native", "docker"), "second": ("lxc", "lxd")}  # scenario -> whose reference values each system has


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> analysis.Results:
    tables = [
        table_of(dict(zip(("native", "docker"), (DATA_A[name] for name in names), strict=True)), scenario=way,
                 blocks_per_deployment=5)
        for way, names in WAYS.items()
    ]  # fmt: skip
    absent = [{"system": "docker", "workload": "sysbench-cpu", "scenario": "service", "reason": "it has none"}]
    data = {**DATA, "not_applicable": absent}
    missing = pd.DataFrame(columns=list(PLAN_COLUMNS))
    return analysis.results(data, pd.concat(tables, ignore_index=True), missing, tmp_path_factory.mktemp("out"))


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


def test_its_words_figures_and_folders_are_its_own(found: analysis.Results) -> None:
    turned = between(found, "sysbench-cpu", "plain", ["second", "service"], "ways")
    assert turned.systems == ["plain", "second"]
    told = analysis.findings(turned, "sysbench-cpu", "events_per_s").text
    assert "native, second: " in told
    assert "times plain" in told
    assert "service at docker: not run: it has none." in told
    assert "Ratio of means to plain" in pictures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text
    folder: Path = turned.folder / "figures"
    assert [path.name for path in folder.iterdir()] == ["containers-ways"]
    assert "second" in analysis.table(turned, "contrasts", ["sysbench-cpu"]).text


def test_where_there_is_nothing_to_compare_it_says_so(found: analysis.Results) -> None:
    for base, others in (("plain", ["nowhere"]), ("nowhere", ["plain"]), ("nowhere", ["never"])):
        turned = between(found, "sysbench-cpu", base, others, "ways")
        told = analysis.findings(turned, "sysbench-cpu", "events_per_s").text
        assert told.startswith(f"There is nothing to compare {base} with. Not run: ")
        assert "not part of the profile quick" in told
        assert pictures.figure(turned, "forest", "sysbench-cpu", "events_per_s").text


def test_a_table_can_be_narrowed_to_metrics(found: analysis.Results) -> None:
    assert "events" in analysis.table(found, "estimates", metrics=["events_per_s"]).text
    assert "events" not in analysis.table(found, "estimates", metrics=["latency_p50_s"]).text
