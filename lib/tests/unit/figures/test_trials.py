"""Figures of the trials of one case: every value at its place, every flag and loss said, nothing clipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from infrabench.analysis.figures import (
    COLUMN_MM,
    PAGE_MM,
    View,
    blocks,
    ecdf,
    lag,
    modes,
    order,
    qq,
)
from infrabench.analysis.figures.theme import MARKERS, MM
from infrabench.core import SchemaError
from infrabench.stats import diagnostics, estimates
from tests.support.analysis_fixtures import table_of
from tests.support.look_at import marked, overhang_mm, smallest_axes_mm, texts

CASE = ("sysbench-cpu", "events_per_s", "default")
SYSTEMS = ("native", "docker")


def normal(n: int = 30, *, systems: int = 2, seed: int = 1) -> dict[str, list[float | None]]:
    rng = np.random.default_rng(seed)
    names = ("native", "docker", "lxc", "lxd", "podman", "kata", "gvisor", "crio")[:systems]
    return {name: list(rng.normal(100, 2, n)) for name in names}


def two_modes(seed: int = 3) -> dict[str, list[float | None]]:
    rng = np.random.default_rng(seed)
    values = normal()
    values["docker"] = list(np.where(np.arange(30) % 5 == 0, 140, 100) + rng.normal(0, 2, 30))
    return values


def test_order_shows_every_value_in_executed_order() -> None:
    table = table_of(normal())
    axes = order(View(*CASE, table=table, systems=SYSTEMS)).figure.axes[0]
    for name, marker in zip(SYSTEMS, MARKERS, strict=False):
        mine = table[table["system"] == name]
        drawn = marked(axes, marker)
        if marker == "o":  # rings are circles too
            drawn = drawn[:30]
        assert drawn[:, 0] == pytest.approx(mine["position"] + 1)
        assert drawn[:, 1] == pytest.approx(mine["value"])


def test_order_sorts_out_what_failed_what_was_repeated_and_what_is_flagged() -> None:
    values = normal()
    values["native"][7] = 160.0
    values["docker"][3] = None
    table = table_of(values)
    gone = (table["system"] == "docker") & (table["block"] == 5)
    table.loc[gone, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    table.loc[gone, ["state", "reason"]] = ["invalid", "steal"]
    again = (table["system"] == "native") & (table["block"] == 9)
    table.loc[again, "attempt"] = 1
    figure = order(View(*CASE, table=table, systems=SYSTEMS)).figure
    axes = figure.axes[0]
    assert marked(axes, "x")[:, 0] == pytest.approx([8])  # the failed trial, in ranks
    assert marked(axes, "+")[:, 0] == pytest.approx([12])
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[19]]
    rings = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    counted = diagnostics(table).set_index("system")["outliers"]
    assert 15 in rings[0].get_xdata()
    assert len(rings[0].get_xdata()) == counted.sum() == counted["native"]
    for word in ("failed", "invalid", "repeat", "outlier flag"):
        assert word in texts(figure)
    told = order(View(*CASE, table=table, diagnostics=diagnostics(table))).caption
    assert "failed: 1 docker; invalid: 1 docker" in told
    assert "Repeated at the end of the same block: 1 native." in told
    assert f"modified z above 3.5, kept in every analysis ({counted['native']:.0f} native)" in told
    assert "None is flagged dependent" in told
    assert "n = 28 docker, 30 native." in told
    assert "randomised complete blocks" in told
    assert "Williams squares" in order(View(*CASE, table=table, order="williams")).caption


def test_blocks_shows_every_value_in_the_column_of_its_block() -> None:
    values = normal(12, systems=3)
    values["docker"][3] = None
    values["native"][7] = 160.0
    table = table_of(values, blocks_per_deployment=4)
    table["block"] += 5  # of a session whose first blocks are elsewhere
    table = table.sample(frac=1, random_state=1)
    drawn = blocks(View(*CASE, table=table, systems=("native", "docker", "lxc"), width_mm=COLUMN_MM))
    axes, places = drawn.figure.axes[0], {}
    for name, marker in zip(values, MARKERS, strict=False):
        shown = marked(axes, marker)[: sum(value is not None for value in values[name])]
        assert shown[:, 1] == pytest.approx([value for value in values[name] if value is not None])
        places[name] = shown[:, 0]
        assert list(np.round(shown[:, 0])) == [i + 1 for i, value in enumerate(values[name]) if value is not None]
    assert (places["native"] < places["lxc"]).all()  # in the session's order, whatever their order in the block was
    assert marked(axes, "x")[:, 0] == pytest.approx([4])  # docker is in the middle of its column
    assert {"failed", "outlier flag", "D3"} <= set(texts(drawn.figure).splitlines())
    assert overhang_mm(drawn.figure) < 0.1
    assert (
        "by block; higher is better; the axis does not start at zero. n = 11 docker, 12 lxc, 12 native."
        in drawn.caption
    )
    assert "kept in every analysis (1 docker, 2 native)" in drawn.caption
    assert "failed: 1 docker" in drawn.caption


def test_a_single_value_is_a_column_and_a_case_without_any_is_refused() -> None:
    drawn = blocks(View(*CASE, table=table_of({"native": [7.0], "docker": [None]}), systems=("native", "docker")))
    assert marked(drawn.figure.axes[0], "o")[:, 1] == pytest.approx([7])
    assert overhang_mm(drawn.figure) < 0.1
    with pytest.raises(SchemaError, match="no ok trial of sysbench-cpu, default, events_per_s"):
        blocks(View(*CASE, table=table_of({"native": [None]})))


def test_a_discarded_block_is_counted_once() -> None:
    table = table_of(normal())
    gone = table["block"] == 4
    table.loc[gone, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    table.loc[gone, ["state", "reason"]] = ["discarded", "interrupted"]
    told = order(View(*CASE, table=table)).caption
    assert "discarded: 1 docker, 1 native" in told
    assert "Discarded whole and not used: 1 block." in told


def test_a_trend_is_said_with_its_p() -> None:
    table = table_of({"native": list(100.0 + np.arange(30)), "docker": normal()["docker"]})
    told = order(View(*CASE, table=table, diagnostics=diagnostics(table))).caption
    assert "Flagged dependent: native (Ljung-Box p < 0.0001, trend p < 0.0001)" in told


def test_deployments_are_numbered_and_probes_stand_before_their_block() -> None:
    table = table_of(normal(), blocks_per_deployment=10)
    starts = table.groupby("block")["position"].min()
    probes = pd.DataFrame(
        [{"block": b, "host": h, "position": p, "value": 5e8 + b, "unit": "B/s"} for b, p in starts.items()
         for h in ("server", "client")]
    )  # fmt: skip
    figure = order(View(*CASE, table=table, systems=SYSTEMS, probes=probes)).figure
    assert len(figure.axes) == 2
    assert {"D1", "D2", "D3", "server", "client", "Probe (MB/s)"} <= set(texts(figure).splitlines())
    lines = [line for line in figure.axes[1].lines if line.get_label() in ("server", "client")]
    assert len(lines) == 2
    assert list(lines[0].get_xdata()) == [2 * block + 0.5 for block in range(30)]
    thick = [line for line in figure.axes[0].lines if line.get_linewidth() == 0.9]
    assert [line.get_xdata()[0] for line in thick] == [20.5, 40.5]
    assert smallest_axes_mm(figure) > 10
    assert "never used to correct" in order(View(*CASE, table=table, probes=probes)).caption
    pooled = pd.concat([table, table.assign(session="t")], ignore_index=True)
    assert len(order(View(*CASE, table=pooled, systems=SYSTEMS, probes=probes)).figure.axes) == 1
    assert "never used to correct" not in order(View(*CASE, table=pooled, probes=probes)).caption


def test_lag_pairs_each_value_with_the_next_of_its_system() -> None:
    table = table_of(normal())
    found = diagnostics(table)
    figure = lag(View(*CASE, table=table, diagnostics=found, systems=SYSTEMS)).figure
    values = table.loc[table["system"] == "native", "value"].to_numpy()
    assert marked(figure.axes[0], "o") == pytest.approx(np.column_stack([values[:-1], values[1:]]))
    r1 = found.set_index("system").loc["native", "lag1"]
    assert figure.axes[0].get_title() == f"native, r₁ = {r1:.2f}"
    assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim()
    assert f"native {r1:.2f}" in lag(View(*CASE, table=table, diagnostics=found)).caption
    assert "n = 30 docker, 30 native." in lag(View(*CASE, table=table, diagnostics=found)).caption


def test_ecdf_steps_to_one_and_marks_the_exact_median_interval() -> None:
    table = table_of(normal())
    cells = estimates(table)
    figure = ecdf(View(*CASE, table=table, estimates=cells, systems=SYSTEMS)).figure
    steps = marked(figure.axes[0], "o")
    assert steps[:, 0] == pytest.approx(np.sort(table.loc[table["system"] == "native", "value"]))
    assert steps[:, 1] == pytest.approx(np.arange(1, 31) / 30)
    assert figure.axes[0].get_xscale() == "linear"
    native = cells.set_index("system").loc["native"]
    ends = [np.asarray(c.get_segments()[0])[:, 0] for c in figure.axes[1].collections]
    assert ends[0] == pytest.approx([native["median_low"], native["median_high"]])
    assert "level 95.7 %" in ecdf(View(*CASE, table=table, estimates=cells)).caption


def test_ecdf_is_logarithmic_beyond_a_factor_of_ten() -> None:
    table = table_of({"native": [1.0, 2, 3, 4, 5, 6], "docker": [9.0, 11, 12, 13, 14, 15]}, unit="s", better="lower")
    assert ecdf(View(*CASE, table=table, estimates=estimates(table))).figure.axes[0].get_xscale() == "log"
    table.loc[table["value"] == 1.0, "value"] = 0.0
    assert ecdf(View(*CASE, table=table, estimates=estimates(table))).figure.axes[0].get_xscale() == "linear"


def test_modes_marks_the_groups_of_flagged_cells_only() -> None:
    table = table_of(two_modes())
    found = diagnostics(table)
    figure = modes(View(*CASE, table=table, diagnostics=found, systems=SYSTEMS)).figure
    assert "80 % | 20 %" in texts(figure).splitlines()
    values = table.loc[table["system"] == "docker", "value"]
    low, high = values[values < 120].mean(), values[values > 120].mean()
    lines = sorted(c.get_segments()[0][0][0] for c in figure.axes[0].collections)
    assert lines[0] == pytest.approx(low)
    assert lines[2] == pytest.approx(high)
    assert low < lines[1] < high
    told = modes(View(*CASE, table=table, diagnostics=found)).caption
    assert f"Flagged bimodal: docker (80 % at {low:.4g} 1/s, 20 % at {high:.4g} 1/s)" in told
    assert f"docker {found.set_index('system').loc['docker', 'split_d']:.2f};" in told
    clean = table_of(normal())
    assert "None is flagged." in modes(View(*CASE, table=clean, diagnostics=diagnostics(clean))).caption
    assert not modes(View(*CASE, table=clean, diagnostics=diagnostics(clean))).figure.axes[0].collections


def test_a_mode_that_belongs_to_a_deployment_is_said() -> None:
    values = normal()
    values["docker"] = [v + 40 * (10 <= i < 20) for i, v in enumerate(values["docker"])]
    table = table_of(values, blocks_per_deployment=10)
    figure = modes(View(*CASE, table=table, diagnostics=diagnostics(table), systems=SYSTEMS)).figure
    assert "deployment 3" in texts(figure)
    assert len(marked(figure.axes[0], MARKERS[1])) == 20  # deployment 2 of both systems
    assert (
        "each deployment keeps to one mode" in modes(View(*CASE, table=table, diagnostics=diagnostics(table))).caption
    )


def test_qq_points_rise_and_their_band_holds_a_normal_sample() -> None:
    table = table_of(normal(n=200, systems=3))
    figure = qq(View(*CASE, table=table, systems=("native", "docker", "lxc"))).figure
    points = marked(figure.axes[0], "o")
    assert len(points) == 200
    assert (np.diff(points[:, 1]) >= 0).all()
    assert points[:, 1].std(ddof=1) == pytest.approx(1)
    assert points[[0, -1], 0] == pytest.approx(stats.norm.ppf([1 - 0.5 ** (1 / 200), 0.5 ** (1 / 200)]))
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    inside = [band[band[:, 0] == x][:, 1].min() <= y <= band[band[:, 0] == x][:, 1].max() for x, y in points]
    assert np.mean(inside) > 0.9
    assert "Shapiro-Wilk: native p" in qq(View(*CASE, table=table, diagnostics=diagnostics(table))).caption


def drawings(table: pd.DataFrame, width_mm: float) -> list[Callable[[], Figure]]:
    cells, found = estimates(table), diagnostics(table)
    return [
        lambda: order(View(*CASE, table=table, width_mm=width_mm)).figure,
        lambda: lag(View(*CASE, table=table, diagnostics=found, width_mm=width_mm)).figure,
        lambda: ecdf(View(*CASE, table=table, estimates=cells, width_mm=width_mm)).figure,
        lambda: modes(View(*CASE, table=table, diagnostics=found, width_mm=width_mm)).figure,
        lambda: qq(View(*CASE, table=table, width_mm=width_mm)).figure,
    ]


EXTREMES = {
    "one value": {"native": [3.0], "docker": [4.0]},
    "one system": {"native": normal()["native"]},
    "eight systems": normal(systems=8),
    "deterministic": {"native": [5.0] * 8, "docker": [5.0] * 8},
    "huge ratios": {"native": [1.0, 2, 3, 2, 1, 2, 3, 2], "docker": [2e6, 1e6, 3e6, 2e6, 4e6, 1e6, 2e6, 3e6]},
    "zeros": {"native": [0.0] * 6, "docker": [0.0, 0, 0, 1, 0, 0]},
    "two modes": two_modes(),
}


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_values_are_drawn_whole(name: str, width_mm: float) -> None:
    for draw in drawings(table_of(EXTREMES[name]), width_mm):
        figure = draw()
        assert overhang_mm(figure) < 0.1
        assert smallest_axes_mm(figure) > 4
        assert figure.get_figwidth() == pytest.approx(width_mm * MM)


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_values_have_captions(name: str) -> None:
    table = table_of(EXTREMES[name])
    cells, found = estimates(table), diagnostics(table)
    told = [
        order(View(*CASE, table=table, diagnostics=found)).caption,
        lag(View(*CASE, table=table, diagnostics=found)).caption,
        ecdf(View(*CASE, table=table, estimates=cells)).caption,
        modes(View(*CASE, table=table, diagnostics=found)).caption,
        qq(View(*CASE, table=table, diagnostics=found)).caption,
    ]
    for text in told:
        assert "nan" not in text.replace("nanosecond", "")
        assert text.startswith("sysbench-cpu, default")


def test_a_case_without_a_value_is_refused_by_name() -> None:
    table = table_of({"native": [None, None], "docker": [None]})
    for draw in drawings(table, PAGE_MM):
        with pytest.raises(SchemaError, match="no ok trial of sysbench-cpu, default, events_per_s"):
            draw()
