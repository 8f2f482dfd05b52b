"""Does the difference between systems depend on the level: "best below 2000 users" is a claim about an interaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats import adjust
from infrabench.stats.arrays import sample
from infrabench.stats.blocks import Blocked, blocked, stacks
from infrabench.stats.losses import explain_unequal
from infrabench.stats.verdicts import NOT_COMPARABLE

TYPES = {
    **dict.fromkeys(("workload", "metric", "system", "baseline"), "str"),
    **dict.fromkeys(("levels", "n"), "int64"),
    "pair_unit": "str",
    **dict.fromkeys(("f", "df1", "df2", "epsilon", "p", "p_conservative", "p_adjusted"), "float64"),
    **dict.fromkeys(("adjustment", "reason"), "str"),
}
COLUMNS = tuple(TYPES)


class Interaction(NamedTuple):
    """F of "the systems differ alike at every level", df already multiplied by `epsilon`, and p; shape (...).

    `p_conservative`: p with the epsilon of Greenhouse and Geisser.
    """

    statistic: Any
    df1: Any
    df2: Any
    p: Any
    epsilon: Any
    p_conservative: Any


def interaction(x: ArrayLike) -> Interaction:
    """Return the test that the differences between k systems are the same at all L levels; `x` is (..., k, L, blocks).

    Repeated measures with the block as the unit: of each block only what is left without its mean, its systems and its
    levels, so whatever it did to all its trials cancels. F = n |mean|^2 / trace(S), S the covariance of that rest over
    blocks, with q = (k - 1)(L - 1) and q (n - 1) degrees of freedom, both multiplied by epsilon, which allows for
    unequal variances and correlations (Box 1954): that of Huynh and Feldt (1976) with the correction of Lecoutre
    (1991). Identical systems, 5 %, 10 000 simulated campaigns, k = 2 or 4, L = 3 to 8, n = 6 to 30: rejected in 3 to
    6 % with normal, lognormal and bimodal noise, up to 8 % when n = 6 and one level or system is four times as noisy.
    The smaller epsilon of Greenhouse and Geisser (1959), ``p_conservative``, stays below 5 % there but falls to 0 to
    2 % for many levels and few blocks. On log values: are the ratios the same at all levels. NaN below two systems,
    levels or blocks, and without spread.
    """
    x = sample(x)
    k, levels, n = x.shape[-3:]
    if min(k, levels, n) < 2:
        none = np.full(x.shape[:-3], np.nan)[()]
        return Interaction(*[none] * 6)
    q = (k - 1) * (levels - 1)
    rest = x - x.mean(axis=-3, keepdims=True)
    rest = (rest - rest.mean(axis=-2, keepdims=True)).reshape(*x.shape[:-3], k * levels, n)
    mean = rest.mean(axis=-1)
    centred = rest - mean[..., None]
    # S and the n x n matrix of products share their trace and the trace of their square; the latter is the smaller
    products = np.swapaxes(centred, -1, -2) @ centred / (n - 1)
    trace = np.trace(products, axis1=-2, axis2=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        usable = trace > 1e-26 * (x**2).max(axis=(-3, -2, -1))
        f = np.where(usable, n * (mean**2).sum(axis=-1) / trace, np.nan)[()]
        least = np.where(usable, trace**2 / (q * (products**2).sum(axis=(-2, -1))), np.nan)
        room = q * (n - 1 - q * least)
        epsilon = np.where(room > 1e-9 * n, (n * q * least - 2) / room, 1.0 if n > 2 else least)
    epsilon = np.where(usable, np.clip(epsilon, least, 1.0), np.nan)[()]
    df1, df2 = q * epsilon, q * epsilon * (n - 1)
    conservative = special.fdtrc(q * least, q * least * (n - 1), f)
    return Interaction(f, df1, df2, special.fdtrc(df1, df2, f), epsilon, conservative)


def interactions(
    table: pd.DataFrame, baseline: str, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None
) -> pd.DataFrame:
    """Return one row per (workload, metric, system): is its ratio to the baseline the same in all scenarios?

    `interaction` on the logarithms, over the scenarios that both ran and the blocks complete in all of them
    (deployment means where systems were deployed more than once); ``levels``, ``n``: how many of each. p is adjusted
    over the systems of a metric: Holm for the (workload, metric) pairs of `primary`, else Benjamini-Hochberg. NaN with
    fewer than two scenarios or blocks, where a value is not positive, and, with the ``reason``, where in a scenario one
    of both loses markedly more trials than the other (`losses.explain_unequal`). `cube`: `blocked(table)`.
    """
    cube = blocked(table) if cube is None else cube
    others = [system for system in cube.systems if system != baseline]
    rows: list[dict[str, Any]] = []
    for (workload, metric), index in cube.cases.groupby(["workload", "metric"]).indices.items():
        for system in others if baseline in cube.systems else []:
            found = _of(cube, index, [system, baseline])
            row = {"workload": workload, "metric": metric, "system": system, "baseline": baseline}
            rows.append(row | found)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["p_adjusted"], frame["adjustment"] = adjust.by_metric(frame, frame["p"], primary)
    return frame.astype(TYPES)


def overall(cube: Blocked) -> pd.DataFrame:
    """Return the interaction of all systems with the scenarios, f, df1, df2, p and reason, one row per case of `cube`.

    The same row for all cases of one metric of a workload; systems without any ok trial in one of them are left out.
    """
    columns = ["f", "df1", "df2", "p", "reason"]
    rows: dict[int, list[Any]] = {}
    for index in cube.cases.groupby(["workload", "metric"]).indices.values():
        ran = np.isfinite(cube.numbers[index]).any(axis=-1).all(axis=0)
        found = _of(cube, index, [name for name, there in zip(cube.systems, ran, strict=True) if there])
        rows |= {int(case): [found[name] for name in columns] for case in index}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns).sort_index()
    return frame.astype(dict.fromkeys(columns[:-1], "float64"))


def _of(cube: Blocked, cases: Any, systems: list[str]) -> dict[str, Any]:
    """The interaction of these systems over those of these cases in which all of them have an ok trial."""
    own = [cube.systems.index(name) for name in systems]
    values, fates = cube.numbers[cases][:, own], cube.fates[cases][:, own]
    ran = np.isfinite(values).any(axis=-1).all(axis=-1)
    values, fates, units = values[ran], fates[ran], cube.cases["pair_unit"].iloc[cases][ran]
    levels, k = values.shape[:2]
    if not levels * k:  # there is no scenario that all of them ran
        unit = cube.cases["pair_unit"].iloc[cases[0]]
        nothing = dict.fromkeys(("f", "df1", "df2", "epsilon", "p", "p_conservative"), float("nan"))
        return {"levels": levels, "n": 0, "pair_unit": unit, "reason": "", **nothing}
    together = np.swapaxes(values, 0, 1).reshape(1, k * levels, -1)
    by_deployment = np.array([bool(cube.by_deployment[cases][ran].any())])
    (stack,) = stacks(together, cube.deployment, by_deployment)
    x = stack.numbers.reshape(k, levels, -1)
    unequal = (explain_unequal(*each, systems) for each in zip(values, fates, strict=True))
    scenarios = cube.cases["scenario"].iloc[cases][ran]
    told = [f"at {name}, {NOT_COMPARABLE}: {said}" for name, said in zip(scenarios, unequal, strict=True) if said]
    reason = told[0] if told and levels > 1 else ""
    usable = bool((x > 0).all()) and x.size > 0 and not reason
    found = interaction(np.log(x) if usable else x[..., :0])
    row = {"levels": levels, "n": x.shape[-1], "pair_unit": units.iloc[0], "reason": reason, "f": found.statistic}
    return row | {name: getattr(found, name) for name in ("df1", "df2", "epsilon", "p", "p_conservative")}
