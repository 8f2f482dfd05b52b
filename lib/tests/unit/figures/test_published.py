"""What papers print, drawn: every ratio and score at its place, every reason with its letter, nothing cut off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, composite, published
from infrabench.analysis.figures.theme import COLOURS, GREY, assign_styles
from infrabench.analysis.published import score
from infrabench.analysis.published.comparison import AGREES_DIRECTION, AGREES_SIZE, DISAGREES, NOT_COMPARABLE
from infrabench.analysis.published.printed_numbers import ENGINES
from infrabench.core import SchemaError
from infrabench.stats.events import BY_SHARES
from infrabench.stats.table import PER_BLOCK, PER_DEPLOYMENT
from infrabench.stats.verdicts import PAIRED_T
from tests.support.analysis_fixtures import SYSTEMS
from tests.support.look_at import check_paper, make_view, marked, texts

NAN = float("nan")
ROW: dict[str, Any] = {
    "workload": "iozone", "scenario": "size=64MiB", "metric": "read_B_per_s", "system": "docker", "baseline": "native",
    "better": "higher", "level": NAN, "margin": 0.02, "n_pairs": 30, "pair_unit": PER_BLOCK, "p_method": PAIRED_T,
    "ratio": 0.95,
    "ratio_low": 0.93, "ratio_high": 0.97, "published_low": 0.94, "published_high": 0.94, "predicted_low": 0.92,
    "predicted_high": 0.98, "agreement": AGREES_SIZE, "reason": "", "printed": None, "ours": None,
}  # fmt: skip
LONG = "compared by direction alone, for its paper contradicts it; lowest and highest over 1000 to 8000 users; " * 2
UNMEASURED = {
    "workload": "mail", "metric": "messages_per_min", "scenario": "10 threads", "n_pairs": 0, "ratio": NAN,
    "ratio_low": NAN, "ratio_high": NAN, "predicted_low": NAN, "predicted_high": NAN, "margin": NAN,
    "agreement": NOT_COMPARABLE, "reason": "not measured: not part of this session (profile quick)",
}  # fmt: skip


def rows(*changes: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([ROW | change for change in changes])


def four() -> pd.DataFrame:
    """Return one comparison of each word, a range, one beyond the axis, and one that was not measured."""
    ranged = {"published_low": 0.90, "published_high": 0.96, "agreement": AGREES_DIRECTION}
    beyond = {"published_low": 0.4, "published_high": 0.4, "agreement": NOT_COMPARABLE, "reason": "B5"}
    return rows(
        {},
        {"system": "lxc", **ranged},
        {"system": "lxd", "ratio": 1.01, "ratio_low": 0.99, "ratio_high": 1.03, "agreement": DISAGREES},
        {"workload": "web", "metric": "total_s", "better": "lower", **beyond},
        UNMEASURED,
    )


def bars(axes: Axes) -> list[tuple[float, str]]:
    """Return place and colour of every upright bar of a printed ratio: those that equality's are not."""
    found = [each for each in axes.collections if isinstance(each, LineCollection) and each.get_zorder() == 2]
    colours = {tuple(np.round(np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) / 255, 4)): c
               for c in (COLOURS[0], GREY)}  # fmt: skip
    return [(each.get_segments()[0][0][0], colours[tuple(np.round(each.get_color()[0][:3], 4))]) for each in found]


def test_ours_and_theirs_stand_at_their_places_with_reasons_and_counts() -> None:
    figure, told = published(make_view(published=four(), systems=SYSTEMS))
    (axes,), shown = figure.axes, texts(figure)
    assert marked(axes, "s")[:, 0] == pytest.approx([0.95, 0.95])  # docker's
    assert marked(axes, "^")[:, 0] == pytest.approx([0.95])
    assert marked(axes, "D")[:, 0] == pytest.approx([1.01])
    assert bars(axes) == [(0.94, COLOURS[0]), (0.94, COLOURS[0]), (0.94, GREY)]  # the last was not measured
    (box,) = (patch for patch in axes.patches if not patch.get_fill())
    assert (box.get_x(), box.get_x() + box.get_width()) == pytest.approx((0.90, 0.96))
    low, _ = axes.get_xlim()
    assert low > 0.4
    assert marked(axes, "<")[:, 0] == pytest.approx([low])
    assert sorted(set(marked(axes, "|")[:, 0])) == pytest.approx([0.92, 0.98])  # ends of the prediction intervals
    for text in ("agrees in size", "agrees in direction", "disagrees", "not comparable a", "not comparable b"):
        assert f"\n{text}\n" in f"\n{shown}\n"
    assert "a  B5\nb  not measured: not part of this session (profile quick)" in shown
    assert "mail: messages (not measured)" in shown
    assert "0.950 [0.930, 0.970]" in shown
    assert "0.900 to 0.960" in shown
    assert "5 comparisons: agrees in size 1, agrees in direction 1, disagrees 1, not comparable 2." in told
    assert "Not measured in this session: 1." in told
    assert "Beyond the axis (arrows): 1." in told


@pytest.mark.parametrize(
    ("changes", "over", "interval", "size"),
    [
        ([{}], "30 blocks", "paired 95 % Fieller interval", "the papers' number of runs"),
        ([{"pair_unit": PER_DEPLOYMENT}], "30 deployments", "paired 95 % Fieller interval", "one deployment"),
        (
            [{}, {"pair_unit": PER_DEPLOYMENT, "p_method": BY_SHARES}], "30 blocks or deployments",
            "95 % interval (paired Fieller; none of a share, which is compared by the difference)",
            "the papers' number of runs or one deployment",
        ),
    ],
)  # fmt: skip
def test_the_caption_explains_the_intervals(changes: list[dict[str, Any]], over: str, interval: str, size: str) -> None:
    told = published(make_view(published=rows(*changes, UNMEASURED | {"p_method": NAN}), systems=SYSTEMS)).caption
    assert f"beside ours, each over {over} with its {interval}; thin: where a second campaign of {size} would" in told


def test_a_narrow_figure_has_short_words_and_the_number_that_is_beyond_its_axis() -> None:
    shown = texts(published(make_view(published=four(), systems=SYSTEMS, width_mm=COLUMN_MM)).figure)
    assert "n.c. a (0.400)" in shown
    assert "0.950 [0.930" not in shown


def test_one_system_is_named_at_the_axis_alone() -> None:
    shown = texts(published(make_view(published=rows({}, {"scenario": "size=1GiB"}), systems=SYSTEMS)).figure)
    assert "Ratio of docker to native (band: equivalence margin)" in shown
    assert "\nsize=1GiB\n" in shown


def test_ratios_of_two_cells_say_which() -> None:
    nothing = {"baseline": None, "scenario": None, "system": "", "ours": "", "printed": "kata, 40 / containerd, 10"}
    shown = texts(published(make_view(published=rows(UNMEASURED | nothing), systems=("containerd-runc",))).figure)
    assert "Ratio of two cells" in shown
    assert "kata, 40 / containerd, 10" in shown
    assert "\nours, 95 % interval\n" not in shown


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
def test_nothing_is_cut_off(width_mm: float) -> None:
    long = four().assign(scenario="sequential write with a very long name", reason=LONG)
    for frame in (four(), long, rows(UNMEASURED)):
        check_paper(published(make_view(published=frame, systems=SYSTEMS, width_mm=width_mm)).figure, width_mm)


def test_the_label_of_a_short_axis_ends_on_the_paper() -> None:
    cells = {"printed": "cri-o, 40 / containerd, 40", "ours": "crio-runc, 40 pods / containerd-runc, 40 pods"}
    pair = rows({"baseline": None, "scenario": None, "system": "", **cells})
    figure = published(make_view(published=pair, systems=SYSTEMS, width_mm=COLUMN_MM)).figure
    figure.draw_without_rendering()
    assert figure.axes[0].xaxis.label.get_window_extent().x1 <= figure.bbox.width


def test_nothing_published_is_refused() -> None:
    with pytest.raises(SchemaError, match="no published ratio to draw"):
        published(make_view(published=rows().iloc[:0], systems=SYSTEMS))


def test_every_score_and_its_bounds_are_drawn() -> None:
    scores = score.composite()
    (axes,) = composite().figure.axes
    lines = [line for line in axes.lines if line.get_marker() == "None" and line.get_linewidth() == 1.4]
    dots = [line for line in axes.lines if line.get_marker() != "None"]
    assert sorted(tuple(line.get_xdata()) for line in lines) == sorted(zip(scores["low"], scores["high"], strict=True))
    assert sorted(line.get_xdata()[0] for line in dots) == sorted(scores["score"])
    assert {line.get_color() for line in dots} == {
        assign_styles(["native", *ENGINES])[engine].colour for engine in ENGINES
    }
    assert [text.get_text() for text in axes.texts] == [score.order(name) for name in score.versions()]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(dict.fromkeys(scores["label"]))


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
def test_scores_are_drawn_whole(width_mm: float) -> None:
    check_paper(composite(width_mm=width_mm).figure, width_mm)
