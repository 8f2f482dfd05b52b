"""What must hold of whole tables, whatever the values: units, labels, proportion, holes, single and equal values."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from infrabench.analysis.tables import contrasts_table, diagnostics_table, estimates_table
from infrabench.stats import contrasts, diagnostics, estimates, interactions, omnibus, tiers
from infrabench.stats.estimates import TYPES
from infrabench.stats.losses import UNLIKE
from infrabench.stats.table import CELL
from infrabench.stats.verdicts import EQUIVALENT, NOT_COMPARABLE, ONE_RATIO, WITHIN
from tests.support.analysis_fixtures import table_of
from tests.support.storm import size

INTERVALS = [name for name in TYPES if name.endswith(("_low", "_high", "_level"))]
MARGIN = {"": 0.02}
PRIMARY = (("sysbench-cpu", "events_per_s"),)
ALIKE = (EQUIVALENT, WITHIN)
OF_FAMILY = (
    *("p_adjusted", "p_equivalence_adjusted", "n_to_decide", "reason"),
    *("verdict", "verdict_without_flagged", "sensitive"),
)
Values = dict[str, list[float | None]]
IN_UNITS = {
    "estimates": (
        *("mean", "mean_low", "mean_high", "median", "median_low", "median_high", "sd", "min", "max"),
        *("geometric_mean", "geometric_low", "geometric_high", "pseudo_median", "pseudo_low", "pseudo_high"),
        *("boot_t_low", "boot_t_high"),
    ),
    "contrasts": (
        *("mean", "baseline_mean", "difference", "difference_low", "difference_high"),
        *("shift", "shift_low", "shift_high"),
    ),
}


def examples(count: int) -> settings:
    """Fewer than elsewhere, and without explaining a failure, which would take minutes: each is a whole analysis."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    return settings(max_examples=size(count // 2, 20 * count), phases=phases)


campaigns = st.tuples(st.integers(0, 2**32), st.sampled_from([12, 7, 3, 2]), st.sampled_from([0.0, 0.15]))
units = st.sampled_from([1e-9, 0.37, 6e4, 1e12])


def campaign(seed: int, n: int, holes: float) -> Values:
    """Three systems in the same blocks, with effects, noise, outliers and trials that failed."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0, rng.choice([0.0, 0.05]), n)
    made: Values = {}
    for system, effect in (("native", 0.0), ("docker", -0.03), ("lxc", 0.001)):
        logs = blocks + effect + rng.normal(0, rng.choice([0.002, 0.02]), n) + 0.3 * (rng.random(n) < 0.05)
        lost = rng.random(n) < holes
        made[system] = [None if gone else float(v) for v, gone in zip(100 * np.exp(logs), lost, strict=True)]
    return made


def changed(values: Values, factor: float) -> Values:
    return {name: [None if v is None else factor * v for v in series] for name, series in values.items()}


def frames(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {
        "estimates": estimates(table),
        "contrasts": contrasts(table, "native", MARGIN, PRIMARY),
        "omnibus": omnibus(table, PRIMARY),
        "tiers": tiers(table),
    }


def assert_alike(
    one: pd.DataFrame, other: pd.DataFrame, scaled: tuple[str, ...] = (), factor: float = 1.0, but: tuple[str, ...] = ()
) -> None:
    """Numbers to 1e-6, `scaled` ones times `factor`; NaN where NaN was; words as they were."""
    assert list(one.columns) == list(other.columns)
    assert len(one) == len(other)
    for name in one.columns.drop(list(but), errors="ignore"):
        if one[name].dtype.kind == "f":
            expected = one[name].to_numpy() * (factor if name in scaled else 1.0)
            np.testing.assert_allclose(other[name].to_numpy(), expected, rtol=1e-6, atol=1e-300, err_msg=name)
        else:
            assert one[name].tolist() == other[name].tolist(), name


@examples(10)
@given(campaigns, units, st.sampled_from([0, 2]))
def test_a_unit_scales_means_and_intervals_and_nothing_else(how: tuple, unit: float, per_deployment: int) -> None:
    values = campaign(*how)
    first = frames(table_of(values, blocks_per_deployment=per_deployment))
    second = frames(table_of(changed(values, unit), blocks_per_deployment=per_deployment))
    for name, frame in first.items():
        assert_alike(frame, second[name], IN_UNITS.get(name, ("mean",)), unit)


@examples(10)
@given(campaigns, st.sampled_from([1e-6, 1e-3, 10.0, 1e6, 8.0]))
def test_a_unit_does_not_hide_how_finely_a_metric_was_printed(how: tuple, unit: float) -> None:
    printed = {name: [None if v is None else round(v) for v in series] for name, series in campaign(*how).items()}
    first, second = (contrasts(table_of(v), "native", MARGIN) for v in (printed, changed(printed, unit)))
    assert_alike(first, second, IN_UNITS["contrasts"], unit)


@examples(10)
@given(campaigns, st.randoms(use_true_random=False))
def test_the_labels_of_blocks_and_the_order_of_rows_say_nothing(how: tuple, random) -> None:
    table = table_of(campaign(*how))
    labels = list(range(how[1]))
    random.shuffle(labels)
    other = table.assign(block=table["block"].map(dict(enumerate(labels)))).sample(frac=1, random_state=1)
    first, second = frames(table), frames(other)
    for name, frame in first.items():
        keys = [key for key in (*CELL[:3], "system") if key in frame]
        ordered = (each.sort_values(keys, ignore_index=True) for each in (frame, second[name]))
        assert_alike(*ordered)


@examples(10)
@given(campaigns)
def test_other_systems_in_the_table_change_only_what_is_adjusted_for_them(how: tuple) -> None:
    values = campaign(*how)
    whole = contrasts(table_of(values), "native", MARGIN, PRIMARY)
    pair = contrasts(table_of({name: values[name] for name in ("native", "docker")}), "native", MARGIN, PRIMARY)
    of_docker = whole[whole["system"] == "docker"].reset_index(drop=True)
    assert_alike(pair, of_docker, but=OF_FAMILY)
    for name in ("p_adjusted", "p_equivalence_adjusted", "n_to_decide"):
        assert not (of_docker[name] < pair[name]).any()
    # a claim of equivalence may be lost in a family, and none is won there
    assert not (of_docker["verdict"].isin(ALIKE) & ~pair["verdict"].isin(ALIKE)).any()


@examples(15)
@given(campaigns, st.floats(0.01, 100), st.sampled_from(["higher", "lower"]))
def test_a_system_in_fixed_proportion_to_the_baseline_has_that_ratio(how: tuple, c: float, better: str) -> None:
    native = [v for v in campaign(*how)["native"] if v is not None]
    values: Values = {"native": list(native), "docker": [c * v for v in native]}
    found = contrasts(table_of(values, better=better), "native", MARGIN)
    if not native:
        assert found.empty
        return
    row = found.iloc[0]
    for name in ("ratio", "log_ratio"):
        assert row[name] == pytest.approx(c, rel=1e-12)
    sign = 1 if better == "lower" else -1
    assert row["overhead_percent"] == pytest.approx(sign * 100 * (c - 1), rel=1e-9, abs=1e-9)
    assert row["verdict"] == NOT_COMPARABLE
    assert row["reason"] == ONE_RATIO or len(native) < 2
    assert row[["ratio_low", "p", "p_equivalence", "p_adjusted"]].isna().all()


HOLED = st.lists(
    st.tuples(*(st.sampled_from([None, None, 0.0, 1.0, 2.5, 0.1]) for _ in range(3))), min_size=1, max_size=7
)


@examples(15)
@given(HOLED, st.sampled_from([0, 2]))
def test_a_missing_value_is_never_a_number_and_too_few_are_not_available(rows: list, per_deployment: int) -> None:
    columns = zip(*rows, strict=True)
    values: Values = {name: list(column) for name, column in zip(("native", "docker", "lxc"), columns, strict=True)}
    table = table_of(values, blocks_per_deployment=per_deployment)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, pairs, signs = estimates(table), contrasts(table, "native", MARGIN, PRIMARY), diagnostics(table)
        omnibus(table), tiers(table), interactions(table, "native")  # whatever they say, they say it
        shown, told = estimates_table(found, signs, every=True), contrasts_table(pairs, every=True)
        diagnostics_table(signs)
    for (_, cell), (_, text) in zip(found.iterrows(), shown.iterrows(), strict=True):
        known = [v for v in values[cell["system"]] if v is not None]
        assert (cell["n"], cell["ok"], cell["failed"]) == (len(known), len(known), len(rows) - len(known))
        assert np.isnan(cell["mean"]) == (not known)
        if known:
            assert (cell["min"], cell["max"]) == (min(known), max(known))
        else:
            assert text["mean"] == text["median"] == text["min"] == "n/a"
        if len(known) < 2:
            assert cell[["sd", "cov", *INTERVALS]].isna().all()
            assert text["SD"] == text["CoV %"] == text["mean 95 % CI"] == text["median 95 % CI (level)"] == "n/a"
        elif len(set(known)) == 1:
            assert cell[list(INTERVALS)].isna().all()
            assert cell["deterministic"]
            assert cell["sd"] == 0
    for (_, row), (_, text) in zip(pairs.iterrows(), told.iterrows(), strict=True):
        both = [(a, b) for a, b in zip(values[row["system"]], values["native"], strict=True) if None not in (a, b)]
        if not per_deployment:
            assert row["n_pairs"] == len(both)
            known = both and UNLIKE not in row["reason"]  # of what was lost, the rest may say nothing
            mean = np.mean([a - b for a, b in both]) if known else np.nan
            assert row["difference"] == pytest.approx(mean, nan_ok=True)
        assert (row["n_pairs"] == 0) == (not both)
        if row["n_pairs"] < 2:
            names = ["ratio_low", "difference_low", "shift_low", "log_low", "paired_d_low", "p"]
            assert row[[*names, "p_signed_rank", "p_equivalence", "detectable"]].isna().all()
            assert (row["verdict"], row["reason"] != "") == (NOT_COMPARABLE, True)
            assert text["ratio 95 % CI"] == text["difference 95 % CI"] == text["d 95 % CI"] == text["p"] == "n/a"
            assert text["detectable %"] == "n/a"


@examples(10)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 7.0, -2.0, 1e15]), min_size=3, max_size=3),
    st.integers(1, 12),
    st.sampled_from([0, 3]),
)
def test_equal_values_are_named_and_nothing_is_inferred(levels: list[float], n: int, per_deployment: int) -> None:
    values: Values = {name: [level] * n for name, level in zip(("native", "docker", "lxc"), levels, strict=True)}
    table = table_of(values, blocks_per_deployment=per_deployment)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, pairs, signs = estimates(table), contrasts(table, "native", MARGIN, PRIMARY), diagnostics(table)
        assert omnibus(table)["interaction_p"].isna().all()
        assert interactions(table, "native")["p"].isna().all()
        assert (tiers(table)["letters"] == "a").all()
    assert found[list(INTERVALS)].isna().all(axis=None)
    assert found["between_share"].isna().all()
    assert (found["deterministic"] == (n > 1)).all()
    assert found["mean"].tolist() == pytest.approx([values[name][0] for name in found["system"]], rel=1e-12)
    assert (pairs["verdict"] == NOT_COMPARABLE).all()
    unknown = ["ratio_low", "difference_low", "p", "p_adjusted", "p_equivalence", "p_signed_rank"]
    assert pairs[[*unknown, "log_low", "shift_low", "paired_d"]].isna().all(axis=None)
    assert set(signs["flags"]) == {"deterministic" if n > 1 else "few values"}
