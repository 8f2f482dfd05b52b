"""Study -> plan: seeded, randomised, complete blocks. Pure functions; the same request is the same plan, byte for byte.

A block holds every treatment (system x case) once. Its order (`orders`) hangs on the seed, the block and the treatments
alone: planning more blocks leaves the earlier ones as they were. Cases of one group stand together for each system,
because what they share is costly to make. With several deployments (a split-plot design) every system is made ready
anew before each equal share of the blocks, and the deployment is the unit of analysis. A treatment that its system has
no place for is left out of every block, and the others stay where they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infrabench import orders
from infrabench.core import (
    LONGEST_NAME,
    Case,
    DesignError,
    Stopping,
    Study,
    Trial,
    Variant,
    canonical,
    digest,
    unknown_name,
)

MOST_TRIALS = 1_000_000  # of a plan: months of measuring, and already much to keep in memory
LONGEST_TEXT = 4096  # characters: that of a path
AGAIN = "-again"  # ends the second label of an A/A session


Treatment = tuple[str, str, str]  # system, workload, scenario


@dataclass(frozen=True, slots=True)
class Design:
    """A validated request: everything that decides the plan."""

    study: str
    profile: str
    blocks: int
    systems: tuple[str, ...]
    cases: tuple[Case, ...]
    seed: int
    named: bool = False  # the workloads were asked for by name: none of them may be left out
    deployments: int = 1
    order: str = "random"
    stopping: Stopping | None = None
    aa: str = ""  # the system that an A/A session measures under two labels
    excluded: frozenset[Treatment] = frozenset()  # treatments that their systems have no place for
    baseline: str = ""  # what results are ratios to; empty: the study's


def design(
    study: Study, *, profile: str, systems: Sequence[str] | None = None, workloads: Sequence[str] | None = None,
    runs: int | None = None, seed: int | None = None, deployments: int | None = None, order: str = "random",
    stopping: Stopping | None = None, aa: str = "", known_systems: Sequence[str] = (),
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> Design:  # fmt: skip
    """Return the validated `Design` of a request.

    Parameters
    ----------
    profile, systems, workloads, runs, seed
        What to run; None means what the study says. `runs` overrides the number of blocks. Where the study's baseline
        is not among the `systems` that are named, the first of them is the baseline.
    deployments, order, stopping
        How often every system is made ready anew; ``random`` or ``williams``; when to add blocks.
    aa
        A system to measure under two labels in place of the study's systems: see `twins`.
    known_systems
        Systems beyond the study's own that may be asked for (those registered as plug-ins).
    defaults
        Every registered workload's parameters and their defaults. They complete each case's parameters, and a
        workload that the study has no case for is run at the one scenario ``default``.

    Raises
    ------
    DesignError
        A name, parameter or number that cannot be carried out; nothing has been started.
    """
    if not isinstance(profile, str) or profile not in study.profiles:
        raise unknown_name(f"profile of study {study.name!r}", profile, study.profiles)
    if aa and systems is not None:
        raise DesignError("an A/A session has one system under two labels: name either `aa` or `systems`")
    chosen, study = study.profiles[profile], twins(study, aa, known_systems)
    usual = (chosen.systems if not aa else ()) or study.systems
    blocks = _count("runs", chosen.blocks if runs is None else runs, 1)
    anew = _count("deployments", chosen.deployments if deployments is None else deployments, 1)
    _check_stopping(stopping, blocks, anew)
    if not isinstance(order, str) or not isinstance(aa, str):
        raise DesignError(f"order and aa are names, got {_shown(order)} and {_shown(aa)}")
    if blocks % anew:
        raise DesignError(f"{blocks} blocks cannot be shared out to {anew} deployments: take a multiple of {anew}")
    named = checked_names("systems", usual if systems is None else systems)
    cases = _cases(chosen.cases, workloads, defaults or {}, f"profile {profile!r} of study {study.name!r}")
    orders.check(order, [case.group for case in cases])
    if blocks * len(cases) * len(named) > MOST_TRIALS:
        raise DesignError(f"{blocks} blocks of {len(cases)} cases on {len(named)} systems are too many trials")
    return Design(
        study=study.name,
        profile=profile,
        blocks=blocks,
        systems=_systems(study, named, known_systems),
        cases=cases,
        seed=_count("seed", study.seed if seed is None else seed, 0),
        named=workloads is not None,
        deployments=anew,
        order=order,
        stopping=stopping,
        aa=aa,
        baseline=study.baseline if study.baseline in named else named[0],
    )


def study_of(study: Study, design: Design, known_systems: Sequence[str] = ()) -> Study:
    """Return `study` as `design` asks for it: with one system under two labels, or with another baseline."""
    study = twins(study, design.aa, known_systems)
    if design.baseline in ("", study.baseline):
        return study
    return replace(study, baseline=design.baseline, known=())  # known effects are ratios to the study's own baseline


def twins(study: Study, name: str, known_systems: Sequence[str] = ()) -> Study:
    """Return `study` as an A/A study of system `name`: baseline and the same deployment under a second label.

    Whatever differs between the two labels is noise or a fault of the suite: the verdict must not be "different".
    An empty name gives the study as it is.
    """
    if not name:
        return study
    if name not in (*study.systems, *known_systems):
        raise unknown_name("system", name, {*study.systems, *known_systems})
    same = study.variants.get(name, Variant(name))
    return replace(
        study, title=f"A/A: {name} under two labels", baseline=name, systems=(name, name + AGAIN), known=(),
        variants={**({name: same} if name in study.variants else {}), name + AGAIN: same},
    )  # fmt: skip


def stopping(precision: float | None, most: int | None = None, hours: float | None = None) -> Stopping | None:
    """Return the stopping rule of a request: none without a `precision` (relative half-width, 0.02 = 2 %).

    Raises `DesignError` when bounds are given for a rule that is not.
    """
    if precision is None:
        if most is not None or hours is not None:
            raise DesignError("most blocks and hours bound the search for a precision: give the precision too")
        return None
    _real("precision", precision)
    if hours is not None and not _real("hours", hours) > 0:
        raise DesignError(f"hours must be more than 0, not {hours:g}")
    most = Stopping(precision).most if most is None else _count("most", most, 1)
    return Stopping(precision, most, budget_s=None if hours is None else hours * 3600)


def trials(design: Design) -> tuple[Trial, ...]:
    """Return every trial of `design` in the order of execution."""
    share = design.blocks // design.deployments
    planned = [trial for number in range(design.blocks) for trial in block(design, number, number // share)]
    repeated = [trial for trial, count in Counter(t.id for t in planned).items() if count > 1]
    if repeated:
        raise DesignError(f"two trials of the plan have the same id {repeated[0]}; rename a scenario")
    return tuple(planned)


def block(design: Design, number: int, deployment: int = 0) -> tuple[Trial, ...]:
    """Return the trials of block `number` in order; a number beyond the planned ones gives one more such block.

    Positions of excluded treatments stay free.
    """
    places = orders.order(
        design.order, seed=design.seed, block=number, systems=len(design.systems), cases=len(design.cases),
        groups=[case.group for case in design.cases],
    )  # fmt: skip
    named = [(design.systems[system], design.cases[case]) for system, case in places]
    return tuple(
        _trial(design, number, number * len(places) + place, system, case, deployment)
        for place, (system, case) in enumerate(named)
        if (system, case.workload, case.scenario) not in design.excluded
    )


def plan(study: Study, *, profile: str, **request: Any) -> tuple[Trial, ...]:
    """Return every trial of a request in order; the parameters are those of `design`."""
    return trials(design(study, profile=profile, **request))


def treatments(design: Design) -> list[tuple[str, Case]]:
    """Return what a block holds: every system and case that is not excluded."""
    every = [(system, case) for case in design.cases for system in design.systems]
    return [(name, case) for name, case in every if (name, case.workload, case.scenario) not in design.excluded]


def workloads(design: Design) -> list[str]:
    """Return the workloads of `design`, each once."""
    return list(dict.fromkeys(case.workload for case in design.cases))


def without(
    design: Design, *, systems: Sequence[str] = (), workloads: Sequence[str] = (), excluded: Iterable[Treatment] = ()
) -> Design:
    """Return `design` without what cannot run; blocks stay complete because it is left out of every one.

    A case whose treatments are all `excluded` is gone.
    """
    left = replace(
        design,
        systems=tuple(name for name in design.systems if name not in systems),
        cases=tuple(case for case in design.cases if case.workload not in workloads),
        excluded=design.excluded | frozenset(excluded),
    )
    there = {(case.workload, case.scenario) for _, case in treatments(left)}
    return replace(left, cases=tuple(case for case in left.cases if (case.workload, case.scenario) in there))


def _trial(design: Design, block: int, position: int, system: str, case: Case, deployment: int) -> Trial:
    params = json.loads(canonical(case.params))  # as it will be read back: tuples are lists
    identity = [design.study, design.seed, block, system, case.workload, case.scenario, params]
    level = None if case.level is None else float(case.level)
    return Trial(
        id=digest(identity), block=block, position=position, system=system, workload=case.workload,
        scenario=case.scenario, params=params, factor=case.factor, level=level, seconds=float(case.seconds),
        deployment=deployment,
    )  # fmt: skip


def _systems(study: Study, names: Sequence[str], registered: Sequence[str]) -> tuple[str, ...]:
    known = [*study.systems, *(name for name in registered if name not in study.systems)]
    for name in names:
        if name not in known:
            raise unknown_name("system", name, known)
    return tuple(name for name in known if name in names)  # the order asked for must not change the plan


def _cases(
    offered: tuple[Case, ...], asked: Sequence[str] | None, defaults: Mapping[str, Mapping[str, Any]], where: str
) -> tuple[Case, ...]:
    cases = list(offered)
    if asked is not None:
        names = checked_names("workloads", asked)
        known = {case.workload for case in offered} | set(defaults)
        for name in names:
            if name not in known:
                raise unknown_name("workload", name, known)
        cases = [case for case in offered if case.workload in names]
        cases += [Case(name, "default") for name in sorted(names) if all(case.workload != name for case in cases)]
    for (name, scenario), count in Counter((case.workload, case.scenario) for case in cases).items():
        if count > 1:
            raise DesignError(f"{where} has workload {name!r} twice at scenario {scenario!r}; rename one")
    return tuple(_complete(case, defaults.get(case.workload)) for case in cases)


def _complete(case: Case, defaults: Mapping[str, Any] | None) -> Case:
    if defaults is None:
        return case
    return replace(case, params=completed(case.workload, case.params, defaults))


def completed(workload: str, params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a case with the workload's defaults; `DesignError` for one that is of another kind.

    A parameter is what its default is: a switch, a whole number, a number or a text.
    """
    for name, given in params.items():
        if name not in defaults:
            raise unknown_name(f"parameter of workload {workload!r}", name, defaults)
        kind, what = _KINDS.get(type(defaults[name]), (object, "anything"))
        if kind is object:
            continue
        is_switch = isinstance(given, bool)
        if is_switch != (kind is bool) or not isinstance(given, kind) or not _is_sane(name, given):
            raise DesignError(f"parameter {name} of workload {workload!r} must be {what}, got {_shown(given)}")
    return {**defaults, **params}


_KINDS: Mapping[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a text of one line"),
}


def _is_sane(name: str, given: bool | float | str) -> bool:
    if isinstance(given, str):
        return given.isprintable() and len(given) <= LONGEST_TEXT
    if name.endswith("port"):
        return 1 <= given <= 65535
    return abs(given) < 2**63


def checked_names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return a list of names as a tuple; `DesignError` unless it is one, of one or more, each once."""
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise DesignError(f"{what} must be a list of one or more names, got {_shown(names)}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DesignError(f"{what} names {repeated[0]!r} more than once")
    return tuple(names)


def _check_stopping(stopping: Stopping | None, blocks: int, deployments: int) -> None:
    if stopping is None:
        return
    if not 0 < stopping.target < 1:
        raise DesignError(f"precision {stopping.target}: give a share between 0 and 1, such as 0.02 for 2 %")
    if blocks != stopping.least:
        raise DesignError(f"blocks are added from {stopping.least} upward: runs must be {stopping.least}, not {blocks}")
    if stopping.most < stopping.least:
        raise DesignError(f"at most {stopping.most} blocks is fewer than the {stopping.least} that there are first")
    if deployments > 1:
        raise DesignError("blocks are added to one deployment only: more blocks do not make more deployments")


def _real(what: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < 1e9:
        raise DesignError(f"{what} must be a number, got {_shown(number)}")
    return number


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    said = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return said if len(said) <= LONGEST_NAME else f"{said[:20]}... of {len(said)} characters"


def _count(what: str, number: object, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**63:
        raise DesignError(f"{what} must be a whole number of at least {least}, got {_shown(number)}")
    return number
