from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from infrabench.published import against
from infrabench.stats import contrasts, diagnostics, estimates
from infrabench.tables import (
    against_table,
    contrasts_table,
    estimates_table,
    latex,
    markdown,
    results_table,
    save,
)
from infrabench.tidy import missing, tidy
from tests.analysis_fixtures import DATA_A, MARGINS, PRIMARY, table_of, write_session


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    folder = write_session(tmp_path_factory.mktemp("runs") / "s", blocks=8, skip_last=2)
    table = tidy(folder)
    return table, estimates(table, missing(folder)), contrasts(table, "native", MARGINS, PRIMARY)


def test_rounding_of_the_reference_data() -> None:
    rows = estimates_table(estimates(table_of(DATA_A))).set_index("system")
    assert rows.loc["lxc", "mean"] == "100.80"
    assert rows.loc["lxc", "mean 95 % CI"] == "[100.22, 101.38]"
    row = rows.loc["native"]
    assert row["metric"] == "events (1/s)"
    assert row["mean 95 % CI"] == "[100.31, 102.18]"
    assert row["median 95 % CI (level)"] == "[99.4, 102.5] (97.9 %)"
    assert row["CoV %"] == "1.29"
    ratio = contrasts_table(contrasts(table_of(DATA_A), "native", {"": 0.02})).set_index("system").loc["docker"]
    assert (ratio["ratio"], ratio["ratio 95 % CI"]) == ("0.988", "[0.974, 1.002]")
    assert (ratio["overhead %"], ratio["overhead 95 % CI"]) == ("1.2", "[-0.2, 2.6]")
    assert (ratio["difference"], ratio["difference 95 % CI"]) == ("-1.2", "[-2.6, 0.2]")
    assert ratio["verdict"].startswith("inconclusive (n = ")
    assert ratio["native mean"] == "101.2"


def test_estimates_are_scaled_and_count_what_is_absent(frames: tuple) -> None:
    shown = estimates_table(frames[1])
    assert len(shown) == len(frames[1])
    stream = shown[(shown["workload"] == "stream") & (shown["system"] == "docker")]
    assert list(stream["metric"]) == ["copy (GB/s)", "triad (GB/s)"]
    assert (stream["n"] == "0").all()
    assert stream["no value"].str.contains("failed").all()
    assert (stream["mean"] == "n/a").all()
    assert shown["no value"].str.contains("1 invalid").any()
    assert shown["no value"].str.contains("not yet run").any()
    zero = shown[shown["metric"] == "failed requests"]
    assert (zero["mean 95 % CI"] == "deterministic").all()


def test_a_case_that_never_succeeded_is_in_the_tables() -> None:
    dead = table_of({"native": [None, None], "docker": [None, None]})
    shown = estimates_table(estimates(dead))
    assert list(shown["metric"]) == ["no metric"] * 2
    assert list(shown["no value"]) == ["2 failed"] * 2
    assert len(contrasts_table(contrasts(dead, "native", {"": 0.02}))) == 0


def test_full_table_has_every_cell_once_and_no_ratio_for_the_baseline(frames: tuple) -> None:
    table, cells, ratios = frames
    full = results_table(cells, ratios, diagnostics(table))
    assert len(full) == len(cells)
    assert (full.loc[full["system"] == "native", "verdict"] == "").all()
    assert (full.loc[full["system"] != "native", "verdict"] != "").all()
    assert {"flags", "verdict", "median 95 % CI (level)", "Cliff's delta"} <= set(full.columns)
    assert not any(name.startswith("key") for name in full.columns)


def test_three_formats_hold_the_same_cells(frames: tuple, tmp_path: Path) -> None:
    shown = contrasts_table(frames[2]).head(6)
    paths = save(shown, tmp_path / "t", "ratios", caption="Ratios & more, 95 %.")
    assert [path.name for path in paths] == ["ratios.md", "ratios.csv", "ratios.tex"]
    with paths[1].open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(shown.columns)
    assert rows[1:] == shown.to_numpy().tolist()
    lines = paths[0].read_text().splitlines()
    assert lines[0] == "Ratios & more, 95 %."
    assert len(lines) == 2 + 2 + len(shown)
    assert all(line.count("|") == shown.shape[1] + 1 for line in lines[2:])
    tex = paths[2].read_text()
    assert tex.count(r"\\") == len(shown) + 1
    rows = [line for line in tex.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") - line.count(r"\&") for line in rows} == {shown.shape[1] - 1}
    assert r"\toprule" in tex


def test_special_signs_are_escaped() -> None:
    table = pd.DataFrame({"metric": ["a_b & 5 % | #1"], "p": ["< 0.0001"], "unit": ["10⁻⁶ µs^~{}\\"]})
    assert latex(table).splitlines()[4] == (
        r"a\_b \& 5 \% | \#1 & $<$ 0.0001 & 10$^{-}$$^{6}$ \textmu{}s\textasciicircum{}"
        r"\textasciitilde{}\{\}\textbackslash{} \\"
    )
    assert markdown(table).splitlines()[2].startswith(r"| a_b & 5 % \| #1 | < 0.0001 |")


def test_published_table(frames: tuple) -> None:
    shown = against_table(against(frames[2]))
    cpu = shown[(shown["workload"] == "sysbench-cpu") & (shown["system"] == "docker")].iloc[0]
    assert cpu["published ratio"] == "0.9973"
    web = shown[(shown["metric"] == "total time") & (shown["workload"] == "web") & (shown["system"] == "docker")]
    assert set(web["published ratio"]) == {"1.0337 to 1.0638"}
