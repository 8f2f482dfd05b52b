"""Every workload says of each metric what it is: a time, a rate of fixed work or of fixed time, a count, a share."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from infrabench import registry
from infrabench.core import Kind, Measurement
from infrabench.stats.table import kinds
from tests.support.captures import GOOD, WORKLOADS, label, read
from tests.support.checks import check_each

UNIT_OF = {"time": {"s"}, "fixed-work rate": {"B/s", "bit/s", "1/s", "1/min"}, "count": {"1"}, "share": {"1", "%"}}
UNIT_OF["fixed-time rate"] = UNIT_OF["fixed-work rate"]
RATES_AND_TIMES = UNIT_OF["time"] | UNIT_OF["fixed-work rate"]


def test_every_metric_is_declared_and_its_unit_fits() -> None:
    def check(path: Path) -> None:
        found = [Measurement(*row) for row in read(path)[1]["expect"]["measurements"]]
        name, metrics = path.parent.name, [m.metric for m in found]
        assert {*metrics} <= set(registry.metric_kinds(name))
        frame = pd.DataFrame({"workload": name, "scenario": path.name, "metric": metrics})
        for measurement, kind in zip(found, kinds(frame), strict=True):
            assert kind in get_args(Kind)
            assert measurement.unit in UNIT_OF.get(kind, {measurement.unit}), measurement
            if kind == "quantity":  # a time or a rate is never merely a quantity
                assert measurement.unit not in RATES_AND_TIMES, measurement

    assert {path.parent.name for path in GOOD} >= {*WORKLOADS}
    check_each(check, GOOD, label)


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
