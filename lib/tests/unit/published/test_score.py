"""The composite score of a session: by hand, by the contrasts of that session, and how often its interval covers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.published.derived_metrics import contrasts_of
from infrabench.analysis.published.printed_numbers import read_toml
from infrabench.analysis.published.score import BY_TIME, ROWS, Losses, losses_of, measure_score, score_of
from infrabench.core import InfrabenchError
from infrabench.stats import contrasts
from tests.support.analysis_fixtures import lose, table_of

T_1 = 12.706204736432095  # Student's quantile of one degree of freedom
NATIVE = np.full((4, 2), 100.0)
DOCKER = np.array([[80.0, 90.0], [90.0, 90.0], [99.0, 97.0], [101.0, 103.0]])  # losses 0.15, 0.10, 0.02, 0.02


@pytest.mark.parametrize(
    ("form", "score", "half"),
    [
        ("corrected", 100 * (1 - 0.29 / 4), T_1 * 100 * 0.03 / 4),
        ("disk-once", 100 * (1 - (0.15 + 0.10 + 2 * 0.02 + 2 * 0.02) / 6), T_1 * 100 * (0.05 - 0.02 - 0.02) / 6),
        ("printed", 100 * (1 - (0.15 + 0.10 + 0.02 + 100 * 0.02) / 4), None),
        ("geometric", 100 * (0.85 * 0.90 * 0.98 * 0.98) ** 0.25, None),
    ],
)
def test_a_score_by_hand(form: str, score: float, half: float | None) -> None:
    # In the first block the losses are 0.05, 0, -0.01 and -0.01 above their means, in the second as much below.
    found, ends = score_of(losses_of(DOCKER, NATIVE), form)
    assert found == pytest.approx(score)
    if half is not None:
        assert (ends.low, ends.high) == pytest.approx((score - half, score + half))
    else:
        assert ends.low < found < ends.high


def test_the_printed_form_takes_a_gain_for_a_loss_and_the_corrected_one_does_not() -> None:
    faster = losses_of(2 * NATIVE - DOCKER, NATIVE)
    slower = losses_of(DOCKER, NATIVE)
    assert score_of(faster, "printed").value == pytest.approx(score_of(slower, "printed").value)
    assert score_of(faster, "corrected").value == pytest.approx(200 - score_of(slower, "corrected").value)


def simulated(cpu_loss: float, cpu_spread: float) -> tuple[Losses, np.ndarray]:
    """Return the losses of 2000 sessions of 30 blocks, and the true ones; what a block does is common to all rows."""
    rng, truth = np.random.default_rng(19), np.array([0.18, 0.05, -0.02, cpu_loss])
    spread = np.array([0.12, 0.08, 0.04, cpu_spread])[:, None]
    block = np.exp(rng.normal(0, 0.1, (2000, 1, 30)))
    own, others = (block * (1 + spread * rng.standard_normal((2000, 4, 30))) for _ in range(2))
    sign = np.where(BY_TIME, 1.0, -1.0)
    return losses_of(own * (1 + sign * truth)[:, None], others), truth


@pytest.mark.parametrize("form", [form["name"] for form in read_toml("score.toml")["form"]])
@pytest.mark.parametrize("cpu", [(0.05, 0.01), (0.002, 0.01), (0.0, 0.01)])
def test_the_interval_covers_the_true_score_in_95_percent(form: str, cpu: tuple[float, float]) -> None:
    losses, truth = simulated(*cpu)
    true = float(score_of(Losses(truth, truth[:, None] * np.zeros(30)), form).value)
    ends = score_of(losses, form).interval
    covered = float(((ends.low <= true) & (true <= ends.high)).mean())
    assert covered >= 0.9335
    if form != "printed" or cpu[0] == 0.05:  # there the sign of no large loss is open, and the union is one interval
        assert covered <= 0.9665


def session(**engines: float) -> pd.DataFrame:
    """Return a session of eight blocks with the four rows; an engine takes so many times native's time."""
    rng, parts = np.random.default_rng(4), []
    kernels = (("stream", f"{kernel}_B_per_s") for kernel in ("copy", "scale", "add", "triad"))
    for workload, metric in (ROWS["read"], ROWS["write"], ROWS["cpu"], *kernels):
        values = {
            name: list(100.0 / slower * np.exp(rng.normal(0, 0.03, 8)))
            for name, slower in {"native": 1.0, **engines}.items()
        }
        unit, scenario = ("1/s", "threads=1") if workload == "sysbench-cpu" else ("B/s", "default")
        parts.append(table_of(values, workload=workload, metric=metric, unit=unit, scenario=scenario))
    return pd.concat(parts, ignore_index=True)


def test_the_rows_of_a_score_are_the_ratios_of_the_contrasts() -> None:
    table = session(docker=1.2, lxd=1.05)
    measured = measure_score(table)
    rows = pd.concat([contrasts(table, "native", {"": 0.02}), contrasts_of(table, "native", {"": 0.02})])
    ratios = rows[rows["system"] == "docker"].set_index(["workload", "metric"])["ratio"]
    shares = [ratios[of] for of in ROWS.values()]
    shares[3] = 2 - 1 / shares[3]  # the loss of the processor is the increase of its time
    scores = measured.scores.set_index(["form", "system"])
    assert scores.loc[("corrected", "docker"), "score"] == pytest.approx(100 * np.mean(shares), rel=2e-4)
    assert (measured.n, measured.planned, measured.pair_unit) == (8, 8, "blocks")
    assert scores.loc[("printed", "docker"), "published"] == pytest.approx(81.75)
    assert scores.loc[("corrected", "lxd"), "published"] == pytest.approx(91.74, abs=0.005)
    (lead,) = measured.leads.itertuples(index=False)
    of = scores.xs("corrected")["score"]
    assert (lead.ahead, lead.behind) == ("lxd", "docker")
    assert lead.points == pytest.approx(of["lxd"] - of["docker"])
    assert lead.low < lead.points < lead.high
    # only blocks count that have every row of every system
    one = (table["block"] == 3) & (table["workload"] == "iozone") & (table["system"] == "lxd")
    fewer = measure_score(table[~one].reset_index(drop=True))
    assert (fewer.n, fewer.planned) == (7, 8)


@pytest.mark.parametrize(
    ("without", "why"),
    [
        ({"workload": "iozone"}, "iozone has no value of read_B_per_s"),
        ({"workload": "sysbench-cpu"}, "sysbench-cpu, threads=1, has no value of events_per_s"),
        ({"system": "native"}, "no trial of all four rows on native"),
        ({"system": "docker"}, "no trial of all four rows on an engine of the papers"),
    ],
)
def test_a_session_without_a_score_says_what_is_missing(without: dict[str, str], why: str) -> None:
    table = session(docker=1.2)
    ((column, value),) = without.items()
    with pytest.raises(InfrabenchError, match=why):
        measure_score(table[table[column] != value].reset_index(drop=True))


@pytest.mark.parametrize(("lost", "whose"), [(range(6), "docker"), (range(3), "native")])
def test_a_session_that_lost_many_trials_of_a_row_has_no_score_on_the_rest(lost: range, whose: str) -> None:
    table = session(docker=1.2, lxd=1.05)
    lose(table, (table["workload"] == "iozone") & (table["system"] == whose) & table["block"].isin(lost), "timeout")
    with pytest.raises(InfrabenchError, match=rf"^read: .*{whose}: {len(lost)} of 8 timed out"):
        measure_score(table)
