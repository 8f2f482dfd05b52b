"""Study -> plan: seeded, randomised, complete blocks. Pure functions; the same request is the same plan, byte for byte.

A block holds every treatment (system x case) once. Its order (`orders`) hangs on the seed, the block and the treatments
alone: planning more blocks leaves the earlier ones as they were. Unless another order is asked for, the systems of a
case stand next to each other. Cases of one group stand together for each system, because what they share is costly to
make. With several deployments (a split-plot design) every system is made ready anew before each equal share of the
blocks, and the deployment is the unit of analysis. A treatment that its system has no place for is left out of every
block, and the others stay where they are.

What a plan costs, in time and in space on disks, is estimated before a session; a session corrects its own as it runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infrabench.core import (
    Case,
    DesignError,
    Limits,
    Param,
    Request,
    Stopping,
    Study,
    Trial,
    Variant,
    canonical,
    check_known,
    has_work,
    order_systems,
    share_out,
    split_version,
    trial_id,
    unknown_name,
)
from infrabench.core.request import check_count, check_names
from infrabench.experiment.design import orders
from infrabench.experiment.design.settings import apply_settings, read_settings

TRIAL_OVERHEAD_S = 0.05  # switching systems, starting commands, monitors and ledger; corrected while a session runs
RECORD_BYTES = 12_000  # one trial on disk, beside its monitor samples
SAMPLE_BYTES = 1_800  # one monitor sample of one host, 1 Hz
HOSTS = 2  # that are watched
FIRST_BLOCKS, LEAST_BLOCKS = 15, 10  # of every case, before what is left of a time is given to some (check V28)
MOST_TRIALS = 1_000_000  # of a plan: months of measuring, and already much to keep in memory
AGAIN = "-again"  # ends the second label of an A/A session


Treatment = tuple[str, str, str]  # system, workload, scenario


@dataclass(frozen=True, slots=True)
class Design:
    """A request with nothing left to the study: everything that decides the plan."""

    request: Request
    blocks: int
    systems: tuple[str, ...]
    cases: tuple[Case, ...]
    seed: int
    deployments: int = 1
    excluded: frozenset[Treatment] = frozenset()  # treatments that their systems have no place for
    baseline: str = ""  # what results are ratios to; empty: the study's
    limits: Limits | None = None  # None: the study's

    @property
    def study(self) -> str:
        """The study's name."""
        return self.request.study

    @property
    def profile(self) -> str:
        """The profile's name."""
        return self.request.profile

    @property
    def order(self) -> str:
        """How the trials of a block are ordered."""
        return orders.DEFAULT if self.request.order is None else self.request.order

    @property
    def stopping(self) -> Stopping | None:
        """When to add blocks, from those on that there are first."""
        rule = self.request.stopping
        return rule if rule is None or rule.target is not None else replace(rule, least=self.blocks)


def design(
    study: Study, request: Request, known_systems: Sequence[str] = (),
    declared: Mapping[str, Mapping[str, Param]] | None = None,
) -> Design:  # fmt: skip
    """Return the `Design` of a request of `study`; `DesignError` for a name, parameter or number that cannot be.

    Where the study's baseline is not among the systems that are named, the first of them is the baseline.
    `known_systems` may be asked for beyond the study's own (those registered as plug-ins). `declared` are every
    registered workload's parameters: they complete each case's, and a workload that the study has no case for is run at
    the one scenario ``default``.
    """
    if not isinstance(request.profile, str) or request.profile not in study.profiles:
        raise unknown_name(f"profile of study {study.name!r}", request.profile, study.profiles)
    chosen, study = study.profiles[request.profile], twins(study, request.aa, known_systems)
    usual = (chosen.systems if not request.aa else ()) or study.systems
    timed = request.precision is None and request.minutes is not None
    usual_blocks = FIRST_BLOCKS if timed else chosen.blocks
    blocks = check_count("runs", usual_blocks if request.runs is None else request.runs, 1)
    if timed and blocks < LEAST_BLOCKS:
        raise DesignError(
            f"with minutes, runs are the first blocks of every case, whose spread says which need more: give at least "
            f"{LEAST_BLOCKS}, not {blocks}, or leave runs out"
        )
    anew = check_count("deployments", chosen.deployments if request.deployments is None else request.deployments, 1)
    _check_stopping(request.stopping, blocks, anew)
    if blocks % anew:
        raise DesignError(f"{blocks} blocks cannot be shared out to {anew} deployments: take a multiple of {anew}")
    named = check_names("systems", usual if request.systems is None else tuple(request.systems))
    known, declared = dict.fromkeys([*study.systems, *known_systems]), declared or {}
    for name in named:
        if name not in known and split_version(name)[0] not in known:
            raise unknown_name("system", name, known)
    where = f"profile {request.profile!r} of study {study.name!r}"
    cases = _select(chosen.cases, request.workloads, declared)
    if request.set is not None:
        settings = read_settings(request.set, dict.fromkeys(case.workload for case in cases), declared)
        request, cases = replace(request, set=settings), apply_settings(cases, settings, declared)
    cases = _complete_cases(cases, declared, where)
    cases = tuple(_cut(case, declared.get(case.workload, {}), request.rounds) for case in cases)
    if blocks * len(cases) * len(named) > MOST_TRIALS:
        raise DesignError(f"{blocks} blocks of {len(cases)} cases on {len(named)} systems are too many trials")
    found = Design(
        request=request,
        blocks=blocks,
        systems=order_systems(named, tuple(known)),  # the order asked for must not change the plan
        cases=cases,
        seed=check_count("seed", study.seed if request.seed is None else request.seed, 0),
        deployments=anew,
        baseline=study.baseline if study.baseline in named else named[0],
        limits=chosen.limits,
        excluded=_foresee_placeless(study, named, cases),
    )
    orders.check(found.order, [case.group for case in cases])
    return _fit(study, found) if timed else found


def _foresee_placeless(study: Study, names: Iterable[str], cases: Sequence[Case]) -> frozenset[Treatment]:
    """Return the treatments for which the study knows that systems, their versions or labels have no place."""
    labels = {label: variant.system for label, variant in study.variants.items()}
    return frozenset(
        (name, case.workload, case.scenario)
        for name in names
        for case in cases
        if (case.workload, case.scenario) in study.placeless.get(split_version(labels.get(name, name))[0], ())
    )


def _fit(study: Study, wanted: Design) -> Design:
    """Return a design with as many first blocks as leave a third of its time, or with those that are asked for.

    `DesignError` where `LEAST_BLOCKS` do not leave it, or those that are asked for do not fit at all.
    """
    seconds = 60 * (wanted.request.minutes or 0.0)
    one = replace(wanted, blocks=1, request=replace(wanted.request, minutes=None, most=None))
    one_s = expected_study_cost(study, one).seconds - study.ready_s(wanted.systems)
    if wanted.request.runs is not None:
        if wanted.blocks * one_s > seconds:
            raise DesignError(
                f"the first {wanted.blocks} blocks take about {wanted.blocks * one_s / 60:.0f} minutes, and "
                f"{seconds / 60:g} are given: give more, or fewer runs"
            )
        return wanted
    blocks = min(wanted.blocks, int(2 / 3 * seconds / one_s))
    if blocks < LEAST_BLOCKS:
        raise DesignError(
            f"{LEAST_BLOCKS} blocks of {len(wanted.cases)} cases on {len(wanted.systems)} systems take about "
            f"{LEAST_BLOCKS * one_s / 60:.0f} minutes, and {seconds / 60:g} have to hold half as many again: give "
            "more, or name fewer workloads or systems, or a smaller profile"
        )
    return replace(wanted, blocks=blocks)


def complete(design: Design) -> Request:
    """Return the request of a design with what the study said filled in."""
    rule = design.stopping
    return replace(
        design.request, systems=None if design.request.aa else design.systems, workloads=tuple(workloads(design)),
        runs=design.blocks, seed=design.seed, deployments=design.deployments, order=design.order,
        most=None if rule is None else rule.most,
    )  # fmt: skip


def study_of(study: Study, design: Design, known_systems: Sequence[str] = ()) -> Study:
    """Return `study` as `design` asks for it: with one system under two labels, other limits, or another baseline."""
    study = twins(replace(study, limits=design.limits or study.limits), design.request.aa, known_systems)
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
    if split_version(name)[0] not in (*study.systems, *known_systems):
        raise unknown_name("system", name, {*study.systems, *known_systems})
    same = study.variants.get(name, Variant(name))
    return replace(
        study, title=f"A/A: {name} under two labels", baseline=name, systems=(name, name + AGAIN), known=(),
        variants={**({name: same} if name in study.variants else {}), name + AGAIN: same},
    )  # fmt: skip


def trials(design: Design) -> tuple[Trial, ...]:
    """Return every trial of `design` in the order of execution."""
    share = design.blocks // design.deployments
    planned = [trial for number in range(design.blocks) for trial in block(design, number, number // share)]
    repeated = [trial for trial, count in Counter(t.id for t in planned).items() if count > 1]
    if repeated:
        raise DesignError(f"two trials of the plan have the same id {repeated[0]}; rename a scenario")
    return tuple(planned)


def block(
    design: Design, number: int, deployment: int = 0, only: Collection[tuple[str, str]] = ()
) -> tuple[Trial, ...]:
    """Return the trials of block `number` in order; a number beyond the planned ones gives one more such block.

    `only`: the cases (workload, scenario) that it holds; empty: all. Positions of the others, and of excluded
    treatments, stay free.
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
        and (not only or (case.workload, case.scenario) in only)
    )


def by_block(trials: Iterable[Trial]) -> dict[int, list[Trial]]:
    """Return trials by block, both in the order they come."""
    blocks: dict[int, list[Trial]] = {}
    for trial in trials:
        blocks.setdefault(trial.block, []).append(trial)
    return blocks


def treatments(design: Design) -> list[tuple[str, Case]]:
    """Return what a block holds: every system and case that is not excluded."""
    every = [(system, case) for case in design.cases for system in design.systems]
    return [(name, case) for name, case in every if (name, case.workload, case.scenario) not in design.excluded]


def count_trials(design: Design) -> int:
    """Return how many trials `design` holds before any is added."""
    return design.blocks * len(treatments(design))


def workloads(design: Design) -> list[str]:
    """Return the workloads of `design`, each once."""
    return list(dict.fromkeys(case.workload for case in design.cases))


def without(
    design: Design, *, systems: Sequence[str] = (), workloads: Sequence[str] = (), excluded: Iterable[Treatment] = ()
) -> Design:
    """Return `design` without what cannot run, in any block; a case whose treatments are all `excluded` is gone.

    `excluded` takes the place of what the study foresaw: it only serves the plan.
    """
    left = replace(
        design,
        systems=tuple(name for name in design.systems if name not in systems),
        cases=tuple(case for case in design.cases if case.workload not in workloads),
        excluded=frozenset(excluded),
    )
    there = {(case.workload, case.scenario) for _, case in treatments(left)}
    return replace(left, cases=tuple(case for case in left.cases if (case.workload, case.scenario) in there))


def _trial(design: Design, block: int, position: int, system: str, case: Case, deployment: int) -> Trial:
    params = json.loads(canonical(case.params))  # as it will be read back: tuples are lists
    level = None if case.level is None else float(case.level)
    trial = Trial(
        id="", block=block, position=position, system=system, workload=case.workload,
        scenario=case.scenario, params=params, factor=case.factor, level=level, seconds=float(case.seconds),
        deployment=deployment, rounds=case.rounds,
    )  # fmt: skip
    return replace(trial, id=trial_id(design.study, design.seed, trial))


def _select(
    offered: Sequence[Case], asked: Sequence[str] | None, declared: Mapping[str, Mapping[str, Param]]
) -> list[Case]:
    """Return the cases of the workloads that are asked for; one that no case is of has the scenario ``default``."""
    if asked is None:
        return [*offered]
    check_known("workload", asked, {case.workload for case in offered} | {*declared})
    cases = [case for case in offered if case.workload in asked]
    return cases + [Case(name, "default") for name in sorted(asked) if all(case.workload != name for case in cases)]


def _complete_cases(cases: Sequence[Case], declared: Mapping[str, Mapping[str, Param]], where: str) -> tuple[Case, ...]:
    """Return cases with every parameter of their workloads; `DesignError` where two have one name."""
    for (name, scenario), count in Counter((case.workload, case.scenario) for case in cases).items():
        if count > 1:
            raise DesignError(f"{where} has workload {name!r} twice at scenario {scenario!r}; rename one")
    return tuple(
        replace(each, params=completed(each.workload, each.params, declared[each.workload]))
        if each.workload in declared
        else each
        for each in cases
    )


def _cut(case: Case, declared: Mapping[str, Param], rounds: int | None) -> Case:
    """Return a case with the `rounds` that are asked for, where it can have any; None: with its own."""
    if rounds is not None and not case.group:
        case = replace(case, rounds=rounds if has_work(case.params, declared) else 1)
    if case.rounds > 1 and case.group:
        raise DesignError(f"{case.workload} {case.scenario}: cases of a group stand together and have no rounds")
    try:
        share_out(case.params, declared, case.rounds)
    except DesignError as error:
        raise DesignError(f"{case.workload} {case.scenario}: {error}") from error
    return case


def completed(workload: str, params: Mapping[str, Any], declared: Mapping[str, Param]) -> dict[str, Any]:
    """Return the parameters of a case with the workload's defaults.

    `DesignError` for one that it may not be, or that has no effect beside another.
    """
    whole = {**{name: param.default for name, param in declared.items()}, **params}
    for name, given in params.items():
        if name not in declared:
            raise unknown_name(f"parameter of workload {workload!r}", name, declared)
        declared[name].check(f"parameter {name} of workload {workload!r}", given)
        other = declared[name].instead
        if whole.get(other):
            effect = f"{name} = {given} has no effect beside {other} = {whole[other]}"
            raise DesignError(f"{workload}: {effect}: set {other}=0, or no {name}")
    return whole


def _check_stopping(stopping: Stopping | None, blocks: int, deployments: int) -> None:
    if stopping is None:
        return
    if stopping.target is None:
        stopping = replace(stopping, least=blocks)
    elif not 0 < stopping.target < 1:
        raise DesignError(f"precision {stopping.target}: give a share between 0 and 1, such as 0.02 for 2 %")
    if blocks != stopping.least:
        raise DesignError(f"blocks are added from {stopping.least} upward: runs must be {stopping.least}, not {blocks}")
    if stopping.most < stopping.least:
        raise DesignError(f"at most {stopping.most} blocks is fewer than the {stopping.least} that there are first")
    if deployments > 1:
        raise DesignError("blocks are added to one deployment only: more blocks do not make more deployments")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a plan costs: wall time, space inside a target, and space of the ledger."""

    seconds: float
    target_bytes: int
    ledger_bytes: int


def expected_study_cost(study: Study, design: Design) -> Expectation:
    """Return the expected cost of a design of `study`: seconds, and bytes in a target and in the ledger.

    Its drift probes and its making ready are in it. Blocks that are added later, and repeats of invalid trials, cannot
    be known and are not; where a time is shared out, it is filled.
    """
    tool_s, count = design.blocks * sum(case.seconds for _, case in treatments(design)), count_trials(design)
    ready_s = design.deployments * study.ready_s(design.systems)
    rule, probes_s = design.stopping, design.blocks * study.probe_s
    blocks_s = tool_s + count * TRIAL_OVERHEAD_S + probes_s
    ledger_bytes = count * RECORD_BYTES + int((tool_s + 2 * count) * HOSTS * SAMPLE_BYTES)
    if rule is not None and rule.target is None and rule.budget_s is not None:
        ledger_bytes = int(ledger_bytes * max(1.0, rule.budget_s / blocks_s))
        seconds = rule.budget_s + ready_s
    else:
        seconds = blocks_s + ready_s
    return Expectation(seconds, max((case.disk_bytes for case in design.cases), default=0), ledger_bytes)
