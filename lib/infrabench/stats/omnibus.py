"""Do k systems differ at all, does that depend on the level, and does a metric follow the level: one table each.

Data are (..., k, blocks) of k systems, (..., levels, blocks) of one system with its levels in ascending order, or
(..., k, levels, blocks); the last axis holds the blocks, leading axes are cells. "Best below 2000 users" is a claim
about an interaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from infrabench.stats import multiplicity
from infrabench.stats.intervals import NAN, Array
from infrabench.stats.losses import explain_lost, explain_unequal, is_lost
from infrabench.stats.multiplicity import of_cases
from infrabench.stats.pairwise import Comparison, paired_t
from infrabench.stats.table import FAMILY, Blocked, blocked, columns, join_words, sample, stacks
from infrabench.stats.verdicts import NOT_COMPARABLE

OMNIBUS = columns("""
    str: workload scenario factor; float64: level; str: metric pair_unit; int64: k n
    float64: friedman_chi2 friedman_p iman_davenport_f df1 df2 iman_davenport_p p_adjusted; str: adjustment
    str: tiers; float64: interaction_f interaction_df1 interaction_df2 interaction_p; str: reason
""")
TESTS = ("friedman_chi2", "friedman_p", "iman_davenport_f", "df1", "df2", "iman_davenport_p")
F_TEST = ("f", "df1", "df2", "p")

INTERACTIONS = columns("""
    str: workload metric system baseline; int64: levels n; str: pair_unit
    float64: f df1 df2 p p_adjusted; str: adjustment reason
""")

TRENDS = columns("""
    str: workload metric factor system; int64: levels n; str: pair_unit
    float64: power power_low power_high p p_adjusted; str: adjustment reason
""")


class Friedman(NamedTuple):
    """Friedman's chi squared with its p, and the F of Iman and Davenport with df and p; shape (...)."""

    statistic: Any
    p: Any
    iman_davenport_f: Any
    df1: Any
    df2: Any
    iman_davenport_p: Any


def omnibus(table: pd.DataFrame, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric): do its systems differ at all, and which can be told apart.

    ``k``: systems with an ok trial; ``n``: blocks complete for all of them (deployments, by ``pair_unit``, where they
    were deployed more than once); Friedman's chi squared and the F of Iman and Davenport with df1, df2 and p, which is
    adjusted over the scenarios of a metric: Holm for the (workload, metric) pairs of `primary`, else
    Benjamini-Hochberg; ``tiers``: as of `multiplicity.tiers`; ``interaction_*``: do the differences depend on the
    scenario, one test for all cases of a metric. NaN where fewer than two systems or blocks are complete, and, with the
    ``reason``, where one of the systems loses markedly more trials than another (`losses.explain_unequal`): the rest of
    it says too much good. Where all lose alike the tests are the least that the lost blocks leave (`worst_friedman`).
    """
    cube = blocked(table) if cube is None else cube
    there = np.isfinite(cube.numbers).any(axis=-1)
    frame = cube.cases.join(pd.DataFrame({"k": there.sum(axis=-1), "n": 0}, index=cube.cases.index))
    frame = frame.reindex(columns=list(OMNIBUS)).assign(reason="")
    for chosen in np.unique(there, axis=0):
        _write_friedman(frame, cube, np.flatnonzero((there == chosen).all(axis=-1)), np.flatnonzero(chosen))
    for case in np.flatnonzero((cube.fates != 0).any(axis=(1, 2))):
        own = there[case]
        names = [name for name, ran in zip(cube.systems, own, strict=True) if ran]
        fallen = cube.numbers[case, own], cube.fates[case, own], names
        if reason := explain_unequal(*fallen):
            frame.loc[case, list(TESTS)] = NAN
            frame.loc[case, "reason"] = f"{NOT_COMPARABLE}: {reason}"
        elif is_lost(cube.fates[case, own]).any() and len(names) > 1:
            deployment = cube.deployment if cube.by_deployment[case] else None
            frame.loc[case, list(TESTS)] = _worst_tests(cube.numbers[case, own], cube.fates[case, own], deployment)
            frame.loc[case, "reason"] = f"{explain_lost(*fallen)}: p holds whatever they would have been"
    frame["p_adjusted"], frame["adjustment"] = multiplicity.by_metric(frame, frame["iman_davenport_p"], primary)
    frame["tiers"] = [_tiers(cube.systems, row) for row in of_cases(cube)[1]]
    inner = np.full(len(frame), "", dtype=object)
    for cases in cube.cases.groupby(FAMILY).indices.values():
        # systems without an ok trial in one of the scenarios are left out
        systems = [name for name, ran in zip(cube.systems, there[cases].all(axis=0), strict=True) if ran]
        levels = _interaction_of(cube, cases, systems)
        frame.loc[cases, [f"interaction_{name}" for name in F_TEST]] = [levels[name] for name in F_TEST]
        inner[cases] = levels["reason"] and f"system x scenario {levels['reason']}"
    frame["reason"] = join_words(frame["reason"], inner)
    return frame.astype(OMNIBUS).sort_values(["workload", "metric", "level", "scenario"], ignore_index=True)


def _write_friedman(frame: pd.DataFrame, cube: Blocked, cases: Array, systems: Array) -> None:
    """Write the Friedman columns of cases that have the same systems."""
    for cells, values in stacks(cube.numbers[cases][:, systems], cube.deployment, cube.by_deployment[cases]):
        k, n = values.shape[-2:]
        tests = friedman(values) if min(k, n) > 1 else [NAN] * len(TESTS)
        for name, column in zip(("n", *TESTS), (n, *tests), strict=True):
            frame.loc[cases[cells], name] = column


def _worst_tests(values: Array, fates: NDArray[np.int8], deployment: Array | None) -> list[float]:
    """Return the columns `TESTS` of one case whose lost trials may have been anything."""
    lost = is_lost(fates).any(axis=0)
    if deployment is None:
        units, unknown = values[:, np.isfinite(values).all(axis=0)], int(lost.sum())
    else:
        gone = np.isin(deployment, deployment[lost])  # of such a deployment the mean is not known
        kept = np.where(gone, NAN, values)[None]
        units = next(stacks(kept, deployment, np.array([True]))).numbers[0]
        unknown = np.unique(deployment[lost]).size
    return [*map(float, worst_friedman(units, unknown))]


def _tiers(systems: Sequence[str], letters: Sequence[str]) -> str:
    """Which systems have which letter: ``a: native, lxd; b: docker``."""
    groups = [
        (each, [s for s, own in zip(systems, letters, strict=True) if each in own])
        for each in sorted(set("".join(letters)))
    ]
    return "; ".join(f"{each}: {', '.join(members)}" for each, members in groups)


def friedman(x: ArrayLike) -> Friedman:
    """Return Friedman's test of k systems in n blocks, `x` being (..., k, blocks), with ties at midranks.

    The F of Iman and Davenport (1980) has k - 1 and (k - 1)(n - 1) degrees of freedom and is the better of both; chi
    squared is corrected for ties (Conover 1999). When all blocks rank the systems alike F is infinite; no p-value
    is reported below (1 / k!)^(n - 1), the least that n blocks can give. NaN below two systems or two blocks, and
    when every block is tied throughout.
    """
    ranks, k, n = _ranks(x)
    mean_ranks = ranks.mean(axis=-1) if n else np.full(ranks.shape[:-1], np.nan)
    centre = n * k * (k + 1) ** 2 / 4
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (ranks**2).sum(axis=(-2, -1)) - centre
        chi2 = (k - 1) * (n * (mean_ranks**2).sum(axis=-1) * n - n * centre) / spread
        chi2 = np.where((spread > 1e-9) & (min(k, n) > 1), chi2, np.nan)[()]
    return _tested(chi2, k, n)


def _tested(chi2: Any, k: int, n: int) -> Friedman:
    """Both tests from the chi squared of k systems in n blocks."""
    with np.errstate(divide="ignore", invalid="ignore"):
        room = n * (k - 1) - chi2
        f = np.where(room > 1e-9 * n * k, (n - 1) * chi2 / room, np.where(np.isnan(chi2), np.nan, np.inf))[()]
    df1, df2 = k - 1, (k - 1) * (n - 1)
    least = np.exp(-special.gammaln(k + 1) * (n - 1))
    p = np.maximum(special.chdtrc(df1, chi2), least) if df1 else chi2
    p_f = np.maximum(special.fdtrc(df1, df2, f), least) if df2 > 0 else chi2
    return Friedman(chi2, p, f, df1, df2, p_f)


def worst_friedman(x: ArrayLike, lost: int) -> Friedman:
    """Return the least that `friedman` of `x`, shape (k, blocks), could be with `lost` more blocks, whatever they hold.

    Worst ranks, as of Lachin 1999: each such block moves the sum of a system's ranks by (k - 1) / 2 from its mean at
    most, so much is taken off towards the mean. Ties are not corrected for, which would only add. NaN below two systems
    or two complete blocks.
    """
    ranks, k, complete = _ranks(x)
    n = complete + lost
    left = np.maximum(np.abs(ranks.sum(axis=-1) - complete * (k + 1) / 2) - lost * (k - 1) / 2, 0.0)
    chi2 = 12 * (left**2).sum() / (n * k * (k + 1)) if min(k, complete) > 1 else NAN
    return _tested(chi2, k, n)


def _ranks(x: ArrayLike) -> tuple[Array, int, int]:
    """Ranks within each block, number of systems, number of blocks."""
    x = sample(x)
    return stats.rankdata(x, axis=-2) if x.size else x, *x.shape[-2:]


class Interaction(NamedTuple):
    """F of "the systems differ alike at every level", df already multiplied by epsilon, and p; shape (...)."""

    statistic: Any
    df1: Any
    df2: Any
    p: Any


def interaction(x: ArrayLike) -> Interaction:
    """Return the test that the differences between k systems are the same at all L levels; `x` is (..., k, L, blocks).

    Repeated measures with the block as the unit: of each block only what is left without its mean, its systems and its
    levels, so whatever it did to all its trials cancels. F = n |mean|^2 / trace(S), S the covariance of that rest over
    blocks, with q = (k - 1)(L - 1) and q (n - 1) degrees of freedom, both multiplied by epsilon, which allows for
    unequal variances and correlations (Box 1954): that of Huynh and Feldt (1976) with the correction of Lecoutre
    (1991). Identical systems, 5 %, 10 000 simulated campaigns, k = 2 or 4, L = 3 to 8, n = 6 to 30: rejected in 3 to
    6 % with normal, lognormal and bimodal noise, up to 8 % when n = 6 and one level or system is four times as noisy.
    On log values: are the ratios the same at all levels. NaN below two systems, levels or blocks, and without spread.
    """
    x = sample(x)
    k, levels, n = x.shape[-3:]
    if min(k, levels, n) < 2:
        none = np.full(x.shape[:-3], np.nan)[()]
        return Interaction(*[none] * 4)
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
    return Interaction(f, df1, df2, special.fdtrc(df1, df2, f))


def interactions(
    table: pd.DataFrame, baseline: str, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None
) -> pd.DataFrame:
    """Return one row per (workload, metric, system): is its ratio to the baseline the same in all scenarios?

    `interaction` on the logarithms, over the scenarios that both ran and the blocks complete in all of them
    (deployment means where systems were deployed more than once); ``levels``, ``n``: how many of each. p is adjusted
    over the systems of a metric: Holm for the (workload, metric) pairs of `primary`, else Benjamini-Hochberg. NaN with
    fewer than two scenarios or blocks, where a value is not positive, and, with the ``reason``, where in a scenario one
    of both loses markedly more trials than the other (`losses.explain_unequal`).
    """
    cube = blocked(table) if cube is None else cube
    others = [system for system in cube.systems if system != baseline and baseline in cube.systems]
    rows = [
        {"workload": workload, "metric": metric, "system": system, "baseline": baseline}
        | _interaction_of(cube, cases, [system, baseline])
        for (workload, metric), cases in cube.cases.groupby(FAMILY).indices.items()
        for system in others
    ]
    frame = pd.DataFrame(rows, columns=list(INTERACTIONS))
    frame["p_adjusted"], frame["adjustment"] = multiplicity.by_metric(frame, frame["p"], primary)
    return frame.astype(INTERACTIONS)


def _interaction_of(cube: Blocked, cases: Any, systems: list[str]) -> dict[str, Any]:
    """The interaction of these systems over those of these cases in which all of them have an ok trial."""
    own = [cube.systems.index(name) for name in systems]
    values, fates = cube.numbers[cases][:, own], cube.fates[cases][:, own]
    ran = np.isfinite(values).any(axis=-1).all(axis=-1)
    values, fates, units = values[ran], fates[ran], cube.cases["pair_unit"].iloc[cases][ran]
    levels, k = values.shape[:2]
    if not levels * k:  # there is no scenario that all of them ran
        unit = cube.cases["pair_unit"].iloc[cases[0]]
        nothing = dict.fromkeys(F_TEST, NAN)
        return {"levels": levels, "n": 0, "pair_unit": unit, "reason": "", **nothing}
    together = np.swapaxes(values, 0, 1).reshape(1, k * levels, -1)
    by_deployment = np.array([bool(cube.by_deployment[cases][ran].any())])
    (stack,) = stacks(together, cube.deployment, by_deployment)
    x = stack.numbers.reshape(k, levels, -1)
    unequal = (explain_unequal(*each, systems) for each in zip(values, fates, strict=True))
    scenarios = cube.cases["scenario"].iloc[cases][ran]
    notes = [f"at {name}, {NOT_COMPARABLE}: {said}" for name, said in zip(scenarios, unequal, strict=True) if said]
    reason = notes[0] if notes and levels > 1 else ""
    usable = bool((x > 0).all()) and x.size > 0 and not reason
    found = interaction(np.log(x) if usable else x[..., :0])
    tests = dict(zip(F_TEST, found, strict=True))
    return {"levels": levels, "n": x.shape[-1], "pair_unit": units.iloc[0], "reason": reason} | tests


def log_slope(x: ArrayLike, at: ArrayLike) -> Comparison:
    """Return the slope of log x over the level with its interval and two-sided p, shape (...).

    `x`: (..., levels, blocks), positive; `at`: (levels,), any unit; the slope is per unit of `at`, and with the
    logarithm of the level it is the power of the level that x grows with. Least squares within each block, then
    Student's t over the slopes of the blocks (two-stage analysis of repeated measures, Matthews and others 1990): what
    a block does to all its trials cancels, and no level needs the spread of another. NaN below two different levels and
    where a value is not positive; no interval or test below two blocks and without spread. Raises `ValueError` for
    another number of levels than rows of x.
    """
    x, at = sample(x, "x"), sample(at, "the levels")
    if x.shape[-2:-1] != at.shape:
        raise ValueError(f"x has the shape {x.shape} and the levels {at.shape}: give one level for each row of x")
    off = at - at.mean() if at.size else at
    squares = float(off @ off)
    exists = (x > 0).all(axis=(-2, -1)) & (squares > 0)
    logs = np.where(exists[..., None, None], np.log(np.where(x > 0, x, 1.0)), 0.0)
    # the blocks' slopes are the difference of what rises with the level and what falls with it
    up, down = np.maximum(off, 0), np.maximum(-off, 0)
    rising, falling = (np.einsum("l,...lb->...b", side, logs) / (squares or 1.0) for side in (up, down))
    found = paired_t(rising, falling)
    return found._replace(estimate=np.where(exists, found.estimate, NAN)[()])  # the rest has no spread: NaN by itself


def trends(table: pd.DataFrame, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None) -> pd.DataFrame:
    """Return one row per (workload, metric, factor, system) with two numeric levels or more: how it follows the level.

    ``power``: of the level that the metric grows with, from `log_slope` over the logarithm of the level (0: the same at
    all levels; 1: in proportion; -1: inversely), with its 95 % interval and p of a power of 0, which is adjusted over
    the systems of a metric: Holm for the (workload, metric) pairs of `primary`, else Benjamini-Hochberg. ``levels``,
    ``n``: how many the system ran, and the blocks complete in all of them (deployment means where there are several, by
    ``pair_unit``). A power is a summary, not a law: look at the points. NaN where `log_slope` has none, for levels that
    are not positive, and, with the ``reason``, where the system loses markedly more trials at one level than at another
    (`losses.explain_unequal`).
    """
    cube = blocked(table) if cube is None else cube
    rows: list[dict[str, Any]] = []
    for key, group in cube.cases[cube.cases["level"].notna()].groupby([*FAMILY, "factor"]):
        ordered = group.sort_values("level")
        for number, system in enumerate(cube.systems):
            ran = np.isfinite(cube.numbers[ordered.index, number]).any(axis=-1)
            if ran.sum() < 2:
                continue
            cases = ordered[ran]
            values, fates = (each[cases.index, number] for each in (cube.numbers, cube.fates))
            (stack,) = stacks(values[None], cube.deployment, cube.by_deployment[cases.index].any(keepdims=True))
            units, level = stack.numbers[0], cases["level"].to_numpy(dtype=float)
            unequal = explain_unequal(values, fates, cases["scenario"].tolist())
            usable = not unequal and bool((level > 0).all())
            found = log_slope(units if usable else units[:, :0], np.log(level) if usable else level)
            rows.append({
                **dict(zip((*FAMILY, "factor"), key, strict=True)), "system": system, "levels": len(cases),
                "n": units.shape[-1], "pair_unit": cases["pair_unit"].iloc[0], "power": found.estimate,
                **found.interval.columns("power"), "p": found.p,
                "reason": f"{NOT_COMPARABLE}: {unequal}" if unequal else "",
            })  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(TRENDS))
    frame["p_adjusted"], frame["adjustment"] = multiplicity.by_metric(frame, frame["p"], primary)
    return frame.astype(TRENDS)
