from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.published.comparison import (
    AGREES_DIRECTION,
    AGREES_SIZE,
    DISAGREES,
    NOT_COMPARABLE,
    against,
    agreement,
    prediction,
    targets,
    unmeasured,
)
from infrabench.analysis.published.derived_metrics import AVERAGE
from infrabench.analysis.published.printed_numbers import ENGINES, join_notes
from infrabench.analysis.tidy import tidy
from infrabench.core import SchemaError
from infrabench.stats import contrasts
from tests.support.analysis_fixtures import MARGINS, table_of, write_session

# recomputed by hand from the percentages in the text: equal ends, or the ends of a range over load levels
EXPECTED = {
    ("stream", AVERAGE): {"docker": 0.9752, "lxc": 0.9725, "lxd": 0.9903},
    ("iozone", "write_B_per_s"): {"docker": 0.7938, "lxc": 0.770, "lxd": 0.8354},
    ("iozone", "read_B_per_s"): {"docker": 0.8222, "lxc": 0.8052, "lxd": 0.8541},
    ("sysbench-cpu", "events_per_s"): {"docker": 1 / 1.0027, "lxc": 1 / 1.00094, "lxd": 1 / 1.00047},
    ("mail", "messages_per_min"): {"docker": 0.9791, "lxc": 0.9815, "lxd": 0.9809},
    ("ftp", "total_s"): {"docker": 0.701, "lxc": 0.5582, "lxd": 0.5258},
    ("web", "total_s"): {"docker": (1.0337, 1.0638)},
    ("web", "requests_per_s"): {"docker": (0.941, 0.969)},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = write_session(
        tmp_path_factory.mktemp("runs") / "s", blocks=6, systems=("native", *ENGINES), not_run={}, faults=False
    )
    rows = contrasts(tidy(folder), "native", MARGINS)
    average = rows[rows["metric"] == "copy_B_per_s"].assign(metric=AVERAGE)
    return against(pd.concat([rows, average], ignore_index=True))


@pytest.mark.parametrize("key", EXPECTED)
def test_published_ratios_have_the_right_direction(found: pd.DataFrame, key: tuple[str, str]) -> None:
    rows = found[(found["workload"] == key[0]) & (found["metric"] == key[1])]
    for system, ratio in EXPECTED[key].items():
        row = rows[rows["system"] == system].iloc[0]
        ends = ratio if isinstance(ratio, tuple) else (ratio, ratio)
        assert (row["published_low"], row["published_high"]) == pytest.approx(ends)
        assert row["published_n"] == 30
        assert row["where"]


def test_only_the_single_thread_is_compared_for_cpu(found: pd.DataFrame) -> None:
    assert set(found.loc[found["workload"] == "sysbench-cpu", "scenario"]) == {"threads=1"}


def test_every_target_has_its_printed_numbers_and_those_of_the_other_papers_are_as_by_hand() -> None:
    table = {(each.key, each.system): each for each in targets()}
    assert len(table) == len(targets())
    for target in targets():
        low, high = target.columns["published_low"], target.columns["published_high"]
        assert 0 < target.rounded.low < low <= high < target.rounded.high
        assert "{" not in target.columns["note"]
    expected = {
        ("B.rate.same-node", "cilium"): 1.0588,
        ("B.rate.two-nodes", "cilium"): 1.0338,
        ("B.jitter.two-nodes", "cilium"): 0.4615,
        ("B.loss.same-node", "cilium"): 1.219,
        ("C.iometer.seq-write.iops", "ceph"): 1 / 8.23,
        ("C.iometer.random-read.iops", "ceph"): 1 / 2.19,
        ("C.copy.write.rate", "ceph"): 1 / 6.98,
        ("C.oltp.rate", "ceph"): 1 / 3.11,
        ("C.rebuild.40-GB.time", "ceph"): 22.83,
        ("D.throughput", "kata"): 0.589,
        ("D.memory.copy", "crio"): 1.075,
    }
    for key, ratio in expected.items():
        assert table[key].columns["published_low"] == pytest.approx(ratio, rel=1e-3), key
    assert table["A.iozone.read.ratio", "docker"].columns["grade"] == "poor"
    assert {each.columns["grade"] for each in targets()} == {"good", "fair", "poor", "unusable"}


def our_row(
    workload: str, metric: str, scenario: str, ratio: float, *, half: float = 0.01, n: int = 30, **more: object
) -> dict[str, object]:
    """Return a contrast of ours, of Cilium to Flannel, whose interval reaches `half` of its ratio to each side."""
    return {
        "workload": workload, "metric": metric, "scenario": scenario, "system": "cilium", "baseline": "flannel",
        "better": "", "level": np.nan, "margin": np.nan, "pair_unit": "blocks", "n_pairs": n, "ratio": ratio,
        "ratio_low": (1 - half) * ratio, "ratio_high": (1 + half) * ratio, "reason": "", **more,
    }  # fmt: skip


def compared(*rows: dict[str, object]) -> pd.DataFrame:
    return against(pd.DataFrame(list(rows)))


def cni_row(scenario: str, metric: str, ratio: float, system: str = "cilium") -> dict[str, object]:
    return our_row("iperf3", metric, scenario, ratio, system=system)


def test_the_numbers_of_the_cni_paper_stand_beside_the_metrics_that_they_are() -> None:
    given = [
        cni_row("tcp same-node", "throughput_bit_per_s", 1.05),
        cni_row("tcp two-nodes", "throughput_bit_per_s", 0.5),
        cni_row("tcp two-nodes", "cpu_percent", 0.97),
        *(cni_row(f"udp-{rate} two-nodes", "jitter_s", 0.6) for rate in ("100M", "1G", "max")),
        cni_row("udp-100M same-node", "loss_percent", 1.2),
    ]
    found = compared(*given).set_index(["scenario", "metric"])
    assert len(found) == len(given)
    rate = found.loc[("tcp same-node", "throughput_bit_per_s")]
    assert rate["published_low"] == pytest.approx(16.2 / 15.3)
    assert rate["agreement"] == AGREES_SIZE
    assert found.loc[("tcp two-nodes", "throughput_bit_per_s"), "agreement"] == DISAGREES
    jitter = found.xs("jitter_s", level="metric")
    assert set(jitter["agreement"]) == {AGREES_DIRECTION}  # by direction, whatever the size
    assert jitter["published_low"].to_numpy() == pytest.approx(0.012 / 0.026)
    assert jitter["note"].str.startswith("printed as latency, is jitter (B3)").all()


@pytest.mark.parametrize(
    ("scenario", "metric", "why"),
    [("udp-1G same-node", "loss_percent", "offered rate"), ("tcp same-node", "cpu_percent", "which node")],
)
def test_a_published_number_without_a_definition_is_shown_and_never_compared(
    scenario: str, metric: str, why: str
) -> None:
    for ratio in (0.5, 1.0, 1.2, 2.0):
        row = compared(cni_row(scenario, metric, ratio)).iloc[0]
        assert row["agreement"] == NOT_COMPARABLE
        assert np.isnan(row["predicted_low"])
        assert why in row["note"]


@pytest.mark.parametrize(
    "way", ["tcp second two-nodes", "tcp plain same-node", "tcp-4 two-nodes", "tcp policy two-nodes"]
)
def test_what_the_cni_paper_did_not_measure_has_no_published_number(way: str) -> None:
    assert compared(cni_row(way, "throughput_bit_per_s", 1.05)).empty
    assert compared(cni_row("tcp two-nodes", "throughput_bit_per_s", 2.0, "host")).empty


def store_row(workload: str, metric: str, scenario: str, ratio: float, **more: object) -> dict[str, object]:
    return our_row(workload, metric, scenario, ratio, half=0.1, n=6, **{"system": "ceph", "baseline": "zfs", **more})  # type: ignore[arg-type]


def test_the_numbers_of_the_storage_paper_are_turned_to_ceph_over_zfs() -> None:
    given = [
        store_row("fio-4k", "iops", "random read default", 92.7 / 203),
        store_row("fio-4k", "iops", "random write strict", 0.9, ratio_low=0.8, ratio_high=1.02),
        store_row("file-copy", "write_B_per_s", "default", 0.5),
        store_row("oltp", "transactions_per_s", "read-write strict", 54 / 168),
        store_row("rebuild", "rebuild_s", "2 GB default", 9.0),
        store_row("rebuild", "rebuild_s", "20 GB default", 21.0),
    ]
    other = [
        store_row("oltp", "transactions_per_s", "read-only default", 0.5),
        store_row("fio-4k", "latency_p99_s", "random read default", 0.5),
        store_row("rebuild", "rebuild_s", "256 MB open", 9.0),
    ]
    found = compared(*given, *other).set_index("scenario")
    assert len(found) == len(given)
    assert found.loc["random read default", "published_low"] == pytest.approx(92.7 / 203)
    assert found.loc["random read default", "agreement"] == AGREES_SIZE
    assert found.loc["random write strict", "agreement"] == NOT_COMPARABLE  # by direction, and ours has none
    assert found.loc["default", "agreement"] == AGREES_DIRECTION
    assert found.loc["read-write strict", "agreement"] == AGREES_SIZE
    assert found.loc["20 GB default", "agreement"] == AGREES_SIZE
    assert found.loc["2 GB default", "published_low"] == 21.0
    assert found["note"].str.contains("how ZFS reached the compute node is not stated (C12)", regex=False).all()
    assert (found["note"].str.contains("(C8)", regex=False) == ~found.index.str.contains("GB|random read")).all()


@pytest.mark.parametrize(
    ("label", "word", "said"),
    [
        ("zfs", AGREES_SIZE, "number of runs"),
        ("zfs (user space)", AGREES_DIRECTION, "ours is zfs (user space): by direction alone; "),
        ("zfs (emulated)", NOT_COMPARABLE, "zfs (emulated): an emulator's speed; "),
        ("zfs (emulated, user space)", NOT_COMPARABLE, "zfs (emulated, user space): an emulator's speed; "),
    ],
)
def test_a_system_that_is_not_the_published_one_is_compared_by_direction_at_most(
    label: str, word: str, said: str
) -> None:
    found = compared(store_row("fio-4k", "iops", "random read default", 92.7 / 203, baseline=label)).iloc[0]
    assert found["agreement"] == word
    assert found["note"].startswith(said)


def test_a_study_with_another_baseline_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = replace(
        next(t for t in targets() if t.key == "B.rate.same-node"), workload="iperf", metric="bit_per_s", scenarios=""
    )
    monkeypatch.setattr("infrabench.analysis.published.comparison.targets", lambda: (ours,))
    row = our_row("iperf", "bit_per_s", "same", 1.05, ratio_low=1.04, ratio_high=1.06)
    found = compared(row).iloc[0]
    assert found["published_n"] == "several (beberapa kali)"
    assert found["agreement"] == AGREES_SIZE
    # without a stated number of runs theirs counts as one, so the interval is sqrt(31) times as wide as ours
    assert np.log(found["predicted_high"] / 1.05) == pytest.approx(np.sqrt(31) * np.log(1.06 / 1.05))
    other = compared(row | {"baseline": "calico"}).iloc[0]
    assert other["agreement"] == NOT_COMPARABLE
    assert other["note"].startswith("our baseline is calico, the published one flannel")


@pytest.mark.parametrize(
    ("ours", "theirs", "use", "word"),
    [
        ((0.98, 0.97, 0.99), (0.985, 0.985), "size", AGREES_SIZE),
        ((0.98, 0.97, 0.99), (0.70, 0.971), "size", AGREES_SIZE),  # a range that reaches into the prediction
        ((0.98, 0.97, 0.99), (0.70, 0.70), "size", AGREES_DIRECTION),
        ((0.98, 0.97, 0.99), (0.985, 0.985), "direction", AGREES_DIRECTION),
        ((1.02, 1.01, 1.03), (0.70, 0.70), "size", DISAGREES),
        ((1.02, 1.01, 1.03), (0.70, 0.70), "direction", DISAGREES),
        ((1.00, 0.99, 1.01), (0.70, 0.70), "size", DISAGREES),
        ((1.00, 0.99, 1.01), (0.70, 0.70), "direction", NOT_COMPARABLE),
        ((1.20, 1.10, 1.30), (1.9, 1.9), "size", AGREES_DIRECTION),
    ],
)
def test_words(ours: tuple[float, float, float], theirs: tuple[float, float], use: str, word: str) -> None:
    row = SimpleNamespace(ratio=ours[0], ratio_low=ours[1], ratio_high=ours[2])
    assert agreement(row, theirs, prediction(*ours, 30, 30), use) == word  # type: ignore[arg-type]


def test_prediction_holds_a_second_campaign_in_95_percent() -> None:
    rng = np.random.default_rng(21)
    inside = 0
    for _ in range(2000):
        ours, theirs = rng.normal(0, 0.02, (2, 30))
        half = 2.045 * ours.std(ddof=1) / np.sqrt(30)
        ends = (float(np.exp(ours.mean() - half)), float(np.exp(ours.mean() + half)))
        low, high = prediction(float(np.exp(ours.mean())), *ends, 30, 30)
        inside += low <= np.exp(theirs.mean()) <= high
    assert 0.9335 <= inside / 2000 <= 0.9655


def test_a_printed_number_stands_for_what_rounds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [t for t in targets() if t.key == "A.iozone.write.ratio"]
    ours = tuple(replace(each, workload="disk", metric="write") for each in every)
    monkeypatch.setattr("infrabench.analysis.published.comparison.targets", lambda: ours)
    row = our_row("disk", "write", "s", 0.7745, half=1e-4, system="lxc", baseline="native")
    assert compared(row)["agreement"].iloc[0] == AGREES_SIZE  # 77 % is printed
    assert compared(row | {"system": "docker"})["agreement"].iloc[0] == AGREES_DIRECTION  # 79.38 %


def test_what_cannot_be_compared_says_why() -> None:
    kind = {"workload": "iozone", "metric": "read_B_per_s", "unit": "B/s"}
    failed = against(contrasts(table_of({"native": [1.0, 2.0], "docker": [None, None]}, **kind), "native", {"": 0.02}))
    assert list(failed["agreement"]) == [NOT_COMPARABLE]
    assert failed["note"].iloc[0].startswith("no ok trial of docker; 82.22 %")
    other = against(contrasts(table_of({"lxc": [1.0, 2, 3], "docker": [2.0, 3, 4]}, **kind), "lxc", {"": 0.02}))
    assert list(other["agreement"]) == [NOT_COMPARABLE]
    assert other["note"].iloc[0].startswith("our baseline is lxc")


def test_what_is_not_comparable_has_a_reason_and_nothing_else_has(found: pd.DataFrame) -> None:
    known = compared(cni_row("tcp two-nodes", "cpu_percent", 0.97), cni_row("udp-1G two-nodes", "jitter_s", 1.0))
    both = pd.concat([found, known], ignore_index=True)
    assert ((both["agreement"] == NOT_COMPARABLE) == (both["reason"] != "")).all()
    told = known.set_index("metric")["reason"]
    assert told["cpu_percent"] == "which node, over what time and what is whole is not stated (B12)"
    assert told["jitter_s"].startswith(
        "compared by direction alone, for its paper contradicts it, and our interval inc"
    )


def test_what_no_contrast_stands_beside_is_named_with_its_printed_ratio(found: pd.DataFrame) -> None:
    left = unmeasured(found, "A", ("native", "docker", "lxd (emulated)"))
    assert set(left["system"]) == {"docker", "lxd (emulated)"}
    assert set(left[left["system"] == "docker"]["metric"]) == {"transfer_B_per_s"}  # the one that was not measured
    row = left[(left["system"] == "docker")].iloc[0]
    assert (row["published_low"], row["scenario"], row["n_pairs"]) == (pytest.approx(1.258), "500 MB file", 0)
    assert row["agreement"] == NOT_COMPARABLE
    assert unmeasured(found, "D", ("containerd-runc",)).empty


def test_a_note_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="there is no note 'disk': there are read, write"):
        join_notes(["read", "disk"], {"read": "a", "write": "b"})
    assert join_notes(["read", "write"], {"read": "a", "write": "b"}) == "a; b"
