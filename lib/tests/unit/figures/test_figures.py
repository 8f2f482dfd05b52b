"""Figures on a synthetic session: right numbers at the right place, nothing clipped, stable bytes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from infrabench.analysis.figures import Drawn, View, caption, forest, grouped, order, points, save, scaling, theme
from infrabench.analysis.figures.axes import level_axis, ratio_axis
from infrabench.analysis.figures.theme import COLUMN_MM, MARKERS, PAGE_MM
from infrabench.analysis.tables import ruled_out_label
from infrabench.analysis.tidy import tidy
from infrabench.core import SchemaError
from infrabench.stats import contrasts, estimates
from tests.support.analysis_fixtures import MARGINS, NOT_RUN, PRIMARY, SYSTEMS, levels_of, lose, table_of, write_session
from tests.support.frames import contrasts_frame
from tests.support.look_at import check_paper, make_view, marked, overhang_mm, texts
from tests.support.pdf import page_mm

CPU, READ, COPY = (
    ("sysbench-cpu", "events_per_s"), ("iozone", "read_B_per_s"), ("stream", "copy_B_per_s"),
)  # fmt: skip
Draw = Callable[..., Figure]


def analysed(table: pd.DataFrame, **how: Any) -> View:
    found = contrasts(table, "native", MARGINS, PRIMARY)
    return make_view(table=table, estimates=estimates(table), contrasts=found, systems=SYSTEMS, **how)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Three systems with trials that failed or are invalid, and one that was not run."""
    return analysed(tidy(write_session(tmp_path_factory.mktemp("runs") / "s", blocks=8)), not_run=NOT_RUN)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Four systems at eight levels."""
    folder = tmp_path_factory.mktemp("runs") / "s"
    return analysed(tidy(write_session(folder, blocks=6, systems=SYSTEMS, not_run={})))


def drawn(draw: Callable[[View], Drawn], view: View, *about: str, **change: Any) -> Figure:
    """Draw a workload, metric and scenario of a view on paper that holds it."""
    case = dict(zip(("workload", "metric", "scenario"), about, strict=False))
    return check_paper(draw(replace(view, **case, **change)).figure)


def test_points_shows_every_value_and_the_mean(session: View) -> None:
    figure = drawn(points, session, *READ, contrasts=None)
    axes, about = figure.axes[0], "workload == 'iozone' and metric == 'read_B_per_s'"
    offsets = [np.asarray(c.get_offsets())[:, 1] for c in axes.collections]
    values = np.sort(np.concatenate([y for y in offsets if y.size == 8]))
    assert values == pytest.approx(np.sort(session.table.query(about)["value"] / 1e6))
    means = {round(float(line.get_ydata()[0]), 6) for line in axes.lines}
    assert {round(float(mean), 6) for mean in session.estimates.query(about)["mean"] / 1e6} <= means
    assert axes.get_ylim()[0] == 0
    assert "Read (MB/s), higher is better" in texts(figure)


def test_the_band_of_the_margin_reaches_as_far_below_1_as_above(session: View) -> None:
    figure = drawn(points, session, *READ)
    (band,) = [each for each in figure.axes[1].patches if same_color(each.get_facecolor(), theme.BAND)]
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((1 - MARGINS[""], 1 + MARGINS[""]))


@pytest.mark.parametrize(("times", "scale"), [(4, "linear"), (40, "log")])
def test_scenarios_that_lie_far_apart_are_on_a_logarithmic_axis(session: View, times: int, scale: str) -> None:
    rows = View(*READ).of_metric(session.estimates)
    values = {name: rows[name] * times for name in ("mean", "median", "min", "max", "mean_low", "mean_high")}
    cells = pd.concat([session.estimates, rows.assign(scenario="other", **values)])
    figure = drawn(points, session, *READ, estimates=cells, contrasts=None)
    assert figure.axes[0].get_yscale() == scale
    assert ("log scale" in texts(figure)) == (scale == "log")


def test_dollars_in_a_reason_are_no_formula(session: View) -> None:
    odd = {"lxd": r"neither $HOME/{a nor $\frac1 is set"}
    for draw, about in ((points, COPY), (forest, ()), (scaling, CPU)):
        figure = draw(replace(session, not_run=odd, **dict(zip(("workload", "metric"), about, strict=False)))).figure
        figure.savefig(io.BytesIO(), format="png")
        assert "$HOME" in texts(figure)


def test_empty_cells_say_why(session: View, four: View) -> None:
    alone = texts(drawn(points, session, *COPY)).replace("\n", " ")
    assert "8 failed" in alone
    assert "not run: the LXD daemon did not answer" in alone
    assert "lxd not run: the LXD daemon did not answer" in texts(drawn(points, session, "web", "total_s"))
    for width in (COLUMN_MM, PAGE_MM):
        shown = texts(drawn(forest, session, width_mm=width))
        assert all(part in shown for part in ("lxd not run", "no ok trial of docker", "not comparable"))
    drawn(points, four, "web", "requests_per_s", width_mm=COLUMN_MM)  # eight scenarios


def test_forest_is_symmetric_about_one_and_says_what_is_ruled_out(session: View) -> None:
    ratios = session.contrasts.query("workload == 'sysbench-cpu'")
    figure = drawn(forest, session, contrasts=ratios)
    low, high = figure.axes[0].get_xlim()
    assert low * high == pytest.approx(1)
    assert figure.axes[0].get_xscale() == "log"
    assert low <= ratios["ratio_low"].min()
    assert high >= ratios["ratio_high"].max()
    assert all(ruled_out_label(row) in texts(figure) for row in ratios.itertuples())
    assert "inconclusive" not in texts(figure)
    assert figure.axes[0].get_ylim()[0] > figure.axes[0].get_ylim()[1]


def test_a_count_without_an_upper_end_leaves_the_axis_to_the_others() -> None:
    rows = [{"system": "docker"}, {"system": "lxc", "ratio": np.inf, "ratio_low": 1.5, "ratio_high": np.inf}]
    rows += [{"system": "lxd", "ratio": 1.1, "ratio_low": 1.02, "ratio_high": np.inf}]
    axis = Figure().subplots()
    ratio_axis(axis.xaxis, contrasts_frame(*rows), most=7)
    assert axis.get_xlim()[1] < 2


def test_forest_cuts_an_interval_that_would_make_all_others_look_alike() -> None:
    rows = [{"scenario": f"users={n}", "level": float(n)} for n in range(30)]
    wide = {"scenario": "users=99", "level": 99.0, "ratio": 1.0, "ratio_low": 0.1, "ratio_high": 10.0}
    figure, told = forest(make_view(contrasts=contrasts_frame(*rows, wide)))
    axes = figure.axes[0]
    assert axes.get_xlim()[1] < 1.5
    assert len(marked(axes, ">")) == len(marked(axes, "<")) == 1
    assert "An arrow ends an interval that goes beyond the axis." in told
    assert "arrow" not in forest(make_view(contrasts=contrasts_frame(*rows))).caption


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("reach", [0.001, 0.03, 0.3, 8.0])
def test_ticks_of_ratios_are_few_and_their_numbers_apart(reach: float, width: float) -> None:
    ends = {"ratio": 1.0, "ratio_low": np.exp(-reach), "ratio_high": np.exp(reach), "margin": 0.0005}
    figure = drawn(forest, make_view(contrasts=contrasts_frame(ends)), width_mm=width)
    axis = figure.axes[0].xaxis
    low, high = axis.get_view_interval()
    labels = zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
    shown = [label for label, at in labels if low <= at <= high]
    assert "1" in [label.get_text() for label in shown]
    assert len(shown) <= (9 if width == PAGE_MM else 5)
    assert all(left.x1 < right.x0 for left, right in pairwise(label.get_window_extent() for label in shown))


@pytest.mark.parametrize(
    ("levels", "scale", "labels"),
    [
        ([1, 2, 4, 8], "linear", ["1", "2", "4", "8"]),
        ([100, 1000, 4000, 12000, 16000], "log", ["100", "1000", "4000", "", "16000"]),  # 12000 would touch the last
        ([0, 10, 11, 1000], "linear", ["0", "10", "", "1000"]),
        ([0, 1, 100000], "linear", ["0", "", "100000"]),
        ([64], "linear", ["64"]),
    ],
)
def test_levels_are_labelled_where_there_is_room(levels: list[float], scale: str, labels: list[str]) -> None:
    axes = Figure().add_subplot()
    level_axis(axes, np.array(levels), 400.0 if levels[-1] == 1000 else 60.0)
    assert axes.get_xscale() == scale
    assert [text.get_text() for text in axes.get_xticklabels()] == labels


def test_scaling_draws_a_gap_and_a_cross_where_a_level_failed() -> None:
    first = {"native": [1.0, 2, 3], "docker": [2.0, 3, 4]}
    second = {"native": [2.0, 3, 4], "docker": [None, None, None]}
    cells = estimates(levels_of({1: first, 2: second}, "threads"))
    figure = drawn(scaling, make_view(*CPU, estimates=cells))
    assert "no ok trial" in texts(figure)
    docker = [line for line in figure.axes[0].lines if np.isnan(np.asarray(line.get_ydata(), dtype=float)).any()]
    assert len(docker) == 1
    assert figure.axes[0].get_ylim()[0] <= cells["mean_low"].min() < 0  # no interval is cut at zero


@pytest.mark.parametrize(
    ("draw", "about", "told"),
    [
        (points, ("iozone", "speed"), "no cell of iozone speed to draw; there are ftp total_s"),
        (scaling, COPY, "no cell on a numeric factor"),
        (order, ("web", "total_s", "users=1"), "no ok trial of web, users=1, total_s"),
        (forest, (), "no contrast to draw"),
    ],
)
def test_unknown_selections_are_named(session: View, draw: Draw, about: tuple[str, ...], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        drawn(draw, replace(session, contrasts=session.contrasts.head(0)), *about)


def test_caption_is_made_of_computed_values(session: View) -> None:
    text = caption(replace(session, workload=CPU[0], metric=CPU[1]))
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
    scaled = caption(make_view(*CPU, estimates=session.estimates), means_alone=True)
    assert "Means with 95 % Student t intervals" in scaled
    assert "tick" not in scaled
    assert "Fieller" not in scaled
    failed = caption(make_view(*COPY, estimates=session.estimates, table=session.table))
    assert "failed: 8 docker" in failed
    assert "1 GB/s = 10⁹ B/s" in failed
    assert "No trial failed or was invalid." in caption(make_view("ftp", "total_s", estimates=session.estimates))
    assert caption(make_view("ftp", "nothing", estimates=session.estimates)) == "ftp: no trial of nothing."


def test_caption_counts_repeats_discards_and_deployments() -> None:
    values = {"native": [float(v) for v in range(100, 112)], "docker": [float(v) for v in range(90, 102)]}
    table = table_of(values, blocks_per_deployment=4)
    lose(table, table["block"] == 11, "discarded")
    table.loc[(table["block"] == 2) & (table["system"] == "docker"), "attempt"] = 1
    about = make_view(*CPU, estimates=estimates(table))
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
    assert "of the means of" not in caption(make_view(*CPU, estimates=estimates(table_of(values))))


def test_a_deployment_that_was_discarded_is_none_of_those_that_were_measured() -> None:
    values = {"native": [float(v) for v in range(100, 112)], "docker": [float(v) for v in range(90, 102)]}
    table = table_of(values, blocks_per_deployment=3)
    lose(table, table["deployment"] == 1, "discarded")
    ratios = contrasts(table, "native", MARGINS)
    told = caption(make_view(*CPU, estimates=estimates(table), contrasts=ratios, table=table))
    assert "interval of the means of 3 deployments" in told
    assert "over 3 deployments with its paired" in told
    assert "within 3 deployments of every system" in told


def of_failures(docker: list[float], per: int = 0) -> View:
    """Return a view of failed requests; `per`: blocks of each deployment, where there are several."""
    values = {"native": [1.0, 0, 2, 1, 0, 1, 2, 1, 0, 1, 1, 2], "docker": docker}
    about = {"workload": "web", "metric": "failed_requests", "unit": "1", "better": "lower"}
    table = table_of(values, blocks_per_deployment=per, **about)
    ratios = contrasts(table, "native", MARGINS)
    return make_view("web", "failed_requests", estimates=estimates(table), contrasts=ratios, table=table)


@pytest.mark.parametrize("per", [0, 6])
def test_captions_of_counts_name_their_own_intervals(per: int) -> None:
    view = of_failures([3.0, 2, 4, 3, 5, 3, 2, 4, 3, 2, 4, 3], per)
    for told in (caption(view), caption(view, means_alone=True)):
        assert "Student" not in told
        assert "Fieller" not in told
        assert "of the means of" not in told
        assert "with its 95 % interval (conditional binomial, counts); band" in told
    assert "beside them mean with 95 % interval (Garwood, counts), and a tick at the median" in caption(view)
    assert "Means with 95 % intervals (Garwood, counts), set a little apart" in caption(view, means_alone=True)


def test_captions_of_clustered_counts_say_by_what_they_are_compared() -> None:
    told = caption(of_failures([0.0, 0, 9, 0, 0, 0, 14, 0, 0, 0, 11, 0]))
    assert "Garwood, counts, effective number over trials" in told
    assert "with its 95 % interval (sign flips over blocks); band" in told


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("williams", "Williams squares"),
        ("adjacent", "blocks, one directly after the other in each case. "),
        ("Alternating.", "Alternating. "),
        (
            grouped(["10 pods", "20 pods"]),
            "complete blocks, in which each system does the cases of one group (10 pods, 20 pods) together. ",
        ),
        (grouped(["10 pods"], "adjacent"), "one group (10 pods) together, one system directly after the other. "),
    ],
)
def test_caption_tells_the_order_of_the_trials(order: str, told: str) -> None:
    assert told in caption(make_view(*CPU, estimates=estimates(table_of({"native": [1.0, 2]})), order=order))


def test_a_repeat_does_not_hide_a_trial_that_has_not_run() -> None:
    table = table_of({"native": [1.0, 2, 3], "docker": [1.0, 2, 3]})
    rows = (table["system"] == "docker") & (table["block"] == 1)
    again = table[rows].assign(trial="again", attempt=1)
    lose(table, rows, "invalid")
    table = pd.concat([table, again], ignore_index=True)
    absent = pd.DataFrame([{"system": "native", "workload": "sysbench-cpu", "scenario": "default", "factor": None,
                            "level": np.nan, "attempt": 0}])  # fmt: skip
    text = caption(make_view(*CPU, estimates=estimates(table, absent), table=table))
    assert "invalid: 1 docker; not yet run: 1." in text


def test_saved_files_are_the_same_every_time_and_name_their_data(session: View, tmp_path: Path) -> None:
    table, parameters = session.table, dict(zip(("workload", "metric"), READ, strict=True))
    first, second = (
        save(drawn(points, session, *READ), tmp_path / folder, "read", table, parameters, caption="Text.")
        for folder in ("a", "b")
    )
    assert [path.name for path in first] == ["read.pdf", "read.svg", "read.png", "read.json"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    car = json.loads(first[3].read_text())
    assert car["parameters"] == parameters
    assert car["data"]["sessions"] == ["s"]
    assert car["data"]["rows"] == len(table)
    assert car["data"]["csv_sha256"] == hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    assert car["size_mm"][0] == COLUMN_MM
    assert car["files"] == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in first[:3]}
    pdf = first[0].read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/CreationDate" not in pdf
    told = car["data"]["columns"]["value"]
    values = table["value"].dropna()
    assert (told["values"], told["smallest"], told["sum"]) == (len(values), values.min(), pytest.approx(values.sum()))
    assert car["data"]["columns"]["system"] != car["data"]["columns"]["workload"]


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
def test_a_figure_is_saved_at_the_other_width_too(session: View, tmp_path: Path, width: float) -> None:
    first = drawn(points, session, *READ, width_mm=width)
    other = theme.other_width(first)
    assert {width, other} == {COLUMN_MM, PAGE_MM}
    second = drawn(points, session, *READ, width_mm=other)
    paths = save(first, tmp_path, "read", session.table, {}, other=second)
    assert [path.name for path in paths] == ["read.pdf", "read.svg", "read.png", f"read-{other:g}mm.pdf", "read.json"]
    assert [page_mm(paths[place])[0] for place in (0, 3)] == pytest.approx([width, other], abs=1e-6)
    save(second, tmp_path, "read", session.table, {}, other=first)
    assert not paths[3].exists()  # it is read.pdf now
    assert (tmp_path / f"read-{width:g}mm.pdf").exists()


def test_lines_of_systems_are_dashed_each_in_its_own_way(four: View) -> None:
    figure = drawn(scaling, four, "web", "latency_p99_s", contrasts=None)
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 8]
    for shown in (lines, figure.legends[0].get_lines()):
        assert [line.is_dashed() for line in shown] == [False, True, True, True]


def test_drawing_leaves_the_global_style_alone(session: View) -> None:
    before = dict(plt.rcParams)
    drawn(points, session, "ftp", "total_s")
    assert dict(plt.rcParams) == before


NAMES = ["containerd-runc", "crio-runc", "containerd-crun", "crio-crun", "containerd-runsc"]
NAMES += ["containerd-kata (emulated)", "crio-kata (emulated)"]


def over_pods(systems: list[str], factors: tuple[str, ...], *, gap: bool = False) -> View:
    """Levels 10 and 20 on each factor; every system half of the one before it. `gap`: the second lacks a level."""
    parts = []
    for place, factor in enumerate(factors):
        for level in (10.0, 20.0):
            values = {name: [100 * level / 2**i + b for b in range(4)] for i, name in enumerate(systems)}
            about = {"workload": "net", "metric": "rate_B_per_s", "unit": "B/s"}
            part = table_of(values, scenario=f"{place} {level:g} pods", **about)
            parts.append(part.assign(level=level, factor=factor))
    table = pd.concat(parts, ignore_index=True)
    if gap:
        table = table[(table["system"] != systems[1]) | (table["level"] != 20)].reset_index(drop=True)
    ratios = contrasts(table, systems[0], {"": 0.05})
    return make_view("net", "rate_B_per_s", estimates=estimates(table), systems=systems, contrasts=ratios)


@pytest.mark.parametrize("factors", [("pods",), ("pods (stream)", "pods (stream first)")])
@pytest.mark.parametrize("count", [4, 7])
def test_curves_show_means_and_ratios_over_each_factor(factors: tuple[str, ...], count: int) -> None:
    view = over_pods(NAMES[:count], factors)
    narrow = len(factors) == 1 and count <= 4
    figure = check_paper(scaling(view).figure, COLUMN_MM if narrow else PAGE_MM, axes_mm=15)
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()] == list(factors)
    told = texts(figure)
    assert all(name in told for name in (*NAMES[:count], "Ratio"))
    low, ratios = figure.axes[len(factors)], view.contrasts
    assert len(marked(low, *MARKERS[1:count])) == 2 * (count - 1)  # each but the baseline, at each level
    for i, name in enumerate(NAMES[1:count], start=1):
        mine = ratios[(ratios["system"] == name) & (ratios["factor"] == factors[0])]
        assert sorted(marked(low, MARKERS[i])[:, 1]) == sorted(mine["ratio"])


def test_curves_without_a_contrast_of_a_level_leave_its_place_free() -> None:
    figure, told = scaling(over_pods(NAMES[:2], ("pods",), gap=True))
    assert len(marked(figure.axes[1], MARKERS[1])) == 1
    assert "Ratio of means to containerd-runc over 4 blocks" in told


@pytest.mark.parametrize("width", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("count", [1, 7])
def test_a_legend_of_long_names_stays_on_the_paper(width: float, count: int) -> None:
    with theme.style():
        figure, _ = theme.canvas(width, 60 + theme.legend_mm(NAMES[:count], width))
        theme.legend(figure, theme.assign_styles(NAMES), NAMES[:count])
    assert overhang_mm(figure) < 0.1
    heights = [theme.legend_mm(names, mm) for names, mm in ((NAMES, COLUMN_MM), (NAMES, PAGE_MM), (NAMES[:2], PAGE_MM))]
    assert heights[0] > heights[1] > heights[2] == 0


def test_numbers_on_a_logarithmic_axis_are_written_out() -> None:
    scenarios = {"a": {"native": [1.5, 1.6, 1.7], "docker": [28.0, 29, 30]},
                 "b": {"native": [20.0, 21, 22], "docker": [30.0, 31, 32]}}  # fmt: skip
    table = pd.concat([table_of(values, scenario=name) for name, values in scenarios.items()], ignore_index=True)
    axis = drawn(points, make_view(*CPU, table=table, estimates=estimates(table))).axes[0]
    told = [tick.get_text() for which in (False, True) for tick in axis.get_yticklabels(minor=which)]
    assert {"2", "10", "20"} <= set(told)
    assert not [text for text in told if "times" in text or "^" in text]


@pytest.mark.parametrize("count", [3, 16])
def test_labels_that_have_no_room_side_by_side_stand(count: int) -> None:
    names = [f"sequential write default {'again ' * (i % 2)}{i}" for i in range(count)]
    values = {"native": [1.0, 2, 3], "docker": [2.0, 3, 4]}
    view = analysed(pd.concat([table_of(values, scenario=name) for name in names], ignore_index=True))
    view = replace(view, workload=CPU[0], metric=CPU[1], systems=["docker", "native"])
    figure = check_paper(points(view).figure, axes_mm=20)
    labels = figure.axes[-1].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {90.0 if count == 16 else 0.0}
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize(("names", "turned"), [(["native", "docker"], 0.0), (["native", *NAMES], 90.0)])
def test_names_of_systems_that_have_no_room_side_by_side_stand(names: list[str], turned: float) -> None:
    table = table_of({name: [1.0 + place, 2 + place, 3 + place] for place, name in enumerate(names)})
    view = replace(analysed(table), workload=CPU[0], metric=CPU[1], systems=names, every_system=names)
    figure = check_paper(points(view).figure, axes_mm=20)
    labels = figure.axes[-1].get_xticklabels()
    assert {label.get_rotation() for label in labels} == {turned}
    assert all(left.x1 <= right.x0 for left, right in pairwise([label.get_window_extent() for label in labels]))
