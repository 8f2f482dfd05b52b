"""Study -> plan: seeded, randomised, complete blocks. Pure functions; the same request is the same plan, byte for byte.

A block holds every treatment (system x case) once, in one fresh permutation drawn from
``numpy.random.default_rng([seed, block])``. A block's order hangs on the seed, the block and the treatments alone:
planning more blocks leaves the earlier ones as they were.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from infrabench.core import Case, DesignError, Study, Trial, canonical, digest, unknown_name

TRIAL_OVERHEAD_S = 0.05  # switching systems, starting commands, monitors and ledger; corrected while a session runs
DEPLOY_S = 4.0  # making one system ready
RECORD_BYTES = 12_000  # one trial on disk, beside its monitor samples
SAMPLE_BYTES = 1_800  # one monitor sample of one host, 1 Hz


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


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a plan costs: wall time, space inside a target, and space of the ledger."""

    seconds: float
    target_bytes: int
    ledger_bytes: int


def design(
    study: Study, *, profile: str, systems: Sequence[str] | None = None, workloads: Sequence[str] | None = None,
    runs: int | None = None, seed: int | None = None, known_systems: Sequence[str] = (),
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> Design:  # fmt: skip
    """Return the validated `Design` of a request.

    Parameters
    ----------
    profile, systems, workloads, runs, seed
        What to run; None means what the study says. `runs` overrides the number of blocks.
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
    if profile not in study.profiles:
        raise unknown_name(f"profile of study {study.name!r}", profile, study.profiles)
    chosen = study.profiles[profile]
    return Design(
        study=study.name,
        profile=profile,
        blocks=_count("runs", chosen.blocks if runs is None else runs, 1),
        systems=_systems(study, systems, known_systems),
        cases=_cases(chosen.cases, workloads, defaults or {}, f"profile {profile!r} of study {study.name!r}"),
        seed=_count("seed", study.seed if seed is None else seed, 0),
        named=workloads is not None,
    )


def trials(design: Design) -> tuple[Trial, ...]:
    """Return every trial of `design` in the order of execution."""
    treatments = [(system, case) for case in design.cases for system in design.systems]
    planned: list[Trial] = []
    for block in range(design.blocks):
        for index in np.random.default_rng([design.seed, block]).permutation(len(treatments)):
            planned.append(_trial(design, block, len(planned), *treatments[index]))
    repeated = [trial for trial, count in Counter(t.id for t in planned).items() if count > 1]
    if repeated:
        raise DesignError(f"two trials of the plan have the same id {repeated[0]}; rename a scenario")
    return tuple(planned)


def plan(study: Study, *, profile: str, **request: Any) -> tuple[Trial, ...]:
    """Return every trial of a request in order; the parameters are those of `design`."""
    return trials(design(study, profile=profile, **request))


def expected(design: Design, *, overhead_s: float = TRIAL_OVERHEAD_S, hosts: int = 2) -> Expectation:
    """Return the expected cost of `design`: seconds, and bytes in a target and in the ledger."""
    once = len(design.systems) * design.blocks
    tool_s = once * sum(case.seconds for case in design.cases)
    count = once * len(design.cases)
    return Expectation(
        seconds=tool_s + count * overhead_s + len(design.systems) * DEPLOY_S,
        target_bytes=max((case.disk_bytes for case in design.cases), default=0),
        ledger_bytes=count * RECORD_BYTES + int((tool_s + 2 * count) * hosts * SAMPLE_BYTES),
    )


def without(design: Design, *, systems: Sequence[str] = (), workloads: Sequence[str] = ()) -> Design:
    """Return `design` without what cannot run; blocks stay complete because it is left out of every one."""
    return replace(
        design,
        systems=tuple(name for name in design.systems if name not in systems),
        cases=tuple(case for case in design.cases if case.workload not in workloads),
    )


def _trial(design: Design, block: int, position: int, system: str, case: Case) -> Trial:
    params = json.loads(canonical(case.params))  # as it will be read back: tuples are lists
    identity = [design.study, design.seed, block, system, case.workload, case.scenario, params]
    level = None if case.level is None else float(case.level)
    return Trial(
        id=digest(identity), block=block, position=position, system=system, workload=case.workload,
        scenario=case.scenario, params=params, factor=case.factor, level=level, seconds=float(case.seconds),
    )  # fmt: skip


def _systems(study: Study, asked: Sequence[str] | None, registered: Sequence[str]) -> tuple[str, ...]:
    known = [*study.systems, *(name for name in registered if name not in study.systems)]
    names = _names("systems", study.systems if asked is None else asked)
    for name in names:
        if name not in known:
            raise unknown_name("system", name, known)
    if study.baseline not in names:
        raise DesignError(f"systems must contain the baseline {study.baseline!r}: every result is a ratio to it")
    return tuple(name for name in known if name in names)  # the order asked for must not change the plan


def _cases(
    offered: tuple[Case, ...], asked: Sequence[str] | None, defaults: Mapping[str, Mapping[str, Any]], where: str
) -> tuple[Case, ...]:
    cases = list(offered)
    if asked is not None:
        names = _names("workloads", asked)
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
    for name in case.params:
        if name not in defaults:
            raise unknown_name(f"parameter of workload {case.workload!r}", name, defaults)
    return replace(case, params={**defaults, **case.params})


def _names(what: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not names:
        raise DesignError(f"{what} must be a list of one or more names, got {names!r}")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DesignError(f"{what} names {repeated[0]!r} more than once")
    return tuple(names)


def _count(what: str, number: object, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise DesignError(f"{what} must be a whole number of at least {least}, got {number!r}")
    return number
