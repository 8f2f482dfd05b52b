"""Metrics as the papers define them, what the papers promise of them, and what they say of several engines or loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pandas as pd
import pytest

from infrabench.analysis.published import derived_metrics
from infrabench.analysis.published.derived_metrics import AVERAGE, MEAN, PER_REQUEST, contrasts_of, derive
from infrabench.analysis.published.statements import Statement, judge_ratio, judge_statements, statements
from infrabench.analysis.tidy import DTYPES
from infrabench.core import LOST_STATES
from tests.support.analysis_fixtures import levels_of, table_of

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
    rows = derived_metrics.average_engines(memory({"native": [1.0, 1.0, 1.0], **engines}))
    assert set(rows["system"]) == {MEAN}
    means = rows[rows["metric"] == AVERAGE].set_index("block")["value"]
    assert means.to_dict() == {0: 24.0, 1: 30.0}
    assert list(rows.loc[rows["metric"].isna(), "block"]) == [2]
    assert derived_metrics.average_engines(
        memory({"native": [1.0], "docker": [1.0], "lxc": [1.0]})
    ).empty  # no mean of two


def test_the_timeout_of_an_engine_is_not_hidden_by_the_invalid_trial_of_another() -> None:
    table = memory({"native": [1.0], "docker": [None], "lxc": [1.0], "lxd": [None]})
    states = {"docker": "invalid", "lxd": "timeout"}
    table["state"] = table["system"].map(states).fillna(table["state"])
    for rows in (table, table[::-1]):
        assert list(derived_metrics.average_engines(rows)["state"]) == ["timeout"]


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
def test_a_bound_is_judged_by_the_interval_and_without_losses(ends: tuple[float, float], lost: int, word: str) -> None:
    states = dict.fromkeys(LOST_STATES, 0) | {"timeout": lost}
    assert derived_metrics.judge_bound(SimpleNamespace(mean_low=ends[0], mean_high=ends[1], **states), 1.0) == word


def test_the_papers_bounds_are_judged_for_every_system_of_a_session() -> None:
    assert {(each.workload, each.value) for each in derived_metrics.bounds()} == {("ftp", 1.0), ("web", 3.0)}
    ftp = table_of(
        {"native": [0.4, 0.5, 0.6], "lxc": [0.4, 1.6, 1.2], "lxd": [1.4, 1.5, 1.6]},
        workload="ftp", metric="first_byte_s", unit="s", better="lower",
    )  # fmt: skip
    judged = derived_metrics.judge_bounds(ftp).set_index("system")
    assert judged["verdict"].to_dict() == {"native": "kept", "lxc": "cannot be told", "lxd": "not kept"}
    assert judged.loc["lxc", "max"] == 1.6
    assert judged.loc["native", "where"] == "sec 3.2, last para: 'bernilai di bawah 1000 ms'"
    slow = derived_metrics.judge_bounds(
        web({"native": [500.0, 550.0, 520.0], "lxc": [8000.0, 8000.0, 8000.0]})
    ).set_index("system")
    assert slow["verdict"].to_dict() == {"native": "not kept", "lxc": "cannot be told"}
    assert slow.loc["lxc", "note"].startswith("no interval: fewer than two values, or all of them alike; ")


MARGINS = {"": 0.02}
NOISE = (-0.001, 0.0, 0.001, 0.0005, -0.0005)  # of five blocks, relative


def around(value: float) -> list[float]:
    """Return a value with noise that differs from that of a value which is another whole number, modulo five."""
    return [value * (1 + NOISE[(place + int(value)) % len(NOISE)]) for place in range(len(NOISE))]


def at_levels(
    rates: Mapping[str, Sequence[float]], levels: Sequence[int], workload: str, metric: str, name: str
) -> pd.DataFrame:
    """Return a table of one factor: system -> its mean at each level."""
    values = {
        level: {system: around(means[place]) for system, means in rates.items()} for place, level in enumerate(levels)
    }
    return levels_of(values, name, workload=workload, metric=metric)


def verdicts(table: pd.DataFrame, key: str) -> dict[str, str]:
    judged = judge_statements(table, MARGINS)
    return dict(judged.loc[judged["key"] == key, ["ratio_of", "verdict"]].itertuples(index=False))


def statement(key: str) -> Statement:
    return next(each for each in statements() if each.key == key)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.98, 1.5, "kept"), (0.97, 0.979, "not kept"), (0.97, 1.0, "cannot be told"),
        (float("nan"), float("nan"), "cannot be told"),
    ],
)  # fmt: skip
def test_a_statement_is_judged_by_whole_intervals(low: float, high: float, word: str) -> None:
    row = SimpleNamespace(ratio_low=low, ratio_high=high)
    assert judge_ratio(row, statement("A.mail.bound.000")) == word  # no less than 0.98


def test_the_ends_of_a_statement_follow_from_what_is_printed() -> None:
    assert (statement("A.mail.bound.003").least, statement("A.mail.bound.003").most) == (0.97, float("inf"))
    assert (statement("A.mail.spread").least, statement("A.mail.spread").most) == pytest.approx((0.9995, 1.0005))
    assert statement("A.web.to-2000").quote == "sec 4, item 5: 'terpaut di bawah 1%'"


def test_a_bound_is_judged_for_each_engine_against_native() -> None:
    mail = table_of(
        {"native": around(401), "docker": around(399), "lxc": around(393), "lxd": around(380)},
        workload="mail", metric="messages_per_min", unit="1/min",
    )  # fmt: skip
    assert verdicts(mail, "A.mail.bound.000") == {
        "docker / native, default": "kept", "lxc / native, default": "cannot be told",
        "lxd / native, default": "not kept",
    }  # fmt: skip
    spread = verdicts(mail, "A.mail.spread")
    assert set(spread) == {
        f"{a} / {b}, default" for a in ("docker", "lxc", "lxd") for b in ("docker", "lxc", "lxd") if a != b
    }
    assert set(spread.values()) == {"not kept"}


def test_who_is_best_is_asked_at_the_loads_that_are_named_and_against_the_other_engines() -> None:
    rates = {"docker": (801.0,) * 3, "lxc": (853.0,) * 3, "lxd": (862.0, 824.0, 700.0)}
    web = at_levels(rates, (1000, 2000, 3000), "web", "requests_per_s", "users")
    assert verdicts(web, "A.web.lxd.rate") == {
        "lxd / docker, users=1000": "kept", "lxd / docker, users=2000": "kept",
        "lxd / lxc, users=1000": "kept", "lxd / lxc, users=2000": "not kept",
    }  # fmt: skip
    assert set(verdicts(web, "A.web.lxc.rate.3000")) == {"lxc / docker, users=3000", "lxc / lxd, users=3000"}
    assert verdicts(web, "A.web.lxd.time") == {}  # of another metric, which was not measured


def test_what_stops_to_grow_is_asked_of_each_level_over_the_one_before() -> None:
    rates = {"docker": (100.0, 200.0, 190.0, 191.0), "lxc": (100.0, 200.0, 190.0, 221.0)}
    cpu = at_levels(rates, (2, 4, 6, 8), "sysbench-cpu", "events_per_s", "threads")
    assert verdicts(cpu, "A.cpu.saturation") == {
        "docker, threads=8 / threads=6": "kept", "lxc, threads=8 / threads=6": "not kept",
    }  # fmt: skip


def test_a_session_of_other_workloads_has_no_statement() -> None:
    assert judge_statements(table_of({"native": around(1.0)}, workload="fio", metric="iops"), MARGINS).empty


def test_a_load_is_a_level_of_its_factor_and_not_of_any() -> None:
    rates = {"docker": (801.0,) * 2, "lxc": (853.0,) * 2, "lxd": (862.0,) * 2}
    both = [at_levels(rates, (1000, 2000), "web", "requests_per_s", name) for name in ("users", "bytes")]
    assert {words.rpartition(", ")[2] for words in verdicts(pd.concat(both, ignore_index=True), "A.web.lxd.rate")} == {
        "users=1000", "users=2000",
    }  # fmt: skip


def test_a_rate_of_fixed_work_is_judged_by_its_times_where_the_trials_say_that_it_is_one() -> None:
    rates = {"docker": [60.0, 140.0, 100.0, 80.0, 120.0]}
    cpu = [
        table_of({name: [by * each for each in of] for name, of in rates.items()}, **kind, scenario=f"threads={level}")
        .assign(factor="threads", level=level)
        for level, by in ((6.0, 1.0), (8.0, 1.1))
        for kind in ({}, {"metric": "total_s", "unit": "s", "better": "lower"})
    ]  # fmt: skip
    cpu[2] = cpu[2].assign(value=[160.0, 60.0, 100.0, 120.0, 80.0])
    table = pd.concat(cpu, ignore_index=True).astype(DTYPES)
    ratios = [
        judged.loc[judged["key"] == "A.cpu.saturation", "ratio"].item()
        for judged in (judge_statements(rows, MARGINS) for rows in (table, table[table["metric"] != "total_s"]))
    ]
    before, after = cpu[0]["value"], cpu[2]["value"]
    assert ratios == pytest.approx([(1 / before).mean() / (1 / after).mean(), after.mean() / before.mean()])
    assert ratios[0] != pytest.approx(ratios[1])
