"""Figures on a synthetic session: right numbers at the right place, nothing clipped, stable bytes."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color

from infrabench.analysis.figures import (
    COLUMN_MM,
    PAGE_MM,
    View,
    caption,
    forest,
    grouped,
    order,
    points,
    save,
    scaling,
    theme,
)
from infrabench.analysis.figures.axes import _fitting, _tick_text, _ticks, ratio_axis
from infrabench.analysis.figures.theme import MARKERS, MM
from infrabench.analysis.tables import ruled_out_label
from infrabench.analysis.tidy import tidy
from infrabench.core import SchemaError
from infrabench.stats import contrasts, estimates
from tests.support.analysis_fixtures import MARGINS, NOT_RUN, PRIMARY, SYSTEMS, table_of, write_session
from tests.support.frames import contrasts_frame
from tests.support.look_at import marked, overhang_mm, smallest_axes_mm, texts
from tests.support.pdf import page_mm


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    table = tidy(write_session(tmp_path_factory.mktemp("runs") / "s", blocks=8))
    return table, estimates(table), contrasts(table, "native", MARGINS, PRIMARY)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Four systems at eight levels."""
    table = tidy(write_session(tmp_path_factory.mktemp("runs") / "s", blocks=6, systems=SYSTEMS, not_run={}))
    return table, estimates(table), contrasts(table, "native", MARGINS, PRIMARY)


def test_nothing_is_clipped_at_print_size(data: tuple, four: tuple) -> None:
    table, cells, ratios = data
    known = {"systems": SYSTEMS, "not_run": NOT_RUN}
    web = four[2][(four[2]["workload"] == "web") & (four[2]["metric"] == "requests_per_s")]
    figures = [
        points(View("iozone", "read_B_per_s", table=table, estimates=cells, **known)).figure,
        points(View("stream", "copy_B_per_s", table=table, estimates=cells, contrasts=ratios, **known)).figure,
        points(
            View("web", "requests_per_s", table=four[0], estimates=four[1], systems=SYSTEMS, contrasts=four[2])
        ).figure,
        points(View("web", "total_s", table=four[0], estimates=four[1], systems=SYSTEMS, width_mm=COLUMN_MM)).figure,
        scaling(View("web", "latency_p99_s", estimates=four[1], systems=SYSTEMS)).figure,
        scaling(View("sysbench-cpu", "events_per_s", estimates=cells, **known)).figure,
        order(View("sysbench-cpu", "events_per_s", "threads=4", table=table, systems=SYSTEMS)).figure,
        forest(View(contrasts=ratios, **known)).figure,
        forest(View(contrasts=ratios, width_mm=COLUMN_MM, **known)).figure,
        forest(View(contrasts=web, systems=SYSTEMS)).figure,
    ]
    for figure in figures:
        assert overhang_mm(figure) < 0.1
        assert any(figure.get_figwidth() == pytest.approx(mm * MM) for mm in (COLUMN_MM, PAGE_MM))
    assert not plt.get_fignums()


def test_points_shows_every_value_and_the_mean(data: tuple) -> None:
    table, cells, _ = data
    figure = points(
        View("iozone", "read_B_per_s", table=table, estimates=cells, systems=SYSTEMS, not_run=NOT_RUN)
    ).figure
    axes = figure.axes[0]
    offsets = [np.asarray(c.get_offsets())[:, 1] for c in axes.collections]
    drawn = np.sort(np.concatenate([y for y in offsets if y.size == 8]))
    expected = np.sort(table.query("workload == 'iozone' and metric == 'read_B_per_s'")["value"] / 1e6)
    assert drawn == pytest.approx(expected)
    means = {round(float(line.get_ydata()[0]), 6) for line in axes.lines}
    shown = cells.query("workload == 'iozone' and metric == 'read_B_per_s'")["mean"] / 1e6
    assert {round(float(mean), 6) for mean in shown} <= means
    assert axes.get_ylim()[0] == 0
    assert "Read (MB/s), higher is better" in texts(figure)


def test_the_band_of_the_margin_reaches_as_far_below_1_as_above(data: tuple) -> None:
    table, cells, ratios = data
    figure = points(
        View("iozone", "read_B_per_s", table=table, estimates=cells, systems=SYSTEMS, not_run=NOT_RUN, contrasts=ratios)
    ).figure
    (band,) = [each for each in figure.axes[1].patches if same_color(each.get_facecolor(), theme.BAND)]
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((1 - MARGINS[""], 1 + MARGINS[""]))


def test_scenarios_that_lie_far_apart_are_on_a_logarithmic_axis(data: tuple) -> None:
    table, cells, _ = data
    chosen = {"workload": "iozone", "metric": "read_B_per_s"}
    rows = cells.query("workload == 'iozone' and metric == 'read_B_per_s'")
    values = ["mean", "median", "min", "max", "mean_low", "mean_high"]
    for times, scale in ((4, "linear"), (40, "log")):
        other = rows.assign(scenario="other", **{name: rows[name] * times for name in values})
        figure = points(
            View(*chosen.values(), table=table, estimates=pd.concat([cells, other]), systems=SYSTEMS, not_run=NOT_RUN)
        ).figure
        assert figure.axes[0].get_yscale() == scale
        assert ("log scale" in "".join(texts(figure))) == (scale == "log")


def test_dollars_in_a_reason_are_no_formula(data: tuple) -> None:
    table, cells, ratios = data
    odd = {"lxd": r"neither $HOME/{a nor $\frac1 is set"}
    for figure in (
        points(View("stream", "copy_B_per_s", table=table, estimates=cells, systems=SYSTEMS, not_run=odd)).figure,
        forest(View(contrasts=ratios, systems=SYSTEMS, not_run=odd)).figure,
        scaling(View("sysbench-cpu", "events_per_s", estimates=cells, systems=SYSTEMS, not_run=odd)).figure,
    ):
        figure.savefig(io.BytesIO(), format="png")
        assert "$HOME" in "".join(texts(figure))


def test_empty_cells_say_why(data: tuple) -> None:
    table, cells, ratios = data
    shown = texts(
        points(View("stream", "copy_B_per_s", table=table, estimates=cells, systems=SYSTEMS, not_run=NOT_RUN)).figure
    ).replace("\n", " ")
    assert "8 failed" in shown
    assert "not run: the LXD daemon did not answer" in shown
    many = texts(points(View("web", "total_s", table=table, estimates=cells, systems=SYSTEMS, not_run=NOT_RUN)).figure)
    assert "lxd not run: the LXD daemon did not answer" in many
    wide = texts(forest(View(contrasts=ratios, systems=SYSTEMS, not_run=NOT_RUN)).figure)
    assert "no ok trial of docker" in wide
    assert "not comparable" in wide
    assert "lxd not run" in wide


def test_forest_is_symmetric_about_one_and_says_what_is_ruled_out(data: tuple) -> None:
    ratios = data[2].query("workload == 'sysbench-cpu'")
    figure = forest(View(contrasts=ratios, systems=SYSTEMS)).figure
    low, high = figure.axes[0].get_xlim()
    assert low * high == pytest.approx(1)
    assert figure.axes[0].get_xscale() == "log"
    assert low <= ratios["ratio_low"].min()
    assert high >= ratios["ratio_high"].max()
    for row in ratios.itertuples():
        assert ruled_out_label(row) in texts(figure)
    assert "inconclusive" not in texts(figure)
    assert figure.axes[0].get_ylim()[0] > figure.axes[0].get_ylim()[1]


def test_a_count_without_an_upper_end_leaves_the_axis_to_the_others() -> None:
    rows = [{"system": "docker"}, {"system": "lxc", "ratio": np.inf, "ratio_low": 1.5, "ratio_high": np.inf}]
    rows += [{"system": "lxd", "ratio": 1.1, "ratio_low": 1.02, "ratio_high": np.inf}]
    axis = plt.figure().subplots()
    ratio_axis(axis.xaxis, contrasts_frame(*rows), axis.set_xlim)
    assert axis.get_xlim()[1] < 2


def test_forest_cuts_an_interval_that_would_make_all_others_look_alike() -> None:
    rows = [{"scenario": f"users={n}", "level": float(n)} for n in range(30)]
    wide = {"scenario": "users=99", "level": 99.0, "ratio": 1.0, "ratio_low": 0.1, "ratio_high": 10.0}
    drawn = forest(View(contrasts=contrasts_frame(*rows, wide)))
    axes = drawn.figure.axes[0]
    assert axes.get_xlim()[1] < 1.5
    assert len(marked(axes, ">")) == len(marked(axes, "<")) == 1
    assert drawn.caption.endswith("An arrow ends an interval that goes beyond the axis.")
    assert "arrow" not in forest(View(contrasts=contrasts_frame(*rows))).caption


@pytest.mark.parametrize("reach", [0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("most", [5, 9])
def test_ratio_ticks(reach: float, most: int) -> None:
    ticks = _ticks(reach, most)
    assert 1 in ticks
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= most
    assert all(abs(np.log(tick)) <= reach + 1e-9 for tick in ticks)


def test_scaling_draws_a_gap_and_a_cross_where_a_level_failed() -> None:
    levels = [table_of({"native": [1.0, 2, 3], "docker": [2.0, 3, 4]}, scenario="threads=1")]
    levels.append(table_of({"native": [2.0, 3, 4], "docker": [None, None, None]}, scenario="threads=2"))
    for level, table in zip((1.0, 2.0), levels, strict=True):
        table["level"], table["factor"] = level, "threads"
    table = pd.concat(levels, ignore_index=True)
    figure = scaling(View("sysbench-cpu", "events_per_s", estimates=estimates(table))).figure
    assert "no ok trial" in texts(figure)
    docker = [line for line in figure.axes[0].lines if np.isnan(np.asarray(line.get_ydata(), dtype=float)).any()]
    assert len(docker) == 1
    low = estimates(table)["mean_low"].min()
    assert low < 0
    assert figure.axes[0].get_ylim()[0] <= low  # no interval is cut at zero


def test_unknown_selections_are_named(data: tuple) -> None:
    table, cells, ratios = data
    with pytest.raises(SchemaError, match="no cell of iozone speed to draw; there are ftp total_s"):
        points(View("iozone", "speed", table=table, estimates=cells))
    with pytest.raises(SchemaError, match="no cell on a numeric factor"):
        scaling(View("stream", "copy_B_per_s", estimates=cells))
    with pytest.raises(SchemaError, match="no ok trial of web, users=1, total_s"):
        order(View("web", "total_s", "users=1", table=table))
    with pytest.raises(SchemaError, match="no contrast to draw"):
        forest(View(contrasts=ratios.head(0)))


def test_caption_is_made_of_computed_values(data: tuple) -> None:
    _, cells, ratios = data
    text = caption(View("sysbench-cpu", "events_per_s", estimates=cells, contrasts=ratios, not_run=NOT_RUN))
    for part in (
        "events in 1/s; higher is better",
        "n = 7 to 8 trials",
        "95 % Student t",
        "invalid: 1 lxc",
        "Not run: lxd (the LXD daemon did not answer)",
        "randomised complete blocks",
        "over 7 to 8 blocks",
        "margin of 2 %",
    ):
        assert part in text
    scaled = caption(View("sysbench-cpu", "events_per_s", estimates=cells), means_alone=True)
    assert "Means with 95 % Student t intervals" in scaled
    assert "tick" not in scaled
    assert "Fieller" not in scaled
    failed = caption(View("stream", "copy_B_per_s", estimates=cells))
    assert "failed: 8 docker" in failed
    assert "1 GB/s = 10⁹ B/s" in failed
    assert "No trial failed or was invalid." in caption(View("ftp", "total_s", estimates=cells))
    assert caption(View("ftp", "nothing", estimates=cells)) == "ftp: no trial of nothing."


def test_caption_counts_repeats_discards_and_deployments() -> None:
    values = {"native": [float(v) for v in range(100, 112)], "docker": [float(v) for v in range(90, 102)]}
    table = table_of(values, blocks_per_deployment=4)
    gone = table["block"] == 11
    table.loc[gone, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    table.loc[gone, ["state", "reason"]] = ["discarded", "interrupted"]
    table.loc[(table["block"] == 2) & (table["system"] == "docker"), "attempt"] = 1
    about = View("sysbench-cpu", "events_per_s", estimates=estimates(table))
    text = caption(replace(about, contrasts=contrasts(table, "native", {"": 0.02}), table=table))
    for part in (
        "Student t interval of the means of 3 deployments",
        "over 3 deployments with its paired 95 % Fieller interval",
        "within 3 deployments of every system (split-plot; the deployment is the unit)",
        "discarded: 1 docker, 1 native.",
        "Repeated at the end of the same block: 1 docker.",
        "Discarded whole and not used: 1 block.",
    ):
        assert part in text
    assert "Williams squares" in caption(replace(about, order="williams"))
    told = caption(replace(about, order=grouped(["10 pods", "20 pods"])))
    assert "complete blocks, in which each system does the cases of one group (10 pods, 20 pods) together. " in told
    told = caption(replace(about, order=grouped(["10 pods"], "adjacent")))
    assert "one group (10 pods) together, one system directly after the other. " in told
    assert "blocks, one directly after the other in each case. " in caption(replace(about, order="adjacent"))
    assert "Alternating. " in caption(replace(about, order="Alternating."))
    assert "of the means of" not in caption(View("sysbench-cpu", "events_per_s", estimates=estimates(table_of(values))))


def test_a_repeat_does_not_hide_a_trial_that_has_not_run() -> None:
    table = table_of({"native": [1.0, 2, 3], "docker": [1.0, 2, 3]})
    rows = table[(table["system"] == "docker") & (table["block"] == 1)]
    again = rows.assign(trial="again", attempt=1)
    table.loc[rows.index, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    table.loc[rows.index, "state"] = "invalid"
    table = pd.concat([table, again], ignore_index=True)
    absent = pd.DataFrame([{"system": "native", "workload": "sysbench-cpu", "scenario": "default", "factor": None,
                            "level": np.nan, "attempt": 0}])  # fmt: skip
    text = caption(View("sysbench-cpu", "events_per_s", estimates=estimates(table, absent), table=table))
    assert "invalid: 1 docker; not yet run: 1." in text


def test_saved_files_are_the_same_every_time_and_name_their_data(data: tuple, tmp_path: Path) -> None:
    table, cells, _ = data
    parameters = {"workload": "iozone", "metric": "read_B_per_s"}
    paths = []
    for folder in ("a", "b"):
        figure = points(
            View("iozone", "read_B_per_s", table=table, estimates=cells, systems=SYSTEMS, not_run=NOT_RUN)
        ).figure
        paths.append(save(figure, tmp_path / folder, "read", table, parameters, caption="Text."))
    assert [path.name for path in paths[0]] == ["read.pdf", "read.svg", "read.png", "read.json"]
    assert [path.read_bytes() for path in paths[0]] == [path.read_bytes() for path in paths[1]]
    car = json.loads(paths[0][3].read_text())
    assert car["parameters"] == parameters
    assert car["data"]["sessions"] == ["s"]
    assert car["data"]["rows"] == len(table)
    assert car["data"]["csv_sha256"] == hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    assert car["size_mm"][0] == COLUMN_MM
    for path in paths[0][:3]:
        assert car["files"][path.name] == hashlib.sha256(path.read_bytes()).hexdigest()
    pdf = paths[0][0].read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/CreationDate" not in pdf
    told = car["data"]["columns"]["value"]
    values = table["value"].dropna()
    assert (told["values"], told["smallest"], told["sum"]) == (len(values), values.min(), pytest.approx(values.sum()))
    assert car["data"]["columns"]["system"] != car["data"]["columns"]["workload"]


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
def test_a_figure_is_saved_at_the_other_width_too(data: tuple, tmp_path: Path, width: float) -> None:
    table, cells, _ = data
    both = [points(View("iozone", "read_B_per_s", table=table, estimates=cells, width_mm=width)).figure]
    other = theme.other_width(both[0])
    assert {width, other} == {COLUMN_MM, PAGE_MM}
    both.append(points(View("iozone", "read_B_per_s", table=table, estimates=cells, width_mm=other)).figure)
    paths = save(both[0], tmp_path, "read", table, {}, other=both[1])
    assert [path.name for path in paths] == ["read.pdf", "read.svg", "read.png", f"read-{other:g}mm.pdf", "read.json"]
    assert [page_mm(paths[place])[0] for place in (0, 3)] == pytest.approx([width, other], abs=1e-6)
    save(both[1], tmp_path, "read", table, {}, other=both[0])
    assert not paths[3].exists()  # it is read.pdf now
    assert (tmp_path / f"read-{width:g}mm.pdf").exists()


def test_lines_of_systems_are_dashed_each_in_its_own_way(four: tuple) -> None:
    figure = scaling(View("web", "latency_p99_s", estimates=four[1], systems=SYSTEMS)).figure
    drawn = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 8]
    assert [line.is_dashed() for line in drawn] == [False, True, True, True]
    keys = figure.legends[0].get_lines()
    assert [key.is_dashed() for key in keys] == [False, True, True, True]


def test_drawing_leaves_the_global_style_alone(data: tuple) -> None:
    before = dict(plt.rcParams)
    points(View("ftp", "total_s", table=data[0], estimates=data[1]))
    assert dict(plt.rcParams) == before


def test_the_numbers_under_an_axis_of_ratios_do_not_run_into_each_other() -> None:
    for room, reach in ((30.0, 2.3), (54.0, 2.3), (90.0, 0.7), (12.0, 3.0)):
        ticks = _fitting(reach, 9, room)
        places = np.log(ticks) / (2 * reach) * room
        widths = [theme.text_mm(_tick_text(tick), theme.TEXT_PT - 1) for tick in ticks]
        assert 1 in ticks
        assert all(b - a > (u + v) / 2 for a, b, u, v in zip(places, places[1:], widths, widths[1:], strict=False))
    assert _fitting(0.1, 9, 500.0) == _ticks(0.1, 9)


NAMES = ["containerd-runc", "crio-runc", "containerd-crun", "crio-crun", "containerd-runsc"]
NAMES += ["containerd-kata (emulated)", "crio-kata (emulated)"]


def over_pods(systems: list[str], factors: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Levels 10 and 20 on each factor; every system half of the one before it."""
    parts = []
    for place, factor in enumerate(factors):
        for level in (10.0, 20.0):
            values = {name: [100 * level / 2**i + b for b in range(4)] for i, name in enumerate(systems)}
            part = table_of(
                values, workload="net", metric="rate_B_per_s", unit="B/s", scenario=f"{place} {level:g} pods"
            )
            parts.append(part.assign(level=level, factor=factor))
    table = pd.concat(parts, ignore_index=True)
    return table, estimates(table), contrasts(table, systems[0], {"": 0.05})


@pytest.mark.parametrize("factors", [("pods",), ("pods (stream)", "pods (stream first)")])
@pytest.mark.parametrize("count", [2, 4, 7])
def test_curves_show_means_and_ratios_over_each_factor(factors: tuple[str, ...], count: int) -> None:
    _, cells, ratios = over_pods(NAMES[:count], factors)
    figure = scaling(View("net", "rate_B_per_s", estimates=cells, systems=NAMES[:count], contrasts=ratios)).figure
    assert overhang_mm(figure) < 0.1
    assert smallest_axes_mm(figure) > 15
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()] == list(factors)
    told = texts(figure)
    assert all(name in told for name in NAMES[:count])
    assert "Ratio" in told
    low = figure.axes[len(factors)]
    drawn = marked(low, *MARKERS[1:count])
    assert len(drawn) == 2 * (count - 1)  # each system but the baseline, at each level
    for i, name in enumerate(NAMES[1:count], start=1):
        mine = ratios[(ratios["system"] == name) & (ratios["factor"] == factors[0])]
        assert sorted(marked(low, MARKERS[i])[:, 1]) == sorted(mine["ratio"])
    narrow = len(factors) == 1 and count <= 4
    assert figure.get_figwidth() == pytest.approx((COLUMN_MM if narrow else PAGE_MM) * MM)


def test_curves_without_a_contrast_of_a_level_leave_its_place_free() -> None:
    table, cells, _ = over_pods(NAMES[:2], ("pods",))
    gone = (table["system"] == NAMES[1]) & (table["level"] == 20)
    some = contrasts(table[~gone].reset_index(drop=True), NAMES[0], {"": 0.05})
    figure = scaling(
        View("net", "rate_B_per_s", estimates=estimates(table[~gone].reset_index(drop=True)), contrasts=some)
    ).figure
    assert len(marked(figure.axes[1], MARKERS[1])) == 1
    text = caption(View("net", "rate_B_per_s", estimates=cells, contrasts=some), means_alone=True)
    assert "Ratio of means to containerd-runc over 4 blocks" in text


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_a_legend_of_long_names_stays_on_the_paper(width: float, count: int) -> None:
    with theme.style():
        figure, _ = theme.canvas(width, 60 + theme.legend_mm(NAMES[:count], width))
        theme.legend(figure, theme.assign_styles(NAMES), NAMES[:count])
    assert overhang_mm(figure) < 0.1
    assert (
        theme.legend_mm(NAMES, COLUMN_MM) > theme.legend_mm(NAMES, PAGE_MM) > theme.legend_mm(NAMES[:2], PAGE_MM) == 0
    )


def test_numbers_on_a_logarithmic_axis_are_written_out() -> None:
    values = {"native": [1.5, 1.6, 1.7], "docker": [28.0, 29.0, 30.0]}
    one = table_of(values, scenario="a")
    table = pd.concat([one, table_of({"native": [20.0, 21, 22], "docker": [30.0, 31, 32]}, scenario="b")])
    figure = points(
        View(
            "sysbench-cpu",
            "events_per_s",
            table=table.reset_index(drop=True),
            estimates=estimates(table.reset_index(drop=True)),
        )
    ).figure
    figure.draw_without_rendering()
    told = [tick.get_text() for which in (False, True) for tick in figure.axes[0].get_yticklabels(minor=which)]
    assert {"2", "10", "20"} <= set(told)
    assert not [text for text in told if "times" in text or "^" in text]


@pytest.mark.parametrize("count", [3, 16])
def test_labels_that_have_no_room_side_by_side_stand(count: int) -> None:
    names = [f"sequential write default {'again ' * (i % 2)}{i}" for i in range(count)]
    table = pd.concat(
        [table_of({"native": [1.0, 2, 3], "docker": [2.0, 3, 4]}, scenario=name) for name in names], ignore_index=True
    )
    figure = points(
        View(
            "sysbench-cpu",
            "events_per_s",
            table=table,
            estimates=estimates(table),
            contrasts=contrasts(table, "native", {"": 0.02}),
        )
    ).figure
    labels = figure.axes[-1].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {90.0 if count == 16 else 0.0}
    assert overhang_mm(figure) < 0.1
    assert smallest_axes_mm(figure) > 20
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))
