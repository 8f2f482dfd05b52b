"""How many trials a claim needs, and what a number of trials can show: plain numbers or arrays in, the same out.

Spreads, differences and margins are of one unit: that of the metric, a share of its mean (then the spread is a
coefficient of variation), or a log ratio. The spread of a comparison is the standard deviation of the differences
between two systems within a block. All samples are taken as normal; a pilot's spread is itself uncertain, see
`spread_limit`.

A pilot says how large the campaign that follows it should be, and how many deployments with how many blocks in each:
the optimum of Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013, for blocks inside deployments. Only
for planning: it adds nothing to a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from infrabench.core import DesignError
from infrabench.stats.intervals import ALPHA, LEVEL, NAN, Array, Numbers
from infrabench.stats.table import BLOCK, CASE, check_values, columns, sample

POWER = 0.8
MAX_N = 1_000_000  # beyond, no number of trials is named
TARGETS = (0.01, 0.02, 0.05)
MEAN, RATIO, VERDICT = "mean", "ratio", "verdict"
PILOT = columns("""
    str: workload scenario metric system baseline quantity; float64: target; str: unit; int64: n_pilot
    float64: spread spread_high n n_high hours hours_high; str: note
""")
DIMENSIONS = columns("""
    str: workload scenario metric system baseline quantity
    float64: target sd_within sd_between blocks deployments deployments_high hours hours_high; str: note
""")
ONE_LEVEL = "fewer than two deployments, or one block in each"
NOT_POSITIVE = "values not all positive, or a mean of 0"
NO_COSTS = "what a deployment or a block costs is not known"
NONE_BETWEEN = "deployments do not differ: more blocks in one do as well"


def half_width(sd: ArrayLike, n: ArrayLike, level: ArrayLike = LEVEL) -> Numbers:
    """Return the half-width of Student's interval (1908) of a mean of `n` trials, broadcast shape; NaN below two."""
    n, level = np.asarray(n, dtype=float), np.asarray(level, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (special.stdtrit(np.where(n > 1, n - 1, NAN), (1 + level) / 2) * np.asarray(sd) / np.sqrt(n))[()]


def ratio_spread(x: Array, y: Array) -> Numbers:
    """Return the standard deviation of x - r y, r the ratio of the means, as a share of the mean of x.

    `x`, `y`: (..., n), pairs; the answer has the shape (...). It is that of Fieller's statistic (1954) over the
    ratio, and does not change with the unit of either: no ratio can be seen in it. NaN below two pairs, or where a mean
    is 0.
    """
    if x.shape[-1] < 2:
        return np.full(x.shape[:-1], NAN)[()]
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (x / x.mean(axis=-1, keepdims=True) - y / y.mean(axis=-1, keepdims=True)).std(axis=-1, ddof=1)
    return np.where(np.isfinite(spread), spread, NAN)[()]


def margin_of(margins: Mapping[str, float], metric: str) -> float:
    """Return the margin of a metric, or the default under ``""``; `DesignError` without one, or for none."""
    margin = margins.get(metric, margins.get(""))
    if margin is None:
        raise DesignError(f"no equivalence margin for {metric!r} and no default: add one, or a default under ''")
    if not 0 < margin < 1:
        raise DesignError(f"equivalence margin of {metric!r} is {margin}: give a share between 0 and 1")
    return float(margin)


def n_for_precision(sd: ArrayLike, target: ArrayLike) -> Numbers:
    """Return the least n at which the half-width of Student's interval is at most `target` (Hoefler and Belli 2015).

    Broadcast shape of `sd` and `target`. With a CoV and 0.02, the n that pins the mean down to +-2 %. Takes the spread
    as known, so half of all samples of that size will be a little wider. NaN where the spread is unknown or 0, or a
    million is not enough.
    """
    sd, target = _floats(sd, target)
    return _least(lambda n: half_width(sd, n) <= target, _known(sd) & (target > 0))


def spread_limit(sd: ArrayLike, n: ArrayLike, level: float = LEVEL) -> Numbers:
    """Return the upper end of the chi-square interval of a standard deviation that `n` values gave.

    Broadcast shape of both. Exact for normal values (Cochran 1934), too short for heavy tails. NaN below two values.
    """
    sd, n = _floats(sd, n)
    df = np.where(n > 1, n - 1, NAN)
    return (sd * np.sqrt(df / stats.chi2.ppf((1 - level) / 2, df)))[()]


def t_power(difference: ArrayLike, sd: ArrayLike, n: ArrayLike, alpha: float = ALPHA) -> Numbers:
    """Return the probability that a two-sided t test of level `alpha` finds a true difference (Cohen 1988).

    Broadcast shape of the arguments. Both tails of the noncentral t distribution. For Holm over k contrasts give
    ``alpha / k``, its first step. NaN below two trials or without spread.
    """
    difference, sd, n = _floats(difference, sd, n)
    exists = _known(sd) & (n > 1)
    n = np.where(exists, n, 2.0)
    df, error = n - 1, 1 / np.sqrt(n)  # of the mean difference per unit of spread
    shift = difference / np.where(exists, sd, 1.0) / error
    kept = _probability(0.0, special.stdtrit(df, 1 - alpha / 2), shift, df)
    return np.where(exists, 1 - kept, NAN)[()]


def detectable(sd: ArrayLike, n: ArrayLike, alpha: float = ALPHA) -> Numbers:
    """Return the smallest true difference that a two-sided t test finds with 80 % probability (Cohen 1988).

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio. NaN below two trials or where the
    spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _reach("difference", n, alpha))[()]


def tost_power(sd: ArrayLike, n: ArrayLike, margin: ArrayLike, alpha: float = ALPHA) -> Numbers:
    """Return the probability that two one-sided t tests of level `alpha` and `margin` both pass, when nothing differs.

    Broadcast shape of the arguments. Exact: the joint probability of both tests, the normal mean integrated over the
    chi distribution of the standard deviation (Owen 1965; Phillips 1990). For Holm over k contrasts give ``alpha / k``,
    its first step. Log ratios: give the margin as a logarithm. NaN below two trials or without spread.
    """
    sd, n, margin = _floats(sd, n, margin)
    exists = _known(sd) & (n > 1) & np.isfinite(margin)
    n = np.where(exists, n, 2.0)
    df, error = n - 1, 1 / np.sqrt(n) * np.where(exists, sd, 1.0)
    room = np.where(exists, margin, 0.0) / error
    power = _probability(room, -special.stdtrit(df, 1 - alpha), np.zeros_like(room), df)
    return np.where(exists, power, NAN)[()]


def blocks_to_decide(sd: ArrayLike, margin: ArrayLike, tests: ArrayLike = 1, off: ArrayLike = 0.0) -> Numbers:
    """Return the number of blocks at which no outcome is inconclusive, at this relative spread `sd` of the ratio.

    Broadcast shape of the arguments; `sd`: standard deviation of x - r y as a share of the baseline's mean, or of the
    log ratios; `margin`: relative (0.02 = 2 %). `tests`: claims of equivalence in the family, the first of which Holm
    tests at 5 % over their number. `off`: what rounding may have moved the ratio by, on each side. An outcome is
    inconclusive when the 95 % interval holds 1 while the interval of the equivalence test leaves the margin. That
    cannot happen once both half-widths together, each with `off`, are no longer than the margin, whatever the
    difference turns out to be; the observed one does not enter. NaN where the spread is 0 or unknown, where rounding
    leaves no room in the margin, and where more than a million blocks would be needed.
    """
    sd, bound, tests, off = _floats(sd, margin, tests, off)
    bound = bound - 2 * off
    return _least(lambda n: is_decisive(sd, n, bound, tests), _known(sd) & _known(bound))


def is_decisive(sd: ArrayLike, n: ArrayLike, margin: ArrayLike, tests: ArrayLike = 1) -> NDArray[np.bool_]:
    """Return whether no outcome of `n` blocks is inconclusive: see `blocks_to_decide`. Broadcast shape; NaN: not."""
    level = 1 - 2 * ALPHA / np.maximum(tests, 1)
    return np.asarray(half_width(sd, n) + half_width(sd, n, level) <= np.asarray(margin))


def equivalence_margin(sd: ArrayLike, n: ArrayLike, alpha: float = ALPHA) -> Numbers:
    """Return the smallest margin within which two one-sided t tests show equal systems equivalent in 80 % of cases.

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio (Phillips 1990). `alpha`: as of
    `tost_power`. NaN below two trials or where the spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _reach("margin", n, alpha))[()]


def _floats(*values: ArrayLike) -> list[Array]:
    return list(np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values)))


def _known(value: Array) -> Array:
    return np.isfinite(value) & (value > 0)


def _least(enough: Callable[[Array], Array], possible: Array) -> Numbers:
    """The least n of 2 .. `MAX_N` that is enough, by doubling and halving; NaN where it is not possible."""
    low, high = np.ones(possible.shape), np.full(possible.shape, 2.0)
    while (grow := possible & (high <= MAX_N) & ~enough(np.minimum(high, MAX_N))).any():
        low, high = np.where(grow, high, low), np.where(grow, 2 * high, high)
    high = np.minimum(high, MAX_N + 1.0)
    while (high - low > 1).any():
        middle = np.maximum(np.floor((low + high) / 2), 2)
        met = enough(middle)
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.where(possible & (high <= MAX_N), high, NAN)[()]


def _reach(what: Literal["difference", "margin"], n: Array, alpha: float) -> Array:
    """The difference, or margin, that reaches `POWER` with a spread of 1: once for equal n, few beside the cells."""
    sizes, where = np.unique(n, return_inverse=True)
    found = [_root(what, int(size), alpha) if np.isfinite(size) and size > 1 else NAN for size in sizes]
    return np.array(found, dtype=float)[where].reshape(n.shape)


@lru_cache(maxsize=2048)
def _root(what: Literal["difference", "margin"], n: int, alpha: float) -> float:
    def rises(at: float) -> float:
        found = t_power(at, 1.0, n, alpha) if what == "difference" else tost_power(1.0, n, at, alpha)
        return float(found) - POWER

    high = 1.0
    while rises(high) < 0:
        high *= 2
    return float(optimize.brentq(rises, 0.0, high, xtol=1e-12, rtol=1e-12))


def _probability(room: ArrayLike, slope: Array, shift: Array, df: Array) -> Array:
    """P(|z + shift| <= room + slope u), z standard normal, u the root of an independent chi-square over its `df`.

    u is the estimated spread over the true one. With room 0 and slope t it is what a two-sided t test keeps; with
    slope -t and the margin as room, in standard errors, what two one-sided tests pass.
    """
    low, high = (np.sqrt(2 * inverse(df / 2, 1e-16) / df) for inverse in (special.gammaincinv, special.gammainccinv))
    room = np.asarray(room)[..., None]
    nodes, weights = _rule()
    with np.errstate(divide="ignore", invalid="ignore"):
        # no estimate beyond -room / slope passes; the rule has to end there because its integrand has a kink
        high = np.where(slope < 0, np.clip(-room[..., 0] / slope, low, high), high)
        u = low[..., None] + (high - low)[..., None] * (nodes + 1) / 2
        half = df[..., None] / 2
        log_density = np.log(2 / u) + half * (np.log(half) + 2 * np.log(u) - u**2) - special.gammaln(half)
    end, shift = room + slope[..., None] * u, shift[..., None]
    inside = special.ndtr(end - shift) - special.ndtr(-end - shift)
    return (high - low) / 2 * (weights * inside * np.exp(log_density)).sum(axis=-1)


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre, 128 of them for an error below 1e-10."""
    return np.polynomial.legendre.leggauss(128)


def blocks_per_deployment(within: float, between: float, block_s: float, deployment_s: float) -> float:
    """Return the most economical number of blocks in each deployment, from variances and costs of one of each.

    sqrt(deployment_s / block_s * within / between) (Kalibera and Jones 2013, as corrected by its authors), not rounded:
    take the ceiling. 1 where blocks have no variance; infinite where only deployments have none: as many as fit.
    """
    if within <= 0:
        return 1.0
    return float(np.sqrt(deployment_s / block_s * within / between)) if between > 0 else np.inf


class OneWay(NamedTuple):
    """Variances of trials in deployments; `share` is the part between deployments of the variance of one trial."""

    within: Numbers
    between: Numbers  # may be negative: deployments differ less than their trials would make them
    share: Numbers  # `between` at least 0


def one_way(values: ArrayLike, group: NDArray[np.int64], cell: NDArray[np.int64] | None = None) -> OneWay:
    """Return the variance within and between groups of unequal sizes, by the method of moments.

    `values`: (n,), any unit; `group`: (n,), labels; `cell`: (n,), 0 and up, then all results are (cells,), else floats.
    Analysis of variance with n0 = (n - sum n_i^2 / n) / (groups - 1) (Searle, Casella and McCulloch 1992, section
    3.6). NaN with one group or without a group of two; the share also where there is no variance.
    """
    values = sample(values)
    if cell is None and not values.size:
        return OneWay(NAN, NAN, NAN)
    cells = np.zeros(values.size, dtype=np.int64) if cell is None else cell
    _, label = np.unique(group, return_inverse=True)
    own = cells * (label.max(initial=0) + 1) + label  # a group is one of its cell alone
    _, first, unit = np.unique(own, return_index=True, return_inverse=True)
    of_unit, size = cells[first], np.bincount(unit)
    trials, units = np.bincount(cells), np.bincount(of_unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        # distances from a value of the cell: no square is much larger than the spread, and equal values are exactly 0
        off = values - values[np.unique(cells, return_index=True)[1]][cells]
        means, centre = np.bincount(unit, off) / size, (np.bincount(cells, off) / trials)[of_unit]
        within = np.bincount(cells, (off - means[unit]) ** 2) / (trials - units)
        n0 = (trials - np.bincount(of_unit, size**2) / trials) / (units - 1)
        between = (np.bincount(of_unit, size * (means - centre) ** 2) / (units - 1) - within) / n0
        share = np.maximum(between, 0.0) / (within + np.maximum(between, 0.0))
    found = (np.where(units > 1, each, NAN) for each in (within, between, share))
    return OneWay(*found) if cell is not None else OneWay(*(float(each[0]) for each in found))


def plan_from_pilot(
    table: pd.DataFrame,
    baseline: str,
    margins: Mapping[str, float],
    targets: Iterable[float] = TARGETS,
    seconds: float = NAN,
) -> pd.DataFrame:
    """Return how many blocks the campaign needs, one row per cell or contrast, quantity and target.

    `table`: of a pilot, two blocks or more; `margins`: where there is none, there is no verdict; `targets`: relative
    half-widths of the 95 % intervals wished for; `seconds`: wall time of one block of all systems and cases, of
    making one deployment ready and of its blocks when the pilot has several.

    Columns `PILOT`. ``quantity``: "mean" (interval of a system's mean within +- ``target``), "ratio" (interval of its
    ratio to the baseline within +- ``target``), "verdict" (no outcome is inconclusive at the margin ``target``);
    ``spread``: CoV, or standard deviation of the paired log ratios; ``n``: in ``unit``s, "blocks", or "deployments"
    when the pilot has several, whose means are the data then; ``n_high``: the same at ``spread_high``, the upper end of
    the 95 % chi-square interval of the spread, because that of a small pilot is uncertain; ``hours``: of ``n`` and
    ``n_high``; ``note``: why there is no n.
    """
    check_values(table)
    ok = table[table["value"].notna()]
    several = ok[["session", "deployment"]].drop_duplicates().shape[0] > 1
    unit = BLOCK[:2] if several else BLOCK
    rows: list[dict[str, Any]] = []
    for known, blocks in _samples(ok, baseline):
        # a pair needs both systems in one block; only then are the blocks of a deployment averaged
        values = blocks.groupby(unit).mean().to_numpy()
        known["unit"] = "deployments" if several else "blocks"
        rows += _pilot_rows(known, values, targets, margins.get(known["metric"], margins.get("", NAN)))
    frame = pd.DataFrame(rows, columns=list(PILOT))
    return _sized(frame.astype(PILOT), seconds).astype(PILOT)


def _samples(ok: pd.DataFrame, baseline: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each cell and each contrast: its columns, and its complete blocks, of a system or of it and the baseline.

    `ok`: rows of the tidy table with a value. The index of the blocks names session, deployment and block.
    """
    for case, cell in ok.groupby(CASE, observed=True):
        # pivot, because pivot_table would average what it should refuse
        blocks = cell.pivot(index=BLOCK, columns="system", values="value")  # noqa: PD010
        for system in blocks:
            known = dict(zip(CASE, case, strict=True)) | {"system": system}
            yield known | {"baseline": "", "quantity": MEAN}, blocks[[system]].dropna()
            if system != baseline and baseline in blocks:
                yield known | {"baseline": baseline, "quantity": RATIO}, blocks[[system, baseline]].dropna()


def _pilot_rows(known: dict[str, Any], values: Array, targets: Iterable[float], margin: float) -> list[dict[str, Any]]:
    """The rows of a system's values (n, 1), or of the pairs (n, 2) of it and the baseline, without their sizes."""
    ratio, spread, note = known["quantity"] == RATIO, NAN, ""
    if len(values) < 2:
        note = "fewer than two blocks"
    elif ratio and (values > 0).all():
        spread = float(np.log(values[:, 0] / values[:, 1]).std(ddof=1))
    elif ratio:
        note = "values not all positive"
    elif mean := abs(values.mean()):
        spread = float(values.std(ddof=1) / mean)
    else:
        note = "the mean is 0"
    row = known | {"n_pilot": len(values), "spread": spread, "note": note}
    rows = [row | {"target": target} for target in targets]
    return [*rows, row | {"quantity": VERDICT, "target": margin}] if ratio and np.isfinite(margin) else rows


def _sized(frame: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Turn spreads into numbers of blocks and hours."""
    frame = frame.assign(spread_high=spread_limit(frame["spread"], frame["n_pilot"]))
    still = frame["spread"] < 1e-12  # what rounding leaves of equal values
    frame.loc[still & (frame["note"] == ""), "note"] = "no spread"
    verdict = (frame["quantity"] == VERDICT).to_numpy()
    target = frame["target"].to_numpy(dtype=float)
    # claims of equivalence that a verdict is adjusted with
    claims = verdict & frame["spread"].notna().to_numpy() & ~still.to_numpy()
    family = pd.Series(claims).groupby([frame["workload"].to_numpy(), frame["metric"].to_numpy()])
    tests = np.maximum(family.transform("sum").to_numpy(), 1)
    for name, spread in (("n", "spread"), ("n_high", "spread_high")):
        sd = frame[spread].mask(still).to_numpy(dtype=float)
        deciding = blocks_to_decide(sd, np.where(verdict, target, 0.5), tests)
        frame[name] = np.where(verdict, deciding, n_for_precision(sd, _widths(frame)))
    reached = frame["n_high"].notna() | (frame["note"] != "")
    frame.loc[~reached, "note"] = "more than a million"
    return frame.assign(hours=frame["n"] * seconds / 3600, hours_high=frame["n_high"] * seconds / 3600)


def _widths(frame: pd.DataFrame) -> Array:
    """Half-width wished for: a ratio within +- target has its logarithm within log(1 + target), the nearer end."""
    target = frame["target"].to_numpy(dtype=float)
    return np.where(frame["quantity"] == RATIO, np.log1p(target), target)


def dimensions(
    table: pd.DataFrame, baseline: str, targets: Iterable[float], block_s: float, deployment_s: float
) -> pd.DataFrame:
    """Return the most economical campaign for each cell or contrast and target.

    `table`: of a pilot with several deployments; `targets`: relative half-widths of the 95 % intervals wished for;
    `block_s`, `deployment_s`: wall time of one block, and of making all systems ready anew, without blocks.

    Columns `DIMENSIONS`. ``quantity``: "mean" or "ratio", as in `plan_from_pilot`; ``sd_within``, ``sd_between``: what
    blocks in a deployment and deployments add, relative to the mean, or of the paired log ratios (`one_way`);
    ``blocks``: in each deployment, from the costs and these (`blocks_per_deployment`); ``deployments``: with so many
    blocks, to have the interval within +- ``target``; ``deployments_high``: if the spread of deployment means is as
    large as so small a pilot allows; ``hours``; ``note``: why there are none.
    """
    check_values(table)
    targets = list(targets)
    rows: list[dict[str, Any]] = []
    for known, blocks in _samples(table[table["value"].notna()], baseline):
        values = blocks.iloc[:, 0]
        if known["quantity"] == MEAN:
            mean = abs(float(values.mean()))
            values = values / mean if mean else values * NAN
        else:
            values = np.log(values / blocks[baseline]) if bool((blocks > 0).all(axis=None)) else values * NAN
        row = known | _nested(values, block_s, deployment_s)
        rows += [row | {"target": target} for target in targets]
    kinds = DIMENSIONS | {"spread": "float64", "n_pilot": "float64"}
    frame = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)
    cost_s, widths = deployment_s + frame["blocks"] * block_s, _widths(frame)
    for end, spread in (("", frame["spread"]), ("_high", spread_limit(frame["spread"], frame["n_pilot"]))):
        frame[f"deployments{end}"] = n_for_precision(spread, widths)
        frame[f"hours{end}"] = frame[f"deployments{end}"] * cost_s / 3600
    return frame[list(DIMENSIONS)]


def _nested(values: pd.Series, block_s: float, deployment_s: float) -> dict[str, Any]:
    """What blocks and deployments add, blocks for each deployment, the spread of its means then; or why there is none.

    `values`: by session, deployment and block; NaN throughout where there are none.
    """
    if values.isna().any():
        return {"note": NOT_POSITIVE}
    group = values.groupby(BLOCK[:2]).ngroup().to_numpy()
    variances = one_way(values.to_numpy(dtype=float), group)
    within, between = float(variances.within), float(variances.between)
    if not np.isfinite(within):
        return {"note": ONE_LEVEL}
    row = {"sd_within": np.sqrt(within), "sd_between": np.sqrt(max(between, 0.0))}
    if not (block_s > 0 and deployment_s > 0):
        return row | {"note": NO_COSTS}
    blocks = np.ceil(blocks_per_deployment(within, between, block_s, deployment_s))
    if np.isinf(blocks):
        return row | {"note": NONE_BETWEEN}
    spread = np.sqrt(between + within / blocks)
    return row | {"blocks": blocks, "spread": spread, "n_pilot": len(set(group)), "note": ""}
