"""When a session may stop, and which case gets the next blocks: by widths, never by what intervals say.

`look`: 30 blocks, then 5 more at a time until every primary cell is known well enough, 100 at most. `share_out`: a few
blocks of every case, then 5 more at a time of one case, until the time is used.

The first looks at the width of each system's own interval, and at whether systems lose trials alike; the second at the
spread of the ratios to the baseline. Neither sees a ratio or its p-value, because stopping on those changes what they
mean. Below 30 the first never stops: intervals that were short by luck would end the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.core import DesignError
from infrabench.stats.diagnostics import bimodal
from infrabench.stats.intervals import NAN, Array, constant, median_interval, t_interval
from infrabench.stats.losses import explain_unequal
from infrabench.stats.planning import blocks_to_decide, half_width
from infrabench.stats.table import blocked, check_values

TARGET, MIN_BLOCKS, BATCH, MAX_BLOCKS = 0.02, 30, 5, 100
Cell = tuple[str, str, str, str]
NONE: Array = np.empty(0)
Criterion = Literal["t", "median"]
Reason = Literal["target", "n_max", "time", ""]


class PrecisionCheck(NamedTuple):
    """What a look after `n` blocks found; `reason` is empty while the session goes on."""

    n: int
    widths: Mapping[Cell, float]  # relative half-width of the 95 % interval, by (workload, scenario, metric, system)
    stop: bool
    reason: Reason
    criterion: Mapping[Cell, Criterion]  # of which estimator: the mean, or the median of a cell flagged bimodal
    unequal: Mapping[Cell, str]  # cell whose width does not count, as trials were lost unequally -> which, in words


class Stops(NamedTuple):
    """Where simulated sessions stop, whether for the target, and by which criterion each cell was last judged."""

    n: NDArray[np.int64]
    met: NDArray[np.bool_]
    median: NDArray[np.bool_]


def look(
    table: pd.DataFrame,
    primary: Iterable[tuple[str, str]],
    target: float = TARGET,
    *,
    least: int = MIN_BLOCKS,
    batch: int = BATCH,
    most: int = MAX_BLOCKS,
    elapsed_s: float = 0.0,
    budget_s: float = float("inf"),
) -> PrecisionCheck:
    """Return whether a session may stop after the blocks that its tidy table holds.

    It stops after `least`, `least` + `batch`, ... whole blocks when the relative half-width of every primary cell is at
    most `target`; after `most` blocks; and, from `least` blocks on, once `elapsed_s` reaches `budget_s`. Blocks that
    were discarded do not count. Cells without a single value, of systems that cannot run the workload, are left out;
    their width is NaN. A cell that repeats one value has width 0. Of a case in which one system loses markedly more
    trials than another (`losses.explain_unequal`) no width counts, and the target is not met: it is the width of the
    rest alone.

    Raises `DesignError` when the rule is not one (0 < target, 2 <= least <= most, 1 <= batch), when a primary
    (workload, metric) is not in the table, or when there is more than one deployment: their number is not adaptive.
    Raises `SchemaError` as `table.check_values`.
    """
    check_values(table)
    if not (target > 0 and 2 <= least <= most and batch >= 1):
        raise DesignError(f"no stopping rule: target {target}, least {least}, batch {batch}, most {most}")
    kept = table[table["state"] != "discarded"]
    if kept[["session", "deployment"]].drop_duplicates().shape[0] > 1:
        raise DesignError("blocks are added to one deployment of one session; the number of deployments is fixed")
    cells = _cells(kept, set(primary))
    n = kept["block"].nunique()
    widths: dict[Cell, float] = {}
    criterion: dict[Cell, Criterion] = {}
    for cell, values in cells.items():
        width, median = relative_width(values)
        widths[cell], criterion[cell] = float(width), "median" if median else "t"
    known = [width for cell, width in widths.items() if cells[cell].size]
    unequal = _unequal(kept, cells)
    met = bool(known) and not unequal and all(width <= target for width in known)  # NaN is not
    reason: Reason = ""
    if n >= least:
        if met and ((n - least) % batch == 0 or n >= most):
            reason = "target"
        elif n >= most:
            reason = "n_max"
        elif elapsed_s >= budget_s:
            reason = "time"
    return PrecisionCheck(n, widths, bool(reason), reason, criterion, unequal)


class Share(NamedTuple):
    """Which case gets the next blocks; `reason` says why none does, and is empty where one does."""

    case: tuple[str, str] | None  # workload, scenario
    numbers: Mapping[tuple[str, str], int]  # pairs that a case has, of the system that has fewest
    widths: Mapping[
        Cell, float
    ]  # half-width of the 95 % interval of the ratio, by (workload, scenario, metric, system)
    needs: Mapping[tuple[str, str], float]  # pairs at which no outcome is inconclusive, by case; infinite: unknown
    costs_s: Mapping[tuple[str, str], float]  # what one block of a case takes
    reason: Reason

    def missing_s(self) -> dict[tuple[str, str], float]:
        """Return how long each case still takes that is not narrow enough, the quickest first."""
        open_ = {case: need - self.numbers[case] for case, need in self.needs.items() if need > self.numbers[case]}
        return dict(sorted(((case, n * self.costs_s[case]) for case, n in open_.items()), key=lambda each: each[::-1]))


def share_out(
    table: pd.DataFrame,
    primary: Iterable[tuple[str, str]],
    baseline: str,
    margins: Mapping[str, float],
    *,
    left_s: float,
    between_s: float = 0.0,
    batch: int = BATCH,
    most: int = MAX_BLOCKS,
) -> Share:
    """Return which case gets the next `batch` blocks of a session that has `left_s` seconds left.

    A case is narrow enough when it has as many pairs as, at the spread of its ratios, leave no outcome inconclusive at
    its margin (`planning.blocks_to_decide`), or `most`. Of the others, those that can get there in the time come first,
    the cheapest before; then the one that is widest against its margin and whose blocks fit. Of a pair of systems the
    standard deviation of the log ratio is taken, and what its blocks took on the average, with `between_s` beside the
    trials of each: neither their ratio nor any verdict enters. Cases without a primary metric get nothing.

    ``reason``: *target* when all are narrow enough, *n_max* when no number of blocks up to `most` would do for the
    rest, *time* when none fit.
    Raises `SchemaError` as `table.check_values`.
    """
    check_values(table)
    kept, wanted = table[table["state"] != "discarded"], set(primary)
    cube = blocked(kept)
    rows = [at for at, case in enumerate(cube.cases.itertuples()) if (case.workload, case.metric) in wanted]
    others = [i for i, name in enumerate(cube.systems) if name != baseline]
    if baseline not in cube.systems:  # it cannot run here
        return Share(None, {}, {}, {}, {}, "n_max")
    base = cube.systems.index(baseline)
    families = cube.cases.iloc[rows].groupby(["workload", "metric"]).size() * len(others)
    numbers: dict[tuple[str, str], int] = {}
    needs: dict[tuple[str, str], float] = {}
    widths: dict[Cell, float] = {}
    for at in rows:
        case = cube.cases.iloc[at]
        key = (case["workload"], case["scenario"])
        margin = margins.get(case["metric"], margins[""])
        for i in others:
            x, y = cube.numbers[at, i], cube.numbers[at, base]
            if not np.isfinite(x).any():
                continue  # it cannot run this
            ratios = np.log(x / y, out=np.full(x.shape, NAN), where=(x > 0) & (y > 0))
            ratios = ratios[np.isfinite(ratios)]
            n = ratios.size
            sd = float(ratios.std(ddof=1)) if n > 1 else NAN
            tests = families[case["workload"], case["metric"]]
            need = float(n) if sd == 0 else float(blocks_to_decide(sd, margin, tests))
            widths[*key, case["metric"], cube.systems[i]] = float(half_width(sd, n))
            needs[key] = max(needs.get(key, 0.0), need if np.isfinite(need) else np.inf)
            numbers[key] = min(numbers.get(key, n), n)
    costs_s = {key: between_s + cost for key, cost in _block_costs_s(kept).items()}
    seen = Share(None, numbers, widths, needs, costs_s, "")
    missing_s = seen.missing_s()
    room = [key for key in missing_s if numbers[key] < most and np.isfinite(needs[key])]  # no number: no time
    fits = [key for key in room if batch * costs_s[key] <= left_s]
    if not fits:
        return seen._replace(reason="target" if not missing_s else "time" if room else "n_max")
    reach = [key for key in fits if missing_s[key] <= left_s]
    widest = max(fits, key=lambda key: (needs[key] / max(numbers[key], 1), key))
    return seen._replace(case=reach[0] if reach else widest)


def _block_costs_s(kept: pd.DataFrame) -> dict[tuple[str, str], float]:
    """What one block of each case took, repeats included: all its trials, over its blocks."""
    trials = kept.drop_duplicates(["session", "trial"]).groupby(["workload", "scenario"])
    found = trials["duration_s"].sum() / trials["block"].nunique()
    return {(str(workload), str(scenario)): float(value) for (workload, scenario), value in found.items()}


def relative_width(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the relative half-width of each cell's 95 % interval, and whether it is that of the median.

    `x`: (..., n). Student's interval over the mean, or the exact interval over the median where the cell is flagged
    bimodal. 0 where all values are equal, NaN below two values, infinite where mean or median is 0.
    """
    two = np.asarray(bimodal(x))
    ends, middle = t_interval(x), x.mean(axis=-1) if x.shape[-1] else np.full(x.shape[:-1], NAN)
    low, high, middle = (np.asarray(part, dtype=float) for part in (ends.low, ends.high, middle))
    if two.any():
        ranks = median_interval(x)
        low, high = np.where(two, ranks.low, low), np.where(two, ranks.high, high)
        middle = np.where(two, np.median(x, axis=-1), middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = (high - low) / 2 / np.abs(middle)
    return np.where(constant(x), 0.0, width)[()], two[()]


def stopping_n(
    x: Array, target: float = TARGET, *, least: int = MIN_BLOCKS, batch: int = BATCH, most: int = MAX_BLOCKS
) -> Stops:
    """Return after how many blocks each session of a simulation stops, without a limit of time.

    `x`: (..., cells, n), the values of all primary cells of a session in block order, n >= `most`; ``n`` and ``met``
    have the shape (...), ``median`` (..., cells). Raises `DesignError` when there are fewer than `most` blocks.
    """
    if x.shape[-1] < most:
        raise DesignError(f"{x.shape[-1]} blocks cannot show where a rule with at most {most} stops")
    n = np.zeros(x.shape[:-2], dtype=np.int64)
    met = np.zeros(x.shape[:-2], dtype=bool)
    median = np.zeros(x.shape[:-1], dtype=bool)
    for size in (*range(least, most, batch), most):
        going = n == 0
        widths, two = relative_width(x[going][..., :size])
        done = (widths <= target).all(axis=-1)
        n[going] = np.where(done | (size == most), size, 0)
        met[going], median[going] = done, two
    return Stops(n, met, median)


def _cells(kept: pd.DataFrame, primary: set[tuple[str, str]]) -> dict[Cell, Array]:
    """The values of every primary cell; cells that were tried and have none are empty."""
    cells: dict[Cell, Array] = {}
    for workload, metric in sorted(primary):
        tried = kept[kept["workload"] == workload]
        values = tried[tried["metric"] == metric]
        if tried.empty or (values.empty and (tried["state"] == "ok").any()):
            raise DesignError(f"the primary metric {metric!r} of {workload!r} is not in the table")
        for scenario, system in tried[["scenario", "system"]].drop_duplicates().itertuples(index=False):
            here = values[(values["scenario"] == scenario) & (values["system"] == system)]
            cells[workload, scenario, metric, system] = here["value"].to_numpy(dtype=float)
    return cells


def _unequal(kept: pd.DataFrame, cells: Mapping[Cell, Array]) -> dict[Cell, str]:
    """Which cells are of a case whose systems lose trials unequally, and what these lose."""
    cube = blocked(kept[kept["workload"].isin({workload for workload, *_ in cells})])
    found: dict[Cell, str] = {}
    for at, case in enumerate(cube.cases.itertuples()):
        ran = [
            i
            for i, each in enumerate(cube.systems)
            if cells.get((case.workload, case.scenario, case.metric, each), NONE).size
        ]
        names = [cube.systems[i] for i in ran]
        if said := explain_unequal(cube.numbers[at, ran], cube.fates[at, ran], names):
            found |= {(case.workload, case.scenario, case.metric, each): said for each in names}
    return found
