"""The recomputations against digits that were worked out by hand, independently of the code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from infrabench.analysis.published.findings import recompute
from infrabench.analysis.published.formulas import detectable_effect, evaluate, look_up
from infrabench.analysis.published.printed_numbers import ENGINES, numbers
from infrabench.analysis.published.score import composite, order, orders, versions
from infrabench.core import SchemaError

# finding, name, value to the digits given (absolute tolerance: half of the last): what no sentence shows with them.
# What sentences show is held by data/published/findings.json.
BY_HAND = [
    ("A2", {"least": "15", "most": "28"}),
    ("A4", {"score": "0.8354"}),
    ("A10", {"lxc": "37.29"}),
    ("A12", {"wins": "2", "metrics": "3"}),
    ("A15", {"count": "2"}),
    ("A19", {"link": "1"}),
    ("A21", {"ratio": "1"}),
    ("A34", {"rows": "4", "tests": "3"}),
    ("B1", {"same_percent": "10"}),
    ("C2", {"third_low": "48.05", "ratio": "3.11"}),
    ("C3", {"lacking": "3"}),
    ("C6", {"write_low": "3.05", "write_high": "4.15"}),
    ("D1", {"ratio": "1.188"}),
    ("D4", {"ratio": "0.589"}),
    ("D5", {"kbps": "18414000", "over_high": "184140"}),
    ("D14", {"printed": "9", "values": "8"}),
]


@pytest.mark.parametrize(("finding", "expected"), BY_HAND, ids=[name for name, _ in BY_HAND])
def test_recomputed_as_by_hand(finding: str, expected: dict[str, str]) -> None:
    found = recompute(finding)
    for name, text in expected.items():
        half = 0.5 * 10.0 ** -len(text.partition(".")[2])
        assert float(found[name]) == pytest.approx(float(text), abs=half * 1.0001), name


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("other + 1", "other is no arithmetic"), ("open('x')", "is no arithmetic"), ("part.real", "is no arithmetic"),
        ("part and 1", "is no arithmetic"), ("[part]", "is no arithmetic"), ("{A.b.c}", "has the id"),
        ("part.__class__", "is no arithmetic"), ("max(*part)", "is no arithmetic"), ("part < 1", "is no arithmetic"),
        ("{fact.third}", "nothing is called 'third': there is cpu_threads, "),
    ],
)  # fmt: skip
def test_a_formula_is_arithmetic_on_numbers_that_there_are(formula: str, said: str) -> None:
    known = numbers()

    def read(name: str) -> float:
        return look_up(name, known, known)

    with pytest.raises(SchemaError, match=said):
        evaluate(formula, read, {"part": 3})
    sound = "-{A.ram.percent.lxd.000} * {fact.cpu_threads} / 8 + max(1, part) ** 2"
    assert evaluate(sound, read, {"part": 3}) == -49.515 + 9
    assert list(known.used)[:1] == ["A.ram.percent.lxd.000"]


SCORES = {
    "published": (81.75, 86.50, 90.50),
    "cpu": (88.43, 88.73, 91.74),
    "text": (89.71, 88.67, 91.98),
    "rates": (87.27, 88.67, 91.98),
    "geometric-cpu": (87.76, 88.17, 91.41),
    "geometric-text": (89.26, 88.10, 91.67),
    "geometric-rates": (86.49, 88.10, 91.67),
    "three": (91.91, 91.97, 94.32),
}


def test_the_composite_in_every_version() -> None:
    table = composite().set_index(["version", "engine"])
    assert set(versions()) == set(SCORES)
    for version, values in SCORES.items():
        for engine, value in zip(ENGINES, values, strict=True):
            row = table.loc[(version, engine)]
            assert row["score"] == pytest.approx(value, abs=0.006), (version, engine)
            assert row["low"] < row["score"] < row["high"]


def test_the_order_of_the_engines_and_lxd_first_whatever_rounding_does() -> None:
    for version in SCORES:
        swapped = version in {"text", "geometric-text"}
        expected = "LXD > Docker > LXC" if swapped else "LXD > LXC > Docker"
        if version in {"cpu", "geometric-cpu", "three"}:  # table scores with two decimals
            expected = expected.replace("LXC >", "LXC ?")
        assert order(version) == expected
    leads = orders()
    assert (leads.loc[leads["ahead"] == "lxd", "low"] > 0).all()
    assert set(np.sign(leads.loc[(leads["ahead"] == "lxc"), "points"])) == {-1.0, 1.0}


def test_bounds_hold_every_score_that_rounds_to_the_printed_digits() -> None:
    rng = np.random.default_rng(5)
    table = composite().set_index(["version", "engine"]).loc[("geometric-cpu", "docker")]
    rows = np.array([0.74, 0.82, 0.98])[:, None] + rng.uniform(-0.005, 0.005, (3, 4000))
    cpu = 1 - (0.27 + rng.uniform(-0.005, 0.005, 4000)) / 100
    drawn = 100 * (rows.prod(axis=0) * cpu) ** 0.25
    assert table["low"] < drawn.min()
    assert drawn.max() < table["high"]
    assert drawn.max() - drawn.min() > 0.8 * (table["high"] - table["low"])


def test_the_effect_is_that_of_statsmodels_and_the_interval_that_of_scipy() -> None:
    assert detectable_effect(30, 0.8, 0.05) == pytest.approx(
        TTestIndPower().solve_power(nobs1=30, alpha=0.05, power=0.8), rel=1e-5
    )
    ceph = recompute("C2")
    interval = stats.ttest_1samp([65.7, 48.1, ceph["third"]], 0).confidence_interval()
    assert (ceph["low"], ceph["high"]) == pytest.approx(interval)


def test_the_smallest_zfs_run_lies_within_its_bounds() -> None:
    rng = np.random.default_rng(9)
    largest, middle = rng.uniform(171.45, 171.55, 200_000), rng.uniform(150, 171.55, 200_000)
    smallest = 3 * rng.uniform(167.5, 168.5, 200_000) - largest - middle
    kept = smallest[(smallest <= middle) & (middle <= largest)]
    found = recompute("C1")
    assert found["low"] <= kept.min() < found["low"] + 0.3
    assert found["high"] - 0.3 < kept.max() <= found["high"]
