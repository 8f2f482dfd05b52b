"""May the verdicts be trusted? Simulations, and recorded sessions whose answer is known, as a notebook shows them.

A recorded session has a known answer where an effect was injected, which must be found and have the right size, or
where two of its labels stand for one system. Swapping two labels inside blocks is what the design did when it drew the
order, so on a system compared with itself every swap is as likely as what was recorded, whatever the values look like.
The share of relabellings whose interval excludes 1 is the size that the analysis has on these very data.

It is 5 % where no block dominates. One block that a stall of the machine has hit may hold most of the variance of all
differences: then Student's t is about 1 however labels are swapped, and the interval excludes 1 almost never. That is
caution, not error, and such cases are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.results import Results, Shown, paragraph
from infrabench.analysis.tables import notation
from infrabench.core import DesignError, InfrabenchError, SchemaError
from infrabench.stats.pairwise import paired_fieller
from infrabench.stats.table import CASE
from infrabench.stats.verdicts import DIFFERENT, WITHIN
from infrabench_selfcheck.validation import CHECKS, SEED, run
from infrabench_selfcheck.validation.check import Band, binomial_band

FORMS = ("none", "fast", "full")
EFFECT_COLUMNS = (
    *("system", "workload", "scenario", "metric", "n_pairs", "true_ratio", "ratio", "ratio_low", "ratio_high"),
    *("covers", "excludes_1", "verdict"),
)
SWAP_COLUMNS = (*CASE, "n_pairs", "share", "dominated")
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


@dataclass(frozen=True)
class Same:
    """A label that stands for the very thing that the baseline is, and what the analysis says of the two."""

    label: str
    contrasts: int  # with a verdict
    different: int
    significant: int  # of them: adjusted within its family below 5 %
    swapped: Relabelled


def simulations(form: str = "fast", seed: int = SEED) -> Shown:
    """Return every check of the simulations as a table: what, estimate, allowed band, replicates, passed.

    `form`: "fast" (about 2 000 replicates, under a minute), "full" (10 000 and more, minutes), "none".
    """
    if form not in FORMS:
        raise DesignError(f"unknown form {form!r} of the simulations: known are {', '.join(FORMS)}")
    if form == "none":
        return paragraph(
            "The simulations were not run: simulations = 'fast' runs them here, `make validate` the long form."
        )
    rows = [
        {
            "check": outcome.id, "of": CHECKS[outcome.id].what, "what": outcome.what,
            "estimate": f"{outcome.estimate:.4f}", "allowed": f"{outcome.low:.4f} to {outcome.high:.4f}",
            "replicates": str(outcome.replicates), "passed": "yes" if outcome.passed else "NO",
        }
        for outcome in run(full=form == "full", seed=seed)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    bad = int((frame["passed"] == "NO").sum())
    summary = f"{len(frame) - bad} of {len(frame)} passed, seed {seed}."
    return Shown(f"{notation.html_table(frame)}<p>{summary}</p>", f"{tables.markdown(frame)}\n{summary}")


def same(found: Results) -> list[Same]:
    """Return, for each label that is the baseline under another name, what the analysis makes of it."""
    said = []
    for label in same_labels(found.data):
        rows = found.contrasts[(found.contrasts["system"] == label) & found.contrasts["p"].notna()]
        called = rows["verdict"].isin([DIFFERENT, WITHIN])
        family = called & (rows["p_adjusted"] < 0.05)
        swapped = relabelled(found.table, found.data["baseline"], label)
        said.append(Same(label, len(rows), int(called.sum()), int(family.sum()), swapped))
    return said


def same_labels(data: Mapping[str, Any]) -> list[str]:
    """Return the labels of a session (``session.json``) that stand for exactly what its baseline stands for."""
    variants = data.get("variants") or {}

    def stands_for(label: str) -> Any:
        return variants.get(label) or {"system": label, "prefix": [], "enter": [], "leave": []}

    baseline = data["baseline"]
    return [label for label in data["systems"] if label != baseline and stands_for(label) == stands_for(baseline)]


def same_table(found: Results) -> Shown:
    """Return one row per label that is the baseline again: how often called different, as measured and swapped."""
    rows = [
        {
            "label": each.label, "contrasts": str(each.contrasts), "different": str(each.different),
            "different in its family": str(each.significant), "cases swapped": str(len(each.swapped.cases)),
            "different when swapped %": f"{100 * each.swapped.share:.2f}",
            "dominated by one block": str(int(each.swapped.cases["dominated"].sum())),
            "of the others %": f"{100 * each.swapped.even:.2f}",
            "allowed %": f"{100 * each.swapped.band.low:.2f} to {100 * each.swapped.band.high:.2f}",
        }
        for each in same(found)
    ]  # fmt: skip
    return _shown(rows, "No label of this session stands for the same as its baseline.")


def known_table(found: Results) -> Shown:
    """Return one row per injected effect: its true ratio, ours with the interval, and whether that contains it."""
    rows = []
    for row in injected_effects(found).itertuples(index=False):
        ratio, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
        rows.append({
            "effect": row.system, "workload": row.workload, "scenario": row.scenario,
            "metric": notation.metric_title(row.metric), "n": str(row.n_pairs), "true ratio": f"{row.true_ratio:.4f}",
            "our ratio": ratio, "95 % CI": interval, "contains the truth": "yes" if row.covers else "NO",
            "excludes 1": "yes" if row.excludes_1 else "NO", "verdict": row.verdict,
        })  # fmt: skip
    return _shown(rows, "No effect was injected in this session.")


def lines(found: Results) -> Iterator[str]:
    """Yield what a session with a known answer says; `InfrabenchError` at the end when it is not that answer."""
    pairs, known = same(found), injected_effects(found)
    if not pairs and known.empty:
        raise DesignError("this session has no known answer: it is neither A/A nor were effects injected")
    if pairs:
        yield same_table(found).text
    if len(known):
        yield known_table(found).text
    wrong = [f"{each.label} is called different from itself" for each in pairs if each.significant]
    wrong += [
        f"{each.label}: labels swapped at random differ in {100 * each.swapped.share:.2f} % of cases, and in "
        f"{100 * each.swapped.even:.2f} % of those that no single block dominates"
        for each in pairs
        if not each.swapped.band.low <= each.swapped.share <= each.swapped.band.high
    ]
    wrong += [f"{row.system}: truth outside the interval" for row in known.itertuples() if not row.covers]
    wrong += [f"{row.system}: not told from 1" for row in known.itertuples() if not row.excludes_1]
    if wrong:
        raise InfrabenchError(f"not the known answer: {'; '.join(wrong)}")


def injected_effects(found: Results) -> pd.DataFrame:
    """Return one row per effect that was injected in a session, and scenario: the true ratio to the baseline, and ours.

    Columns `EFFECT_COLUMNS`; ``covers``: the interval contains the true ratio; ``excludes_1``: it does not contain 1.
    Without an interval both are false. `SchemaError` when an effect was injected and nothing was measured of it.
    """
    rows = []
    for system, workload, metric, true in found.data.get("known", []):
        keys = {"system": system, "workload": workload, "metric": metric}
        mine = found.contrasts[(found.contrasts[list(keys)] == pd.Series(keys)).all(axis=1)]
        if mine.empty:
            raise SchemaError(f"no contrast of {system} in {workload} {metric}: the effect was not measured")
        for row in mine.itertuples(index=False):
            low, high = row.ratio_low, row.ratio_high
            says = row.ratio, low, high, low <= true <= high, low > 1 or high < 1, row.verdict
            rows.append((system, workload, row.scenario, metric, row.n_pairs, float(true), *says))
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS))


def relabelled(table: pd.DataFrame, a: str, b: str, n: int = 1_000) -> Relabelled:
    """Return how often `a` and `b` are called different when their labels are swapped at random within blocks.

    `table`: the tidy table of a session in which the two are the same system; `n`: relabellings of each case, each
    swaps every pair with probability 1/2. ``share`` is the mean over the cases; ``band`` is that of the same number of
    independent relabellings of one case, which the mean of several does not leave either; a case is ``dominated`` when
    one block holds more than half of the squared differences. A case below 6 pairs, or without spread, is left out:
    its 2^n relabellings are too few. `DesignError` when a label is not in the table, or no case is left.
    """
    absent = {a, b} - set(table["system"])
    if absent:
        raise DesignError(f"no system {' or '.join(sorted(absent))} in the table: {sorted(set(table['system']))}")
    rng, band = np.random.default_rng(SEED), binomial_band(NOMINAL, n)
    rows = []
    wanted = table[table["value"].notna() & table["system"].isin([a, b])]
    for case, cell in wanted.groupby(CASE, observed=True):
        # values of complete blocks; when there are several deployments, the means of each
        wide = cell.pivot(index=["session", "deployment", "block"], columns="system", values="value")  # noqa: PD010
        wide = wide.reindex(columns=[a, b]).dropna()
        means = wide.groupby(level=["session", "deployment"]).mean()
        x, y = (means if len(means) > 1 else wide).to_numpy(dtype=float).T
        if x.size < 6 or not (x - y).any():
            continue
        swap = rng.random((n, x.size)) < 0.5
        interval = paired_fieller(np.where(swap, y, x), np.where(swap, x, y))
        share = float(((interval.low > 1) | (interval.high < 1)).mean())
        squares = (x - y) ** 2
        rows.append((*case, x.size, share, bool(squares.max() > MOST_OF_IT * squares.sum())))
    if not rows:
        raise DesignError(f"no case has 6 complete pairs of {a} and {b} with any spread: record more blocks")
    cases = pd.DataFrame(rows, columns=list(SWAP_COLUMNS))
    even = cases.loc[~cases["dominated"], "share"]
    return Relabelled(float(cases["share"].mean()), float(even.mean()), band, cases)


def _shown(rows: list[dict[str, str]], otherwise: str) -> Shown:
    if not rows:
        return paragraph(otherwise)
    frame = pd.DataFrame(rows)
    return Shown(notation.html_table(frame), tables.markdown(frame))
