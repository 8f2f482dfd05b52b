from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from infrabench.core import InfrabenchError, SchemaError
from infrabench.published import (
    AGREES_DIRECTION,
    AGREES_SIZE,
    COLUMNS,
    CONTAINERS,
    DISAGREES,
    NOT_COMPARABLE,
    SYSTEMS,
    TARGETS,
    against,
    agreement,
    prediction,
    published,
)
from infrabench.stats import contrasts
from infrabench.tidy import tidy
from tests.analysis_fixtures import MARGINS, table_of, write_session

# published-results.md, E.3: recomputed by hand from the percentages in the text
EXPECTED = {
    ("stream", "copy_B_per_s"): {"docker": 0.9752, "lxc": 0.9725, "lxd": 0.9903},
    ("iozone", "write_B_per_s"): {"docker": 0.7938, "lxc": 0.770, "lxd": 0.8354},
    ("iozone", "read_B_per_s"): {"docker": 0.8222, "lxc": 0.8052, "lxd": 0.8541},
    ("sysbench-cpu", "events_per_s"): {"docker": 1 / 1.0027, "lxc": 1 / 1.00094, "lxd": 1 / 1.00047},
    ("mail", "messages_per_min"): {"docker": 0.9791, "lxc": 0.9815, "lxd": 0.9809},
    ("ftp", "total_s"): {"docker": 0.701, "lxc": 0.5582, "lxd": 0.5258},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = write_session(
        tmp_path_factory.mktemp("runs") / "s", blocks=6, systems=("native", *SYSTEMS), not_run={}, faults=False
    )
    return against(contrasts(tidy(folder), "native", MARGINS))


def test_the_file_is_complete_and_typed() -> None:
    table = published()
    assert len(table) == 362
    assert tuple(table.columns) == (*COLUMNS, "printed")
    assert table["study"].nunique() == 5
    assert (table["quote_location"] != "").all()
    assert set(published(CONTAINERS)["study"]) == {CONTAINERS}
    assert published("telkom-2020").query("metric == 'sysbench_version'")["printed"].iloc[0] == "0.4.12"


def test_unknown_study_absent_and_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="there are ittp-2023"):
        published("nobody")
    with pytest.raises(InfrabenchError, match="is missing"):
        published(path=tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match="columns are"):
        published(path=tmp_path / "p.csv")
    row = dict.fromkeys(COLUMNS, "x") | {"unit": "s", "value": "fast"}
    pd.DataFrame([row]).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(SchemaError, match="'fast' has a unit"):
        published(path=tmp_path / "p.csv")


@pytest.mark.parametrize("key", EXPECTED)
def test_published_ratios_have_the_right_direction(found: pd.DataFrame, key: tuple[str, str]) -> None:
    rows = found[(found["workload"] == key[0]) & (found["metric"] == key[1])]
    for system, ratio in EXPECTED[key].items():
        row = rows[rows["system"] == system].iloc[0]
        assert (row["published_low"], row["published_high"]) == pytest.approx((ratio, ratio))
        assert row["published_n"] == 30
        assert row["where"]


def test_ranges_over_load_levels(found: pd.DataFrame) -> None:
    rows = found[(found["workload"] == "web") & (found["system"] == "docker")]
    total, rate = (rows[rows["metric"] == metric].iloc[0] for metric in ("total_s", "requests_per_s"))
    assert (total["published_low"], total["published_high"]) == pytest.approx((1.0337, 1.0638))
    assert (rate["published_low"], rate["published_high"]) == pytest.approx((0.941, 0.969))


def test_only_the_single_thread_is_compared_for_cpu(found: pd.DataFrame) -> None:
    assert set(found.loc[found["workload"] == "sysbench-cpu", "scenario"]) == {"threads=1"}


def test_every_target_has_its_printed_numbers() -> None:
    numbers = published(CONTAINERS)
    for target in TARGETS:
        for system in SYSTEMS:
            mine = numbers[(numbers["workload"] == target.printed[0]) & (numbers["platform"] == system)]
            assert (mine["metric"] == target.printed[1]).any(), (target.printed, system)


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


def test_what_cannot_be_compared_says_why() -> None:
    kind = {"workload": "iozone", "metric": "read_B_per_s", "unit": "B/s"}
    failed = against(contrasts(table_of({"native": [1.0, 2.0], "docker": [None, None]}, **kind), "native", {"": 0.02}))
    assert list(failed["agreement"]) == [NOT_COMPARABLE]
    assert failed["note"].iloc[0].startswith("no ok trial of docker; 82.22 %")
    other = against(contrasts(table_of({"lxc": [1.0, 2, 3], "docker": [2.0, 3, 4]}, **kind), "lxc", {"": 0.02}))
    assert list(other["agreement"]) == [NOT_COMPARABLE]
    assert other["note"].iloc[0].startswith("our baseline is lxc")
