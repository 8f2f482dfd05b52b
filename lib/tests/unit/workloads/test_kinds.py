"""Every workload says of each metric what it is: a time, a rate of fixed work or of fixed time, a count, a share."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from infrabench import registry
from infrabench.core import Kind, Measurement
from infrabench.stats.table import kinds
from tests.support.captures import case_folders, read
from tests.support.checks import check_each

PACKAGE = Path(registry.__file__).parent / "workloads"
NAMES = tuple(path.stem.replace("_", "-") for path in sorted(PACKAGE.glob("[!_]*.py")))
UNIT_OF = {"time": {"s"}, "fixed-work rate": {"B/s", "bit/s", "1/s", "1/min"}, "count": {"1"}, "share": {"1", "%"}}
UNIT_OF["fixed-time rate"] = UNIT_OF["fixed-work rate"]
RATES_AND_TIMES = UNIT_OF["time"] | UNIT_OF["fixed-work rate"]


def measured() -> list[tuple[Path, list[Measurement]]]:
    return [
        (path, [Measurement(*row) for row in about["expect"]["measurements"]])
        for path in case_folders()
        if "measurements" in (about := read(path)[1])["expect"]
    ]


def rows(case: str, found: list[Measurement], name: str) -> pd.DataFrame:
    return pd.DataFrame({"workload": name, "scenario": case, "metric": [m.metric for m in found]})


def test_every_metric_is_declared_and_its_unit_fits() -> None:
    def check(case: tuple[Path, list[Measurement]]) -> None:
        path, found = case
        name = path.parent.name
        assert {m.metric for m in found} <= set(registry.metric_kinds(name))
        for measurement, kind in zip(found, kinds(rows(path.name, found, name)), strict=True):
            assert kind in get_args(Kind)
            assert measurement.unit in UNIT_OF.get(kind, {measurement.unit}), measurement
            if kind == "quantity":  # a time or a rate is never merely a quantity
                assert measurement.unit not in RATES_AND_TIMES, measurement

    cases = measured()
    assert {path.parent.name for path, _ in cases} >= {*NAMES}
    check_each(check, cases, lambda case: f"{case[0].parent.name}-{case[0].name}")


def test_what_is_what() -> None:
    for kind, metrics in {
        "fixed-work rate": ("file-copy write_B_per_s", "ftp transfer_B_per_s", "web requests_per_s"),
        "fixed-time rate": ("iperf3 throughput_bit_per_s", "fio-4k iops"),
        "count": ("web failed_requests", "oltp errors", "iperf3 retransmits", "integrity lost_files"),
        "share": ("iperf3 loss_percent", "integrity repaired"),
        "time": ("startup create_s",),
    }.items():
        frame = pd.DataFrame([each.split() for each in metrics], columns=["workload", "metric"]).assign(scenario="x")
        assert kinds(frame).tolist() == [kind] * len(metrics)


def test_a_rate_of_sysbench_is_of_work_or_of_time_by_what_its_trials_report() -> None:
    metrics = ["events_per_s", "total_s", "events_per_s", "events"]
    frame = pd.DataFrame({"workload": "sysbench-cpu", "scenario": ["work", "work", "time", "time"], "metric": metrics})
    assert kinds(frame).tolist() == ["fixed-work rate", "total time", "fixed-time rate", "quantity"]


def test_a_workload_that_is_not_at_hand_declares_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "broken.py").write_text("import a_module_that_is_not_there")
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path))
    frame = pd.DataFrame({"workload": ["gone", "broken"], "scenario": "x", "metric": "events_per_s"})
    assert kinds(frame).tolist() == ["quantity", "quantity"]
