"""Own values of workloads' parameters: the cases that they make of those of a profile, one for each combination.

Cases of a workload that differ in nothing but in what is set and in amounts of work are one question at several sizes.
Each combination of values is a case of it, which takes what is not set from the one whose values are nearest: of
``threads=1`` and ``threads=4``, ``sysbench-cpu.threads=6`` has the events and rounds of the latter.

Where all combinations would take too long, ``WORKLOAD.subset`` says how many of them are measured.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from infrabench.core import Case, DesignError, Param, unknown_name
from infrabench.core.workloads import SIZE_TEXT, SIZES

MOST_COMBINATIONS = 1000  # of one workload, that are measured
MOST_TO_DRAW_FROM = 100_000
SUBSET = "subset"  # stands where a parameter's name would: no workload has one of that name
COUNT = Param(2, least=2, most=MOST_COMBINATIONS, meaning="how many combinations of values are measured")
SEED = 20200315  # not that of the session: the same values are the same cases in each
BINARY = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}
UNNAMED = "default"  # the scenario of a case that says nothing of its values
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
    then = _complete(near, declared)
    used = {name: value for name, value in near.params.items() if not chosen.get(declared[name].instead)}
    params = {**used, **chosen}
    seconds, disk_bytes = near.seconds, float(near.disk_bytes)
    for name, value in chosen.items():
        if declared[name].work or declared[name].unit == "B":
            times = value / then[name] if value and then[name] else 1.0
            seconds *= times
            disk_bytes *= times if declared[name].unit == "B" else 1.0
        elif declared[name].unit == "s":
            seconds = max(seconds + value - then[name], 0.0)
    now = _complete(replace(near, params=params), declared)
    for name, param in declared.items():
        if param.unit == "s" and then.get(param.instead) and not now[param.instead]:
            seconds = float(now[name])  # a time in place of an amount of work is what the trial takes
    axis = swept[0] if len(swept) == 1 else near.factor if not swept else None
    level = params.get(axis) if axis else None
    if isinstance(level, bool) or not isinstance(level, int | float):
        axis = level = None
    are_choices = all(declared[name].choices or isinstance(value, bool) for name, value in chosen.items())
    if are_choices and near.scenario != UNNAMED and not _distance(then, chosen):
        scenario = near.scenario
    else:  # `tcp` of `tcp` and `tcp-4`, where streams are set
        scenario = _name(min(alike, key=lambda case: len(case.scenario)), chosen, declared)
    work = [value for name, value in params.items() if declared[name].work]
    most = 1 if work and not any(work) else near.rounds  # of no work there is nothing to cut
    rounds = next(count for count in range(most, 0, -1) if not any(value % count for value in work))
    return replace(
        near, scenario=scenario, params=params, factor=axis, level=level, seconds=seconds, disk_bytes=int(disk_bytes),
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


def _name(case: Case, chosen: Mapping[str, Any], declared: Mapping[str, Param]) -> str:
    """Return the name of a case at other values: each stands where the old one did, or at the end as ``name=value``.

    Words of an old value that cannot say the new one are left out: a name says nothing that did not run.
    """
    named = [] if case.scenario == UNNAMED else case.scenario.split()
    for name, value in chosen.items():
        places, new = _find(case, name, value, declared)
        for place in places:
            named[place] = ""
        if new:
            named[places[0]] = new
        else:
            named.append(f"{name}={_show(value, declared[name])}")
    return " ".join(filter(None, named))


def _find(case: Case, name: str, value: Any, declared: Mapping[str, Param]) -> tuple[range, str]:
    """Return the places of the words in the name of a case that say its value of a parameter, and what says `value`.

    Profiles write ``users=1000``, ``size=64MiB`` (of ``size_bytes``), ``10 pods``, ``4 GB``, and choices, which may
    begin a word (``tcp-4``). No places where none of it is there, no text where `value` cannot be said so:
    ``size=1MiB`` of mail is the smallest of its messages in KiB, and the largest.
    """
    words, param = case.scenario.split() if case.scenario != UNNAMED else [], declared[name]
    then, shown, noun = _complete(case, declared)[name], _show(value, param), name.removesuffix("s")
    choice = _words_of_choice(case, name, declared)
    for at, word in enumerate(words):
        key, is_pair, text = word.partition("=")
        two, several = words[at : at + 2], words[at : at + len(choice)]
        size = re.fullmatch(SIZE_TEXT, " ".join(two)) if param.unit == "B" else None
        if is_pair and (key == name or name.startswith(f"{key}_")):
            return range(at, at + 1), f"{key}={shown}"
        both = re.fullmatch(SIZE_TEXT, text) if param.unit == "KiB" else None
        if both and int(both[1]) * SIZES[both[2]] // BINARY["KiB"] == then:
            return range(at, at + 1), ""
        if two in ([str(then), name], [str(then), noun]):
            return range(at, at + 2), f"{shown} {noun if value == 1 else name}"
        if size and int(size[1]) * SIZES[size[2]] == then:  # ``4 GB``, where the new one is a whole number of such
            decimal = (f"{value // SIZES[unit]} {unit}" for unit in ("GB", "MB", "kB") if value % SIZES[unit] == 0)
            return range(at, at + len(two)), next(decimal, "")
        if choice and several == choice:
            return range(at, at + len(choice)), param.words.get(value, shown)
        if len(choice) == 1 and word.startswith(f"{choice[0]}-"):
            return range(at, at + 1), param.words.get(value, shown) + word.removeprefix(choice[0])
    return range(0), ""


def _words_of_choice(case: Case, name: str, declared: Mapping[str, Param]) -> list[str]:
    """Return the words by which the name of a case tells its choice of a parameter, if it does.

    Empty where they may be another parameter's: of two that are both ``default``, they are of the one that the profile
    sets.
    """
    called = {
        each: declared[each].words.get(own, own)
        for each, own in _complete(case, declared).items()
        if declared[each].choices and isinstance(own, str)
    }
    others = [each for each, words in called.items() if each != name and words == called.get(name)]
    if name not in called or any(each in case.params or name not in case.params for each in others):
        return []
    return called[name].split()


def _show(value: Any, param: Param) -> str:
    """Return a value as it stands in the name of a scenario."""
    if isinstance(value, bool):
        return str(value).lower()
    if param.unit == "B" and isinstance(value, int):
        binary = (f"{value // size}{unit}" for unit, size in BINARY.items() if value and value % size == 0)
        return next(binary, str(value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
