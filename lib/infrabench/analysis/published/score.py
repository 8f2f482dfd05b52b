"""The overall-performance score of the container papers: from the numbers that they print, and from a session's blocks.

It is the mean of four shares of native performance, each 1 minus a loss: IOzone read, IOzone write, memory (average of
four kernels), processor time of one thread. The versions of the papers' own score are formulas of ``score.toml``.

The papers' loss is |system - native| / native, in which a gain looks like a loss (audit, A8), and that of the processor
was taken in percent where a share belongs (A1). Both forms are computed from the same means of a session: as *printed*,
with both errors, and *corrected*, with the sign kept and every loss a share. Two more forms of the corrected score
answer what else is said of it (A7): the disk counted once, and the geometric mean.

All rows of a session's score, of all systems, come from the same blocks, and so do not vary independently. The interval
is Student's, of the score's linear part in the values of each block (delta method: Oehlert 1992), which keeps every
covariance. Of one loss, that part is ``(x - r y) / mean(y)`` with r the ratio of the means, Fieller's numerator.

An absolute value has no linear part at 0. Where a row's own interval leaves the sign of its loss open, the interval of
the printed form is the union of the intervals for both signs, cut at 100: it covers at least as often as it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.analysis.published.comparison import plain
from infrabench.analysis.published.derived_metrics import AVERAGE, add_derived
from infrabench.analysis.published.formulas import evaluate
from infrabench.analysis.published.printed_numbers import ENGINES, Numbers, RoundingSpan, numbers, read_toml
from infrabench.core import InfrabenchError
from infrabench.stats.intervals import Array, Estimate, Interval, interval, t_interval
from infrabench.stats.losses import explain_lost, explain_unequal, is_bounded
from infrabench.stats.table import PER_DEPLOYMENT, Blocked, blocked, kinds, stacks
from infrabench.stats.verdicts import WORK

ROWS: Mapping[str, tuple[str, str]] = {  # row of the score -> workload and metric of ours that it is made of
    "read": ("iozone", "read_B_per_s"),
    "write": ("iozone", "write_B_per_s"),
    "ram": ("stream", AVERAGE),
    "cpu": ("sysbench-cpu", "events_per_s"),
}
ONE_THREAD = "threads=1"  # of the processor: the papers measured native with no more
BY_TIME = np.array([row == "cpu" for row in ROWS])  # whose loss is the increase of a time
PERCENT = np.where(BY_TIME, 100.0, 1.0)  # what each loss was multiplied by in print
FOUR = np.array([1.0, 1.0, 1.0, 1.0]) / 4
DISK_ONCE = np.array([1.0, 1.0, 2.0, 2.0]) / 6
SIGNS = np.array(list(product((1.0, -1.0), repeat=len(ROWS))))

# ------------------------------------------------------------------------------------ from the numbers that are printed


def versions() -> dict[str, dict[str, Any]]:
    """Return the versions of the papers' score by name: ``label``, ``rows`` and ``mean`` of ``score.toml``."""
    return {each["name"]: each for each in read_toml("score.toml")["version"]}


def rows(version: str, engine: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the rows of a version for an engine, shares of native; `read` gives a printed number, or its span."""
    formulas, found = read_toml("score.toml")["rows"], {}
    for row, name in zip(ROWS, versions()[version]["rows"], strict=True):
        formula = formulas[name]
        if isinstance(formula, Mapping):
            formula = formula.get(engine, formula.get(""))
        found[row] = evaluate(formula.replace("SYSTEM", engine), read, {})
    return found


def scores(known: Numbers) -> dict[tuple[str, str], tuple[float, RoundingSpan]]:
    """Return the score of every version and engine, % of native, and what the rounding of printed digits allows."""
    found, means = {}, read_toml("score.toml")["means"]
    for (name, version), engine in product(versions().items(), ENGINES):
        span, value = (evaluate(means[version["mean"]], read, rows(name, engine, read)) for read in (known.span, known))
        found[name, engine] = value, span
    return found


def composite() -> pd.DataFrame:
    """Return the score of every version and engine, one row each.

    ``score`` is in percent of native; ``low`` and ``high`` are what the rounding of the printed digits allows. Spread
    between runs, which is not printed, comes on top of that.
    """
    found = scores(numbers())
    return pd.DataFrame([
        {"version": name, "label": versions()[name]["label"], "engine": engine, "score": value,
         "low": span.low, "high": span.high} for (name, engine), (value, span) in found.items()
    ])  # fmt: skip


def orders() -> pd.DataFrame:
    """Return the lead of one engine over another in every version, one row per version and pair.

    ``points``: difference of the scores in percentage points; ``low``, ``high``: bounds from the printed digits;
    ``robust``: whether the sign is the same everywhere between them. Bounds are outer bounds.
    """
    found, leads = scores(numbers()), []
    for (name, version), (behind, ahead) in product(versions().items(), combinations(ENGINES, 2)):
        points, span = (one - other for one, other in zip(found[name, ahead], found[name, behind], strict=True))
        leads.append((name, version["label"], ahead, behind, points, span.low, span.high, span.sign != 0))
    return pd.DataFrame(leads, columns=["version", "label", "ahead", "behind", "points", "low", "high", "robust"])


def order(version: str, known: Numbers | None = None) -> str:
    """Return the engines of a version from best to worst; ``?`` stands between two that rounding alone can swap."""
    found = {engine: each for (name, engine), each in scores(known or numbers()).items() if name == version}
    ranked = sorted(found, key=lambda engine: -found[engine][0])
    text = ENGINES[ranked[0]]
    for better, worse in pairwise(ranked):
        text += f" {'>' if (found[better][1] - found[worse][1]).sign else '?'} {ENGINES[worse]}"
    return text


# ----------------------------------------------------------------------------------------- from a session's own blocks


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


def losses_of(system: Array, native: Array) -> Losses:
    """Return the loss of a system against native in each row, signed: positive is worse.

    `system`, `native`: (..., rows, n), block i in place i of both. The loss of a time is its increase, of a rate its
    decrease.
    """
    below = native.mean(axis=-1, keepdims=True)
    ratio = system.mean(axis=-1, keepdims=True) / below
    sign = np.where(BY_TIME, 1.0, -1.0)
    return Losses(sign * (ratio[..., 0] - 1), sign[:, None] * (system - ratio * native) / below)


def score_of(losses: Losses, form: str) -> Estimate:
    """Return the score of some losses in one form of ``score.toml``, % of native, with its 95 % interval, shape (...).

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
    open_signs = (own.low <= 0) & (own.high >= 0)
    allowed = ((SIGNS * values[..., None, :] >= 0) | open_signs[..., None, :]).all(axis=-1)
    weights = SIGNS * PERCENT * FOUR
    found = 100 * (1 - np.einsum("...r,sr->...s", values, weights))
    ends = t_interval(found[..., None] - 100 * np.einsum("...rn,sr->...sn", parts, weights))
    low = np.where(allowed, ends.low, np.inf).min(axis=-1)
    high = np.minimum(np.where(allowed, ends.high, -np.inf).max(axis=-1), 100.0)
    return Estimate(100 * (1 - np.abs(values) @ (PERCENT * FOUR)), interval(low, high, 0.95, np.isfinite(high)))


def measure_score(table: pd.DataFrame) -> MeasuredScore:
    """Return the composite score of the engines of a session against native.

    `table`: the tidy table. Only blocks count in which native and every engine that has values have all four rows;
    where systems were deployed more than once, deployments are the pairs. Of several sizes of one workload the first
    counts. Raises `InfrabenchError` saying what is missing: a workload, native, all engines, or complete blocks; and
    where so many trials were lost that a contrast of a row would have no verdict either (`stats.losses`).
    """
    whole = add_derived(table)
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
    _check_losses(cube, cases, chosen, cube.deployment if unit == PER_DEPLOYMENT else None)
    series = np.concatenate([values[:, cube.systems.index(name)] for name in chosen])  # (systems x rows, blocks)
    (stack,) = stacks(series[None], cube.deployment, np.array([unit == PER_DEPLOYMENT]))
    n = stack.numbers.shape[-1]
    if n < 2:
        raise InfrabenchError(f"{n} complete {unit}: an interval takes two")
    cells = stack.numbers[0].reshape(len(chosen), len(ROWS), n)
    losses = _session_losses(cells, kinds(cases, whole) == WORK)
    printed, forms = scores(numbers()), []
    for form in read_toml("score.toml")["form"]:
        found = score_of(losses, form["name"])
        printed_scores = [printed[form["version"], plain(name)][0] for name in engines]
        forms.append(pd.DataFrame({
            "form": form["name"], "label": form["label"], "system": engines, "score": found.value,
            "low": found.interval.low, "high": found.interval.high, "published": printed_scores,
        }))  # fmt: skip
    tried = np.isfinite(values).any(axis=(0, 1))
    planned = len(set(cube.deployment[tried])) if unit == PER_DEPLOYMENT else int(tried.sum())
    names = dict(zip(ROWS, cases["scenario"], strict=True))
    return MeasuredScore(pd.concat(forms, ignore_index=True), _leads(losses, engines), names, n, planned, unit)


def _check_losses(cube: Blocked, cases: pd.DataFrame, chosen: list[str], deployment: NDArray[np.intp] | None) -> None:
    """Raise `InfrabenchError` where a row would rest on what is left of an engine's trials, or of native's."""
    for row, case in zip(ROWS, cases.index, strict=True):
        for engine in chosen[1:]:
            names = [chosen[0], engine]
            places = [cube.systems.index(name) for name in names]
            values, fates = cube.numbers[case, places], cube.fates[case, places]
            if not is_bounded(values, fates, deployment):
                raise InfrabenchError(
                    f"{row}: {explain_lost(values, fates, names) or explain_unequal(values, fates, names)}"
                )


def _case(cases: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    """The one case that a row of the score is made of."""
    one = workload == ROWS["cpu"][0]
    found = cases[(cases["workload"] == workload) & (cases["metric"] == metric)]
    found = found[found["scenario"] == ONE_THREAD] if one else found.sort_values(["level", "scenario"])
    if found.empty:
        raise InfrabenchError(f"{workload}{f', {ONE_THREAD},' if one else ''} has no value of {metric}")
    return found.head(1)


def _session_losses(cells: Array, work: NDArray[np.bool_]) -> Losses:
    """The losses of every engine, from (native and engines, rows, n); rates of fixed work by times, as in contrasts.

    The loss of a rate of fixed work is that of native's time over the system's; the processor's loss is the increase of
    its time.
    """
    native, systems = cells[:1], cells[1:]
    inverse = work & ~BY_TIME
    above, below = systems.copy(), np.broadcast_to(native, systems.shape).copy()
    above[:, inverse], below[:, inverse] = 1 / below[:, inverse], 1 / above[:, inverse]
    above[:, BY_TIME], below[:, BY_TIME] = 1 / above[:, BY_TIME], 1 / below[:, BY_TIME]
    return losses_of(above, below)


def _leads(losses: Losses, engines: list[str]) -> pd.DataFrame:
    """By how much one engine's corrected score is above another's, with the interval of the difference."""
    leads = []
    for behind, ahead in combinations(range(len(engines)), 2):
        apart = Losses(*(each[ahead] - each[behind] for each in losses))
        found, ends = score_of(apart, "corrected")  # 100 less the difference of the mean losses
        leads.append((engines[ahead], engines[behind], found - 100, ends.low - 100, ends.high - 100))
    return pd.DataFrame(leads, columns=["ahead", "behind", "points", "low", "high"])
