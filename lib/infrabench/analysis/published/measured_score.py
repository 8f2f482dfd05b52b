"""The overall-performance score of the container papers, computed from the blocks of a session, with its interval.

The papers' score is the mean of four shares of native performance, each 1 minus a loss: IOzone read, IOzone write,
memory (average of four kernels), processor time of one thread. Their loss is |system - native| / native, in which a
gain looks like a loss (audit, A8), and that of the processor was taken in percent where a share belongs (A1). Both
forms are computed here from the same means: as *printed*, with both errors, and *corrected*, with the sign kept and
every loss a share. Two more forms of the corrected score answer what else is said of it (A7): the disk counted once,
and the geometric mean.

All rows of the score, of all systems, come from the same blocks, and so do not vary independently. The interval is
Student's, of the score's linear part in the values of each block (delta method: Oehlert 1992), which keeps every
covariance. Of one loss, that part is ``(x - r y) / mean(y)`` with r the ratio of the means, Fieller's numerator.

An absolute value has no linear part at 0. Where a row's own interval leaves the sign of its loss open, the interval of
the printed form is the union of the intervals for both signs, cut at 100: it covers at least as often as it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.analysis.published import score as published
from infrabench.analysis.published.comparison import plain
from infrabench.analysis.published.derived_metrics import AVERAGE, derive
from infrabench.analysis.published.printed_numbers import numbers
from infrabench.analysis.published.score import CPU, ENGINES, RAM, READ, WRITE
from infrabench.core import InfrabenchError
from infrabench.stats.intervals import Array, Estimate, Interval, interval, t_interval
from infrabench.stats.table import PER_DEPLOYMENT, blocked, kinds, stacks
from infrabench.stats.verdicts import WORK

ROWS: Mapping[str, tuple[str, str]] = {  # row of the score -> workload and metric that it is made of
    READ: ("iozone", "read_B_per_s"),
    WRITE: ("iozone", "write_B_per_s"),
    RAM: ("stream", AVERAGE),
    CPU: ("sysbench-cpu", "events_per_s"),
}
ONE_THREAD = "threads=1"  # of the processor: the papers measured native with no more
HUNDRED = np.array(
    [1.0, 1.0, 1.0, 100.0]
)  # what each loss was multiplied by in print: that of the processor was in percent
FOUR = np.array([1.0, 1.0, 1.0, 1.0]) / 4
DISK_ONCE = np.array([1.0, 1.0, 2.0, 2.0]) / 6
SIGNS = np.array(list(product((1.0, -1.0), repeat=len(ROWS))))


class Form(NamedTuple):
    """One way to make a score of four losses: its name, in words, and the version of the papers' own beside it."""

    name: str
    label: str
    version: str


FORMS = (
    Form("printed", "as printed: no sign, CPU loss times 100", "published"),
    Form("corrected", "corrected: sign kept, every loss a share", "cpu"),
    Form("disk-once", "corrected, disk counted once", "three"),
    Form("geometric", "corrected, geometric mean", "geometric-cpu"),
)


class Losses(NamedTuple):
    """Losses of a system against native, (..., rows), and their linear parts in each block, (..., rows, n)."""

    values: Array
    parts: Array


class MeasuredScore(NamedTuple):
    """The scores of a session's engines, their leads, and what they were made of.

    `scores`: one row for each form and system, columns ``form``, ``label``, ``system``, ``score``, ``low``, ``high``
    (95 % interval, % of native), ``published`` (what the papers' own numbers give in that form). `leads`: by how many
    points (``points``, ``low``, ``high``) the corrected score of ``ahead`` is above that of ``behind``. `cases`: row ->
    scenario. `n` complete pairs of `pair_unit`, of `planned` that have any value.
    """

    scores: pd.DataFrame
    leads: pd.DataFrame
    cases: Mapping[str, str]
    n: int
    planned: int
    pair_unit: str


def losses_of(system: Array, native: Array, *, time: Array) -> Losses:
    """Return the loss of a system against native in each row, signed: positive is worse.

    `system`, `native`: (..., rows, n), block i in place i of both. `time` (rows,): which rows are times, whose loss is
    their increase; of the others it is the decrease.
    """
    below = native.mean(axis=-1, keepdims=True)
    ratio = system.mean(axis=-1, keepdims=True) / below
    sign = np.where(time, 1.0, -1.0)
    return Losses(sign * (ratio[..., 0] - 1), sign[:, None] * (system - ratio * native) / below)


def score_of(losses: Losses, form: str) -> Estimate:
    """Return the score of some losses in one form of `FORMS`, % of native, with its 95 % interval, shape (...).

    NaN ends below two blocks, and without spread; of the geometric mean NaN also where a loss is 1 or more.
    """
    values, parts = losses
    if form == "printed":
        return _printed_score(losses)
    if form == "geometric":
        shares = np.where(values < 1, 1 - values, np.nan)
        logs = np.log(shares).mean(axis=-1)
        linear = -(parts / shares[..., None]).mean(axis=-2)
        whole = np.isfinite(logs)
        ends = t_interval(np.where(whole, logs, 0.0)[..., None] + np.where(whole[..., None], linear, 0.0))
        return Estimate(100 * np.exp(logs), Interval(100 * np.exp(ends.low), 100 * np.exp(ends.high), ends.level))
    weights = DISK_ONCE if form == "disk-once" else FOUR
    found = 100 * (1 - values @ weights)
    return Estimate(found, t_interval(found[..., None] - 100 * np.einsum("...rn,r->...n", parts, weights)))


def _printed_score(losses: Losses) -> Estimate:
    """The score of the losses without their sign, and the union of its intervals over signs that rows leave open."""
    values, parts = losses
    own = t_interval(values[..., None] + parts)
    with np.errstate(invalid="ignore"):
        open_signs = (own.low <= 0) & (own.high >= 0)
        allowed = ((SIGNS * values[..., None, :] >= 0) | open_signs[..., None, :]).all(axis=-1)
    weights = SIGNS * HUNDRED * FOUR
    found = 100 * (1 - np.einsum("...r,sr->...s", values, weights))
    ends = t_interval(found[..., None] - 100 * np.einsum("...rn,sr->...sn", parts, weights))
    low = np.where(allowed, ends.low, np.inf).min(axis=-1)
    high = np.minimum(np.where(allowed, ends.high, -np.inf).max(axis=-1), 100.0)
    return Estimate(100 * (1 - np.abs(values) @ (HUNDRED * FOUR)), interval(low, high, 0.95, np.isfinite(high)))


def measure_score(table: pd.DataFrame) -> MeasuredScore:
    """Return the composite score of the engines of a session against native.

    `table`: the tidy table. Only blocks count in which native and every engine that has values have all four rows;
    where systems were deployed more than once, deployments are the pairs. Of several sizes of one workload the first
    counts. Raises `InfrabenchError` saying what is missing: a workload, native, all engines, or complete blocks.
    """
    whole = pd.concat([table, derive(table).dropna(subset="metric")], ignore_index=True)
    cube = blocked(whole)
    cases = pd.concat([_case(cube.cases, *of) for of in ROWS.values()])
    values, unit = cube.numbers[cases.index], str(cases["pair_unit"].iloc[0])
    measured = np.isfinite(values).any(axis=-1).all(axis=0)
    systems = [name for name, there in zip(cube.systems, measured, strict=True) if there]
    native = [name for name in systems if plain(name) == "native"]
    engines = [name for engine in ENGINES for name in systems if plain(name) == engine]
    if not native or not engines:
        raise InfrabenchError(f"no trial of all four rows on {'an engine of the papers' if native else 'native'}")
    chosen = [native[0], *engines]
    series = np.concatenate([values[:, cube.systems.index(name)] for name in chosen])  # (systems x rows, blocks)
    (stack,) = stacks(series[None], cube.deployment, np.array([unit == PER_DEPLOYMENT]))
    n = stack.numbers.shape[-1]
    if n < 2:
        raise InfrabenchError(f"{n} complete {unit}: an interval takes two")
    cells = stack.numbers[0].reshape(len(chosen), len(ROWS), n)
    losses = _session_losses(cells, kinds(cases, whole) == WORK)
    scores = pd.concat([_scores(losses, form, engines) for form in FORMS], ignore_index=True)
    tried = np.isfinite(values).any(axis=(0, 1))
    planned = len(set(cube.deployment[tried])) if unit == PER_DEPLOYMENT else int(tried.sum())
    names = dict(zip(ROWS, cases["scenario"], strict=True))
    return MeasuredScore(scores, _leads(losses, engines), names, n, planned, unit)


def _case(cases: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    """The one case that a row of the score is made of."""
    one = workload == ROWS[CPU][0]
    found = cases[(cases["workload"] == workload) & (cases["metric"] == metric)]
    found = found[found["scenario"] == ONE_THREAD] if one else found.sort_values(["level", "scenario"])
    if found.empty:
        raise InfrabenchError(f"{workload}{f', {ONE_THREAD},' if one else ''} has no value of {metric}")
    return found.head(1)


def _scores(losses: Losses, form: Form, engines: list[str]) -> pd.DataFrame:
    """The scores of all engines in one form, beside what the papers' own numbers give in it."""
    version, found = next(each for each in published.VERSIONS if each.name == form.version), score_of(losses, form.name)
    theirs = [published.score(version, plain(name), numbers()) for name in engines]
    columns = {"form": form.name, "label": form.label, "system": engines, "score": found.value}
    return pd.DataFrame(columns | {"low": found.interval.low, "high": found.interval.high, "published": theirs})


def _session_losses(cells: Array, work: NDArray[np.bool_]) -> Losses:
    """The losses of every engine, from (native and engines, rows, n); rates of fixed work by times, as in contrasts.

    The loss of a rate of fixed work is that of native's time over the system's; the processor's loss is the increase of
    its time.
    """
    native, systems = cells[:1], cells[1:]
    by_time = np.array([row == CPU for row in ROWS])
    inverse = work & ~by_time
    above, below = systems.copy(), np.broadcast_to(native, systems.shape).copy()
    above[:, inverse], below[:, inverse] = 1 / below[:, inverse], 1 / above[:, inverse]
    above[:, by_time], below[:, by_time] = 1 / above[:, by_time], 1 / below[:, by_time]
    return losses_of(above, below, time=by_time)


def _leads(losses: Losses, engines: list[str]) -> pd.DataFrame:
    """By how much one engine's corrected score is above another's, with the interval of the difference."""
    rows = []
    for behind in range(len(engines)):
        for ahead in range(behind + 1, len(engines)):
            apart = Losses(*(each[ahead] - each[behind] for each in losses))
            found, ends = score_of(apart, "corrected")  # 100 less the difference of the mean losses
            rows.append((engines[ahead], engines[behind], found - 100, ends.low - 100, ends.high - 100))
    return pd.DataFrame(rows, columns=["ahead", "behind", "points", "low", "high"])
