"""Tidy table -> one row per cell: how many trials, and what they say.

The mean of a count or of a share has an interval that stays where a count or a share can be. Student's t of the few
events of some trials reaches below 0, and has no width where no event was seen. The intervals here are exact where
events are independent, and where they come in clusters they are those of as many independent events as say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from infrabench import registry
from infrabench.core import STATES
from infrabench.stats import intervals
from infrabench.stats.events import COUNT, DISPERSED, LEAST_BLOCKS, SHARE, clopper_pearson, poisson_interval
from infrabench.stats.intervals import LEVEL, NAN, Array, Estimate
from infrabench.stats.losses import explain_unequal
from infrabench.stats.pairwise import paired_fieller
from infrabench.stats.planning import one_way
from infrabench.stats.table import CELL, ORDER, SHARED, blocked, by_size, check_values, columns, kinds, stacks
from infrabench.stats.verdicts import UNLIKE, WORK, rate_interval, swapped_times, work_over_time

GARWOOD, CLOPPER_PEARSON = "Garwood, counts", "Clopper-Pearson, shares"
EFFECTIVE = "{method}, effective number over {unit}"
TRIALS, DEPLOYMENTS = "trials", "deployments"

CASE = ["workload", "scenario"]
# what the values of a cell say
MEASURED = columns("""
    int64: n; float64: mean mean_low mean_high; str: mean_method
    float64: median median_low median_high median_level sd cov min max; bool: deterministic
    float64: geometric_mean geometric_low geometric_high pseudo_median pseudo_low pseudo_high boot_t_low boot_t_high
    int64: deployments unit_n; float64: between_share
""")
TYPES = {
    **columns("str: workload scenario factor; float64: level; str: metric unit better system"),
    **dict.fromkeys(("planned", *STATES), "int64"), **MEASURED, "repeats": "int64",
}  # fmt: skip
NUMBERS = ("n", "mean", "mean_low", "mean_high", "n_pairs", "ratio", "ratio_low", "ratio_high")
INTERIM = (*SHARED, "system", *NUMBERS, "reason")
T, T_OF_TIMES = "Student's t", "Student's t of the times"
FAILED_WORK = "work failed in some trials: all work over all time is {factor:.3g} times this mean"


class Means(NamedTuple):
    """Mean of each cell, ends of its interval (NaN: none), and by what method, shape (cells,)."""

    mean: Array
    low: Array
    high: Array
    method: NDArray[np.object_]


def largest(kind: NDArray[np.object_], unit: Sequence[str]) -> Array:
    """Return the largest that a metric can be, shape of `kind`: of a share 1 or 100 (`unit` is %), of a count infinite.

    NaN for what is neither.
    """
    shares = np.where(np.asarray(unit, dtype=object) == "%", 100.0, 1.0)
    return np.select([kind == COUNT, kind == SHARE], [np.inf, shares], default=NAN)


def event_means(values: Array, cell: NDArray[np.intp], unit: NDArray[np.intp], top: Array) -> Means:
    """Return the mean a trial of counts, and the mean of shares, with 95 % intervals.

    `values`, `cell`, `unit`: (trials,); cells are numbered from 0 and have a trial each, a unit is of one cell: the
    trial, or its deployment where the cell has several. `top`: (cells,), of `largest`, not NaN.

    Counts of independent events have Garwood's interval (1936), shares of single trials (each 0 or 1) Clopper and
    Pearson's (1934). Where events vary more than chance explains (`events.dispersion_p` below `events.DISPERSED`,
    between trials or between deployments), where fewer than `events.LEAST_BLOCKS` trials cannot show it, and of shares
    inside trials, the same interval is taken at the number of events, or of tries, that independent ones would need
    for the variance that is seen between units, reduced by (z / t)^2 for its degrees of freedom: Korn and Graubard
    1998 (Survey Methodology 24:193-201), who do it for shares. No event in n trials gives 0 and an upper end alone
    (3.7 / n; of shares, also inside trials, 1 - 0.025^(1/n), for a trial without any event has at most the chance
    1 - share). Simulated with 10 trials, Poisson counts are covered in 95 to 99 % (by Student's t in 39 % where one
    trial of 20 has an event), counts of variance three times the mean in 94 to 95 %; of very rare and large clusters
    ten trials may show none, and then no interval covers. No interval: of one unit, and of shares
    inside trials that are all alike.
    """
    cells, share = len(top), np.isfinite(top)
    top = np.where(share, top, 1.0)
    scaled = values / top[cell]
    of_trials = share & (top == 1) & (np.bincount(cell, (scaled != 0) & (scaled != 1), cells) == 0)
    n, total = (np.bincount(cell, weights, cells).astype(float) for weights in (None, scaled))
    rate = total / n
    _, first, unit = np.unique(unit, return_index=True, return_inverse=True)
    of = cell[first]
    size, sums = (np.bincount(unit, weights).astype(float) for weights in (None, scaled))
    units = np.bincount(of, minlength=cells).astype(float)
    square = (sums - size * rate[of]) ** 2
    within = np.bincount(cell, (scaled - rate[cell]) ** 2, cells)
    chance = rate * np.where(of_trials, 1 - rate, 1.0)  # variance of one trial
    # p of trials, and of deployments, that vary no more than chance
    trial_p = _dispersion(within, chance, n - 1)
    unit_p = np.where(units < n, _dispersion(np.bincount(of, square / size, cells), chance, units - 1), NAN)
    p = np.fmin(np.where(share, NAN, trial_p), unit_p)
    clustered = (p < DISPERSED) | (n < LEAST_BLOCKS) | (share & ~of_trials)
    clustered &= (total > 0) & ~(share & (total == n))  # an edge shows no spread
    # how many independent events each is worth (tries, of shares), by the variance of the sum of all units
    df = np.maximum(units - 1, 1)
    variance = np.bincount(of, square, cells) * units / df
    expected = n * rate * np.where(share, 1 - rate, 1.0)
    weight = np.divide(expected, variance, out=np.full(cells, NAN), where=variance > 0)
    weight *= (special.ndtri((1 + LEVEL) / 2) / special.stdtrit(df, (1 + LEVEL) / 2)) ** 2
    weight = np.where(share & ~of_trials, weight, np.minimum(weight, 1.0))  # NaN stays
    # independent events, or tries, that say as much: no more than there were, where they were counted
    effective = np.where(share, n, total) * np.where(clustered, weight, 1.0)
    some = (units > 1) & np.isfinite(effective)
    # the exposure that gives the rate; that of all trials where there is no event
    exposure = np.divide(effective, rate, out=n.copy(), where=rate > 0)
    counts, shares = poisson_interval(effective, exposure), clopper_pearson(effective * rate, effective)
    low, high = (np.where(some, np.where(share, *ends), NAN) for ends in zip(shares[:2], counts[:2], strict=True))
    method = np.where(share, CLOPPER_PEARSON, GARWOOD).astype(object)
    over = np.where(units < n, DEPLOYMENTS, TRIALS)
    for at in np.flatnonzero(clustered):
        method[at] = EFFECTIVE.format(method=method[at], unit=over[at])
    method[~some] = ""
    return Means(rate * top, low * top, high * top, method)


def _dispersion(square: Array, variance: Array, df: Array) -> Array:
    """Fisher's index of dispersion (1925) of each cell, as `events.dispersion_p`; NaN where there is none."""
    there = (variance > 0) & (df > 0)
    ratio = np.divide(square, variance, out=np.zeros(square.shape), where=there)
    return np.where(there, stats.chi2.sf(ratio, np.maximum(df, 1)), NAN)


def estimates(table: pd.DataFrame, missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per cell with counts by state, estimates of its centre, their 95 % intervals and its spread.

    `missing`: planned trials without a record (`infrabench.analysis.tidy.missing`); they count as planned and as
    nothing else. Columns `TYPES`. ``planned``: trials of the plan; ``repeats``: of invalid ones. ``mean``: of a rate of
    fixed work the work over the mean time, which is the harmonic mean, and its intervals are those of the mean time.
    ``mean_low``, ``mean_high``: by ``mean_method`` (empty: no interval), which is Student's t, of counts and shares an
    exact one that never leaves what they can be (`event_means`); there ``mean`` is that of all trials, also with
    several deployments, and the ends of ``boot_t_*`` are cut. Where work failed it also says what all work over all
    time is, if that is another mean. ``median_low``, ``median_high``: exact order statistics at ``median_level``, none
    below n = 6. ``geometric_*``: the t interval of logarithms, for positive values.
    ``pseudo_*``: Hodges-Lehmann, exact signed ranks. ``boot_t_*``: studentised bootstrap of the mean. ``sd``, ``cov``,
    ``min``, ``max``: of trials. ``deterministic``: all values are equal, hence no interval. A cell without any value
    keeps its counts and has n = 0.

    A cell with more than one (session, deployment) has its centre and intervals from the means of its deployments: a
    deployment is what was repeated independently. ``deployments`` counts them, ``unit_n`` is the n behind the
    intervals, and ``between_share`` the share of the variance of a trial that lies between deployments, from a one-way
    analysis of variance (0 when negative; NaN for one deployment, or one trial in each).
    """
    check_values(table)
    counts = _counts(table, missing)
    cells = counts.merge(_kinds(table, counts[CASE].drop_duplicates()), on=CASE, how="left")
    frame = cells.merge(_numbers(table), on=CELL, how="left")
    frame[["n", "deployments", "unit_n"]] = frame[["n", "deployments", "unit_n"]].fillna(0)
    frame["mean_method"] = frame["mean_method"].fillna("")
    frame["deterministic"] = frame["deterministic"].eq(1)
    # the systems of one metric stand together; counts already come in the order of the scenarios
    case_order = frame.groupby(CASE, sort=False).ngroup()
    frame = frame.assign(case=case_order).sort_values(["case", "metric", "system"], kind="stable", ignore_index=True)
    return frame[list(TYPES)].astype(TYPES)


def _counts(table: pd.DataFrame, missing: pd.DataFrame | None) -> pd.DataFrame:
    """Trials by state for each (workload, scenario, system), scenarios in order of their level."""
    keys = [*CASE, "system", "factor", "level"]
    trials = table.drop_duplicates(["session", "trial"])[[*keys, "state", "attempt"]]
    if missing is not None and len(missing):
        trials = pd.concat([trials, missing[[*keys, "attempt"]].assign(state="missing")], ignore_index=True)
    if trials.empty:
        return pd.DataFrame(columns=[*keys, "planned", *STATES, "repeats"])
    states = pd.get_dummies(trials["state"], dtype=int).reindex(columns=list(STATES), fill_value=0)
    states["planned"] = (trials["attempt"] == 0).astype(int)
    states["repeats"] = (trials["attempt"] > 0).astype(int)
    counts = states.groupby([trials[key] for key in keys], dropna=False, observed=True).sum()
    return counts.reset_index().sort_values(["workload", "level", "scenario", "system"], ignore_index=True)


def _kinds(table: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Metric, unit and direction seen in each case; a case that never succeeded borrows those of its workload."""
    kind = ["metric", "unit", "better"]
    seen = table.loc[table["metric"].notna(), [*CASE, *kind]].drop_duplicates([*CASE, "metric"])
    merged = cases.merge(seen[CASE].drop_duplicates(), on=CASE, how="left", indicator=True)
    absent = merged.loc[merged["_merge"] == "left_only", CASE]
    known = seen[["workload", *kind]].drop_duplicates(["workload", "metric"])
    return pd.concat([seen, absent.merge(known, on="workload", how="left")], ignore_index=True)


def _numbers(table: pd.DataFrame, *, brief: bool = False) -> pd.DataFrame:
    """What the values of each cell say, one row per cell that has any; cells of equal n are worked out together.

    `brief`: of its centre the mean alone.
    """
    ok = table[table["value"].notna()].sort_values(["session", "position"], kind="stable")
    values = ok["value"].to_numpy(dtype=float)
    cell = ok.groupby(CELL, observed=True, sort=False).ngroup()
    first = ok[~cell.duplicated()]
    keys, of = first[CELL].reset_index(drop=True), kinds(first)
    unit = ok.groupby([cell, "session", "deployment"], sort=False).ngroup().to_numpy()
    cell = cell.to_numpy()
    cell_of_unit = cell[np.unique(unit, return_index=True)[1]]
    deployments = np.bincount(cell_of_unit, minlength=len(keys))
    found = {name: np.full(len(keys), NAN) for name, kind in MEASURED.items() if kind != "str"}
    for index, rows in by_size(cell):
        _put(found, index, _spread(values[rows]))
    _put_centres(found, values, cell, unit, deployments, _mean if brief else _centre)
    work = (of == WORK) & (found["min"] > 0) & (found["deterministic"] == 0)
    if work.any():
        some = work[cell]
        of_work = _work_mean if brief else _work_centre
        _put_centres(found, 1 / values[some], cell[some], unit[some], deployments, of_work)
    method = np.where(np.isnan(found["mean_low"]), "", np.where(work, T_OF_TIMES, T)).astype(object)
    top = largest(of, first["unit"].tolist())
    if (events := ~np.isnan(top)).any():
        # of several deployments each is a unit, else each trial
        own = np.where(deployments[cell] > 1, unit, len(unit) + np.arange(len(unit)))
        some = events[cell]
        means = event_means(values[some], (np.cumsum(events) - 1)[cell[some]], own[some], top[events])
        found["mean"][events], found["mean_low"][events], found["mean_high"][events], method[events] = means
        for end in ("boot_t_low", "boot_t_high"):
            found[end][events] = np.clip(found[end][events], 0.0, top[events])
    for at, factor in ({} if brief else _work_over_time(ok, keys)).items():
        method[at] = "; ".join(filter(None, (method[at], FAILED_WORK.format(factor=factor))))
    found["deployments"] = deployments.astype(float)
    found["between_share"] = one_way(values, unit, cell).share
    found["cov"] = np.divide(found["sd"], np.abs(found["mean"]), out=found["cov"], where=found["mean"] != 0)
    return pd.concat([keys, pd.DataFrame(found | {"mean_method": method})], axis=1)


def _work_over_time(ok: pd.DataFrame, keys: pd.DataFrame) -> dict[int, float]:
    """Cell -> all work over all time by its mean, of rates without what failed, where that is another mean."""
    found = {}
    place = {key: at for at, key in enumerate(keys[CELL].itertuples(index=False, name=None))}
    for workload in keys["workload"].unique():
        for rate, (time, failed) in registry.less_failed(workload).items():
            rows = ok[(ok["workload"] == workload) & ok["metric"].isin([rate, time, failed])]
            if not (rows.loc[rows["metric"] == failed, "value"] > 0).any() or rows["metric"].nunique() < 3:
                continue
            trial = ["scenario", "system", "session", "trial"]
            wide = rows.pivot(index=trial, columns="metric", values="value")  # noqa: PD010
            trials = wide[[rate, time, failed]].dropna()
            for (scenario, system), each in trials.groupby(level=[0, 1], observed=True):
                if (each[rate] > 0).all():
                    factor = float(work_over_time(*each.to_numpy().T))
                    found |= {place[workload, scenario, rate, system]: factor} if abs(factor - 1) > UNLIKE else {}
    return found


def _put_centres(
    found: dict[str, Array],
    values: Array,
    cell: NDArray[np.intp],
    unit: NDArray[np.intp],
    deployments: NDArray[np.intp],
    centre: Callable[[Array], dict[str, Array]],
) -> None:
    """Put what `centre` says of each cell's trials, or of its deployments' means where there are several."""
    _, firsts, unit = np.unique(unit, return_index=True, return_inverse=True)
    cell_of_unit = cell[firsts]
    # as distances from the first value, so that the means of equal values are equal to the last digit
    first = np.zeros(len(deployments))
    present, at = np.unique(cell, return_index=True)
    first[present] = values[at]
    unit_means = first[cell_of_unit] + np.bincount(unit, values - first[cell]) / np.bincount(unit)
    single, several = deployments[cell] == 1, deployments[cell_of_unit] > 1
    data = np.concatenate([values[single], unit_means[several]])
    for index, rows in by_size(np.concatenate([cell[single], cell_of_unit[several]])):
        _put(found, index, centre(data[rows]))


def _put(found: dict[str, Array], index: NDArray[np.intp], columns: dict[str, Array]) -> None:
    for name, column in columns.items():
        found[name][index] = column


def _spread(x: Array) -> dict[str, Array]:
    """n, spread and extremes of trials (cells, n)."""
    same, n = intervals.constant(x), x.shape[-1]
    # all equal: 0, not the rounding error of a sum
    sd = np.where(same, 0.0, x.std(axis=-1, ddof=1)) if n > 1 else np.full(len(x), NAN)
    ends = {"min": x.min(axis=-1), "max": x.max(axis=-1)}
    return {"n": np.full(len(x), n), "sd": sd, "deterministic": same.astype(float)} | ends


def _centre(x: Array) -> dict[str, Array]:
    """Estimates of the centre and their intervals from independent units (cells, n): trials, or deployment means."""
    median = intervals.median_interval(x)
    return {
        **_mean(x), "median": np.median(x, axis=-1), **median.columns("median"), "median_level": median.level,
        **intervals.log_t_interval(x).columns("geometric_mean", "geometric"),
        **intervals.hodges_lehmann(x).columns("pseudo_median", "pseudo"), **intervals.bootstrap_t(x).columns("boot_t"),
    }  # fmt: skip


def _mean(x: Array) -> dict[str, Array]:
    return {"unit_n": np.full(len(x), x.shape[-1]), "mean": x.mean(axis=-1), **intervals.t_interval(x).columns("mean")}


def _work_centre(times: Array) -> dict[str, Array]:
    """The mean of rates of fixed work and its intervals, from the times of independent units (cells, n)."""
    return _work_mean(times) | rate_interval(intervals.bootstrap_t(times)).columns("boot_t")


def _work_mean(times: Array) -> dict[str, Array]:
    return {"mean": 1 / times.mean(axis=-1), **rate_interval(intervals.t_interval(times)).columns("mean")}


def interim(table: pd.DataFrame, baseline: str, primary: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return one row per cell of the primary metrics that has a value by now, for somebody who watches a session.

    No test and no verdict: a session that is stopped, or prolonged, for what it says so far is biased by that. Columns
    `INTERIM`. ``n``, ``mean_*``: as of `estimates`, trials or deployments; ``ratio_*``: the paired Fieller interval
    over ``n_pairs`` blocks (deployments, where there are several) in which the system and the baseline are ok; of the
    baseline itself there is none, and none, with the ``reason``, where one of both loses markedly more trials than the
    other (`losses.explain_unequal`). Ends are NaN below two, and without spread. Rates of fixed work by their times.
    """
    check_values(table)
    wanted = pd.MultiIndex.from_frame(table[["workload", "metric"]]).isin(list(primary))
    if not wanted.any():
        return pd.DataFrame(columns=list(INTERIM))
    cube = blocked(table[wanted | table["metric"].isna()])  # lost trials have no metric
    means = _numbers(table, brief=True)[[*CELL, "unit_n", "mean", "mean_low", "mean_high"]]
    work = (kinds(cube.cases, table) == WORK) & ~(cube.numbers <= 0).any(axis=(1, 2))
    frames = []
    for number, system in enumerate(cube.systems):
        found = cube.cases.assign(system=system, n_pairs=0, ratio=NAN, ratio_low=NAN, ratio_high=NAN, reason="")
        frames.append(found)
        if system == baseline or baseline not in cube.systems:
            continue
        both = [number, cube.systems.index(baseline)]
        pairs = cube.numbers[:, both]
        pairs[work] = swapped_times(pairs[work])
        for cells, each in stacks(pairs, cube.deployment, cube.by_deployment):
            if each.size:
                x, y = each[:, 0], each[:, 1]
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = Estimate(x.mean(axis=-1) / y.mean(axis=-1), paired_fieller(x, y))
                for name, column in (ratio.columns("ratio") | {"n_pairs": x.shape[-1]}).items():
                    found.loc[cells, name] = column
        for case in np.flatnonzero(cube.fates[:, both].any(axis=(1, 2))):
            if reason := explain_unequal(cube.numbers[case, both], cube.fates[case, both], [system, baseline]):
                found.loc[case, ["ratio", "ratio_low", "ratio_high"]] = NAN
                found.loc[case, "reason"] = reason
    frame = pd.concat(frames).merge(means, on=CELL).rename(columns={"unit_n": "n"}).astype({"n": "int64"})
    return frame.sort_values(ORDER, kind="stable", ignore_index=True)[list(INTERIM)]
