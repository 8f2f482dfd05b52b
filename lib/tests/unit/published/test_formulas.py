"""The recomputations against digits that were worked out by hand, independently of the code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from infrabench.analysis.published.findings import audit, recompute
from infrabench.analysis.published.formulas import detectable_effect, evaluate, look_up
from infrabench.analysis.published.printed_numbers import ENGINES, numbers
from infrabench.analysis.published.score import composite, order, orders, versions
from infrabench.core import SchemaError

# finding, name, value to the digits given (absolute tolerance: half of the last)
BY_HAND = [
    ("A1", {"docker": "0.9973", "lxc": "0.99906", "lxd": "0.99953", "docker_slip": "0.73", "lxc_slip": "0.906"}),
    ("A2", {"lxd": "114.66", "lxc": "114.65", "docker": "101.06", "rate": "94.27"}),
    ("A2", {"loss_table": "20.0", "loss_rate": "20.5", "loss_text": "17.3", "least": "15", "most": "28"}),
    ("A3", {"native": "112.05", "share": "79.38"}),
    ("A4", {"score": "0.8354"}),
    ("A5", {"over_lxc_low": "3.0", "over_lxc_high": "3.3", "relative_low": "3.4", "relative_high": "3.7"}),
    ("A5", {"published_over_lxc": "4.0", "over_docker_low": "2.3", "over_docker_high": "4.7"}),
    ("A6", {"percent": "81.75", "rounded": "81.8", "truncated": "81.7"}),
    ("A7", {"weight": "50", "three_docker": "91.9", "three_lxc": "92.0", "three_lxd": "94.3"}),
    ("A7", {"geometric_docker": "87.8", "geometric_lxc": "88.2", "geometric_lxd": "91.4"}),
    ("A8", {"overhead": "47.42", "change": "-47.42"}),
    ("A9", {"docker_rate": "42.7", "lxc_rate": "79.1", "lxd_rate": "90.2", "lxd_speedup": "1.4742"}),
    ("A9", {"docker_time": "-20.5", "lxc_time": "-25.4", "lxd_time": "-24.8"}),
    ("A10", {"native": "66.80", "docker": "46.83", "lxc": "37.29", "lxd": "35.125", "rate": "7.5"}),
    ("A11", {"relative": "0.74", "points": "0.99"}),
    ("A12", {"wins": "2", "metrics": "3"}),
    ("A13", {"docker_low": "3.26", "docker_high": "6.00", "lxc_low": "0.06", "lxc_high": "3.75"}),
    ("A13", {"lxd_low": "0.16", "lxd_high": "11.19", "lxc_times": "15", "lxd_times": "32"}),
    ("A15", {"count": "2"}),
    ("A16", {"largest": "2.09", "smallest": "1.85"}),
    ("A17", {"all": "0.24", "nearest": "0.06"}),
    ("A18", {"value": "1.85"}),
    ("A19", {"volume": "12.5", "total": "1.67", "each": "16.7", "link": "1"}),
    ("A20", {"read": "12", "ram": "0.9", "ftp": "14.2", "bus": "12.8"}),
    ("A21", {"ratio": "1"}),
    ("A22", {"over": "1.5"}),
    ("A23", {"mean": "0.1370", "by_score": "27"}),
    ("A24", {"lxd": "0.064", "docker": "0.37"}),
    ("A25", {"mb": "113.9", "mib": "119.4"}),
    ("A34", {"rows": "4", "tests": "3"}),
    ("B1", {"same_points": "4.28", "two_points": "-1.09", "same_percent": "10"}),
    ("B2", {"same_each": "3.9", "two_each": "-5.4", "same_flannel": "2.803", "same_cilium": "2.911"}),
    ("B2", {"two_flannel": "33.35", "two_cilium": "31.55"}),
    ("B4", {"low": "1.00", "high": "1.57", "step": "0.001"}),
    ("B5", {"flannel": "1.6", "cilium": "4.5"}),
    ("B6", {"same": "5.9", "two": "3.4", "two_apart": "0.05"}),
    ("C1", {"low": "159.4", "high": "167.0"}),
    ("C2", {"third": "48.2", "third_low": "48.05", "third_high": "49.8", "sd": "10.1", "cov": "19"}),
    ("C2", {"low": "28.8", "high": "79.2", "ratio": "3.11"}),
    ("C3", {"before": "64", "after": "61", "digits": "64", "common": "61", "lacking": "3"}),
    ("C5", {"read_ceph": "0.820", "read_zfs": "0.394", "write_ceph": "2.64", "write_zfs": "0.476"}),
    ("C5", {"write_times": "5.6", "read_times": "2.1", "write_speed": "7.0"}),
    ("C6", {"read": "7.1", "write": "3.6", "write_low": "3.05", "write_high": "4.15"}),
    ("C8", {"zfs_iops": "1.23", "zfs_copy": "1.57"}),
    ("C9", {"times_20": "21", "times_40": "22.8", "ceph_20": "5.29", "ceph_40": "4.87", "zfs_20": "111"}),
    ("C9", {"zfs_20_low": "95", "zfs_20_high": "133", "growth": "2.17"}),
    ("C13", {"factor": "2.48", "percent": "47"}),
    ("D1", {"ratio": "1.188"}),
    ("D4", {"bytes": "18.4", "bits": "2.30", "bits_mb": "287.7", "ratio": "0.589"}),
    ("D5", {"kbps": "18414000", "over_high": "184140"}),
    ("D6", {"range": "4.79"}),
    ("D10", {"percent": "7.5"}),
    ("D14", {"cells": "54", "printed": "9", "values": "8", "fall": "41"}),
    ("E8", {"000": "94", "003": "61"}),
]


@pytest.mark.parametrize(("finding", "expected"), BY_HAND, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BY_HAND)])
def test_recomputed_as_by_hand(finding: str, expected: dict[str, str]) -> None:
    found = recompute(finding)
    for name, text in expected.items():
        half = 0.5 * 10.0 ** -len(text.partition(".")[2])
        assert float(found[name]) == pytest.approx(float(text), abs=half * 1.0001), name


def test_recomputed_words_and_every_recomputation_is_checked_here() -> None:
    expected = {
        "A14": {"low": "rate", "high": "time"}, "A18": {"lowest": "LXC"}, "C3": {"foreign": "l"},
        "C6": {"read_fits": "fits", "write_fits": "fits"}, "D6": {"same": "the same digits"},
        "E6": {"rounding": "rounding explains both"}, "E7": {"rounding": "rounding explains it"},
    }  # fmt: skip
    for finding, words in expected.items():
        assert words.items() <= recompute(finding).items()
    same = {"E1", "B11"}  # as another finding
    assert {name for name, _ in BY_HAND} | set(expected) | same == {name for name in audit()["id"] if recompute(name)}


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
