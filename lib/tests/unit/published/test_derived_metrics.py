"""Metrics as the papers define them, from what trials reported, and whether what the papers promise is kept."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from infrabench.analysis.published.derived_metrics import (
    AVERAGE,
    MEAN,
    PER_REQUEST,
    average_engines,
    bounds,
    contrasts_of,
    derive,
    judge_bound,
    judge_bounds,
)
from infrabench.analysis.tidy import DTYPES
from infrabench.core import LOST_STATES
from tests.support.analysis_fixtures import table_of

RATES = {"copy": 10.0, "scale": 11.0, "add": 12.0, "triad": 15.0}  # their mean is 12


def memory(factors: dict[str, list[float | None]], kernels: dict[str, float] = RATES) -> pd.DataFrame:
    """Return a table of the memory kernels, whose rates are `kernels` times a factor for each system and block."""
    parts = [
        table_of(
            {name: [None if f is None else rate * f for f in of] for name, of in factors.items()},
            workload="stream", metric=f"{kernel}_B_per_s", unit="B/s",
        )
        for kernel, rate in kernels.items()
    ]  # fmt: skip
    whole = pd.concat(parts, ignore_index=True)
    lost = whole["metric"].isna()  # a trial without a value has one row
    return pd.concat([whole[~lost], whole[lost].drop_duplicates("trial")], ignore_index=True)


def web(rates: dict[str, list[float]]) -> pd.DataFrame:
    return table_of(rates, workload="web", metric="requests_per_s").assign(factor="users", level=2000.0).astype(DTYPES)


def test_the_average_of_a_trial_is_the_mean_of_its_four_kernels_and_none_without_all() -> None:
    rows = derive(memory({"native": [1.0, 2.0], "docker": [0.5, None]}))
    measured = rows.dropna(subset="metric").set_index(["system", "block"])["value"]
    assert set(rows["metric"].dropna()) == {AVERAGE}
    assert measured.to_dict() == {("native", 0): 12.0, ("native", 1): 24.0, ("docker", 0): 6.0}
    assert list(rows.loc[rows["metric"].isna(), "system"]) == ["docker"]  # the lost trial is counted
    assert derive(memory({"native": [1.0]}, {"copy": 10.0, "triad": 9.0})).empty


def test_the_average_is_compared_at_the_margin_of_a_kernel() -> None:
    table = memory({"native": [1.0, 1.02, 0.98, 1.01], "docker": [0.97, 0.99, 0.96, 0.97]})
    (row,) = contrasts_of(table, "native", {"": 0.02, "triad_B_per_s": 0.01}).itertuples(index=False)
    assert (row.metric, row.margin, row.n_pairs) == (AVERAGE, 0.01, 4)
    assert row.ratio == pytest.approx(3.89 / 4.01)
    assert row.verdict == "different"


def test_the_mean_over_the_engines_is_a_system_that_lacks_what_one_of_them_lacks() -> None:
    engines: dict[str, list[float | None]] = {
        "docker": [1.0, 0.5, 1.0],
        "lxc": [2.0, 2.0, 2.0],
        "lxd": [3.0, 5.0, None],
    }
    rows = average_engines(memory({"native": [1.0, 1.0, 1.0], **engines}))
    assert set(rows["system"]) == {MEAN}
    means = rows[rows["metric"] == AVERAGE].set_index("block")["value"]
    assert means.to_dict() == {0: 24.0, 1: 30.0}
    assert list(rows.loc[rows["metric"].isna(), "block"]) == [2]
    assert average_engines(memory({"native": [1.0], "docker": [1.0], "lxc": [1.0]})).empty  # no mean of two


def test_the_timeout_of_an_engine_is_not_hidden_by_the_invalid_trial_of_another() -> None:
    table = memory({"native": [1.0], "docker": [None], "lxc": [1.0], "lxd": [None]})
    states = {"docker": "invalid", "lxd": "timeout"}
    table["state"] = table["system"].map(states).fillna(table["state"])
    for rows in (table, table[::-1]):
        assert list(average_engines(rows)["state"]) == ["timeout"]


def test_the_mean_over_the_engines_is_compared_with_native_beside_them() -> None:
    table = memory(
        {"native": [1.0, 1.02, 0.98], "docker": [0.9, 0.92, 0.88], "lxc": [1.0, 1.0, 1.0], "lxd": [0.8, 0.84, 0.8]}
    )
    rows = contrasts_of(table, "native", {"": 0.02}).set_index("system")
    assert list(rows.index) == ["docker", "lxc", "lxd", MEAN]
    assert rows.loc[MEAN, "ratio"] == pytest.approx(rows["ratio"][["docker", "lxc", "lxd"]].mean())


def test_the_time_per_request_is_users_over_the_rate() -> None:
    (row,) = derive(web({"native": [8000.0]})).itertuples(index=False)
    assert (row.metric, row.value, row.unit, row.better) == (PER_REQUEST, 0.25, "s", "lower")


@pytest.mark.parametrize(
    ("ends", "lost", "word"),
    [((0.1, 0.9), 0, "kept"), ((0.9, 1.1), 0, "cannot be told"), ((1.0, 1.2), 0, "not kept"),
     ((float("nan"), float("nan")), 0, "cannot be told"),
     ((0.1, 0.9), 1, "cannot be told"), ((1.0, 1.2), 1, "not kept")],
)  # fmt: skip
def test_a_bound_is_judged_by_the_whole_interval_and_not_on_what_is_left(
    ends: tuple[float, float], lost: int, word: str
) -> None:
    states = dict.fromkeys(LOST_STATES, 0) | {"timeout": lost}
    assert judge_bound(SimpleNamespace(mean_low=ends[0], mean_high=ends[1], **states), 1.0) == word


def test_the_papers_bounds_are_judged_for_every_system_of_a_session() -> None:
    assert {(each.workload, each.value) for each in bounds()} == {("ftp", 1.0), ("web", 3.0)}
    ftp = table_of(
        {"native": [0.4, 0.5, 0.6], "lxc": [0.4, 1.6, 1.2], "lxd": [1.4, 1.5, 1.6]},
        workload="ftp", metric="first_byte_s", unit="s", better="lower",
    )  # fmt: skip
    judged = judge_bounds(ftp).set_index("system")
    assert judged["verdict"].to_dict() == {"native": "kept", "lxc": "cannot be told", "lxd": "not kept"}
    assert judged.loc["lxc", "max"] == 1.6
    assert judged.loc["native", "where"] == "sec 3.2, last para: 'bernilai di bawah 1000 ms'"
    slow = judge_bounds(web({"native": [500.0, 550.0, 520.0], "lxc": [8000.0, 8000.0, 8000.0]})).set_index("system")
    assert slow["verdict"].to_dict() == {"native": "not kept", "lxc": "cannot be told"}
    assert slow.loc["lxc", "note"].startswith("no interval: fewer than two values, or all of them alike; ")
