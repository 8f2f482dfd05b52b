"""How many deployments, and how many blocks in each: against the formula, a search over all of them, and simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.stats.planning import (
    DIMENSIONS,
    NO_COSTS,
    NONE_BETWEEN,
    NOT_POSITIVE,
    ONE_LEVEL,
    dimensions,
    n_for_precision,
    one_way,
    spread_limit,
)
from tests.support.analysis_fixtures import table_of

DEPLOYMENTS, BLOCKS = 8, 5
GROUP = np.repeat(np.arange(DEPLOYMENTS), BLOCKS)


def pilot(between: float = 0.02, within: float = 0.03, seed: int = 81) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    y = 100 * np.exp(rng.normal(0, 0.05, GROUP.size))
    apart = rng.normal(0, between, DEPLOYMENTS)[GROUP] + rng.normal(0, within, GROUP.size)
    return {"native": list(y), "docker": list(0.98 * y * np.exp(apart))}


def planned(values: dict, costs: tuple[float, float] = (60.0, 600.0), per: int = BLOCKS) -> pd.DataFrame:
    table = table_of(values, blocks_per_deployment=per)
    found = dimensions(table, "native", [0.01, 0.02], *costs)
    assert tuple(found.columns) == tuple(DIMENSIONS)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == DIMENSIONS
    return found.set_index(["system", "quantity", "target"])


def test_sizes_are_those_of_the_formula() -> None:
    values = pilot()
    logs = np.log(np.array(values["docker"]) / values["native"])
    found = one_way(logs, GROUP)
    row = planned(values).loc[("docker", "ratio", 0.01)]
    assert (row["sd_within"] ** 2, row["sd_between"] ** 2) == pytest.approx((found.within, found.between))
    blocks = np.ceil(np.sqrt(600 / 60 * found.within / found.between))
    spread = np.sqrt(found.between + found.within / blocks)
    assert row["blocks"] == blocks
    assert row["deployments"] == n_for_precision(spread, np.log(1.01))
    assert row["deployments_high"] == n_for_precision(spread_limit(spread, DEPLOYMENTS), np.log(1.01))
    assert row["hours"] == pytest.approx(row["deployments"] * (600 + blocks * 60) / 3600)
    assert row["hours_high"] > row["hours"]
    assert row["note"] == ""


def test_no_other_number_of_blocks_is_much_cheaper() -> None:
    row = planned(pilot()).loc[("docker", "ratio", 0.01)]

    def hours(blocks: float) -> float:
        spread = np.sqrt(row["sd_between"] ** 2 + row["sd_within"] ** 2 / blocks)
        return float(n_for_precision(spread, np.log(1.01)) * (600 + blocks * 60) / 3600)

    assert row["hours"] == pytest.approx(hours(row["blocks"]))
    assert row["hours"] <= 1.05 * min(hours(blocks) for blocks in range(1, 60))
    assert row["hours"] < 0.8 * hours(30)


def test_dear_deployments_hold_more_blocks_and_dear_blocks_fewer() -> None:
    dear, same, cheap = (
        planned(pilot(), costs).loc[("docker", "ratio", 0.01), "blocks"]
        for costs in ((60.0, 6000.0), (60.0, 60.0), (600.0, 60.0))
    )
    assert dear > same > cheap >= 1


def test_why_there_is_no_size() -> None:
    where = ("docker", "ratio", 0.01)
    alike = pilot()
    alternating = np.tile([-0.01, 0.01], GROUP.size // 2)
    alike["docker"] = list(np.array(alike["native"]) * np.exp(alternating))
    negative = pilot()
    negative["docker"][3] = -1.0
    for values, how, note in (
        (pilot(), {"per": 0}, ONE_LEVEL),
        (pilot(), {"per": 1}, ONE_LEVEL),
        (pilot(), {"costs": (60.0, float("nan"))}, NO_COSTS),
        (pilot(), {"costs": (0.0, 600.0)}, NO_COSTS),
        (alike, {"per": 4}, NONE_BETWEEN),
        (negative, {}, NOT_POSITIVE),
    ):
        row = planned(values, **how).loc[where]
        assert row["note"] == note
        assert np.isnan(row["deployments"])
    assert (
        dimensions(table_of({"native": [None]}), "native", [0.01], 1.0, 1.0).dtypes.to_dict()
        == planned(pilot()).reset_index()[list(DIMENSIONS)].dtypes.to_dict()
    )
