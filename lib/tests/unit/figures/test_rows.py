"""Figures that are read row by row, and what a design can find: positions, letters, notes and captions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, forest, power, tiers
from infrabench.analysis.figures.theme import MARKERS
from infrabench.core import SchemaError
from infrabench.stats.contrasts import TYPES, contrasts
from infrabench.stats.planning import t_power
from tests.support.analysis_fixtures import SYSTEMS, table_of
from tests.support.frames import CASE, CONTRAST, NAN, contrasts_frame, verdicts
from tests.support.look_at import check_paper, make_view, marked, texts

WEB = ("web", "requests_per_s")
CPU = ("sysbench-cpu", "events_per_s", "default")
NAMES = ("native", "docker", "lxc", "lxd", "podman", "kata", "gvisor", "crio")


def letters(*of: str, scenario: str = "users=1000") -> pd.DataFrame:
    groups = zip(NAMES, of, strict=False)
    return pd.DataFrame([{**CASE, "scenario": scenario, "system": name, "letters": own} for name, own in groups])


def rows_of(rows: pd.DataFrame, **how: Any) -> tuple[str, str]:
    """Return what stands in the forest of some rows, in one line, and its caption."""
    figure, told = forest(make_view(contrasts=rows, **{"systems": SYSTEMS, **how}))
    return texts(figure).replace("\n", " "), told


def test_the_synthetic_contrasts_have_the_columns_of_the_real_ones() -> None:
    assert set(CONTRAST) == set(TYPES)


def test_forest_draws_each_ratio_at_its_row_against_the_margin_of_its_metric() -> None:
    rows = verdicts()
    axes = forest(make_view(contrasts=rows, systems=SYSTEMS)).figure.axes[0]
    for system, marker in zip(SYSTEMS[1:], MARKERS[1:], strict=False):
        mine = rows[(rows["system"] == system) & rows["ratio"].notna()]
        assert marked(axes, marker)[:, 0] == pytest.approx(mine["ratio"])
    assert marked(axes, "s")[:, 1] == pytest.approx([1, 4])  # below the heading, in the order of the levels
    bands = {(round(p.get_x(), 6), round(p.get_x() + p.get_width(), 6)) for p in axes.patches}
    assert bands == {(0.98, 1.02), (0.99, 1.01)}


def test_forest_says_n_and_unit_and_counts_verdicts() -> None:
    shown, told = rows_of(verdicts())
    assert "web: requests (higher is better; n = 30 blocks)" in shown
    assert "no ok trial of docker" in shown
    assert "Ratio of means to native over 30 blocks" in told
    assert "2 different, 2 equivalent, 2 inconclusive, 1 not comparable" in told
    assert "margin of 1 % and 2 %" in told
    several = verdicts().assign(pair_unit="deployments", n_pairs=[6, 5, 6, 6, 6, 6, 0])
    assert "n = 5 to 6 deployments)" in rows_of(several)[0]


def test_a_verdict_that_hangs_on_flagged_values_is_marked_and_explained() -> None:
    shown, told = rows_of(verdicts())
    assert shown.count("costs 1.1 to 3.9 % †") == 1
    assert "† without the values flagged as outliers - web requests users=2000 docker: inconclusive" in shown
    assert "1 of them would be another (†)" in told
    many, _ = rows_of(verdicts().assign(sensitive=True))
    assert "† 7 verdicts are others without the values flagged as outliers; the table says which" in many
    steady, told = rows_of(verdicts().assign(sensitive=False))
    assert "†" not in steady
    assert "None of them hangs on a value flagged as an outlier." in told


@pytest.mark.parametrize(
    ("better", "ranking"),
    [("higher", ["lxd", "native", "lxc", "docker"]), ("lower", ["docker", "lxc", "native", "lxd"])],
)
def test_tiers_stand_best_first_and_share_letters_along_a_line(better: str, ranking: list[str]) -> None:
    rows = contrasts_frame({}, {"system": "lxc", "ratio": 0.998}, {"system": "lxd", "ratio": 1.013})
    view = make_view(*WEB, tiers=letters("a", "b", "ab", "a"), contrasts=rows.assign(better=better), systems=SYSTEMS)
    figure = tiers(view).figure
    last = [(line.split() or [""])[-1] for line in texts(figure).splitlines()]
    assert [name for name in last if name in SYSTEMS] == ranking
    shown = [(t.get_position()[1], t.get_text()) for t in figure.axes[0].texts if t.get_text() in ("a", "b")]
    joins = [tuple(line.get_ydata()) for line in figure.axes[0].lines if line.get_linewidth() == 0.9]
    if better == "higher":
        assert sorted(shown) == [(1, "a"), (2, "a"), (3, "a"), (3, "b"), (4, "b")]
        assert joins == [(1, 3), (3, 4)]


def test_tiers_caption_counts_cases_without_any_separation() -> None:
    rows = contrasts_frame({}, {"scenario": "users=2000", "level": 2000.0})
    groups = pd.concat([letters("a", "a", "a", "a"), letters("a", "b", "ab", "a", scenario="users=2000")])
    assert "In 1 of 2 cases no system can be separated" in tiers(make_view(*WEB, tiers=groups, contrasts=rows)).caption


def test_captions_of_rows_tell_how_the_trials_behind_them_went() -> None:
    table = table_of({"native": [1.0, 2, 3, 4], "docker": [1.5, None, 3, 4]}, workload="web", scenario="users=1000")
    other = table_of({"native": [None]}, workload="web", scenario="users=9")
    table = pd.concat([table.assign(attempt=[0] * 7 + [1]), other], ignore_index=True)
    frames = {"tiers": letters("a", "a", "a", "a"), "contrasts": contrasts_frame({}), "table": table}
    view = make_view(*WEB, **frames, order="williams")
    for draw in (forest, tiers):
        told = draw(view).caption
        assert "ordered by Williams squares" in told
        assert "failed: 1 docker." in told  # and not the trial of the case that is not drawn
        assert told.endswith("Repeated at the end of the same block: 1 docker.")
    assert "Williams" not in forest(make_view(contrasts=contrasts_frame({}))).caption


def test_captions_name_the_intervals_that_are_drawn() -> None:
    counts, share = "conditional binomial, counts", "none of a share, which is compared by the difference"
    lost = {"system": "lxc", "p_method": f"{CONTRAST['p_method']}; lost blocks at both ends"}
    for rows, said in (
        ([{}, lost, {"system": "lxd", "p_method": None}], "its paired 95 % Fieller interval"),
        ([{}, lost, {"system": "lxd", "p_method": counts}], f"its 95 % interval (paired Fieller; {counts})"),
        ([{"p_method": "Newcombe, shares"}], f"its 95 % interval ({share})"),
    ):
        frame = contrasts_frame(*rows)
        told = forest(make_view(contrasts=frame)).caption
        assert f"Ratio of means to native over 30 blocks with {said}; shaded" in told
        told = tiers(make_view(*WEB, tiers=letters(*"a" * (len(rows) + 1)), contrasts=frame)).caption
        assert f"ratio of means to native with {said} over 30 blocks, best first" in told


def test_power_curve_goes_through_the_session() -> None:
    rng = np.random.default_rng(1)
    native = rng.normal(100, 1, 20)
    docker = native * rng.normal(1, 0.03, 20)
    rows = contrasts(table_of({"native": list(native), "docker": list(docker)}), "native", {"": 0.02})
    figure, told = power(make_view(*CPU, contrasts=rows))
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) > 5)
    at = list(curve.get_xdata()).index(20)
    mark = marked(figure.axes[0], "s")
    assert mark[0] == pytest.approx([20, 100 * rows["detectable"].iloc[0]])
    assert curve.get_ydata()[at] == pytest.approx(mark[0, 1])
    sd = np.log(docker / native).std(ddof=1)
    for n, percent in zip(curve.get_xdata(), curve.get_ydata(), strict=True):
        assert t_power(np.log1p(percent / 100), sd, n) == pytest.approx(0.8, abs=1e-6)
    assert f"With n = 20 blocks: docker {100 * rows['detectable'].iloc[0]:.2f}".rstrip("0") in told
    assert "when the systems are equal, of each contrast by itself and not adjusted: docker " in told
    with pytest.raises(SchemaError, match="nothing to plan from"):
        power(make_view(*CPU, contrasts=rows.assign(detectable=NAN)))


HUGE = {"ratio": 3e5, "ratio_low": 1e-4, "ratio_high": 9e7, "mean": 1e9}
FRAMES = {
    "one": contrasts_frame({}),
    "every verdict": verdicts(),
    "eight systems": contrasts_frame(*({"system": name, "ratio": 0.9 + 0.03 * i} for i, name in enumerate(NAMES[1:]))),
    "huge": contrasts_frame(HUGE, {"system": "lxc"}),
    "no interval": contrasts_frame({"ratio_low": NAN, "ratio_high": NAN, "detectable": NAN, "sensitive": True}),
    "long names": contrasts_frame({"scenario": "size=128MiB, record=4KiB, direct", "n_to_decide": 123456.0}),
}


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize("name", FRAMES)
def test_extreme_rows_are_drawn_whole(name: str, width_mm: float) -> None:
    rows = FRAMES[name]
    groups = pd.concat([letters(*"abcdefgh", scenario=scenario) for scenario in rows["scenario"].unique()])
    for draw in (forest, tiers):
        view = make_view(*WEB, tiers=groups, contrasts=rows, systems=NAMES, width_mm=width_mm)
        check_paper(draw(view).figure, width_mm)


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(SchemaError, match="no tiers of web speed"):
        tiers(make_view("web", "speed", tiers=letters("a", "a", "a", "a"), contrasts=verdicts()))
