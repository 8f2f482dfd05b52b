"""Own values of workloads' parameters: the cases that they make of those of a profile, one for each combination.

Cases of a workload that differ in nothing but in what is set and in amounts of work are one question at several sizes.
Each combination of values is a case of it, which takes what is not set from the one whose values are nearest: of
``threads=1`` and ``threads=4``, ``sysbench-cpu.threads=6`` has the events and rounds of the latter.

Where all combinations would take too long, ``WORKLOAD.subset`` says how many of them are measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from infrabench.core import Case, DesignError, Param, unknown_name

MOST_COMBINATIONS = 1000  # of one workload, that are measured
MOST_TO_DRAW_FROM = 100_000
SUBSET = "subset"  # stands where a parameter's name would: no workload has one of that name
COUNT = Param(2, least=2, most=MOST_COMBINATIONS, meaning="how many combinations of values are measured")
SEED = 20200315  # not that of the session: the same values are the same cases in each
BINARY = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
Values = Mapping[str, tuple[Any, ...]]  # of one workload: parameter -> values


def read_settings(
    settings: Mapping[str, Sequence[Any]], workloads: Iterable[str], declared: Mapping[str, Mapping[str, Param]]
) -> dict[str, tuple[Any, ...]]:
    """Return settings (``web.users``) of the design's `workloads` with each value as its parameter has it."""
    read = {}
    for name, given in settings.items():
        workload, _, parameter = name.partition(".")
        if workload not in {*workloads} & {*declared}:
            raise unknown_name("workload to set a parameter of", workload, workloads)
        if parameter not in (SUBSET, *declared[workload]):
            raise unknown_name(f"parameter of workload {workload!r}", parameter, declared[workload])
        param = COUNT if parameter == SUBSET else declared[workload][parameter]
        values = tuple(value for each in given for value in param.read(f"parameter {name}", each))
        if parameter == SUBSET and len(values) > 1:
            raise DesignError(f"{name} is one number, not {', '.join(map(str, values))}")
        if len({json.dumps(value) for value in values}) < len(values):
            raise DesignError(f"parameter {name} has a value more than once: {', '.join(map(str, values))}")
        read[name] = values
    return read


def apply_settings(
    cases: Sequence[Case], settings: Mapping[str, tuple[Any, ...]], declared: Mapping[str, Mapping[str, Param]]
) -> list[Case]:
    """Return cases with those of each workload that has settings (of `read_settings`) in place of its own."""
    own: dict[str, dict[str, tuple[Any, ...]]] = {}
    for name, values in settings.items():
        workload, _, parameter = name.partition(".")
        own.setdefault(workload, {})[parameter] = values
    made: list[Case] = []
    for workload in dict.fromkeys(case.workload for case in cases):
        of_workload = [case for case in cases if case.workload == workload]
        made += _combine(of_workload, own[workload], declared[workload]) if workload in own else of_workload
    return made


def _combine(cases: Sequence[Case], values: Values, declared: Mapping[str, Param]) -> list[Case]:
    """Return a case for each combination of values, of each question that the cases of a workload ask."""
    values = dict(values)
    (subset,) = values.pop(SUBSET, (None,))
    combinations = _combinations(cases[0].workload, list(values.values()), subset)
    questions: dict[str, list[Case]] = {}
    for case in cases:
        kept = {name: value for name, value in _complete(case, declared).items()
                if name not in values and not declared[name].work}  # fmt: skip
        questions.setdefault(json.dumps(kept, sort_keys=True), []).append(case)
    swept = [name for name, several in values.items() if len(several) > 1]
    return [
        _at(alike, dict(zip(values, combination, strict=True)), swept, declared)
        for alike in questions.values()
        for combination in combinations
    ]


def _combinations(workload: str, several: Sequence[Sequence[Any]], subset: int | None) -> list[tuple[Any, ...]]:
    """Return the combinations of some parameters' values that are measured: all, or a subset."""
    count = math.prod(map(len, several))
    if subset is None and count > MOST_COMBINATIONS:
        raise DesignError(
            f"{workload}: {count} combinations of values; at most {MOST_COMBINATIONS} are measured. "
            f"{workload}.{SUBSET}=24 measures so many of them"
        )
    if count > MOST_TO_DRAW_FROM:
        raise DesignError(
            f"{workload}: {count} combinations of values; a subset is drawn of {MOST_TO_DRAW_FROM} at most"
        )
    if subset is not None and subset >= count:
        raise DesignError(
            f"{workload}.{SUBSET}: there are {count} combinations of values, and a subset has fewer, not {subset}"
        )
    every = list(product(*several))
    return every if subset is None else [every[at] for at in draw_subset([len(each) for each in several], subset)]


def draw_subset(levels: Sequence[int], count: int) -> list[int]:
    """Return the places of `count` combinations, in the order in which `itertools.product` has them.

    `levels`: number of values of each parameter. Combinations are taken one after the other, each time one at random of
    those whose values were taken least often so far. So the values of a parameter come about equally often, and with as
    many combinations as a parameter has values, each of its values comes once: with two such parameters that is a Latin
    square's diagonal, with more a Latin hypercube (McKay, Beckman and Conover 1979).

    >>> len(draw_subset([8, 8, 8], 16))
    16
    """
    rng = np.random.default_rng(SEED)
    at = np.stack(np.unravel_index(rng.permutation(math.prod(levels)), levels))  # in random order, which breaks ties
    taken = [np.zeros(each) for each in levels]
    left = np.ones(at.shape[1], dtype=bool)
    chosen = []
    for _ in range(count):
        often = np.sum([times[own] for times, own in zip(taken, at, strict=True)], axis=0)
        place = int(np.argmin(np.where(left, often, np.inf)))
        left[place] = False
        for times, own in zip(taken, at[:, place], strict=True):
            times[own] += 1
        chosen.append(int(np.ravel_multi_index(tuple(at[:, place]), tuple(levels))))
    return sorted(chosen)


def _at(alike: Sequence[Case], chosen: Mapping[str, Any], swept: Sequence[str], declared: Mapping[str, Param]) -> Case:
    """Return the case at these values, of the cases that ask the same question."""
    near = min(alike, key=lambda case: _distance(_complete(case, declared), chosen))
    then, params = _complete(near, declared), {**near.params, **chosen}
    seconds, disk_bytes = near.seconds, float(near.disk_bytes)
    for name, value in chosen.items():
        if declared[name].work or declared[name].unit == "B":
            times = value / then[name] if then[name] else 1.0
            seconds *= times
            disk_bytes *= times if declared[name].unit == "B" else 1.0
        elif declared[name].unit == "s":
            seconds = max(seconds + value - then[name], 0.0)
    axis = swept[0] if len(swept) == 1 else near.factor if not swept else None
    level = params.get(axis) if axis else None
    if isinstance(level, bool) or not isinstance(level, int | float):
        axis = level = None
    named = min(alike, key=lambda case: len(case.scenario))  # `tcp` of `tcp` and `tcp-4`, where streams are set
    words = named.scenario
    for name, value in chosen.items():
        words = _name_value(words, name, value, named.params.get(name), declared[name])
    work = [value for name, value in params.items() if declared[name].work]
    rounds = next(count for count in range(near.rounds, 0, -1) if not any(value % count for value in work))
    return replace(
        near, scenario=words, params=params, factor=axis, level=level, seconds=seconds, disk_bytes=int(disk_bytes),
        rounds=rounds,
    )  # fmt: skip


def _complete(case: Case, declared: Mapping[str, Param]) -> dict[str, Any]:
    return {**{name: param.default for name, param in declared.items()}, **case.params}


def _distance(own: Mapping[str, Any], chosen: Mapping[str, Any]) -> float:
    """Return how far the values of a case are from those that are chosen: of numbers, by their ratio."""
    far = 0.0
    for name, value in chosen.items():
        if isinstance(value, str | bool) or min(value, own[name]) < 0:
            far += own[name] != value
        else:
            far += abs(math.log1p(value) - math.log1p(own[name]))
    return far


def _name_value(scenario: str, name: str, value: Any, then: Any, param: Param) -> str:
    """Return the name of a scenario with another value of a parameter in it, where the old one was, else at its end.

    Profiles write ``users=1000``, ``size=64MiB`` (of ``size_bytes``) and ``10 pods``.
    """
    shown, words = _show(value, param), scenario.split()
    for at, word in enumerate(words):
        key, is_pair, _ = word.partition("=")
        if is_pair and (key == name or name.startswith(f"{key}_")):
            return " ".join([*words[:at], f"{key}={shown}", *words[at + 1 :]])
        if word == str(then) and words[at + 1 : at + 2] == [name]:
            return " ".join([*words[:at], shown, *words[at + 1 :]])
    return " ".join([*(words if words != ["default"] else []), f"{name}={shown}"])


def _show(value: Any, param: Param) -> str:
    """Return a value as it stands in the name of a scenario."""
    if isinstance(value, bool):
        return str(value).lower()
    if param.unit == "B" and isinstance(value, int):
        for unit, size in BINARY.items():
            if value and value % size == 0:
                return f"{value // size}{unit}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
