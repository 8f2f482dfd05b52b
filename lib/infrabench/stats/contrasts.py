"""Tidy table -> one row per system and baseline: ratio, interval, tests, equivalence, effect sizes, verdict.

Only complete blocks enter: a block counts for a contrast when the system and the baseline both have an ok trial in
it, so whatever the block did to both cancels. Where systems were deployed more than once, the means of each
deployment are the pairs, for its trials are not independent. A treatment that nobody tried has no contrast. What a
contrast with lost trials may still say is in `losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench import registry
from infrabench.stats import multiplicity, verdicts
from infrabench.stats.dependence import of_pairs
from infrabench.stats.diagnostics import outlier_mask
from infrabench.stats.estimates import largest
from infrabench.stats.events import COUNT, SHARE, judge_events
from infrabench.stats.intervals import NAN, Array
from infrabench.stats.losses import LOST, account_losses, is_lost
from infrabench.stats.planning import margin_of
from infrabench.stats.table import (
    CELL,
    FAMILY,
    ORDER,
    PER_BLOCK,
    PER_DEPLOYMENT,
    Blocked,
    blocked,
    by_size,
    columns,
    join_words,
    kinds,
    stacks,
)
from infrabench.stats.verdicts import Pairs

NO_NUMBER = "no number of {unit} is sure to decide: the printing step leaves no room within the margin"
NOT_IN_FAMILY = "equivalence not significant within its family"
NOT_SIGNIFICANT = "not significant within its family"
FAILED_WORK = "trials weigh alike although work failed in some: all work over all time is {ratio:.3g} times {baseline}"
# What a stack of pairs is made with, and judged by.
GIVEN = ["margin", "step", "sd", "baseline", "pair_unit", "kind", "unit"]
DECIDING = ("inferred", "apart", "p_equivalence")  # what `decide` reads

TYPES = columns("""
    str: workload scenario factor; float64: level; str: metric unit better system baseline; int64: n_pairs
    float64: mean baseline_mean ratio ratio_low ratio_high overhead_percent overhead_low overhead_high difference
    float64: difference_low difference_high p; str: p_method; float64: p_adjusted; str: adjustment
    float64: paired_d paired_d_low paired_d_high worse_share worse_low worse_high margin equivalence_low
    float64: equivalence_high p_equivalence p_equivalence_adjusted; str: verdict; float64: n_to_decide
    str: reason pair_unit
    float64: log_ratio log_low log_high p_signed_rank shift shift_low shift_high detectable power_equivalence lag1
    float64: n_eff bound_low bound_high; str: verdict_without_flagged; bool: sensitive; str: flags
""")
DEPENDENT = "dependent"


def contrasts(
    table: pd.DataFrame,
    baseline: str,
    margins: Mapping[str, float],
    primary: Iterable[tuple[str, str]] = (),
    cube: Blocked | None = None,
) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric, system other than the baseline).

    There is none for a case that the system, or a baseline with trials elsewhere, never tried: it does not apply there.
    The family is the contrasts of one metric of one workload; its p are adjusted by Holm where it is `primary`, else by
    Benjamini-Hochberg and labelled exploratory. Arguments as of `infrabench.stats`; `cube` may be of systems that were
    tried in other workloads too. Raises `DesignError` also where a metric has no margin and there is no default, and
    for a margin that is not between 0 and 1.

    Columns `TYPES`. ``n_pairs`` pairs of ``pair_unit`` (blocks, or deployments where there are several). ``ratio``: of
    means (of rates of fixed work: the inverse ratio of the mean times), with the paired Fieller interval; counts and
    shares as `events.judge_events` says, their ends infinite where the baseline has no event; ``overhead_percent``:
    signed, positive is worse whatever the direction of the metric; ``difference``: in the metric's unit, paired t;
    ``p``: of a ratio of 1, from the same statistic as the interval, so below 5 % exactly when that excludes 1;
    ``equivalence_low`` ..: the 90 % interval of the ratio, within 1 -+ ``margin`` exactly when ``p_equivalence`` is
    below 5 %; ``p_equivalence_adjusted``: by Holm in the family, whether primary or not, and the one that decides;
    ``n_to_decide``: for inconclusive ones, from the upper 80 % limit of the spread, NaN where the printing step forbids
    it and where it was reached; ``paired_d``: mean over SD of the paired log ratios; ``worse_share``: of the pairs in
    which the system is worse; ``log_ratio``: of geometric means; ``p_signed_rank`` and ``shift`` (Hodges-Lehmann): of
    the differences; ``detectable``: the relative difference that so many pairs of this spread find with 80 % power;
    ``power_equivalence``: the chance that the equivalence test passes at a true ratio of 1, not adjusted; ``lag1``,
    ``n_eff``: how the pairs depend on one another in executed order, `dependence.of_pairs`; of a contrast with lost
    trials, interval, p and 90 % interval are no smaller than what holds for whatever these would have been
    (``bound_low``, ``bound_high``), or NaN where there is no verdict (`losses.account_losses`);
    ``verdict_without_flagged``: when in the whole family the pairs with a value of modified z above 3.5 in its cell are
    left out, and ``sensitive`` when that changes it; ``flags``: words joined by "; "; ``reason``: why a verdict is not
    available, or all that qualifies it, joined by "; ".
    """
    cube = blocked(table) if cube is None else cube
    others = [system for system in cube.systems if system != baseline]
    frame = cube.cases.loc[cube.cases.index.repeat(len(others))].reset_index(drop=True)
    if frame.empty:
        return frame.reindex(columns=list(TYPES)).astype(TYPES)
    frame = frame.assign(system=np.tile(others, len(cube.cases)), baseline=baseline)
    frame["kind"] = np.repeat(kinds(cube.cases), len(others))
    frame["margin"] = [margin_of(margins, metric) for metric in frame["metric"]]
    values, fates = (_pairs_of(each, cube.systems, baseline) for each in (cube.numbers, cube.fates))
    flagged = _pairs_of(_flagged(cube.numbers), cube.systems, baseline) & np.isfinite(values).all(axis=1, keepdims=True)
    frame["step"], frame["sd"] = _printing(values)
    frame = frame.join(_judged(frame, values, fates, cube.deployment))
    effects = _by_stack(
        frame, values, cube.deployment,
        lambda pairs: verdicts.measure_effects(pairs) | of_pairs(pairs.x, pairs.y),
    )  # fmt: skip
    effects.loc[frame["withheld"], effects.select_dtypes("float").columns] = NAN  # where losses leave no verdict
    frame = frame.join(effects)
    frame["verdict"], frame["p_equivalence_adjusted"] = _verdicts(frame)
    frame = _without_flagged(frame, values, fates, flagged.any(axis=1), cube.deployment)
    undecided = frame["verdict"] == verdicts.INCONCLUSIVE
    tests = frame.groupby(FAMILY)["p_equivalence"].transform("count")
    frame["n_to_decide"] = np.where(undecided, verdicts.n_to_decide(frame, frame["margin"], tests), NAN)
    frame["reason"] = join_words(_absent(frame, values), _explain_work(frame, values))
    sign = frame["better"].map({"lower": 1.0, "higher": -1.0}).astype(float)
    frame["overhead_percent"], *ends = (100 * sign * (frame[each] - 1) for each in ("ratio", "ratio_low", "ratio_high"))
    frame["overhead_low"], frame["overhead_high"] = np.minimum(*ends), np.maximum(*ends)
    for name, end in (("worse_share", ""), ("worse_low", "_low"), ("worse_high", "_high")):
        frame[name] = np.where(frame["better"] == "lower", frame[f"above{end}"], frame[f"below{end}"])
    frame["p_adjusted"], frame["adjustment"] = multiplicity.by_metric(frame, frame["p"], primary)
    frame["reason"] = _qualified(frame)
    frame = frame[_tried(frame, table, baseline in cube.systems)].reindex(columns=list(TYPES)).astype(TYPES)
    return frame.sort_values(ORDER, ignore_index=True)


def pair_blocks(table: pd.DataFrame, contrast: Any) -> pd.DataFrame:
    """Return the pairs of one contrast in executed order: two columns whose ratio of means is that of the contrast.

    `contrast` is a row of `contrasts`, of which ``workload``, ``scenario``, ``metric``, ``system`` and ``baseline`` are
    read. A pair is a block in which both have an ok trial: values of the system and, beside it, of the baseline, in the
    unit of the metric. Rates of fixed work are compared by their times, 1 / rate, and then the time of the baseline
    stands first. Where systems were deployed more than once a pair is the means over a deployment's complete blocks.
    The index counts from 1 and is called by the unit of a pair, the columns by the case. Without it there is no row.
    """
    names = [contrast.system, contrast.baseline]
    cube = blocked(table[table["workload"] == contrast.workload])
    case = ((cube.cases["scenario"] == contrast.scenario) & (cube.cases["metric"] == contrast.metric)).to_numpy()
    pairs, unit = np.empty((2, 0)), PER_BLOCK
    if case.any() and set(names) <= set(cube.systems):
        values = cube.numbers[case][:, [cube.systems.index(name) for name in names]]
        if kinds(cube.cases)[case][0] == verdicts.WORK and not (values <= 0).any():
            values, names = verdicts.swapped_times(values), [f"time of {name}" for name in reversed(names)]
        ((_, (pairs,)),) = stacks(values, cube.deployment, cube.by_deployment[case])
        unit = str(cube.cases.loc[case, "pair_unit"].iloc[0])
    index = pd.RangeIndex(1, pairs.shape[1] + 1, name=unit.removesuffix("s"))
    about = pd.Index(names, name=" ".join((contrast.workload, contrast.scenario, contrast.metric)))
    return pd.DataFrame(pairs.T, index, about)


def _tried(frame: pd.DataFrame, table: pd.DataFrame, compared: bool) -> NDArray[np.bool_]:
    """Which contrasts are of a case in which the system has a trial of any state, and so has the baseline.

    Of the baseline none is asked where it was tried nowhere (not `compared`).
    """
    cells = pd.MultiIndex.from_frame(table[["workload", "scenario", "system"]].drop_duplicates())
    here, base = (
        pd.MultiIndex.from_frame(frame[["workload", "scenario", who]]).isin(cells) for who in ("system", "baseline")
    )
    return here & (base | (not compared))


def _pairs_of(values: NDArray[Any], systems: tuple[str, ...], baseline: str) -> NDArray[Any]:
    """(cases, systems, blocks) -> (contrasts, 2, blocks): each system, and the baseline beside it."""
    others = [i for i, system in enumerate(systems) if system != baseline]
    absent = np.full_like(values[:, :1], NAN if values.dtype == float else 0)
    base = values[:, [systems.index(baseline)]] if baseline in systems else absent
    paired = np.stack([values[:, others], np.broadcast_to(base, values[:, others].shape)], axis=2)
    return paired.reshape(len(values) * len(others), 2, values.shape[-1])


def _flagged(values: Array) -> NDArray[np.bool_]:
    """Which values are far from the others of their cell: a modified z above 3.5. Shape of `values`."""
    rows = values.reshape(values.shape[0] * values.shape[1], values.shape[-1])
    cell, block = np.nonzero(np.isfinite(rows))
    flagged = np.zeros(rows.shape, dtype=bool)
    for _, at in by_size(cell):
        flagged[cell[at], block[at]] = outlier_mask(rows[cell[at], block[at]])
    return flagged.reshape(values.shape)


def _printing(values: Array) -> tuple[Array, Array]:
    """The printing step of both systems' trials together, and the smaller of their spreads, by contrast."""
    step, sd = np.full((2, len(values)), NAN)
    blocks = np.zeros(values.shape[-1], dtype=int)
    for cells, found in stacks(values, blocks, np.zeros(len(values), dtype=bool)):
        if found.shape[-1] > 1:
            step[cells] = verdicts.resolution_step(found.reshape(len(found), -1))
            sd[cells] = found.std(axis=-1, ddof=1).min(axis=-1)
    return step, sd


def _by_stack(
    frame: pd.DataFrame, values: Array, deployment: NDArray[np.intp], measure: Callable[[Pairs], dict[str, Any]]
) -> pd.DataFrame:
    """The columns that `measure` finds, contrasts with equally many pairs at a time, index of `frame`."""
    parts = []
    for cells, found in stacks(values, deployment, (frame["pair_unit"] == PER_DEPLOYMENT).to_numpy(dtype=bool)):
        if len(cells):
            some = frame.iloc[cells]
            given = (some[name].to_numpy(dtype=float) for name in ("margin", "step", "sd"))
            pairs = Pairs(found[:, 0], found[:, 1], *given, some["baseline"].iloc[0], some["pair_unit"].iloc[0])
            parts.append(pd.DataFrame(measure(pairs), index=some.index))
    return pd.concat(parts).loc[frame.index] if parts else pd.DataFrame(index=frame.index)


def _judged(frame: pd.DataFrame, values: Array, fates: NDArray[np.int8], deployment: NDArray[np.intp]) -> pd.DataFrame:
    """The columns of `judge`; rates of fixed work by their times, counts and shares as `events`, losses as `losses`."""
    found = _by_stack(frame, values, deployment, verdicts.judge)
    work = ((frame["kind"] == verdicts.WORK) & ~(values <= 0).any(axis=(1, 2))).to_numpy()
    if work.any():
        times, some = verdicts.swapped_times(values[work]), frame[work]
        # a difference of two rates is that of their times over the product of both mean times
        numbers = np.maximum(np.isfinite(times).sum(axis=-1), 1)
        scale = (np.nansum(times, axis=-1) / numbers).prod(axis=-1)
        some = some.assign(step=some["step"] * scale, sd=some["sd"] * scale)
        by_times = _by_stack(some, times, deployment, verdicts.judge_work)
        found.loc[some.index, by_times.columns] = by_times
    found = found.assign(withheld=False, bound_low=NAN, bound_high=NAN)
    tops = largest(frame["kind"].to_numpy(), frame["unit"].tolist())
    fallen = (fates != 0).any(axis=(1, 2))
    changes: dict[Any, dict[str, Any]] = {}
    for at, row in enumerate(frame.itertuples()):
        units = deployment if row.pair_unit == PER_DEPLOYMENT else None
        judge = None
        changed: dict[str, Any] = {}
        if row.kind in (COUNT, SHARE):
            judge = partial(judge_events, row.kind, deployment=units, margin=row.margin, percent=row.unit == "%")
            changed = dict(judge(values[at]))
            if "apart" not in changed:  # what was said stays, and this beside it
                judge = None
                reasons = (found.loc[row.Index, "reason"], changed.get("reason", ""))
                changed = {"reason": "; ".join(filter(None, reasons))}
        if fallen[at]:
            seen = found.loc[row.Index].to_dict() | changed | {"margin": row.margin, "baseline": row.baseline}
            changed |= account_losses(seen, values[at], fates[at], units, judge, tops[at])
        if changed:
            changes[row.Index] = changed
    # column by column: a cell at a time would take longer than the judging
    for name in dict.fromkeys(name for changed in changes.values() for name in changed):
        rows = [index for index, changed in changes.items() if name in changed]
        found.loc[rows, name] = [changes[index][name] for index in rows]
    return found


def _verdicts(frame: pd.DataFrame) -> tuple[NDArray[np.object_], Array]:
    """The verdict of each judged contrast, and the p of equivalence, adjusted by Holm in its family, that decides."""
    adjusted = multiplicity.by_family(frame["p_equivalence"], frame.groupby(FAMILY).ngroup(), multiplicity.holm)
    return verdicts.decide(frame, adjusted), adjusted


def _qualified(frame: pd.DataFrame) -> list[str]:
    """The reason of each contrast with all that its family and its printing step have to add."""
    exploratory = (frame["adjustment"] == multiplicity.EXPLORATORY).map({True: "exploratory, ", False: ""})
    # "different" rests on the interval of one contrast; say so where the whole family would not support it
    alone = frame["verdict"].isin([verdicts.DIFFERENT, verdicts.WITHIN]) & (frame["p_adjusted"] >= verdicts.ALPHA)
    decided = frame["verdict"].isin([verdicts.EQUIVALENT, verdicts.WITHIN, verdicts.NOT_COMPARABLE])
    claimed = ~decided & (frame["p_equivalence"] < verdicts.ALPHA) & (frame["p_equivalence_adjusted"] >= verdicts.ALPHA)
    # each half-width, that of 95 % and that of the equivalence test, carries what rounding may have done
    barred = (frame["verdict"] == verdicts.INCONCLUSIVE) & (2 * frame["off"] >= frame["margin"])
    return join_words(
        frame["reason"],
        np.where(alone, exploratory + NOT_SIGNIFICANT, ""),
        np.where(claimed, NOT_IN_FAMILY, ""),
        np.where(barred, [NO_NUMBER.format(unit=unit) for unit in frame["pair_unit"]], ""),
        [
            f"{DEPENDENT}: {n} {unit} say as much as {worth:.0f}" if worth < n - 0.5 else ""
            for n, unit, worth in zip(frame["n_pairs"], frame["pair_unit"], frame["n_eff"], strict=True)
        ],
    )


def _without_flagged(
    frame: pd.DataFrame,
    values: Array,
    fates: NDArray[np.int8],
    flagged: NDArray[np.bool_],
    deployment: NDArray[np.intp],
) -> pd.DataFrame:
    """Add the verdicts without the pairs that hold a flagged value, and the flags of each contrast."""
    some = flagged.any(axis=-1)
    frame["verdict_without_flagged"] = frame["verdict"]
    if some.any():
        left = np.where(flagged[some, None], NAN, values[some])
        without_flagged = _judged(frame.loc[some, GIVEN], left, fates[some], deployment)
        changed = frame[[*FAMILY, *DECIDING]].copy()
        changed.loc[some, list(DECIDING)] = without_flagged[list(DECIDING)]
        # in its family: a contrast may lose a claim because another one lost it
        frame["verdict_without_flagged"] = _verdicts(changed)[0]
    frame["sensitive"] = frame["verdict_without_flagged"] != frame["verdict"]
    lost = is_lost(fates).any(axis=(1, 2)) | frame["withheld"]
    words = ((verdicts.LIMITED, frame["limited"]), (DEPENDENT, frame["dependent"]), ("outliers", some), (LOST, lost))
    frame["flags"] = join_words(*(np.where(raised, word, "") for word, raised in words))
    return frame


def _explain_work(frame: pd.DataFrame, values: Array) -> list[str]:
    """What each ratio of rates without what failed is by all work over all time, where that is another one."""
    told = [""] * len(frame)
    place = {key: at for at, key in enumerate(zip(*(frame[name] for name in CELL), strict=True))}
    less = {name: registry.less_failed(name) for name in frame["workload"].unique()}
    for (workload, scenario, metric, system), at in place.items():
        beside = [place.get((workload, scenario, name, system)) for name in less[workload].get(metric, ())]
        if not beside or None in beside or np.isnan(frame["ratio"].iloc[at]):
            continue
        rates, times_s, failed = (values[each] for each in (at, *beside))
        both = np.isfinite(rates).all(axis=0)
        if (rates[:, both] <= 0).any():
            continue
        system_by, baseline_by = verdicts.work_over_time(rates[:, both], times_s[:, both], failed[:, both])
        if abs(system_by / baseline_by - 1) > verdicts.UNLIKE:
            ratio = frame["ratio"].iloc[at] * system_by / baseline_by
            told[at] = FAILED_WORK.format(ratio=ratio, baseline=frame["baseline"].iloc[at])
    return told


def _absent(frame: pd.DataFrame, values: Array) -> list[str]:
    """The reason of each contrast; that a system has no ok trial at all goes before what follows from it."""
    ran = np.isfinite(values).any(axis=-1)
    names = zip(frame["system"], frame["baseline"], strict=True)
    gone = [
        " and ".join(n for n, there in zip(both, each, strict=True) if not there)
        for both, each in zip(names, ran, strict=True)
    ]
    return [f"no ok trial of {who}" if who else reason for who, reason in zip(gone, frame["reason"], strict=True)]
