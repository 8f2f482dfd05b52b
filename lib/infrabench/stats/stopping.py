"""When a session may stop, and which case gets the next blocks: by widths, never by what intervals say.

`look`: 30 blocks, then 5 more at a time until every primary cell is known well enough, 100 at most. `share_out`: a few
blocks of every case, then up to 5 more at a time of one case, until the time is used.

The first looks at the width of each system's own interval, and at whether systems lose trials alike; the second at the
spread of the ratios to the baseline. Neither sees a ratio or its p-value, because stopping on those changes what they
mean. Below 30 the first never stops: intervals that were short by luck would end the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.core import DesignError
from infrabench.stats.diagnostics import bimodal
from infrabench.stats.events import COUNT, SHARE
from infrabench.stats.intervals import ALPHA, LEVEL, NAN, Array, constant, median_interval, t_interval
from infrabench.stats.losses import WorstRanks, explain_unequal, is_lost, worst_ranks
from infrabench.stats.planning import blocks_to_decide, half_width, margin_of, ratio_spread
from infrabench.stats.table import CASE, blocked, check_values, kinds
from infrabench.stats.verdicts import WORK, resolution_step, undithered

TARGET, MIN_BLOCKS, BATCH, MAX_BLOCKS = 0.02, 30, 5, 100
NO_SPREAD = 1e-12  # what rounding leaves of equal ratios
LOST_ALIKE = "lost trials leave bounds that are too wide for the margin"
NO_ROOM = "the printing step leaves no room within the margin"
TOO_MANY = "more than a million blocks"
Cell = tuple[str, str, str, str]
Case = tuple[str, str]  # workload, scenario
NONE: Array = np.empty(0)
Reason = Literal["target", "n_max", "time", ""]


class PrecisionCheck(NamedTuple):
    """What a look after `n` blocks found; `reason` is empty while the session goes on."""

    n: int
    widths: Mapping[Cell, float]  # relative half-width of the 95 % interval, by (workload, scenario, metric, system)
    stop: bool
    reason: Reason
    unequal: Mapping[Cell, str]  # cell whose width does not count, as trials were lost unequally -> which, in words


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
    widths = {cell: float(relative_width(values)) for cell, values in cells.items()}
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
    return PrecisionCheck(n, widths, bool(reason), reason, unequal)


class Share(NamedTuple):
    """Which case gets how many of the next blocks; `reason` says why none does, and is empty where one does."""

    case: Case | None
    count: int
    reason: Reason
    blocks: Mapping[Case, int]  # that a case has
    pairs: Mapping[Cell, int]  # blocks with a value of the system and of the baseline
    widths: Mapping[Cell, float]  # half-width of the 95 % interval of the ratio, as a share of it
    needs: Mapping[Cell, float]  # pairs at which no outcome is inconclusive; infinite: no number is known to do
    why: Mapping[Cell, str]  # cell of which no such number is named -> the reason, in words
    unequal: Mapping[Cell, str]  # those of them whose systems lose trials unequally
    costs_s: Mapping[Case, float]  # what one block of a case takes
    still: frozenset[Cell]  # cells without a spread, for which any number of pairs is enough

    def lacking(self) -> list[Cell]:
        """Return the cells that are not narrow enough for their margins."""
        return [cell for cell, need in self.needs.items() if need > self.pairs[cell]]

    def missing(self) -> dict[Case, float]:
        """Return how many more blocks leave one more system of each case narrow enough, the quickest case first.

        Cells in `why`, of which no number is known, are left out.
        """
        blocks: dict[Case, float] = {}
        for cell in self.lacking():
            if cell not in self.why:
                blocks[cell[:2]] = min(blocks.get(cell[:2], np.inf), self.needs[cell] - self.pairs[cell])
        return dict(sorted(blocks.items(), key=lambda each: (each[1] * self.costs_s[each[0]], each[0])))


def share_out(
    table: pd.DataFrame,
    primary: Iterable[tuple[str, str]],
    baseline: str,
    margins: Mapping[str, float],
    *,
    costs_s: Mapping[Case, float],
    left_s: float,
    batch: int = BATCH,
    most: int = MAX_BLOCKS,
) -> Share:
    """Return which case gets the next blocks, `batch` at most, of a session that has `left_s` seconds left.

    `costs_s`: what a block of each case takes, all its systems, repeats and what is between them. A system is narrow
    enough in a case when it has as many pairs as, at the spread of its ratios, leave no outcome inconclusive at its
    margin (`planning.blocks_to_decide`). The time goes to the case in which one more system is narrow enough in the
    fewest seconds, so that as many as the time allows become so; those that cannot with `most` blocks come last. A case
    gets no more blocks than would fit if each took twice its cost: what is late then is one.

    Nothing is given to what no number of blocks would decide (``why``): a system without an ok trial, one that loses
    markedly more or fewer trials than the baseline (`losses.explain_unequal`), a printing step that leaves no room in
    the margin, events. Where trials are lost, few and equally many, a contrast is enough only when the bounds that they
    leave are narrow too (`losses.worst_ranks`); before, no number is named, because it hangs on what more will be lost,
    and such a case gets what the others leave.

    The spread is that of the interval which the contrast will have (`planning.ratio_spread`; of rates of fixed work
    that of their times), with what rounding may have moved, and over as many claims as the family has. It is taken as a
    share of the ratio, so that it sees neither the ratio nor any verdict: a system that is three times as fast gets the
    same. Nor need it: an outcome can be inconclusive only where the interval holds 1, and there the ratio is 1 to
    within its width.

    ``reason``: *target* when all are narrow enough, *n_max* when no number of blocks up to `most` would do for the
    rest, *time* when none fit.
    Raises `SchemaError` as `table.check_values`, and `DesignError` for a metric without a margin.
    """
    check_values(table)
    kept = table[table["state"] != "discarded"]
    spreads = _spreads(kept, set(primary), baseline)
    claims = Counter(cell[::2] for cell, each in spreads.items() if each.sd > NO_SPREAD)
    needs, why = {}, {cell: each.why for cell, each in spreads.items() if each.why}
    still = {cell for cell, each in spreads.items() if each.sd <= NO_SPREAD}
    for cell, each in spreads.items():
        margin, tests = margin_of(margins, cell[2]), claims[cell[::2]]
        need = float(each.n if cell in still else blocks_to_decide(each.sd, margin, tests, each.off))
        needs[cell] = need if np.isfinite(need) and not each.why else np.inf
        if not np.isfinite(needs[cell]) and not each.why:
            why[cell] = NO_ROOM if 2 * each.off >= margin else TOO_MANY
        elif each.ranks is not None and not _is_bounded(each.ranks, margin, tests):
            needs[cell], why[cell] = max(need, each.n + 1.0), LOST_ALIKE
    counts = kept.groupby(["workload", "scenario"])["block"].nunique().to_dict()
    seen = Share(
        None, 0, "", {cell[:2]: int(counts[cell[:2]]) for cell in spreads},
        {cell: each.n for cell, each in spreads.items()},
        {cell: float(half_width(each.sd, each.n)) + each.off for cell, each in spreads.items()},
        needs, why, {cell: each.why for cell, each in spreads.items() if each.unequal},
        {case: costs_s[case] for case in sorted({cell[:2] for cell in spreads})}, frozenset(still - why.keys()),
    )  # fmt: skip
    return _choose(seen, left_s, batch, most)


def _choose(seen: Share, left_s: float, batch: int, most: int) -> Share:
    """Return `seen` with the case that gets the next blocks, and how many, or the reason why none does."""
    missing = seen.missing()
    unnamed = {cell[:2] for cell in seen.lacking() if cell in seen.why and np.isfinite(seen.needs[cell])} - {*missing}
    room = [case for case in (*missing, *sorted(unnamed)) if seen.blocks[case] < most]
    fits = [case for case in room if seen.costs_s[case] <= left_s]
    if not fits:
        done = bool(seen.needs) and not seen.lacking()
        return seen._replace(reason="target" if done else "time" if room else "n_max")
    reach = [case for case in fits if case in missing and seen.blocks[case] + missing[case] <= most]
    chosen = (reach or fits)[0]
    safe = int(left_s // (2 * seen.costs_s[chosen])) if seen.costs_s[chosen] > 0 else batch
    return seen._replace(case=chosen, count=max(1, min(batch, most - seen.blocks[chosen], safe)))


class _Spread(NamedTuple):
    """Pairs of a system and the baseline: how many, their spread as a share of the ratio, and what rounding moved."""

    n: int
    sd: float = NAN
    off: float = 0.0
    why: str = ""  # why the spread says of no number of blocks that it would do
    unequal: bool = False
    ranks: WorstRanks | None = None  # where trials are lost


def _is_bounded(ranks: WorstRanks, margin: float, tests: int) -> bool:
    """Tell whether lost trials leave no outcome inconclusive, whatever they would have been and the ratio is."""
    with np.errstate(divide="ignore"):
        (low, high), (least, greatest) = (np.log(ranks.ends(level)) for level in (LEVEL, 1 - 2 * ALPHA / max(tests, 1)))
    return bool(np.isfinite([low, high]).all() and max(greatest - low, high - least) <= margin)


def _spreads(kept: pd.DataFrame, primary: set[tuple[str, str]], baseline: str) -> dict[Cell, _Spread]:
    """The spread of every primary contrast that was tried; a case that nobody could run has its metric too."""
    cube = blocked(kept)
    at = {key: row for row, key in enumerate(cube.cases[CASE].itertuples(index=False, name=None))}
    known = {(workload, scenario) for workload, scenario, _ in at}
    kind = dict(zip(at, kinds(cube.cases), strict=True))
    tried = {*kept[["workload", "scenario", "system"]].itertuples(index=False, name=None)}
    found: dict[Cell, _Spread] = {}
    for workload, scenario, system in sorted(tried):
        for metric in sorted(metric for name, metric in primary if name == workload):
            row = at.get((workload, scenario, metric))
            compared = (workload, scenario, baseline) in tried or baseline not in cube.systems
            if system == baseline or not compared or (row is None and (workload, scenario) in known):
                continue
            two = [baseline, system]
            if row is None or baseline not in cube.systems:
                gone = " and ".join(two if row is None else two[:1])
                found[workload, scenario, metric, system] = _Spread(0, why=f"no ok trial of {gone}")
                continue
            places = [cube.systems.index(name) for name in two]
            found[workload, scenario, metric, system] = _spread(
                cube.numbers[row, places], cube.fates[row, places], two, kind[workload, scenario, metric]
            )
    return found


def _spread(values: Array, fates: NDArray[np.int8], names: list[str], kind: str) -> _Spread:
    """The spread of one contrast: `values`, `fates` (2, blocks), baseline first."""
    pairs = values[:, np.isfinite(values).all(axis=0)]
    n = pairs.shape[-1]
    gone = [name for name, each in zip(names, values, strict=True) if not np.isfinite(each).any()]
    if gone:
        return _Spread(n, why=f"no ok trial of {' and '.join(gone)}")
    if said := explain_unequal(values, fates, names):
        return _Spread(n, why=said, unequal=True)
    if kind in (COUNT, SHARE):
        return _Spread(n, why="events, whose number no spread of ratios says")
    if n < 2:
        return _Spread(n, why="fewer than two blocks have a value of both")
    work = kind == WORK and bool((pairs > 0).all())
    times = 1 / pairs if work else pairs
    means = np.abs(times.mean(axis=-1))
    if not means.all():
        return _Spread(n, why="a mean of 0: no ratio")
    step, sd = resolution_step(pairs.ravel()), pairs.std(axis=-1, ddof=1).min()
    off = float(step / 2 / (1 / means[0] if work else means[0])) if undithered(step, sd) else 0.0
    lost = is_lost(fates)
    ranks = worst_ranks(values[::-1], lost[::-1], None) if lost.any() else None
    return _Spread(n, float(ratio_spread(times[1], times[0])), off, ranks=ranks)


def relative_width(x: Array) -> Array:
    """Return the relative half-width of each cell's 95 % interval, shape (...).

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
    return np.where(constant(x), 0.0, width)[()]


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
