"""TIPHON's classes as the paper prints them, and how little they say of what it measured."""

from __future__ import annotations

import numpy as np
import pytest

from infrabench.core import SchemaError
from infrabench.notebook import quality_classes


def test_the_bounds_are_those_of_tables_1_and_2_in_si_units() -> None:
    throughput = {each.name: (each.low, each.high) for each in quality_classes.classes("throughput")}
    assert throughput == {"very good": (76e3, 100e3), "good": (51e3, 75e3), "poor": (26e3, 50e3)}
    latency = [(each.name, each.low, each.high) for each in quality_classes.classes("latency")]
    assert [name for name, *_ in latency] == ["very good", "good", "poor"]
    assert latency[0][1] == 0
    assert [high for *_, high in latency] == pytest.approx([0.150, 0.300, 0.450])


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (76e3, "throughput", "very good"), (100e3, "throughput", "very good"), (60e3, "throughput", "good"),
        (26e3, "throughput", "poor"), (75.5e3, "throughput", "between two classes"),
        (25e3, "throughput", "beyond the last class"), (100.1e3, "throughput", "above the scale"),
        (1e-5, "latency", "very good"), (0.2, "latency", "good"), (0.449, "latency", "poor"),
        (0.451, "latency", "beyond the last class"),
    ],
)  # fmt: skip
def test_a_value_gets_the_class_that_the_tables_give_it(value: float, kind: quality_classes.Kind, name: str) -> None:
    graded = quality_classes.grade(value, kind)
    assert graded.name == name
    assert graded.times == pytest.approx(value / (100e3 if kind == "throughput" else 0.150))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_what_is_no_throughput_has_no_class(value: float) -> None:
    with pytest.raises(SchemaError, match="has no class"):
        quality_classes.grade(value, "throughput")
