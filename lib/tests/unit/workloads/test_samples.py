"""What a trial saw in its course, as samples: bins of a load, and what a store says that it copied."""

from __future__ import annotations

import math

from infrabench.workloads.rebuild import sample_copied, sample_load


def test_a_bin_in_which_nothing_was_completed_is_a_rate_of_nothing_and_no_latency() -> None:
    bins = [
        [100.0, 9, 9.0, 9, 9.0, 5.0],
        [100.5, 30, 0.3, 20, 0.7, 0.1],
        [102.0, 10, 0.1, 0, 0.0, 0.1],
        [102.5, 1, 1, 1, 1, 1],
    ]
    found = sample_load(bins, 101.0)
    rates = {each.at_s: each.value for each in found if each.series == "foreground_iops"}
    assert rates == {-0.25: 100.0, 0.25: 0.0, 0.75: 0.0, 1.25: 20.0}  # neither the first bin nor the last
    latency = {each.at_s: each.value for each in found if each.series == "foreground_latency_s"}
    assert latency[-0.25] == (0.3 + 0.7) / 50
    assert [at_s for at_s, value in latency.items() if math.isnan(value)] == [0.25, 0.75]
    assert {each.unit for each in found} == {"1/s", "s"}


def test_what_is_copied_is_told_from_the_replacement_until_all_is_clean() -> None:
    states = [{"begun_s": float(at), "copied_B": at * 10, "left_B": 100 - at * 10} for at in range(8)]
    assert [(each.at_s, each.value) for each in sample_copied(states, 2.0, 5.0)] == [(0, 20), (1, 30), (2, 40), (3, 50)]
    assert {each.series for each in sample_copied(states, 2.0, 5.0)} == {"copied_B"}
    silent = [{**state, "copied_B": None} for state in states]
    assert [(each.series, each.value) for each in sample_copied(silent, 6.0, 7.0)] == [("left_B", 40), ("left_B", 30)]
    assert sample_copied([{**state, "left_B": None} for state in silent], 2.0, 5.0) == ()
