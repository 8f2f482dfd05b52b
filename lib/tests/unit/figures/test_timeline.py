"""The figure of single trials over time: a line for each, broken where nothing is known, marks for what happened."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.figures import timeline
from infrabench.analysis.figures.theme import COLUMN_MM, PAGE_MM
from infrabench.core import SchemaError
from tests.support.look_at import check_paper, marked, texts

SYSTEMS = ["zfs (user space)", "ceph"]
HOW = {"workload": "rebuild", "zero": "replaced", "origin": "the disk was replaced", "shown": ("lost", "clean")}


def courses(trials: int = 3, scenarios: tuple[str, ...] = ("2 GB", "4 GB"), systems: list[str] = SYSTEMS) -> tuple:
    samples, events = [], []
    for scenario in scenarios:
        for system in systems:
            for trial in range(trials):
                key = {"system": system, "scenario": scenario, "trial": f"{scenario}-{system}-{trial}"}
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
    figure = check_paper(timeline(samples, events, systems=SYSTEMS, **HOW).figure, PAGE_MM, axes_mm=14)
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
    first = timeline(*courses(scenarios=("2 GB",)), systems=SYSTEMS, **HOW).figure.axes[0]
    assert sorted(marked(first, "x")[:, 0]) == sorted([15.0, 16.0, 17.0] * 2)
    assert sorted(marked(first, "|")[:, 0]) == [-1.5] * 6
    told = timeline(*courses(), systems=SYSTEMS, **HOW).caption
    assert "One line for each trial and none for their mean, 3 for each system and scenario" in told
    assert "4 GB, ceph: lost at -1.5 s, clean at 15 to 17 s." in told


def test_a_system_without_a_trial_keeps_the_others_colours() -> None:
    both = timeline(*courses(scenarios=("2 GB",)), systems=SYSTEMS, **HOW).figure
    alone = timeline(*courses(scenarios=("2 GB",), systems=["ceph"]), systems=SYSTEMS, **HOW, width_mm=COLUMN_MM).figure
    last = [[line.get_color() for line in figure.axes[0].lines if len(line.get_xdata()) > 10][-1] for figure in
            (both, alone)]  # fmt: skip
    assert last[0] == last[1]
    assert "zfs" not in texts(alone)
    check_paper(alone, COLUMN_MM)


def test_there_has_to_be_something_to_draw() -> None:
    samples, events = courses()
    with pytest.raises(SchemaError, match="no trial of this session has a course"):
        timeline(samples.iloc[:0], events.iloc[:0], systems=SYSTEMS, **HOW)
