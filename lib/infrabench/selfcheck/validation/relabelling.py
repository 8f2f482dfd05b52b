"""A recorded A/A session asked again: how often do two labels of one system differ when labels are swapped at random?

Swapping two labels inside blocks is what the design did when it drew the order, so on a system compared with itself
every swap is as likely as what was recorded, whatever the values look like. The share of relabellings whose interval
excludes 1 is the size that the analysis has on these very data.

It is 5 % where no block dominates. One block that a stall of the machine has hit may hold most of the variance of all
differences: then Student's t is about 1 however labels are swapped, and the interval excludes 1 almost never. That is
caution, not error, and such cases are counted apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from infrabench.core import DesignError
from infrabench.selfcheck.validation.bands import Band, binomial_band
from infrabench.selfcheck.validation.check import SEED
from infrabench.selfcheck.validation.generators import Array
from infrabench.stats.pairwise import paired_fieller

CASE = ["workload", "scenario", "metric"]
COLUMNS = (*CASE, "n_pairs", "share", "low", "high", "within", "dominated")
NOMINAL = 0.05
MOST_OF_IT = 0.5  # of the sum of squared differences, in one block


class Relabelled(NamedTuple):
    """Share called different over all relabellings of all cases, its 99.9 % band about 5 %, and one row per case.

    ``even``: the share over the cases that no single block dominates, NaN when there is none.
    """

    share: float
    even: float
    band: Band
    cases: pd.DataFrame


def relabelled(table: pd.DataFrame, a: str, b: str, n: int = 1_000, seed: int = SEED) -> Relabelled:
    """Return how often `a` and `b` are called different when their labels are swapped at random within blocks.

    Parameters
    ----------
    table
        The tidy table of a session in which `a` and `b` are the same system.
    n
        Relabellings of each case; each swaps every pair with probability 1/2.

    Returns
    -------
    Relabelled
        ``share``: mean over the cases; ``band``: of the same number of independent relabellings of one case, which
        the mean of several does not leave either; ``cases``: workload, scenario, metric, n_pairs, share, the band of
        that share, and ``dominated``: one block holds more than half of the squared differences. A
        case below 6 pairs, or without spread, is left out: its 2^n relabellings are too few.

    Raises
    ------
    DesignError
        A label is not in the table, or no case is left.
    """
    absent = {a, b} - set(table["system"])
    if absent:
        raise DesignError(f"no system {' or '.join(sorted(absent))} in the table: {sorted(set(table['system']))}")
    rng, band = np.random.default_rng(seed), binomial_band(NOMINAL, n)
    rows = []
    wanted = table[table["value"].notna() & table["system"].isin([a, b])]
    for case, cell in wanted.groupby(CASE, observed=True):
        x, y = _pairs(cell, a, b)
        if x.size < 6 or not (x - y).any():
            continue
        share = _share(x, y, rng.random((n, x.size)) < 0.5)
        squares = (x - y) ** 2
        dominated = bool(squares.max() > MOST_OF_IT * squares.sum())
        rows.append((*case, x.size, share, *band, band.low <= share <= band.high, dominated))
    if not rows:
        raise DesignError(f"no case has 6 complete pairs of {a} and {b} with any spread: record more blocks")
    cases = pd.DataFrame(rows, columns=list(COLUMNS))
    even = cases.loc[~cases["dominated"], "share"]
    return Relabelled(float(cases["share"].mean()), float(even.mean()), band, cases)


def _pairs(cell: pd.DataFrame, a: str, b: str) -> tuple[Array, Array]:
    """Values of complete blocks; when there are several deployments, the means of each."""
    where = ["session", "deployment"]
    wide = cell.pivot(index=[*where, "block"], columns="system", values="value")  # noqa: PD010
    wide = wide.reindex(columns=[a, b]).dropna()
    means = wide.groupby(level=where).mean()
    chosen = means if len(means) > 1 else wide
    return chosen[a].to_numpy(dtype=float), chosen[b].to_numpy(dtype=float)


def _share(x: Array, y: Array, swap: np.ndarray) -> float:
    found = paired_fieller(np.where(swap, y, x), np.where(swap, x, y))
    return float(((found.low > 1) | (found.high < 1)).mean())
