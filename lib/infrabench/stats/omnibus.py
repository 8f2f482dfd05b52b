"""Do k systems differ at all: tests of several samples at once, and the table of them by case.

Data are (..., k, blocks): the last axis holds the blocks, the one before it the systems; leading axes are cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from infrabench.stats import adjust
from infrabench.stats.arrays import sample
from infrabench.stats.blocks import Blocked, blocked, stacks
from infrabench.stats.interactions import overall
from infrabench.stats.intervals import NAN, Array
from infrabench.stats.losses import explain_lost, explain_unequal, is_lost
from infrabench.stats.pairwise import critical_distance
from infrabench.stats.tiers import of_cases
from infrabench.stats.verdicts import NOT_COMPARABLE

TYPES = {
    **dict.fromkeys(("workload", "scenario", "factor"), "str"),
    "level": "float64",
    **dict.fromkeys(("metric", "pair_unit"), "str"),
    **dict.fromkeys(("k", "n"), "int64"),
    **dict.fromkeys(("friedman_chi2", "friedman_p", "iman_davenport_f", "df1", "df2", "iman_davenport_p"), "float64"),
    "p_adjusted": "float64",
    "adjustment": "str",
    "nemenyi_cd": "float64",
    "tiers": "str",
    **dict.fromkeys(("interaction_f", "interaction_df1", "interaction_df2", "interaction_p"), "float64"),
    "reason": "str",
}
COLUMNS = tuple(TYPES)
TESTS = ("friedman_chi2", "friedman_p", "iman_davenport_f", "df1", "df2", "iman_davenport_p", "nemenyi_cd")


class Friedman(NamedTuple):
    """Friedman's chi squared with its p, the F of Iman and Davenport with df and p, and the mean ranks (..., k)."""

    statistic: Any
    p: Any
    iman_davenport_f: Any
    df1: Any
    df2: Any
    iman_davenport_p: Any
    mean_ranks: Any


def omnibus(table: pd.DataFrame, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric): do its systems differ at all, and which can be told apart.

    ``k``: systems with an ok trial; ``n``: blocks complete for all of them (deployments, by ``pair_unit``, where they
    were deployed more than once); Friedman's chi squared and the F of Iman and Davenport with df1, df2 and p, which is
    adjusted over the scenarios of a metric: Holm for the (workload, metric) pairs of `primary`, else
    Benjamini-Hochberg; ``nemenyi_cd``: critical distance of the mean ranks; ``tiers``: as of `tiers.tiers`;
    ``interaction_*``: do the differences depend on the scenario, one test for all cases of a metric. NaN where fewer
    than two systems or blocks are complete, and, with the ``reason``, where one of the systems loses markedly more
    trials than another (`losses.explain_unequal`): the rest of it says too much good. Where all lose alike the tests
    are the least that the lost blocks leave (`worst_friedman`), and there is no critical distance. `cube`:
    `blocked(table)`. Raises `SchemaError` as `blocks.blocked`.
    """
    cube = blocked(table) if cube is None else cube
    there = np.isfinite(cube.numbers).any(axis=-1)
    frame = cube.cases.join(pd.DataFrame({"k": there.sum(axis=-1), "n": 0}, index=cube.cases.index))
    frame = frame.reindex(columns=list(COLUMNS)).assign(reason="")
    for chosen in np.unique(there, axis=0):
        _fill(frame, cube, np.flatnonzero((there == chosen).all(axis=-1)), np.flatnonzero(chosen))
    for case in np.flatnonzero((cube.fates != 0).any(axis=(1, 2))):
        own = there[case]
        names = [name for name, ran in zip(cube.systems, own, strict=True) if ran]
        fallen = cube.numbers[case, own], cube.fates[case, own], names
        if reason := explain_unequal(*fallen):
            frame.loc[case, list(TESTS)] = NAN
            frame.loc[case, "reason"] = f"{NOT_COMPARABLE}: {reason}"
        elif is_lost(cube.fates[case, own]).any() and len(names) > 1:
            deployment = cube.deployment if cube.by_deployment[case] else None
            frame.loc[case, list(TESTS)] = _least(cube.numbers[case, own], cube.fates[case, own], deployment)
            frame.loc[case, "reason"] = f"{explain_lost(*fallen)}: p holds whatever they would have been"
    frame["p_adjusted"], frame["adjustment"] = adjust.by_metric(frame, frame["iman_davenport_p"], primary)
    frame["tiers"] = [_tiers(cube.systems, row) for row in of_cases(cube)[1]]
    levels = overall(cube)
    for name in ("f", "df1", "df2", "p"):
        frame[f"interaction_{name}"] = levels[name]
    inner = levels["reason"].map(lambda each: each and f"system x scenario {each}")
    frame["reason"] = ["; ".join(filter(None, each)) for each in zip(frame["reason"], inner, strict=True)]
    return frame.astype(TYPES).sort_values(["workload", "metric", "level", "scenario"], ignore_index=True)


def _fill(frame: pd.DataFrame, cube: Blocked, cases: Array, systems: Array) -> None:
    """Write the Friedman columns of cases that have the same systems."""
    for cells, values in stacks(cube.numbers[cases][:, systems], cube.deployment, cube.by_deployment[cases]):
        found, (k, n) = friedman(values), values.shape[-2:]
        frame.loc[cases[cells], "n"] = n
        frame.loc[cases[cells], "friedman_chi2"] = found.statistic
        frame.loc[cases[cells], "friedman_p"] = found.p
        for name in ("iman_davenport_f", "df1", "df2", "iman_davenport_p"):
            frame.loc[cases[cells], name] = getattr(found, name) if min(k, n) > 1 else NAN
        frame.loc[cases[cells], "nemenyi_cd"] = critical_distance(k, n) if min(k, n) > 1 else NAN


def _least(values: Array, fates: NDArray[np.int8], deployment: Array | None) -> list[float]:
    """Return the columns `TESTS` of one case whose lost trials may have been anything."""
    lost = is_lost(fates).any(axis=0)
    if deployment is None:
        units, unknown = values[:, np.isfinite(values).all(axis=0)], int(lost.sum())
    else:
        gone = np.isin(deployment, deployment[lost])  # of such a deployment the mean is not known
        kept = np.where(gone, NAN, values)[None]
        units = next(stacks(kept, deployment, np.array([True]))).numbers[0]
        unknown = np.unique(deployment[lost]).size
    found = worst_friedman(units, unknown)
    return [*map(float, found[:-1]), NAN]


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
        room = n * (k - 1) - chi2
        f = np.where(room > 1e-9 * n * k, (n - 1) * chi2 / room, np.where(np.isnan(chi2), np.nan, np.inf))[()]
    df1, df2 = k - 1, (k - 1) * (n - 1)
    least = np.exp(-special.gammaln(k + 1) * (n - 1))
    p = np.maximum(special.chdtrc(df1, chi2), least) if df1 else chi2
    p_f = np.maximum(special.fdtrc(df1, df2, f), least) if df2 > 0 else chi2
    return Friedman(chi2, p, f, df1, df2, p_f, mean_ranks)


def worst_friedman(x: ArrayLike, lost: int) -> Friedman:
    """Return the least that `friedman` of `x`, shape (k, blocks), could be with `lost` more blocks, whatever they hold.

    Worst ranks, as of Lachin 1999: each such block moves the sum of a system's ranks by (k - 1) / 2 from its mean at
    most, so much is taken off towards the mean. Ties are not corrected for, which would only add. NaN below two systems
    or two complete blocks.
    """
    ranks, k, complete = _ranks(x)
    n = complete + lost
    df1, df2 = k - 1, (k - 1) * (n - 1)
    if min(k, complete) < 2:
        return Friedman(NAN, NAN, NAN, df1, df2, NAN, ranks.mean(axis=-1) if complete else np.full(k, NAN))
    left = np.maximum(np.abs(ranks.sum(axis=-1) - complete * (k + 1) / 2) - lost * (k - 1) / 2, 0.0)
    chi2 = min(12 * float((left**2).sum()) / (n * k * (k + 1)), n * (k - 1) * (1 - 1e-12))
    f = (n - 1) * chi2 / (n * (k - 1) - chi2)
    least = float(np.exp(-special.gammaln(k + 1) * (n - 1)))
    p, p_f = max(float(special.chdtrc(df1, chi2)), least), max(float(special.fdtrc(df1, df2, f)), least)
    return Friedman(chi2, p, f, df1, df2, p_f, ranks.mean(axis=-1) if complete else np.full(k, NAN))


def _ranks(x: ArrayLike) -> tuple[Array, int, int]:
    """Ranks within each block, number of systems, number of blocks."""
    x = sample(x)
    return stats.rankdata(x, axis=-2) if x.size else x, *x.shape[-2:]
