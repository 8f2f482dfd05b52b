"""Intervals that must cover the truth as often as they say, and flags that must be raised as often as they say.

Means, medians, ratios, paired effect sizes; serial dependence and two modes, on good data and on bad; and the rule that
ends a session.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.experiment.design.design import FIRST_BLOCKS
from infrabench.stats import dependence, intervals, knee, pairwise, planning, stopping
from infrabench.stats.diagnostics import bimodal as is_bimodal
from infrabench_selfcheck.validation import check
from infrabench_selfcheck.validation import generators as draw
from infrabench_selfcheck.validation.check import Check, at_least, between, case, near
from infrabench_selfcheck.validation.generators import Array, Drifting, Generate, PairedSamples, Shape

RESAMPLES = 1_999
RATIO = 0.95
NOMINAL = near(0.95)
N = 30
SHARED_SD = 0.01  # of log ratios
SHARED_MARGIN = 1.0  # in standard deviations: about 22 blocks are enough for normal ones
SHORT = at_least(0.925)
RATES = (250.0, 1000.0, 2000.0, 4000.0, 6000.0, 8000.0, 10000.0, 12000.0)  # as in the profile `load`
MOST = 9000.0  # that the queues of V29 answer in a second


def covers(interval: intervals.Interval, truth: float | Array) -> NDArray[np.bool_]:
    """Return whether each interval holds the truth; one that does not exist covers nothing."""
    return (np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high))


def wilson_coverage(p: float, n: int) -> float:
    """Return how often Wilson's interval of `n` draws holds the true share `p`: the sum of the binomial chances."""
    counts = np.arange(n + 1)
    return float(stats.binom.pmf(counts, n, p)[covers(intervals.wilson_interval(counts, n), p)].sum())


def _one(
    shape: Shape, n: int, what: str, procedure: check.Procedure, allowed: check.Allowed = NOMINAL, **sizes: int
) -> check.SimulatedCase:
    return case(f"{shape.name}, n = {n}", draw.sample(shape, n), (what, procedure, allowed), **sizes)


def _ratio(covs: tuple[float, float], n: int, correlation: float = 0.0, *, logs: bool = True) -> check.SimulatedCase:
    blocks = f", block correlation {correlation:g}" if correlation else ""
    log_ratio = ("log ratio, paired t", lambda d: covers(pairwise.paired_log_ratio(*d).interval, RATIO), NOMINAL)
    return case(
        f"CoV {100 * covs[0]:g} %/{100 * covs[1]:g} %, n = {n}{blocks}", draw.pair(RATIO, covs, n, correlation),
        ("Fieller, paired", lambda d: covers(pairwise.paired_fieller(*d), RATIO), NOMINAL),
        # with 30 % spread a value may be below 0; with unequal spreads the log ratio aims at another target
        *([log_ratio] if logs else []),
    )  # fmt: skip


def _effect(d: float, n: int) -> check.SimulatedCase:
    above = float(stats.norm.cdf(d))  # share of pairs in which the first is above
    return case(
        f"d = {d:g}, n = {n}, blocks ten times as far apart", draw.in_blocks(d, n),
        ("d of the log ratios", lambda data: covers(pairwise.paired_d(*data).interval, d), NOMINAL),
        # a score interval of so few pairs covers by steps: exactly known, between 91 and 98 % here
        ("share of pairs", lambda data: covers(pairwise.share_above(*data).interval, above),
         near(wilson_coverage(above, n))),
    )  # fmt: skip


def _stopped(shape: Shape, target: float) -> check.SimulatedCase:
    """Sessions of one primary cell that end by the rule: does the interval that ended them hold the truth?"""

    def procedure(x: Array) -> NDArray[np.bool_]:
        covered, going = np.zeros(len(x), dtype=bool), np.arange(len(x))
        for n in (*range(stopping.MIN_BLOCKS, stopping.MAX_BLOCKS, stopping.BATCH), stopping.MAX_BLOCKS):
            ended = (stopping.relative_width(x[going, :n]) <= target) | (n == stopping.MAX_BLOCKS)
            done, seen = going[ended], x[going[ended], :n]
            mean = covers(intervals.t_interval(seen), shape.mean)
            median = covers(intervals.median_interval(seen), shape.median)
            covered[done] = np.where(is_bimodal(seen), median, mean)
            going = going[~ended]
        return covered

    data = f"{shape.name}, target {100 * target:g} %"
    return case(data, draw.sample(shape, stopping.MAX_BLOCKS), ("last interval covers", procedure, at_least(0.925)))


def _shared_out(
    data: str, generate: Generate[Array], truth: float, allowed: check.Allowed, batch: int = stopping.BATCH
) -> check.SimulatedCase:
    def constant(rng: np.random.Generator, replicates: int) -> Drifting:
        x = generate(rng, replicates)
        return Drifting(x, np.full_like(x, truth))

    return _drifted(data, constant, allowed, batch)


def _drifted(
    data: str, generate: Generate[Drifting], allowed: check.Allowed, batch: int = stopping.BATCH
) -> check.SimulatedCase:  # fmt: skip
    """Cases that get some blocks at a time while the spread of their log ratios is too wide for a margin.

    Where the true ratio moves, the interval is asked for its mean over the blocks that were measured.
    """

    def procedure(given: Drifting) -> NDArray[np.bool_]:
        x = given.seen
        n = np.full(len(x), x.shape[-1])
        for size in range(FIRST_BLOCKS, x.shape[-1], batch):
            ratios = np.exp(SHARED_SD * x[:, :size])
            spread = planning.ratio_spread(ratios, np.ones_like(ratios))
            narrow = planning.is_decisive(spread, size, SHARED_MARGIN * SHARED_SD)
            n = np.where(narrow & (n == x.shape[-1]), size, n)
        covered = np.zeros(len(x), dtype=bool)
        for size in np.unique(n):
            truth = given.true[n == size, :size].mean(axis=-1)
            covered[n == size] = covers(intervals.t_interval(x[n == size, :size]), truth)
        return covered

    return case(f"log ratios {data}", generate, ("interval at the end covers", procedure, allowed))


def _sustained(data: PairedSamples) -> NDArray[np.bool_]:
    """Whether the interval of the ratio of the rates at one latency holds 1, which is the truth of equal systems."""
    limit = knee.TIMES / (MOST - RATES[0])
    rates = [knee.crossing(np.array(RATES), times, limit) for times in data]
    return covers(pairwise.paired_fieller(*rates), 1.0)


LOGNORMAL = draw.lognormal(1)
STOPPED = (
    *(draw.normal(100, 100 * cov)._replace(name=f"normal CoV {100 * cov:g} %") for cov in (0.03, 0.05)),
    draw.bimodal(0.2, 15.0, at=100, sd=1),
)
CHECKS = (
    Check("V1", "t interval of a mean", tuple(
        _one(draw.normal(), n, "t interval", lambda x: covers(intervals.t_interval(x), 0.0)) for n in (5, 10, 30)
    )),
    Check("V2", "exact interval of a median", tuple(
        _one(shape, n, "median", lambda x, true=shape.median: covers(intervals.median_interval(x), true),
             near(intervals.median_ranks(n)[2]))
        for shape in (draw.normal(), LOGNORMAL, draw.bimodal(), draw.with_outliers()) for n in (10, 30)
    )),
    Check("V3", "t interval of the logs, for a geometric mean", (
        _one(LOGNORMAL, 30, "log-t", lambda x: covers(intervals.log_t_interval(x).interval, LOGNORMAL.median)),
    )),
    Check("V4", "bootstrap-t of a mean", tuple(
        _one(shape, n, "bootstrap-t",
             lambda x, true=shape.mean: covers(intervals.bootstrap_t(x, resamples=RESAMPLES), true), allowed,
             full=10_000)
        for shape, n, allowed in ((draw.normal(), 10, NOMINAL), (LOGNORMAL, 30, between(0.91, 0.945)))
    )),
    Check("V5", "intervals of a ratio of means", (
        *(_ratio((0.02, 0.02), n) for n in (5, 10, 30)), _ratio((0.02, 0.10), 30, logs=False),
        _ratio((0.30, 0.30), 30, logs=False), _ratio((0.03, 0.03), 30, 0.8),
    )),
    Check("V10", "intervals of paired effect sizes",
          tuple(_effect(d, n) for d in (0.0, 0.5, 1.0, 2.0) for n in (10, 30))),
    Check("V11", "rule that ends a session: 30 blocks, 5 more, 100 at most",
          tuple(_stopped(shape, target) for shape in STOPPED for target in (0.01, 0.02))),
    Check("V28", "a time that is shared out: 15 blocks, then 5 more of what is too wide for its margin, 60 at most", (
        *(_shared_out(shape.name, draw.sample(shape, 60), shape.mean, allowed) for shape, allowed in (
            (draw.normal(), SHORT), (draw.lognormal(0.25), SHORT),
            # 30 blocks of these, whatever they say, cover 94, 93 and 89 %
            (draw.bimodal(0.2, 5.0), at_least(0.90)), (draw.with_outliers(0.05, 5.0), at_least(0.91)),
        )),
        _shared_out("AR(1), phi 0.2", draw.ar1(0.2, 60), 0.0, at_least(0.87)),
        _shared_out("normal, a look after each block", draw.sample(draw.normal(), 60), 0.0, SHORT, batch=1),
        _drifted("the machine drifts by 10 sd", draw.drifting(60, machine="line"), SHORT),
        _drifted("the machine walks by 1 sd a block", draw.drifting(60, machine="walk"), SHORT),
        _drifted("the ratio drifts by 1 sd", draw.drifting(60, ratio="line"), SHORT),
        _drifted("the ratio walks by 0.1 sd a block", draw.drifting(60, ratio="walk"), SHORT),
    )),
    Check("V29", "rates that two equal queues sustain at one latency", (
        case(f"M/M/1, {len(RATES)} rates, n = {N}", draw.swept(RATES, MOST, N),
             ("Fieller, paired", _sustained, at_least(0.93)), full=4_000),
    )),
    Check("V14", "flag of serial dependence: Ljung-Box at lag 1 or Kendall's trend, p < 0.01", tuple(
        case(f"{data}, n = {N}", generate, ("flagged dependent", dependence.dependent, allowed))
        for data, generate, allowed in (
            ("independent", draw.ar1(0.0, N), near(0.019, rounded=0.0005)),
            ("AR(1), phi 0.7", draw.ar1(0.7, N), near(0.81, rounded=0.005)),
            ("linear trend of 3 sd", draw.trend(3.0, N), near(0.97, rounded=0.005)),
        )
    )),
    Check("V15", "flag of two modes, on the values and on their logs", tuple(
        _one(shape, N, "flagged bimodal", is_bimodal, allowed) for shape, allowed in (
            (draw.normal(100, 1), near(0.009, rounded=0.0005)),
            (draw.exponential(), between(0.0, 0.035)),
            (draw.bimodal(0.2, 10.0, at=100, sd=1), near(0.99, rounded=0.005)),
            (draw.bimodal(0.2, 5.0, at=100, sd=1), near(0.885, rounded=0.005)),
        )
    )),
)  # fmt: skip
