"""Tables as text: what stands in a cell, how it is rounded, and what an interval rules out, in words."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis import results, tables
from infrabench.analysis.published.comparison import against
from infrabench.analysis.tables import ruled_out, ruled_out_label, state_bounds
from infrabench.analysis.tables.bounds import NOTHING
from infrabench.analysis.tidy import missing, tidy
from infrabench.stats import contrasts, diagnostics, estimates
from infrabench.stats.multiplicity import tiers
from infrabench.stats.omnibus import omnibus
from infrabench.stats.planning import plan_from_pilot
from tests.support.analysis_fixtures import DATA_A, MARGINS, PRIMARY, table_of, write_session
from tests.support.frames import CONTRAST, NAN, contrasts_frame, verdicts


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    folder = write_session(tmp_path_factory.mktemp("runs") / "s", blocks=8, skip_last=2)
    table = tidy(folder)
    return table, estimates(table, missing(folder)), contrasts(table, "native", MARGINS, PRIMARY)


def test_rounding_of_the_reference_data() -> None:
    rows = tables.estimates_table(estimates(table_of(DATA_A))).set_index("system")
    assert rows.loc["lxc", "mean"] == "100.80"
    assert rows.loc["lxc", "mean 95 % CI"] == "[100.22, 101.38]"
    row = rows.loc["native"]
    assert row["metric"] == "events (1/s)"
    assert row["mean 95 % CI"] == "[100.31, 102.18]"
    assert row["median 95 % CI (level)"] == "[99.4, 102.5] (97.9 %)"
    assert row["CoV %"] == "1.29"
    ratio = tables.contrasts_table(contrasts(table_of(DATA_A), "native", {"": 0.02})).set_index("system").loc["docker"]
    assert (ratio["ratio"], ratio["ratio 95 % CI"]) == ("0.988", "[0.974, 1.002]")
    assert (ratio["overhead %"], ratio["overhead 95 % CI"]) == ("1.2", "[-0.2, 2.6]")
    assert (ratio["difference"], ratio["difference 95 % CI"]) == ("-1.2", "[-2.6, 0.2]")
    assert ratio["verdict"].startswith("inconclusive (n = ")
    assert ratio["native mean"] == "101.2"


def test_estimates_are_scaled_and_count_what_is_absent(frames: tuple) -> None:
    shown = tables.estimates_table(frames[1])
    assert len(shown) == len(frames[1])
    stream = shown[(shown["workload"] == "stream") & (shown["system"] == "docker")]
    assert list(stream["metric"]) == ["copy (GB/s)", "triad (GB/s)"]
    assert (stream["n"] == "0").all()
    assert stream["no value"].str.contains("failed").all()
    assert (stream["mean"] == "n/a").all()
    assert shown["no value"].str.contains("1 invalid").any()
    assert shown["no value"].str.contains("not yet run").any()
    zero = shown[shown["metric"] == "failed requests"]
    # no request failed: how many may fail all the same
    assert set(zero["mean 95 % CI"]) == {"[0.00, 0.46]", "[0.00, 0.53]"}
    assert set(zero["method"]) == {"Garwood, counts"}


def test_a_case_that_never_succeeded_is_in_the_tables() -> None:
    dead = table_of({"native": [None, None], "docker": [None, None]})
    shown = tables.estimates_table(estimates(dead))
    assert list(shown["metric"]) == ["no metric"] * 2
    assert list(shown["no value"]) == ["2 failed"] * 2
    assert len(tables.contrasts_table(contrasts(dead, "native", {"": 0.02}))) == 0


def test_full_table_has_every_cell_once_and_no_ratio_for_the_baseline(frames: tuple) -> None:
    table, cells, ratios = frames
    full = tables.results_table(cells, ratios, diagnostics(table))
    assert len(full) == len(cells)
    assert (full.loc[full["system"] == "native", "verdict"] == "").all()
    assert (full.loc[full["system"] != "native", "verdict"] != "").all()
    assert {"flags", "verdict", "median 95 % CI (level)", "paired d"} <= set(full.columns)
    assert not any(name.startswith("key") for name in full.columns)


def test_three_formats_hold_the_same_cells_and_the_csv_the_whole_table(frames: tuple, tmp_path: Path) -> None:
    shown, every = (tables.contrasts_table(frames[2], every=whole).head(6) for whole in (False, True))
    paths = tables.save(shown, tmp_path / "t", "ratios", caption="Ratios & more, 95 %.", whole=every)
    assert [path.name for path in paths] == ["ratios.md", "ratios.csv", "ratios.tex"]
    with paths[1].open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(every.columns) != list(shown.columns)
    assert rows[1:] == every.to_numpy().tolist()
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
    table = pd.DataFrame({"metric": ["a_b | #1"], "p": ["< 0.0001"]})
    assert tables.latex(table).splitlines()[4] == r"a\_b \textbar{} \#1 & $<$ 0.0001 \\"
    assert tables.markdown(table).splitlines()[2] == r"| a_b \| #1 | < 0.0001 |"


def test_published_table(frames: tuple) -> None:
    shown = tables.against_table(against(frames[2]))
    cpu = shown[(shown["workload"] == "sysbench-cpu") & (shown["system"] == "docker")].iloc[0]
    assert cpu["published ratio"] == "0.9973"
    web = shown[(shown["metric"] == "total_s") & (shown["workload"] == "web") & (shown["system"] == "docker")]
    assert set(web["published ratio"]) == {"1.0337 to 1.0638"}


def test_contrasts_come_in_the_order_of_importance_with_p_last() -> None:
    shown = tables.contrasts_table(verdicts())
    names = list(shown.columns)
    wanted = ["ratio", "difference", "paired d", "worse in % of pairs", "verdict", "ratio 90 % CI", "p", "p adjusted"]
    wanted += ["p equivalence", "p equivalence adjusted", "p signed-rank"]
    assert [name for name in names if name in wanted] == wanted
    assert names.index("ratio 95 % CI") == names.index("ratio") + 1
    row = shown.iloc[0]
    assert (row["n"], row["paired d"], row["d 95 % CI"]) == ("30 blocks", "-0.70", "[-1.10, -0.30]")
    assert (row["worse in % of pairs"], row["worse 95 % CI"]) == ("80", "[63, 90]")
    assert (row["detectable %"], row["power of equivalence %"]) == ("1.9", "62")
    assert (row["ratio 90 % CI"], row["p equivalence adjusted"]) == ("[0.963, 0.987]", "0.9")
    assert "Hodges-Lehmann shift" not in names
    every = tables.contrasts_table(verdicts(), every=True)
    assert set(names) < set(every.columns)
    assert every.iloc[0]["ratio of geometric means 95 % CI"] == "[0.961, 0.989]"
    assert every.iloc[0]["Hodges-Lehmann shift"] == "-190"


def test_each_p_stands_under_its_own_heading() -> None:
    headings = {"p": "p", "p_adjusted": "p adjusted", "p_equivalence": "p equivalence",
                "p_equivalence_adjusted": "p equivalence adjusted", "p_signed_rank": "p signed-rank"}  # fmt: skip
    values = {name: 0.001 * (place + 1) for place, name in enumerate(headings)}
    row = tables.contrasts_table(contrasts_frame(values)).iloc[0]
    assert [float(row[heading]) for heading in headings.values()] == pytest.approx(list(values.values()))


@pytest.mark.parametrize(
    ("changes", "heading", "cell"),
    [
        ({"equivalence_low": 0.9803, "equivalence_high": 1.01996}, "ratio 90 % CI", "[0.98030, 1.01996]"),
        ({"equivalence_low": 0.97996, "equivalence_high": 1.01}, "ratio 90 % CI", "[0.97996, 1.01000]"),
        ({"p_equivalence_adjusted": 0.0499}, "p equivalence adjusted", "0.0499"),
        ({"power_equivalence": 1e-9}, "power of equivalence %", "< 0.1"),
    ],
)
def test_what_a_verdict_rests_on_is_not_rounded_away(changes: dict[str, float], heading: str, cell: str) -> None:
    assert tables.contrasts_table(contrasts_frame(changes)).iloc[0][heading] == cell


def test_a_verdict_that_hangs_on_flagged_values_is_printed_beside_the_other() -> None:
    shown = tables.contrasts_table(verdicts())
    assert list(shown["verdict without flagged"]) == ["", "", "", "inconclusive", "", "", ""]
    assert "verdict without flagged" not in tables.contrasts_table(contrasts_frame({}))


def test_a_skewed_or_dependent_cell_gets_its_other_interval() -> None:
    rng = np.random.default_rng(5)
    values = {"native": list(rng.normal(100, 1, 30)), "docker": list(np.exp(rng.normal(0, 1, 30)))}
    values["lxc"] = list(100 + np.arange(30) + rng.normal(0, 1, 30))
    table = table_of(values)
    cells, found = estimates(table), diagnostics(table)
    shown, notes = tables.estimates_table(cells, found).set_index("system"), found.set_index("system")
    others = {"bootstrap-t 95 % CI": "skewed", "mean 95 % CI (effective n)": "dependent"}
    for heading, flag in others.items():
        assert (shown[heading] != "").to_dict() == notes["flags"].str.contains(flag).to_dict()
    assert shown.loc["docker", "bootstrap-t 95 % CI"].startswith("[")
    assert shown.loc["lxc", "mean 95 % CI (effective n)"].endswith(f"({notes.loc['lxc', 'n_eff']:.1f})")
    assert not set(others) & set(tables.estimates_table(cells[cells["system"] == "native"], found).columns)
    every = tables.estimates_table(cells, every=True)
    assert {"geometric mean 95 % CI", "pseudo-median 95 % CI", "bootstrap-t 95 % CI"} <= set(every.columns)
    assert "geometric mean" not in shown.columns


def test_omnibus_and_tiers_of_the_reference_data() -> None:
    row = tables.omnibus_table(omnibus(table_of(DATA_A))).iloc[0]
    assert (row["Friedman χ²"], row["p (χ²)"]) == ("14.28", "0.0025")
    assert (row["F"], row["df"], row["p"]) == ("8.18", "3, 27", "0.0005")
    assert (row["systems"], row["n"]) == ("4", "10 blocks")
    assert row["tiers"] == "a: docker, lxd, native; b: docker, lxc, native"
    letters = tables.tiers_table(tiers(table_of(DATA_A))).iloc[0]
    assert set(letters.index) == {"workload", "scenario", "metric", *DATA_A}
    assert not set(letters["lxc"]) & set(letters["lxd"])  # the one pair that Holm separates
    assert set(letters["native"]) & set(letters["docker"])


def test_diagnostics_have_a_row_for_each_cell_and_the_numbers_of_the_frame() -> None:
    found = diagnostics(table_of(DATA_A))
    shown = tables.diagnostics_table(found)
    assert len(shown) == 4
    at = list(found["system"]).index("docker")
    assert shown.loc[at, "r1"] == f"{found.loc[at, 'lag1']:.2f}".rstrip("0")
    assert shown.loc[at, "flags"] == found.loc[at, "flags"]
    assert shown.loc[at, "outliers"] == f"{found.loc[at, 'outliers']:.0f}"


def test_a_plan_says_aim_n_and_hours() -> None:
    plan = plan_from_pilot(table_of(DATA_A), "native", {"": 0.02}, targets=[0.01], seconds=36.0)
    shown = tables.planning_table(plan)
    assert set(shown["aim"]) == {"mean within ±1 %", "ratio within ±1 %", "no inconclusive verdict at 2 %"}
    row = shown[(shown["system"] == "docker") & (shown["aim"] == "mean within ±1 %")].iloc[0]
    assert row["n"] == "26"
    assert row["hours"] == "0.26"
    assert int(row["n at most"]) > 26


def test_no_row_is_a_table_without_rows() -> None:
    table = table_of({"native": [1.0, 2.0]})
    for shown in (
        tables.contrasts_table(contrasts_frame().head(0)),
        tables.ratios_table(contrasts_frame().head(0), ["docker"]),
        tables.ratios_table(contrasts_frame().head(0), []),
        tables.omnibus_table(omnibus(table).head(0)),
        tables.tiers_table(tiers(table).head(0)),
        tables.diagnostics_table(diagnostics(table).head(0)),
        tables.estimates_table(estimates(table).head(0)),
    ):
        assert len(shown) == 0
        tables.markdown(shown)
        tables.latex(shown)


OPEN: dict[str, Any] = {"verdict": "inconclusive", "ratio": 0.99, "ratio_low": 0.9491, "ratio_high": 1.0202}
NO_RATIO = {"ratio": NAN, "ratio_low": NAN, "ratio_high": NAN}
NO_DIFFERENCE = {"difference_low": NAN, "difference_high": NAN}


def row(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**CONTRAST | OPEN | changes)


@pytest.mark.parametrize(
    ("low", "high", "better", "said"),
    [
        (0.9487, 0.9689, "higher", "costs 3.1 to 5.2 %"),
        (1.0312, 1.0513, "lower", "costs 3.1 to 5.2 %"),
        (1.0312, 1.0513, "higher", "gains 3.1 to 5.2 %"),
        (0.720686, 0.999929, "lower", "gains 0.0071 to 28 %"),
        (1.05, 1.1, "lower", "costs 5.0 to 10 %"),  # less one, both are a little more than 0.05 and 0.1
        (1.9, float("inf"), "lower", "costs at least 90 %"),
    ],
)
def test_an_interval_without_no_effect_says_at_least_how_much(low: float, high: float, better: str, said: str) -> None:
    decided = row(verdict="different", ratio_low=low, ratio_high=high, better=better)
    assert ruled_out(decided) == f"{said} (95 %)"
    assert ruled_out_label(decided) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"better": "higher"}, "costs at most 5.1 %, gains at most 2.1 % (95 %)"),
        ({}, "costs at most 2.1 %, gains at most 5.1 % (95 %)"),
        # 1.05 - 1 is a little more than 0.05
        ({"ratio_low": 0.98, "ratio_high": 1.05}, "costs at most 5.0 %, gains at most 2.0 % (95 %)"),
        ({"ratio_low": 0.99999, "ratio_high": 1.123401}, "costs at most 13 %, gains at most 0.0010 % (95 %)"),
        ({"ratio_low": 0.0, "ratio_high": 3.456}, "costs at most 250 %, gains at most 100 % (95 %)"),
        ({"ratio_low": 1.0, "ratio_high": 1.0995}, "costs at most 10 %, gains nothing (95 %)"),
        ({"ratio_low": 0.66, "ratio_high": float("inf")}, "may cost any amount, gains at most 34 % (95 %)"),
        ({"verdict": "not comparable"}, ""),
    ],
)
def test_an_end_is_never_rounded_towards_no_effect(changes: dict[str, Any], said: str) -> None:
    assert ruled_out(row(**{"better": "lower", **changes})) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"better": "higher"}, "costs ≤ 5.1 %, gains ≤ 2.1 %"),
        ({"better": "lower"}, "costs ≤ 2.1 %, gains ≤ 5.1 %"),
        ({"better": "lower", "ratio_low": 1.0, "ratio_high": float("inf")}, "costs unbounded, gains nothing"),
        ({"verdict": "equivalent"}, "equivalent: costs ≤ 5.1 %, gains ≤ 2.1 %"),
        (
            {"verdict": "different, within the margin", "ratio_low": 0.9902, "ratio_high": 0.9953},
            "costs 0.47 to 0.98 %, within the margin",
        ),
        (NO_RATIO, "no interval"),
        ({"verdict": "not comparable"}, "not comparable"),
    ],
)
def test_a_figure_has_the_bounds_in_place_of_no_verdict(changes: dict[str, Any], said: str) -> None:
    assert ruled_out_label(row(**changes)) == said


def test_without_an_interval_of_the_ratio_the_difference_says_it() -> None:
    ends = {"difference_low": -0.02, "difference_high": 0.31}
    said = ruled_out(row(better="lower", unit="%", **NO_RATIO, **ends))
    assert said == "as a difference, costs at most 0.31 percentage points, gains at most 0.020 percentage points (95 %)"
    share = ruled_out(row(better="higher", unit="1", **NO_RATIO, **ends))
    assert share == "as a difference, costs at most 0.020, gains at most 0.31 (95 %)"
    assert ruled_out(row(**NO_RATIO, difference_low=NAN, difference_high=NAN)) == NOTHING


def test_it_stands_in_the_sentence_behind_what_was_there() -> None:
    told = results.sentence(row(n_to_decide=80.0, better="higher", sensitive=True, reason="dependent"))
    first, ruled, flagged = told.split("; ")[1:]
    assert first == "higher is better: inconclusive, about 80 blocks would decide"
    assert ruled == "costs at most 5.1 %, gains at most 2.1 % (95 %)"
    assert flagged == "without the values flagged as outliers: different (dependent)."
    shares = results.sentence(row(unit="1", better="lower", difference_low=-0.28, difference_high=0.28,
                                   reason="a share", **NO_RATIO))  # fmt: skip
    assert "inconclusive; as a difference, costs at most 0.28, gains at most 0.28 (95 %) (a share)." in shares
    assert "different; costs 1.1 to 3.9 % (95 %)." in results.sentence(SimpleNamespace(**CONTRAST))


def test_the_table_says_it_beside_every_verdict() -> None:
    shown = tables.contrasts_table(contrasts_frame(OPEN, {}, {"verdict": "not comparable"}))
    assert list(shown["ruled out"]) == [
        "costs at most 5.1 %, gains at most 2.1 % (95 %)", "costs 1.1 to 3.9 % (95 %)", "",
    ]  # fmt: skip
    assert list(shown.columns).index("ruled out") == list(shown.columns).index("verdict") + 1


COSTLY = {"verdict": "different", "ratio_low": 0.90, "ratio_high": 0.95}
COSTLIER = {"verdict": "different", "ratio_low": 0.80, "ratio_high": 0.92}
SAME = {"verdict": "equivalent", "ratio_low": 0.991, "ratio_high": 1.004}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([OPEN], "costs at most 5.1 %, gains at most 2.1 %"),
        ([COSTLY, COSTLIER], "costs 5.0 to 20 % (each of 2 settings)"),
        (
            [OPEN, OPEN | {"ratio_low": 0.98, "ratio_high": 1.07}],
            "costs at most 2.0 to 5.1 %, gains at most 2.1 to 7.0 % (each of 2 settings)",
        ),
        (
            [COSTLY, OPEN, SAME, {"verdict": "not comparable"}],
            "costs 5.0 to 10 % (s0); is the same within 2 % (costs at most 0.90 %, gains at most 0.40 %) (s2); "
            "costs at most 5.1 %, gains at most 2.1 % (s1); not comparable (s3)",
        ),
        ([OPEN | NO_RATIO | NO_DIFFERENCE], f"inconclusive, {NOTHING}"),
        (
            [
                OPEN | NO_RATIO | {"difference_low": -0.02, "difference_high": 0.31, "unit": "1"},
                OPEN | NO_RATIO | NO_DIFFERENCE,
            ],
            "inconclusive, as a difference, costs at most 0.020, gains at most 0.31 (95 %) or "
            f"inconclusive, {NOTHING} (each of 2 settings)",
        ),
    ],
)
def test_a_sentence_holds_the_settings_of_one_answer_together(rows: list[dict[str, Any]], said: str) -> None:
    each = [SimpleNamespace(**CONTRAST | changes | {"scenario": f"s{n}"}) for n, changes in enumerate(rows)]
    assert state_bounds(each) == said
