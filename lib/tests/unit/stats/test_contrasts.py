from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from infrabench.analysis.tidy import tidy
from infrabench.core import DesignError
from infrabench.stats import contrasts, diagnostics
from infrabench.stats.contrasts import TYPES
from infrabench.stats.dependence import autocorrelation
from infrabench.stats.multiplicity import holm
from infrabench.stats.pairwise import paired_fieller, ratio_equivalence
from infrabench.stats.verdicts import CONSTANT, DIFFERENT, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE, WITHIN
from infrabench_selfcheck.validation.generators import campaigns_table
from tests.support.analysis_fixtures import DATA_A, MARGINS, PRIMARY, table_of, write_session

REFERENCE = {
    "docker": (0.9880586696, 0.9742567286, 1.001833226, -1.209, -2.603774556, 0.1857745558, 0.08153253),
    "lxc": (0.9956244753, 0.9908060579, 1.000519232, -0.443, -0.9381552625, 0.05215526251, 0.0736588528),
    "lxd": (1.003180404, 0.9966932012, 1.009751228, 0.322, -0.3369296184, 0.9809296184, 0.2976378009),
}
NUMBERS = ["ratio", "ratio_low", "ratio_high", "difference", "difference_low", "difference_high", "p"]


def one(values: dict[str, list[float | None]], **kind: str) -> pd.Series:
    return contrasts(table_of(values, **kind), "native", {"": 0.02}).iloc[0]


def test_reference_values() -> None:
    found = contrasts(table_of(DATA_A), "native", {"": 0.02}).set_index("system")
    for system, expected in REFERENCE.items():
        assert found.loc[system, NUMBERS].astype(float).to_numpy() == pytest.approx(expected, rel=1e-6)
        narrow = paired_fieller(np.array(DATA_A[system]), np.array(DATA_A["native"]), 0.9)
        assert found.loc[system, ["equivalence_low", "equivalence_high"]].tolist() == pytest.approx(narrow[:2])
    assert found["p_equivalence_adjusted"].to_numpy() == pytest.approx(holm(found["p_equivalence"]))
    assert list(found["verdict"]) == [INCONCLUSIVE, EQUIVALENT, EQUIVALENT]
    assert (found["n_pairs"] == 10).all()
    assert found.loc["docker", "n_to_decide"] > 10
    assert found.loc[["lxc", "lxd"], "n_to_decide"].isna().all()


def test_a_metric_may_have_a_margin_of_its_own() -> None:
    found = contrasts(table_of(DATA_A), "native", {"events_per_s": 0.01, "": 0.5})
    x = np.array([DATA_A[name] for name in found["system"]])
    alone = ratio_equivalence(x, np.broadcast_to(DATA_A["native"], x.shape), 0.01)
    assert found["p_equivalence"].to_numpy() == pytest.approx(alone.p)
    assert (found["margin"] == 0.01).all()


def test_what_one_contrast_shows_is_no_claim_where_its_family_does_not() -> None:
    rng = np.random.default_rng(8)
    native = rng.normal(100, 3, 30)
    values = {"native": list(native)}
    values |= {name: list(native * rng.normal(by, 0.02, 30)) for name, by in (("a", 1.0126), ("b", 1.06), ("c", 1.06))}
    three = contrasts(table_of(values), "native", {"": 0.02}).iloc[0]
    pair = contrasts(table_of({name: values[name] for name in ("native", "a")}), "native", {"": 0.02}).iloc[0]
    assert pair["p_equivalence_adjusted"] == pair["p_equivalence"] == three["p_equivalence"] < 0.05
    assert three["p_equivalence_adjusted"] == pytest.approx(3 * three["p_equivalence"])
    assert three["p_equivalence_adjusted"] > 0.05
    assert three["equivalence_high"] < 1.02
    assert pair["verdict"] in (EQUIVALENT, WITHIN)
    assert three["verdict"] in (DIFFERENT, INCONCLUSIVE)
    assert "equivalence not significant within its family" in three["reason"]
    assert "within its family" not in pair["reason"]


@pytest.mark.parametrize(
    ("shift", "noise", "verdict"),
    [(0.9, 0.005, DIFFERENT), (0.995, 0.001, WITHIN), (1.0, 0.005, EQUIVALENT), (1.0, 0.2, INCONCLUSIVE)],
)
def test_the_four_verdicts(shift: float, noise: float, verdict: str) -> None:
    rng = np.random.default_rng(11)
    native = 100 * np.exp(rng.normal(0, 0.05, 30))
    row = one({"native": list(native), "docker": list(native * shift * np.exp(rng.normal(0, noise, 30)))})
    assert row["verdict"] == verdict
    assert np.isfinite(row["n_to_decide"]) == (verdict == INCONCLUSIVE)


def test_no_errors_on_either_side_is_not_comparable() -> None:
    kind = {"metric": "failed_requests", "unit": "1", "better": "lower"}
    row = one({"native": [0.0] * 6, "docker": [0.0] * 6}, **kind)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, "both means are 0: no ratio")
    assert np.isnan(row["ratio"])
    assert row["difference"] == 0
    some = one({"native": [0.0] * 6, "docker": [1.0, 0, 3, 0, 2, 2]}, **kind)
    assert (some["verdict"], some["reason"]) == (NOT_COMPARABLE, "the mean of native is 0: no ratio")
    assert some["difference_low"] < some["difference"] < some["difference_high"]
    assert some["p"] == pytest.approx(stats.ttest_1samp([1.0, 0, 3, 0, 2, 2], 0).pvalue)


def test_a_baseline_too_noisy_to_divide_by_leaves_a_ratio_without_p_and_names_no_number_of_blocks() -> None:
    native = [1.0, 4.0, -2.0, 3.1, 0.5, -1.0]
    row = one({"native": native, "docker": [21.0, 22.5, 19.0, 25.0, 18.5, 20.5]})
    assert (row["reason"], row["verdict"]) == ("baseline too noisy", INCONCLUSIVE)
    assert row["difference_low"] > 0  # the difference is there, the ratio is not
    assert np.isfinite(row["ratio"])
    unknown = ["ratio_low", "ratio_high", "equivalence_low", "p", "p_adjusted", "p_equivalence", "n_to_decide"]
    assert row[unknown].isna().all()
    assert row["p_method"] is None or pd.isna(row["p_method"])


def test_values_that_are_not_all_positive_are_compared_as_all_others() -> None:
    native, docker = [5.0, 6, 4, 5, 6, 5], [0.0, 1, 2, 0, 1, 2]
    row = one({"native": native, "docker": docker})
    assert row["p"] == pytest.approx(stats.ttest_rel(docker, native).pvalue)
    assert row["p_equivalence"] > 0.99
    assert row["verdict"] == DIFFERENT
    assert one({"native": DATA_A["native"], "docker": DATA_A["docker"]})["p_method"] == row["p_method"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"native": [1.0, 2.0], "docker": [None, None]}, "no ok trial of docker"),
        ({"native": [None, None], "docker": [1.0, 2.0]}, "no ok trial of native"),
        ({"docker": [1.0, 2.0]}, "no ok trial of native"),
        ({"native": [4.0] * 6, "docker": [5.0] * 6}, CONSTANT),
    ],
)
def test_too_little_to_compare(values: dict[str, list[float | None]], reason: str) -> None:
    row = one(values)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, reason)


@pytest.mark.parametrize(
    ("values", "reason", "lost"),
    [
        ({"native": [1.0, None], "docker": [None, 2.0]}, "no block has an ok trial of both",
         "1 of 2 failed (native: 1 of 2 failed): no verdict on the rest"),
        ({"native": [1.0, None], "docker": [3.0, 2.0]}, "a single complete block: no interval",
         "0 of 2 lost (native: 1 of 2 failed): no verdict on the rest"),
    ],
)  # fmt: skip
def test_what_is_left_of_lost_trials_is_too_little_and_says_that_they_were_lost_unless_they_were_invalid(
    values: dict[str, list[float | None]], reason: str, lost: str
) -> None:
    row = one(values)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, f"{reason}; {lost}")
    table = table_of(values)
    row = contrasts(table.assign(state=table["state"].replace("failed", "invalid")), "native", {"": 0.02}).iloc[0]
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, reason)


def test_families_are_adjusted_by_metric(tmp_path: Path) -> None:
    found = contrasts(tidy(write_session(tmp_path / "s", blocks=6)), "native", MARGINS, PRIMARY)
    assert tuple(found.columns) == tuple(TYPES)
    cpu = found[found["workload"] == "sysbench-cpu"]
    assert set(cpu["adjustment"]) == {"Holm"}
    ordered = cpu.sort_values("p")
    assert ordered["p_adjusted"].iloc[0] == pytest.approx(min(1, len(cpu) * ordered["p"].iloc[0]))
    other = found[(found["workload"] == "web") & (found["metric"] == "total_s")]
    assert set(other["adjustment"]) == {"Benjamini-Hochberg, exploratory"}
    assert other["p_adjusted"].to_numpy() == pytest.approx(stats.false_discovery_control(other["p"]))
    lonely = found["reason"].str.contains(r"(?<!equivalence )not significant within its family")
    assert lonely.any()
    exploratory = found["adjustment"] != "Holm"
    assert (found.loc[lonely, "reason"].str.contains("exploratory, not") == exploratory[lonely]).all()
    assert found.loc[lonely, "verdict"].isin([DIFFERENT, WITHIN]).all()
    assert (found.loc[lonely, "p"] < 0.05).all()
    assert (found.loc[lonely, "p_adjusted"] >= 0.05).all()
    known = found["p_adjusted"].notna()
    assert (found.loc[known, "p_adjusted"] >= found.loc[known, "p"] - 1e-15).all()


@pytest.mark.parametrize("margins", [{}, {"": 0.0}, {"events_per_s": 1.5}])
def test_a_margin_is_needed_and_is_a_share(margins: dict[str, float]) -> None:
    with pytest.raises(DesignError, match="margin"):
        contrasts(table_of(DATA_A), "native", margins)


def test_reference_values_of_what_stands_beside() -> None:
    found = contrasts(table_of(DATA_A), "native", {"": 0.02}, [("sysbench-cpu", "events_per_s")])
    expected = {
        "log_ratio": (0.9878704222, 0.995671262, 1.003217183),
        "log_low": (0.9744319281, 0.9908014933, 0.9967070327),
        "log_high": (1.001494248, 1.000564966, 1.009769855),
        "p_signed_rank": (0.083984375, 0.099609375, 0.30859375),
        "paired_d": (-0.6373739454, -0.6329496407, 0.3529326573),
        "worse_share": (0.9, 0.8, 0.5),
        "worse_low": (0.5958499732, 0.4901624715, 0.2365930905),
        "worse_high": (0.9821237869, 0.9433178485, 0.7634069094),
    }
    for name, values in expected.items():
        assert found[name].to_numpy() == pytest.approx(values, rel=1e-6), name
    docker = found.set_index("system").loc["docker"]
    # Hodges-Lehmann of the differences, printed as native minus docker: 1.52 [-0.31, 2.50]
    assert (docker["shift"], docker["shift_low"], docker["shift_high"]) == pytest.approx((-1.52, -2.50, 0.31))
    logs = np.log(np.array(DATA_A["docker"]) / DATA_A["native"])
    power = TTestPower().power(np.log1p(docker["detectable"]) / logs.std(ddof=1), 10, 0.05)
    assert power == pytest.approx(0.8, abs=1e-4)
    assert 0 < docker["power_equivalence"] < 1
    assert (docker["pair_unit"], docker["flags"]) == ("blocks", "outliers")


def test_effect_sizes_see_what_every_block_says() -> None:
    """Blocks ten times as far apart as trials, and one per cent everywhere: unpaired sizes called that negligible."""
    rng = np.random.default_rng(8)
    native = 100 * np.exp(rng.normal(0, 0.1, 30))
    row = one({"native": list(native), "docker": list(native * 0.99 * np.exp(rng.normal(0, 0.002, 30)))})
    assert row["paired_d_high"] < -2
    assert (row["worse_share"], row["worse_high"]) == (1.0, 1.0)
    assert row["worse_low"] == pytest.approx(0.8864866)  # Wilson, 30 of 30
    slower = one({"native": list(native), "docker": list(native * 1.01)}, better="lower")
    assert slower["worse_share"] == 1.0
    assert np.isnan(slower["paired_d"])  # the same ratio in every block: no spread to measure by


def drifting(rng: np.random.Generator, shift: float, n: int = 24) -> dict[str, list[float]]:
    native = 100 * np.exp(rng.normal(0, 0.02, n))
    return {"native": list(native), "docker": list(shift * native * np.exp(rng.normal(0, 0.004, n)))}


def test_a_verdict_that_hangs_on_flagged_values_is_marked() -> None:
    values = drifting(np.random.default_rng(1), 1.0)
    steady = contrasts(table_of(values), "native", {"": 0.02}).iloc[0]
    judged = ["verdict", "verdict_without_flagged", "sensitive"]
    assert steady[judged].tolist() == [EQUIVALENT, EQUIVALENT, False]
    values["docker"][5] *= 0.4
    moved = contrasts(table_of(values), "native", {"": 0.02}).iloc[0]
    assert moved[judged].tolist() == [INCONCLUSIVE, EQUIVALENT, True]
    assert moved["flags"] == "outliers"
    assert moved["n_pairs"] == 24  # nothing is dropped
    without = {name: [v for i, v in enumerate(series) if i != 5] for name, series in values.items()}
    assert contrasts(table_of(without), "native", {"": 0.02}).iloc[0]["verdict"] == EQUIVALENT


def test_deployment_means_are_the_pairs_where_there_are_several() -> None:
    values = drifting(np.random.default_rng(2), 0.97)
    row = contrasts(table_of(values, blocks_per_deployment=4), "native", {"": 0.02}).iloc[0]
    x, y = (np.array(values[name]).reshape(6, 4).mean(axis=1) for name in ("docker", "native"))
    assert (row["n_pairs"], row["pair_unit"]) == (6, "deployments")
    assert row["p"] == pytest.approx(stats.ttest_rel(x, y).pvalue)
    assert row["ratio"] == pytest.approx(x.mean() / y.mean())
    values["native"][1] = None  # the block is left out of its deployment on both sides
    row = contrasts(table_of(values, blocks_per_deployment=4), "native", {"": 0.02}).iloc[0]
    x[0], y[0] = (np.mean([values[name][i] for i in (0, 2, 3)]) for name in ("docker", "native"))
    assert row["ratio"] == pytest.approx(x.mean() / y.mean())


def test_a_single_deployment_with_pairs_is_not_enough_where_there_should_be_several_and_the_lost_ones_are_named() -> (
    None
):
    values: dict[str, list[float | None]] = {"native": [1.0, 2, 3, 4], "docker": [1.5, 2.5, None, None]}
    row = contrasts(table_of(values, blocks_per_deployment=2), "native", {"": 0.02}).iloc[0]
    reason = "a single deployment with complete blocks: no interval; 2 of 4 failed (native: 0 of 4 lost): no verdict"
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, f"{reason} on the rest")
    assert row["n_pairs"] == 1
    assert np.isnan(row["ratio_low"])


@pytest.mark.parametrize(("sd", "half", "more"), [(0.3, 0.5, 0), (0.3, 0.5, 1), (0.9, 0.0, 0)])
def test_a_coarse_printing_step_is_in_the_intervals_and_both_p_below_half_a_step_of_spread(
    sd: float, half: float, more: int
) -> None:
    x, y = np.round(np.random.default_rng(3).normal(100, sd, (2, 30)))
    x += more  # two steps would be clear, one is not
    row = one({"native": list(y), "docker": list(x)})
    assert "resolution-limited" in row["flags"]
    bare, off, test = paired_fieller(x, y), half / y.mean(), stats.ttest_rel(x, y).confidence_interval()
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((bare.low - off, bare.high + off))
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((test.low - half, test.high + half))
    assert row["equivalence_high"] == pytest.approx(paired_fieller(x, y, 0.9).high + off)
    assert row["p_equivalence"] == pytest.approx(ratio_equivalence(x, y, 0.02, off).p)
    nearest = np.clip(x.mean() / y.mean(), 1 - off, 1 + off)
    assert row["p"] == pytest.approx(stats.ttest_1samp(x - nearest * y, 0).pvalue)
    assert (row["p"] < 0.05) == (row["ratio_low"] > 1 or row["ratio_high"] < 1)


def test_no_number_of_blocks_is_named_where_the_printing_step_forbids_it() -> None:
    seconds = {"native": [10.0, 10, 11, 10, 10, 10, 11, 10], "docker": [10.0, 10, 10, 10, 11, 10, 11, 10]}
    row = contrasts(table_of(seconds), "native", {"": 0.02}).iloc[0]
    assert row["verdict"] == INCONCLUSIVE
    assert np.isnan(row["n_to_decide"])
    assert "no number of blocks" in row["reason"]
    wide = contrasts(table_of(seconds), "native", {"": 0.5}).iloc[0]
    assert "no number" not in wide["reason"]


def test_the_number_that_would_decide_is_never_one_that_was_reached() -> None:
    rng = np.random.default_rng(9)
    values = rng.normal(100, 3, (200, 2, 20))
    table = campaigns_table(values, ("native", "docker"))
    table["workload"] = table["scenario"]
    found = contrasts(table, "native", {"": 0.02})
    open_ones = found["verdict"] == INCONCLUSIVE
    assert open_ones.sum() > 100
    assert (found.loc[open_ones, "n_to_decide"] > 20).all()
    assert found.loc[~open_ones, "n_to_decide"].isna().all()
    # more tests in the family ask for more
    whole = contrasts(table.assign(workload="w"), "native", {"": 0.02})
    both = open_ones.to_numpy()
    assert (whole.loc[both, "n_to_decide"].to_numpy() > found.loc[both, "n_to_decide"].to_numpy()).all()


def test_reasons_add_up() -> None:
    rng = np.random.default_rng(12)
    y = np.round(rng.normal(100, 0.8, 30))
    values = {"native": list(y), "a": list(np.round(rng.normal(100.45, 0.8, 30)))}
    values |= {name: list(np.round(rng.normal(100, 0.8, 30))) for name in ("b", "c", "d", "e")}
    found = contrasts(table_of(values), "native", {"": 0.02}).set_index("system")
    row = found.loc["a"]
    assert row["p"] < 0.05 < row["p_adjusted"]
    assert row["reason"] == "resolution-limited; exploratory, not significant within its family"
    kept = contrasts(table_of(values), "native", {"": 0.02}, [("sysbench-cpu", "events_per_s")]).set_index("system")
    assert kept.loc["a", "reason"] == "resolution-limited; not significant within its family"


def test_pairs_that_depend_on_one_another_are_flagged_where_cells_show_nothing() -> None:
    rng = np.random.default_rng(19)
    block, wave = rng.normal(0, 0.1, (2, 30)), np.sin(np.arange(30) / 3)
    native = 100 * np.exp(block[0])
    values = {"native": native, "docker": native * np.exp(0.02 * wave), "lxc": native * rng.normal(1, 0.01, 30)}
    values["lxd"] = native * (1 + 0.01 * (-1.0) ** np.arange(30))
    table = table_of({name: list(each) for name, each in values.items()})
    found = contrasts(table, "native", {"": 0.02}).set_index("system")
    docker, lxc, lxd = (found.loc[name] for name in ("docker", "lxc", "lxd"))
    assert docker["flags"].split("; ").count("dependent") == 1
    assert docker["lag1"] == pytest.approx(autocorrelation(np.log(values["docker"] / native)))
    assert docker["n_eff"] < 5
    assert docker["reason"].endswith(f"dependent: 30 blocks say as much as {docker['n_eff']:.0f}")
    assert (lxc["flags"], lxc["n_eff"], lxc["reason"]) == ("", 30, "")
    assert (lxd["flags"], lxd["n_eff"], lxd["reason"]) == ("dependent", 30, "")  # alternates: none the worse for it
    cells = diagnostics(table).set_index("system")["flags"]
    assert not cells.str.contains("dependent").any()
