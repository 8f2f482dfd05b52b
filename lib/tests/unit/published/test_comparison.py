from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.published import comparison
from infrabench.analysis.published.comparison import AGREES_DIRECTION, AGREES_SIZE, DISAGREES, NOT_COMPARABLE, ONE_RUN
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
    return comparison.against(pd.concat([rows, average], ignore_index=True))


@pytest.mark.parametrize("key", EXPECTED)
def test_published_ratios_have_the_right_direction(found: pd.DataFrame, key: tuple[str, str]) -> None:
    rows = found[(found["workload"] == key[0]) & (found["metric"] == key[1])]
    for system, ratio in EXPECTED[key].items():
        row = rows[rows["system"] == system].iloc[0]
        ends = ratio if isinstance(ratio, tuple) else (ratio, ratio)
        assert (row["published_low"], row["published_high"]) == pytest.approx(ends)
        assert row["published_n"] == 30
        assert row["where"]
    if key[0] == "sysbench-cpu":
        assert set(rows["scenario"]) == {"threads=1"}


def test_every_target_has_its_printed_numbers_and_those_of_the_other_papers_are_as_by_hand() -> None:
    table = {(each.key, system): each for of in comparison.targets() for system, each in of.items()}
    assert len(table) == sum(map(len, comparison.targets())) == 51
    for target in table.values():
        low, high = target.columns["published_low"], target.columns["published_high"]
        assert 0 < target.rounded.low < low <= high < target.rounded.high
        assert "{" not in target.columns["note"]
    expected = {
        ("B.loss.same-node", "cilium"): 1.219,
        ("C.iometer.seq-write.iops", "ceph"): 1 / 8.23,
        ("C.rebuild.40-GB.time", "ceph"): 22.83,
        ("D.throughput", "kata"): 0.589,
        ("D.memory.copy", "crio"): 1.075,
    }
    for key, ratio in expected.items():
        assert table[key].columns["published_low"] == pytest.approx(ratio, rel=1e-3), key
    assert table["A.iozone.read.ratio", "docker"].columns["grade"] == "poor"
    assert {each.columns["grade"] for each in table.values()} == {"good", "fair", "poor", "unusable"}


def our_row(
    case: str, ratio: float, *, system: str = "cilium", baseline: str = "flannel", half: float = 0.01, n: int = 30
) -> dict[str, object]:
    """Return a contrast of ours, of `case` (workload, metric, scenario), that reaches `half` of its ratio each way."""
    workload, metric, scenario = case.split(" ", 2)
    return {
        "workload": workload, "metric": metric, "scenario": scenario, "system": system, "baseline": baseline,
        "better": "", "level": np.nan, "margin": np.nan, "pair_unit": "blocks", "n_pairs": n, "ratio": ratio,
        "p_method": None, "ratio_low": (1 - half) * ratio, "ratio_high": (1 + half) * ratio, "reason": "",
    }  # fmt: skip


def store_row(case: str, ratio: float, baseline: str = "zfs") -> dict[str, object]:
    return our_row(case, ratio, system="ceph", baseline=baseline, half=0.1, n=6)


def compared(*rows: dict[str, object]) -> pd.DataFrame:
    return comparison.against(pd.DataFrame(list(rows)))


@pytest.mark.parametrize(
    ("row", "published", "word", "said"),
    [
        (our_row("iperf3 throughput_bit_per_s tcp same-node", 1.05), 16.2 / 15.3, AGREES_SIZE, "versions, protocol"),
        (our_row("iperf3 throughput_bit_per_s tcp two-nodes", 0.5), 1.0338, DISAGREES, "versions, protocol"),
        # by direction, whatever the size, at every rate
        (our_row("iperf3 jitter_s udp-100M two-nodes", 0.6), 0.012 / 0.026, AGREES_DIRECTION, "printed as latency, is"),
        (our_row("iperf3 jitter_s udp-1G two-nodes", 0.6), 0.012 / 0.026, AGREES_DIRECTION, "printed as latency, is"),
        (our_row("iperf3 jitter_s udp-max two-nodes", 0.6), 0.012 / 0.026, AGREES_DIRECTION, "printed as latency, is"),
        (store_row("fio-4k iops random read default", 92.7 / 203), 92.7 / 203, AGREES_SIZE, "number of runs"),
        # by direction, and ours has none
        (store_row("fio-4k iops random write strict", 0.95), 41 / 146, NOT_COMPARABLE, "compared by direction"),
        (store_row("file-copy write_B_per_s default", 0.5), 1 / 6.98, AGREES_DIRECTION, "3 runs"),
        (store_row("oltp transactions_per_s read-write strict", 54 / 168), 54 / 168, AGREES_SIZE, "3 runs"),
        (store_row("rebuild rebuild_s 2 GB default", 9.0), 21.0, AGREES_DIRECTION, "recovery settings"),
        (store_row("rebuild rebuild_s 20 GB default", 21.0), 21.0, AGREES_SIZE, "recovery settings"),
        # a system that is not the published one is compared by direction at most
        (store_row("fio-4k iops random read default", 92.7 / 203, "zfs (user space)"), 92.7 / 203, AGREES_DIRECTION,
         "ours is zfs (user space): by direction alone; "),
        (store_row("fio-4k iops random read default", 92.7 / 203, "zfs (emulated)"), 92.7 / 203, NOT_COMPARABLE,
         "zfs (emulated): an emulator's speed; "),
        (store_row("fio-4k iops random read default", 92.7 / 203, "zfs (emulated, user space)"), 92.7 / 203,
         NOT_COMPARABLE, "zfs (emulated, user space): an emulator's speed; "),
        (our_row("iperf3 throughput_bit_per_s tcp same-node", 1.05, baseline="calico"), 16.2 / 15.3, NOT_COMPARABLE,
         "our baseline is calico, the published one flannel"),
    ],
)  # fmt: skip
def test_a_contrast_stands_beside_the_published_ratio_that_it_is(
    row: dict[str, object], published: float, word: str, said: str
) -> None:
    found = compared(row).iloc[0]
    assert found["published_low"] == pytest.approx(published, rel=1e-2)
    assert found["agreement"] == word
    assert found["note"].startswith(said)
    if row["system"] == "ceph":
        assert "how ZFS reached the compute node is not stated (C12)" in found["note"]
        assert ("(C8)" in found["note"]) == (row["workload"] in ("oltp", "file-copy") or "write" in row["scenario"])


@pytest.mark.parametrize(
    ("case", "why"),
    [("iperf3 loss_percent udp-1G same-node", "offered rate"), ("iperf3 cpu_percent tcp same-node", "which node")],
)
def test_a_published_number_without_a_definition_is_shown_and_never_compared(case: str, why: str) -> None:
    found = compared(*(our_row(case, ratio) for ratio in (0.5, 1.0, 1.2, 2.0)))
    assert list(found["agreement"]) == [NOT_COMPARABLE] * 4
    assert found["predicted_low"].isna().all()
    assert found["note"].str.contains(why).all()


def test_what_a_paper_did_not_measure_has_no_published_number() -> None:
    ways = ("tcp second two-nodes", "tcp plain same-node", "tcp-4 two-nodes", "tcp policy two-nodes")
    assert compared(
        *(our_row(f"iperf3 throughput_bit_per_s {way}", 1.05) for way in ways),
        our_row("iperf3 throughput_bit_per_s tcp two-nodes", 2.0, system="host"),
        *(our_row(f"web {metric} users={users}", 1.05, system="docker", baseline="native")
          for metric in ("total_s", "requests_per_s") for users in (10, 500, 9000, 10000)),
        store_row("oltp transactions_per_s read-only default", 0.5),
        store_row("fio-4k latency_p99_s random read default", 0.5),
        store_row("rebuild rebuild_s 256 MB open", 9.0),
    ).empty  # fmt: skip


def test_without_a_stated_number_of_runs_theirs_counts_as_one() -> None:
    opposite = compared(our_row("iperf3 throughput_bit_per_s tcp same-node", 0.985, half=0.013)).iloc[0]
    assert (opposite["agreement"], opposite["reason"].startswith(ONE_RUN)) == (NOT_COMPARABLE, True)
    found = compared(our_row("iperf3 throughput_bit_per_s tcp same-node", 1.05)).iloc[0]
    assert found["published_n"] == "several (beberapa kali)"
    assert np.log(found["predicted_high"] / 1.05) == pytest.approx(np.sqrt(31) * np.log(1.01))


@pytest.mark.parametrize(("unit", "theirs", "word"), [("blocks", 30, DISAGREES), ("deployments", 1, NOT_COMPARABLE)])
def test_their_runs_are_of_one_deployment_where_ours_are_the_pairs(unit: str, theirs: int, word: str) -> None:
    """Docker is printed 0.27 % slower, from 30 runs."""
    ours = our_row("sysbench-cpu events_per_s threads=1", 1.01, system="docker", baseline="native", half=0.005, n=6)
    found = compared(ours | {"pair_unit": unit}).iloc[0]
    assert found["published_n"] == 30
    assert np.log(found["predicted_high"] / 1.01) == pytest.approx(np.sqrt(1 + 6 / theirs) * np.log(1.005))
    assert found["agreement"] == word
    assert found["reason"].startswith(ONE_RUN) == (word == NOT_COMPARABLE)


@pytest.mark.parametrize(
    ("ours", "theirs", "use", "n", "word"),
    [
        ((0.98, 0.97, 0.99), (0.985, 0.985), "size", 30, AGREES_SIZE),
        ((0.98, 0.97, 0.99), (0.70, 0.971), "size", 30, AGREES_SIZE),  # a range that reaches into the prediction
        ((0.98, 0.97, 0.99), (0.70, 0.70), "size", 30, AGREES_DIRECTION),
        ((0.98, 0.97, 0.99), (0.985, 0.985), "direction", 30, AGREES_DIRECTION),
        ((1.02, 1.01, 1.03), (0.70, 0.70), "size", 30, DISAGREES),
        ((1.02, 1.01, 1.03), (0.70, 0.70), "direction", 30, DISAGREES),
        ((1.00, 0.99, 1.01), (0.70, 0.70), "size", 30, DISAGREES),
        ((1.00, 0.99, 1.01), (0.70, 0.70), "direction", 30, NOT_COMPARABLE),
        ((1.20, 1.10, 1.30), (1.9, 1.9), "size", 30, AGREES_DIRECTION),
        ((0.98, 0.97, 0.99), (1.01, 1.02), "size", 1, NOT_COMPARABLE),  # one run says the opposite
        ((0.98, 0.97, 0.99), (0.999, 1.02), "size", 1, AGREES_SIZE),
        ((0.98, 0.961, 0.999), (1.003, 1.003), "size", 30, AGREES_SIZE),  # another campaign of theirs may say so
    ],
)
def test_words(ours: tuple[float, float, float], theirs: tuple[float, float], use: str, n: int, word: str) -> None:
    row = SimpleNamespace(ratio=ours[0], ratio_low=ours[1], ratio_high=ours[2])
    assert comparison.agreement(row, theirs, comparison.prediction(*ours, 30, n), use, n)[0] == word  # type: ignore[arg-type]


def test_prediction_holds_a_second_campaign_in_95_percent() -> None:
    rng = np.random.default_rng(21)
    inside = 0
    for _ in range(2000):
        ours, theirs = rng.normal(0, 0.02, (2, 30))
        half = 2.045 * ours.std(ddof=1) / np.sqrt(30)
        ends = (float(np.exp(ours.mean() - half)), float(np.exp(ours.mean() + half)))
        low, high = comparison.prediction(float(np.exp(ours.mean())), *ends, 30, 30)
        inside += low <= np.exp(theirs.mean()) <= high
    assert 0.9335 <= inside / 2000 <= 0.9655


def test_a_printed_number_stands_for_what_rounds_to_it() -> None:
    row = our_row("iozone write_B_per_s s", 0.7745, half=1e-4, system="lxc", baseline="native")
    assert compared(row)["agreement"].iloc[0] == AGREES_SIZE  # 77 % is printed
    assert compared(row | {"system": "docker"})["agreement"].iloc[0] == AGREES_DIRECTION  # 79.38 %


def test_what_is_not_comparable_has_a_reason_and_nothing_else_has(found: pd.DataFrame) -> None:
    known = compared(
        our_row("iperf3 cpu_percent tcp two-nodes", 0.97), our_row("iperf3 jitter_s udp-1G two-nodes", 1.0)
    )
    kind = {"workload": "iozone", "metric": "read_B_per_s", "unit": "B/s"}
    failed = comparison.against(
        contrasts(table_of({"native": [1.0, 2.0], "docker": [None, None]}, **kind), "native", {"": 0.02})
    )
    both = pd.concat([found, known, failed], ignore_index=True)
    assert ((both["agreement"] == NOT_COMPARABLE) == (both["reason"] != "")).all()
    assert list(failed["agreement"]) == [NOT_COMPARABLE]
    assert failed["note"].iloc[0].startswith("no ok trial of docker; 82.22 %")
    told = known.set_index("metric")["reason"]
    assert told["cpu_percent"] == "which node, over what time and what is whole is not stated (B12)"
    word = "compared by direction alone, for its paper contradicts it, and our interval includes 1"
    assert told["jitter_s"].startswith(word)


def test_what_no_contrast_stands_beside_is_named_with_its_printed_ratio(found: pd.DataFrame) -> None:
    left = comparison.unmeasured(found, "A", ("native", "docker", "lxd (emulated)"))
    assert set(left["system"]) == {"docker", "lxd (emulated)"}
    assert set(left[left["system"] == "docker"]["metric"]) == {"transfer_B_per_s"}  # the one that was not measured
    row = left[(left["system"] == "docker")].iloc[0]
    assert (row["published_low"], row["scenario"], row["n_pairs"]) == (pytest.approx(1.258), "500 MB file", 0)
    assert row["agreement"] == NOT_COMPARABLE
    assert comparison.unmeasured(found, "D", ("containerd-runc",)).empty


def test_a_note_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError, match="there is no note 'disk': there are read, write"):
        join_notes(["read", "disk"], {"read": "a", "write": "b"})
    assert join_notes(["read", "write"], {"read": "a", "write": "b"}) == "a; b"


def test_a_number_begins_no_longer_one() -> None:
    assert comparison.begins("threads=1", "threads=1")
    assert comparison.begins("random read strict", ("write", "random read"))
    assert comparison.begins("anything", "")
    assert not comparison.begins("threads=16", "threads=1")
    kind = {"workload": "sysbench-cpu", "metric": "events_per_s", "system": "docker", "baseline": "native"}
    rows = [our_row("x x threads=1", 0.9) | kind, our_row("x x threads=16", 0.9) | kind]
    assert list(compared(*rows)["scenario"]) == ["threads=1"]
