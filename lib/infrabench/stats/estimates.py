"""Tidy table -> one row per cell: how many trials, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.core import STATES
from infrabench.stats.bootstrap import bootstrap_t
from infrabench.stats.components import one_way
from infrabench.stats.event_means import event_means, largest
from infrabench.stats.intervals import NAN, Array, constant, hodges_lehmann, log_t_interval, median_interval, t_interval
from infrabench.stats.kinds import kinds
from infrabench.stats.table import check_values
from infrabench.stats.work import WORK, rate_interval

CASE = ["workload", "scenario"]
CELL = ["workload", "scenario", "metric", "system"]
COLUMNS = (
    *("workload", "scenario", "factor", "level", "metric", "unit", "better", "system"),
    *("planned", *STATES, "n"),
    *("mean", "mean_low", "mean_high", "mean_method", "median", "median_low", "median_high", "median_level"),
    *("sd", "cov", "min", "max", "deterministic"),
    *("geometric_mean", "geometric_low", "geometric_high", "pseudo_median", "pseudo_low", "pseudo_high"),
    *("boot_t_low", "boot_t_high", "deployments", "unit_n", "between_share", "repeats"),
)
TEXT = ("workload", "scenario", "factor", "metric", "unit", "better", "system", "mean_method")
T, T_OF_TIMES = "Student's t", "Student's t of the times"
COUNTS = ("planned", *STATES, "n", "deployments", "unit_n", "repeats")


def estimates(table: pd.DataFrame, missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per cell with counts by state, estimates of its centre, their 95 % intervals and its spread.

    Parameters
    ----------
    table
        The tidy table.
    missing
        Planned trials without a record (`infrabench.analysis.tidy.missing`); they count as planned and as nothing else.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`, units of the table. ``planned``: trials of the plan; ``repeats``: of invalid ones. ``mean``:
        of a rate of fixed work the work over the mean time, which is the harmonic mean, and its intervals are those of
        the mean time. ``mean_low``, ``mean_high``: by ``mean_method`` (empty: no interval), which is Student's t, of
        counts and shares an exact one that never leaves what they can be (`event_means.event_means`); there ``mean`` is
        that of all trials, also with several deployments, and the ends of ``boot_t_*`` are cut. ``median_low``,
        ``median_high``: exact order statistics at ``median_level``, none below n = 6. ``geometric_*``: the t interval
        of logarithms, for positive values.
        ``pseudo_*``: Hodges-Lehmann, exact signed ranks. ``boot_t_*``: studentised bootstrap of the mean. ``sd``,
        ``cov``, ``min``, ``max``: of trials. ``deterministic``: all values are equal, hence no interval. A cell without
        any value keeps its counts and has n = 0.

        A cell with more than one (session, deployment) has its centre and intervals from the means of its deployments:
        a deployment is what was repeated independently. ``deployments`` counts them, ``unit_n`` is the n behind the
        intervals, and ``between_share`` the share of the variance of a trial that lies between deployments, from a
        one-way analysis of variance (0 when negative; NaN for one deployment, or one trial in each).

    Raises
    ------
    SchemaError
        The table is not a tidy one (`table.check_values`).
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
    types = dict.fromkeys(TEXT, "str") | dict.fromkeys(COUNTS, "int64") | {"deterministic": "bool"}
    types |= {name: "float64" for name in COLUMNS if name not in types}
    return frame[list(COLUMNS)].astype(types)


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


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """What the values of each cell say, one row per cell that has any; cells of equal n are worked out together."""
    ok = table[table["value"].notna()].sort_values(["session", "position"], kind="stable")
    values = ok["value"].to_numpy(dtype=float)
    cell = ok.groupby(CELL, observed=True, sort=False).ngroup()
    first = ok[~cell.duplicated()]
    keys, of = first[CELL].reset_index(drop=True), kinds(first)
    unit = ok.groupby([cell, "session", "deployment"], sort=False).ngroup().to_numpy()
    cell = cell.to_numpy()
    cell_of_unit = cell[np.unique(unit, return_index=True)[1]]
    deployments = np.bincount(cell_of_unit, minlength=len(keys))
    found = {name: np.full(len(keys), NAN) for name in COLUMNS[COLUMNS.index("n") : -1] if name not in TEXT}
    for index, x in _stacks(cell, values):
        _put(found, index, _spread(x))
    _put_centres(found, values, cell, unit, deployments, _centre)
    work = (of == WORK) & (found["min"] > 0) & (found["deterministic"] == 0)
    if work.any():
        some = work[cell]
        _put_centres(found, 1 / values[some], cell[some], unit[some], deployments, _work_centre)
    method = np.where(np.isnan(found["mean_low"]), "", np.where(work, T_OF_TIMES, T)).astype(object)
    top = largest(of, first["unit"].tolist())
    if (events := ~np.isnan(top)).any():
        # of several deployments each is a unit, else each trial
        own = np.where(deployments[cell] > 1, unit, len(unit) + np.arange(len(unit)))
        method[events] = _put_events(found, events, values, cell, own, top)
    found["deployments"] = deployments.astype(float)
    found["between_share"] = one_way(values, unit, cell).share
    found["cov"] = np.divide(found["sd"], np.abs(found["mean"]), out=found["cov"], where=found["mean"] != 0)
    return pd.concat([keys, pd.DataFrame(found | {"mean_method": method})], axis=1)


def _put_events(
    found: dict[str, Array],
    events: NDArray[np.bool_],
    values: Array,
    cell: NDArray[np.intp],
    unit: NDArray[np.intp],
    top: Array,
) -> NDArray[np.object_]:
    """Put the means of counts and shares; return the method of each of these cells."""
    some = events[cell]
    means = event_means(values[some], (np.cumsum(events) - 1)[cell[some]], unit[some], top[events])
    found["mean"][events], found["mean_low"][events], found["mean_high"][events] = means[:3]
    for end in ("boot_t_low", "boot_t_high"):
        found[end][events] = np.clip(found[end][events], 0.0, top[events])
    return means.method


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
    for index, x in _stacks(
        np.concatenate([cell[single], cell_of_unit[several]]), np.concatenate([values[single], unit_means[several]])
    ):
        _put(found, index, centre(x))


def _stacks(cell: NDArray[np.intp], values: Array) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Cells of equal size as (cell numbers, values (cells, n)), for each size."""
    order = np.argsort(cell, kind="stable")
    sizes = np.bincount(cell)
    starts = np.cumsum(sizes) - sizes
    for n in np.unique(sizes[sizes > 0]):
        index = np.flatnonzero(sizes == n)
        yield index, values[order[starts[index, None] + np.arange(n)]]


def _put(found: dict[str, Array], index: NDArray[np.intp], columns: dict[str, Array]) -> None:
    for name, column in columns.items():
        found[name][index] = column


def _spread(x: Array) -> dict[str, Array]:
    """n, spread and extremes of trials (cells, n)."""
    same, n = constant(x), x.shape[-1]
    # all equal: 0, not the rounding error of a sum
    sd = np.where(same, 0.0, x.std(axis=-1, ddof=1)) if n > 1 else np.full(len(x), NAN)
    ends = {"min": x.min(axis=-1), "max": x.max(axis=-1)}
    return {"n": np.full(len(x), n), "sd": sd, "deterministic": same.astype(float)} | ends


def _centre(x: Array) -> dict[str, Array]:
    """Estimates of the centre and their intervals from independent units (cells, n): trials, or deployment means."""
    mean, median = t_interval(x), median_interval(x)
    # resamples go by place: sorted, the values say the same in whatever order they came
    studentised = bootstrap_t(np.sort(x, axis=-1))
    geometric, pseudo = log_t_interval(x), hodges_lehmann(x)
    return {
        "unit_n": np.full(len(x), x.shape[-1]),
        "mean": x.mean(axis=-1),
        "mean_low": mean.low,
        "mean_high": mean.high,
        "median": np.median(x, axis=-1),
        "median_low": median.low,
        "median_high": median.high,
        "median_level": median.level,
        "geometric_mean": geometric.value,
        "geometric_low": geometric.interval.low,
        "geometric_high": geometric.interval.high,
        "pseudo_median": pseudo.value,
        "pseudo_low": pseudo.interval.low,
        "pseudo_high": pseudo.interval.high,
        "boot_t_low": studentised.low,
        "boot_t_high": studentised.high,
    }


def _work_centre(times: Array) -> dict[str, Array]:
    """The mean of rates of fixed work and its intervals, from the times of independent units (cells, n)."""
    mean, studentised = rate_interval(t_interval(times)), rate_interval(bootstrap_t(np.sort(times, axis=-1)))
    row = {"mean": 1 / times.mean(axis=-1), "mean_low": mean.low, "mean_high": mean.high}
    return row | {"boot_t_low": studentised.low, "boot_t_high": studentised.high}
