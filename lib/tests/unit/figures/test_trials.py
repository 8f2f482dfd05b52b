"""Figures of single trials: every value at its place, every flag and loss said, outlines, courses, nothing clipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from scipy import stats

from infrabench.analysis import figures
from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, Drawn, View, blocks, ecdf, lag, modes, order, qq
from infrabench.analysis.figures.theme import MARKERS
from infrabench.core import SchemaError
from infrabench.stats import diagnostics, estimates
from tests.support.analysis_fixtures import lose, table_of
from tests.support.look_at import check_paper, make_view, marked, smallest_axes_mm, texts

Values = dict[str, list[float | None]]
NAMES = ("native", "docker", "lxc", "lxd", "podman", "kata", "gvisor", "crio")


def normal(n: int = 30, *, systems: int = 2, seed: int = 1) -> Values:
    rng = np.random.default_rng(seed)
    return {name: list(rng.normal(100, 2, n)) for name in NAMES[:systems]}


def two_modes() -> Values:
    rng = np.random.default_rng(3)
    return normal() | {"docker": list(np.where(np.arange(30) % 5 == 0, 140, 100) + rng.normal(0, 2, 30))}


def view_of(table: pd.DataFrame, **how: Any) -> View:
    """Return the case of a table of one, analysed, its systems in the order of `NAMES`."""
    systems = [name for name in NAMES if name in set(table["system"])]
    about = ("sysbench-cpu", "events_per_s", "default")
    frames = {"table": table, "estimates": estimates(table), "diagnostics": diagnostics(table)}
    return View(*about, **{**frames, "systems": systems, "every_system": systems, **how})


def test_order_shows_every_value_in_executed_order() -> None:
    table = table_of(normal())
    axes = order(view_of(table)).figure.axes[0]
    for name, marker in zip(NAMES[:2], MARKERS, strict=False):
        mine = table[table["system"] == name]
        shown = marked(axes, marker)[:30]  # rings are circles too
        assert shown[:, 0] == pytest.approx(mine["position"] + 1)
        assert shown[:, 1] == pytest.approx(mine["value"])


def test_order_sorts_out_what_failed_what_was_repeated_and_what_is_flagged() -> None:
    values = normal()
    values["native"][7] = 160.0
    values["docker"][3] = None
    table = table_of(values)
    lose(table, (table["system"] == "docker") & (table["block"] == 5), "invalid")
    lose(table, table["block"] == 25, "discarded")
    table.loc[(table["system"] == "native") & (table["block"] == 9), "attempt"] = 1
    view = view_of(table)
    figure, told = order(view)
    axes = figure.axes[0]
    assert marked(axes, "x")[:, 0] == pytest.approx([8])  # the failed trial, in ranks
    assert sorted(marked(axes, "+")[:, 0]) == [12, 51, 52]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[19]]
    rings = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    counted = view.diagnostics.set_index("system")["outliers"]
    assert 15 in rings[0].get_xdata()
    assert len(rings[0].get_xdata()) == counted.sum() == counted["native"]
    assert all(word in texts(figure) for word in ("failed", "invalid", "repeat", "outlier flag"))
    for part in (
        "failed: 1 docker; invalid: 1 docker; discarded: 1 docker, 1 native.",
        "Discarded whole and not used: 1 block.",
        "Repeated at the end of the same block: 1 native.",
        f"modified z above 3.5, kept in every analysis ({counted['native']:.0f} native)",
        "None is flagged dependent",
        "n = 27 docker, 29 native.",
        "randomised complete blocks",
    ):
        assert part in told
    assert "Williams squares" in order(view_of(table, order="williams")).caption


def test_blocks_shows_every_value_in_the_column_of_its_block() -> None:
    values = normal(12, systems=3)
    values["docker"][3] = None
    values["native"][7] = 160.0
    table = table_of(values, blocks_per_deployment=4)
    table["block"] += 5  # of a session whose first blocks are elsewhere
    figure, told = blocks(view_of(table.sample(frac=1, random_state=1), width_mm=COLUMN_MM))
    axes, places = check_paper(figure).axes[0], {}
    for name, marker in zip(values, MARKERS, strict=False):
        shown = marked(axes, marker)[: sum(value is not None for value in values[name])]
        assert shown[:, 1] == pytest.approx([value for value in values[name] if value is not None])
        places[name] = shown[:, 0]
        assert list(np.round(shown[:, 0])) == [i + 1 for i, value in enumerate(values[name]) if value is not None]
    assert (places["native"] < places["lxc"]).all()  # in the session's order, whatever their order in the block was
    assert marked(axes, "x")[:, 0] == pytest.approx([4])  # docker is in the middle of its column
    assert {"failed", "outlier flag", "D3"} <= set(texts(figure).splitlines())
    assert "by block; higher is better; the axis does not start at zero. n = 11 docker, 12 lxc, 12 native." in told
    assert "kept in every analysis (1 docker, 2 native)" in told
    assert "failed: 1 docker" in told


def test_a_trend_is_said_with_its_p() -> None:
    told = order(view_of(table_of(normal() | {"native": list(100.0 + np.arange(30))}))).caption
    assert "Flagged dependent: native (Ljung-Box p < 0.0001, trend p < 0.0001)" in told


def test_deployments_are_numbered_and_probes_stand_before_their_block() -> None:
    table = table_of(normal(), blocks_per_deployment=10)
    starts = table.groupby("block")["position"].min()
    probes = pd.DataFrame(
        [{"session": "s", "block": b, "host": h, "position": p, "value": 5e8 + b, "unit": "B/s"}
         for b, p in starts.items() for h in ("server", "client")]
    )  # fmt: skip
    figure, told = order(view_of(table, probes=probes))
    assert {"D1", "D2", "D3", "server", "client", "Probe (MB/s)"} <= set(texts(figure).splitlines())
    values, drift = figure.axes
    lines = [line for line in drift.lines if line.get_label() in ("server", "client")]
    assert [list(line.get_xdata()) for line in lines] == 2 * [[2 * block + 0.5 for block in range(30)]]
    assert [line.get_xdata()[0] for line in values.lines if line.get_linewidth() == 0.9] == [20.5, 40.5]  # thick
    assert smallest_axes_mm(figure) > 10
    assert "never used to correct" in told
    pooled = pd.concat([table, table.assign(session="t")], ignore_index=True)
    for without in (pooled, table.assign(session="t")):  # of two sessions; of one that has no probe
        figure, told = order(view_of(without, probes=probes))
        assert len(figure.axes) == 1
    assert "never used to correct" not in told


def test_lag_pairs_each_value_with_the_next_of_its_system() -> None:
    view = view_of(table_of(normal()))
    figure, told = lag(view)
    values = view.by_system["native"]
    axes = figure.axes[0]
    assert marked(axes, "o") == pytest.approx(np.column_stack([values[:-1], values[1:]]))
    r1 = view.diagnostics.set_index("system").loc["native", "lag1"]
    assert axes.get_title() == f"native, r₁ = {r1:.2f}"
    assert axes.get_xlim() == axes.get_ylim()
    assert f"native {r1:.2f}" in told
    assert "n = 30 docker, 30 native." in told


def test_ecdf_steps_to_one_and_marks_the_exact_median_interval() -> None:
    view = view_of(table_of(normal()))
    figure, told = ecdf(view)
    steps = marked(figure.axes[0], "o")
    assert steps[:, 0] == pytest.approx(np.sort(view.by_system["native"]))
    assert steps[:, 1] == pytest.approx(np.arange(1, 31) / 30)
    assert figure.axes[0].get_xscale() == "linear"
    native = view.estimates.set_index("system").loc["native"]
    ends = [np.asarray(c.get_segments()[0])[:, 0] for c in figure.axes[1].collections]
    assert ends[0] == pytest.approx([native["median_low"], native["median_high"]])
    assert "level 95.7 %" in told


@pytest.mark.parametrize(("least", "scale"), [(1.0, "log"), (0.0, "linear"), (2.0, "linear")])
def test_ecdf_is_logarithmic_beyond_a_factor_of_ten(least: float, scale: str) -> None:
    table = table_of({"native": [least, 2, 3, 4, 5, 6], "docker": [9.0, 11, 12, 13, 14, 15]}, unit="s", better="lower")
    assert ecdf(view_of(table)).figure.axes[0].get_xscale() == scale


def test_modes_marks_the_groups_of_flagged_cells_only() -> None:
    view = view_of(table_of(two_modes()))
    figure, told = modes(view)
    assert "80 % | 20 %" in texts(figure).splitlines()
    values = view.by_system["docker"]
    low, high = values[values < 120].mean(), values[values > 120].mean()
    lines = sorted(c.get_segments()[0][0][0] for c in figure.axes[0].collections)
    assert (lines[0], lines[2]) == pytest.approx((low, high))
    assert low < lines[1] < high
    assert f"Flagged bimodal: docker (80 % at {low:.4g} 1/s, 20 % at {high:.4g} 1/s)" in told
    assert f"docker {view.diagnostics.set_index('system').loc['docker', 'split_d']:.2f};" in told
    figure, told = modes(view_of(table_of(normal())))
    assert "None is flagged." in told
    assert not figure.axes[0].collections


def test_a_mode_that_belongs_to_a_deployment_is_said() -> None:
    values = normal()
    values["docker"] = [v + 40 * (10 <= i < 20) for i, v in enumerate(values["docker"])]
    figure, told = modes(view_of(table_of(values, blocks_per_deployment=10)))
    assert "deployment 3" in texts(figure)
    assert len(marked(figure.axes[0], MARKERS[1])) == 20  # deployment 2 of both systems
    assert "each deployment keeps to one mode" in told


def test_qq_points_rise_and_their_band_holds_a_normal_sample() -> None:
    figure, told = qq(view_of(table_of(normal(n=200, systems=3))))
    points = marked(figure.axes[0], "o")
    assert len(points) == 200
    assert (np.diff(points[:, 1]) >= 0).all()
    assert points[:, 1].std(ddof=1) == pytest.approx(1)
    assert points[[0, -1], 0] == pytest.approx(stats.norm.ppf([1 - 0.5 ** (1 / 200), 0.5 ** (1 / 200)]))
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    inside = [band[band[:, 0] == x][:, 1].min() <= y <= band[band[:, 0] == x][:, 1].max() for x, y in points]
    assert np.mean(inside) > 0.9
    assert "Shapiro-Wilk: native p" in told


KINDS = (order, blocks, ecdf, modes, lag, qq)
EXTREMES: dict[str, Values] = {
    "one value": {"native": [3.0], "docker": [4.0]},
    "one system": {"native": normal()["native"]},
    "one system without a value": {"native": [7.0], "docker": [None]},
    "eight systems": normal(systems=8),
    "deterministic": {"native": [5.0] * 8, "docker": [5.0] * 8},
    "huge ratios": {"native": [1.0, 2, 3, 2, 1, 2, 3, 2], "docker": [2e6, 1e6, 3e6, 2e6, 4e6, 1e6, 2e6, 3e6]},
    "zeros": {"native": [0.0] * 6, "docker": [0.0, 0, 0, 1, 0, 0]},
    "two modes": two_modes(),
}


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_values_are_drawn_whole_and_worded(name: str, width_mm: float) -> None:
    view = view_of(table_of(EXTREMES[name]), width_mm=width_mm)
    for draw in KINDS:
        figure, told = draw(view)
        check_paper(figure, width_mm)
        assert "nan" not in told
        assert told.startswith("sysbench-cpu, default")


@pytest.mark.parametrize("draw", KINDS)
def test_a_case_without_a_value_is_refused_by_name(draw: Callable[[View], Drawn]) -> None:
    with pytest.raises(SchemaError, match="no ok trial of sysbench-cpu, default, events_per_s"):
        draw(view_of(table_of({"native": [None, None], "docker": [None]})))


RNG = np.random.default_rng(5)
ROUND = RNG.normal(100, 2, 40)
MODES = np.where(np.arange(40) % 4 == 0, 60.0, 100.0) + RNG.normal(0, 1, 40)
SKEWED = 100 + RNG.exponential(20, 40)


def drawn(values: dict[str, np.ndarray], *, flags: bool = True, **how: float) -> tuple[list[np.ndarray], str]:
    """Return the corners of every outline, and the caption."""
    table = table_of({name: list(each) for name, each in values.items()})
    found = diagnostics(table) if flags else diagnostics(table).head(0)
    view = make_view("sysbench-cpu", "events_per_s", table=table, estimates=estimates(table), diagnostics=found, **how)
    figure, caption = figures.points(view)
    bodies = [each for each in figure.axes[0].collections if isinstance(each, PolyCollection)]
    return [each.get_paths()[0].vertices for each in bodies if len(each.get_paths()[0].vertices) > 100], caption


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"a": ROUND, "b": MODES}, 2),  # two modes
        ({"a": ROUND, "b": SKEWED}, 2),  # another shape
        ({"a": ROUND, "b": 1.5 * ROUND}, 0),  # another place alone
        ({"a": ROUND[:29], "b": MODES[:29]}, 0),  # too few
        ({"a": ROUND, "b": MODES, "c": np.full(40, 7.0)}, 2),  # one without a shape
        ({"a": MODES}, 1),
        ({f"s{i}": MODES + i for i in range(14)}, 0),  # no room
    ],
)
def test_outlines_stand_where_shapes_differ(values: dict[str, np.ndarray], count: int) -> None:
    outlines, caption = drawn(values)
    assert len(outlines) == count
    assert ("Outlined behind the means" in caption) == (count > 0)


def test_an_outline_ends_at_the_values_and_is_widest_at_the_larger_mode() -> None:
    outlines, _ = drawn({"a": ROUND, "b": MODES})
    body = outlines[1]
    assert (body[:, 1].min(), body[:, 1].max()) == pytest.approx((MODES.min(), MODES.max()))
    assert body[body[:, 0].argmax(), 1] == pytest.approx(100, abs=4)
    assert np.ptp(body[:, 0]) == pytest.approx(0.44, abs=0.01)


def test_without_diagnostics_the_values_alone_decide() -> None:
    assert len(drawn({"a": MODES, "b": MODES + 1e-3}, flags=False)[0]) == 0
    assert len(drawn({"a": ROUND, "b": SKEWED}, flags=False)[0]) == 2


SYSTEMS = ["zfs (user space)", "ceph"]
HOW = {"workload": "rebuild", "zero": "replaced", "origin": "the disk was replaced", "shown": ("lost", "clean")}


def courses(trials: int = 3, scenarios: tuple[str, ...] = ("2 GB", "4 GB"), systems: list[str] = SYSTEMS) -> tuple:
    samples, events = [], []
    for scenario in scenarios:
        for system in systems:
            for trial in range(trials):
                key = {"session": "s", "system": system, "scenario": scenario, "trial": f"{scenario}-{system}-{trial}"}
                for at in np.arange(-3, 20, 0.5):
                    slow = 1e-3 if at < 0 else 0.05 * (1 + trial)
                    still = at == -1
                    row = {**key, "at_s": at}
                    rate, latency = (0.0, np.nan) if still else (200.0, slow)
                    samples.append({**row, "series": "foreground_iops", "value": rate, "unit": "1/s"})
                    samples.append({**row, "series": "foreground_latency_s", "value": latency, "unit": "s"})
                events += [{**key, "event": name, "at_s": at} for name, at in
                           (("lost", -1.5), ("replaced", 0.0), ("clean", 15.0 + trial))]  # fmt: skip
    return pd.DataFrame(samples), pd.DataFrame(events)


@pytest.mark.parametrize("scenarios", [("2 GB",), ("2 GB", "4 GB"), ("2 GB", "4 GB", "20 GB", "40 GB")])
def test_a_line_for_each_trial_in_a_panel_for_each_scenario_and_series(scenarios: tuple[str, ...]) -> None:
    samples, events = courses(scenarios=scenarios)
    figure = check_paper(figures.timeline(samples, events, systems=SYSTEMS, **HOW).figure, PAGE_MM, axes_mm=14)
    panels = figure.axes
    assert len(panels) == 2 * len(scenarios)
    for axes in panels:
        assert sum(len(line.get_xdata()) > 10 for line in axes.lines) == 6
    lines = [line for line in panels[-1].lines if len(line.get_xdata()) > 10]
    assert all(np.isnan(line.get_ydata()).sum() == 1 for line in lines)  # broken there
    assert panels[-1].get_yscale() == "log"
    assert panels[0].get_ylim()[0] == 0
    told = texts(figure)
    assert told.count("seconds after the disk was replaced") == 1
    assert all(name in told for name in (*scenarios, *SYSTEMS, "lost", "clean"))


def test_what_happened_is_marked_for_each_trial_and_told() -> None:
    first = figures.timeline(*courses(scenarios=("2 GB",)), systems=SYSTEMS, **HOW).figure.axes[0]
    assert sorted(marked(first, "x")[:, 0]) == sorted([15.0, 16.0, 17.0] * 2)
    assert sorted(marked(first, "|")[:, 0]) == [-1.5] * 6
    told = figures.timeline(*courses(), systems=SYSTEMS, **HOW).caption
    assert "One line for each trial and none for their mean, 3 for each system and scenario" in told
    assert "4 GB, ceph: lost at -1.5 s, clean at 15 to 17 s." in told


def test_a_system_without_a_trial_keeps_the_others_colours() -> None:
    both = figures.timeline(*courses(scenarios=("2 GB",)), systems=SYSTEMS, **HOW).figure
    alone = figures.timeline(
        *courses(scenarios=("2 GB",), systems=["ceph"]), systems=SYSTEMS, **HOW, width_mm=COLUMN_MM
    ).figure
    last = [[line.get_color() for line in figure.axes[0].lines if len(line.get_xdata()) > 10][-1] for figure in
            (both, alone)]  # fmt: skip
    assert last[0] == last[1]
    assert "zfs" not in texts(alone)
    check_paper(alone, COLUMN_MM)


def test_there_has_to_be_something_to_draw() -> None:
    samples, events = courses()
    with pytest.raises(SchemaError, match="no trial of this session has a course"):
        figures.timeline(samples.iloc[:0], events.iloc[:0], systems=SYSTEMS, **HOW)
