"""Rounds: a trial that is cut into short runs of its tool, which alternate between the systems of its case.

The speed of a shared machine wanders within seconds. Systems that take turns several times within a trial meet the
same course of it, so that less of it is left in their ratio. Each round is planned and read like a trial of its share
of the work, and all of its raw output is kept; the trial has one value of each metric, and blocks stay what is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from infrabench.core import (
    Capture,
    Measurement,
    ParseError,
    Result,
    Step,
    Trial,
    Workload,
    add_up,
    resolve_kind,
    share_out,
)

MARK = "-round-"  # stands between the name of a step and the number of its round, from 1


def group_turns(trials: Sequence[Trial], order: str) -> list[list[Trial]]:
    """Return the trials of a block in runs of those that take turns: one case of several rounds, one trial a system.

    In the order ``random`` nothing stands together: there the rounds of a trial follow one another.
    """
    if order == "random":
        return [[trial] for trial in trials]

    def turns(numbered: tuple[int, Trial]) -> object:
        number, trial = numbered
        return (trial.workload, trial.scenario) if trial.rounds > 1 else number

    return [[trial for _, trial in each] for _, each in groupby(enumerate(trials), key=turns)]


def name_steps(steps: Sequence[Step], trial: Trial, number: int) -> list[Step]:
    """Return the steps that measure in round `number` (from 0), named by it where the trial has several."""
    measured = [step for step in steps if step.phase == "measure"]
    return [replace(step, name=f"{step.name}{MARK}{number + 1}") for step in measured] if trial.rounds > 1 else measured


def split_captures(workload: Workload, trial: Trial, results: Mapping[str, Result]) -> list[Capture]:
    """Return what each round of a trial left, as of a trial with its share of the work."""
    if trial.rounds == 1:
        return [Capture(results, trial.params)]
    params = share_out(trial.params, workload.PARAMS, trial.rounds)
    shared = {name: result for name, result in results.items() if MARK not in name}
    found = []
    for number in range(1, trial.rounds + 1):
        end = f"{MARK}{number}"
        own = {name.removesuffix(end): result for name, result in results.items() if name.endswith(end)}
        found.append(Capture({**shared, **own}, params))
    return found


def pool_rounds(rounds: Sequence[Sequence[Measurement]], workload: Workload) -> tuple[Measurement, ...]:
    """Return the measurements of a trial from those of its rounds, which are equal shares of its work.

    Rates of fixed work by the harmonic mean, so that they are the whole work over the whole time; total times and
    counts by their sum; everything else by its mean. A percentile is then the mean of those of the rounds. A rate
    without what failed (`LESS_FAILED`) is of shares that are no longer equal where something failed: there it is what
    was done over the whole time. `ParseError` when the rounds do not have the same metrics.
    """
    first, *others = rounds
    names = {each.metric for each in first}
    if any({each.metric for each in other} != names for other in others):
        raise ParseError("rounds", "the rounds of the trial have not the same metrics")
    values = {name: [each.value for found in rounds for each in found if each.metric == name] for name in names}
    kinds, less_failed = getattr(workload, "METRICS", {}), getattr(workload, "LESS_FAILED", {})
    pooled = {name: _pool_values(resolve_kind(kinds.get(name, "quantity"), names), values[name]) for name in names}
    for name, (time, failed) in less_failed.items():
        if name in names and any(values[failed]):
            pooled[name] = _over_time(values[name], values[time])
    return tuple(replace(each, value=pooled[each.metric]) for each in first)


def _pool_values(kind: str, values: Sequence[float]) -> float:
    if kind in ("count", "total time"):
        return add_up(values)
    if kind == "fixed-work rate":
        return len(values) / add_up(1 / value for value in values) if all(values) else 0.0
    return add_up(values) / len(values)


def _over_time(rates: Sequence[float], times_s: Sequence[float]) -> float:
    return add_up(rate * time_s for rate, time_s in zip(rates, times_s, strict=True)) / add_up(times_s)


def join_windows(windows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> tuple[Any, Any]:
    """Return two monitor samples whose difference is that of all windows together; each is (before, after)."""
    (first, joined), *others = windows
    for before, after in others:
        joined = _add_growth(joined, before, after)
    return first, joined


def _add_growth(joined: Any, before: Any, after: Any) -> Any:
    if isinstance(joined, Mapping) and isinstance(before, Mapping) and isinstance(after, Mapping):
        return {key: _add_growth(joined.get(key), before.get(key), value) for key, value in after.items()}
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (joined, before, after))
    return joined + (after - before) if numbers else after
