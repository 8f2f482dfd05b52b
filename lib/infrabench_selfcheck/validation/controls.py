"""Negative controls: habits that are known to be wrong, and must be seen to be wrong by as much as is known.

They exist here alone and are offered to nobody. A control that looks nominal means that the simulation is broken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from infrabench.stats import intervals, meta_analysis
from infrabench_selfcheck.validation import generators as draw
from infrabench_selfcheck.validation.check import Check, Procedure, between, case
from infrabench_selfcheck.validation.comparisons import ALPHA, any_pair_rejected, rejects
from infrabench_selfcheck.validation.estimation import RATIO, RESAMPLES, covers
from infrabench_selfcheck.validation.generators import Array, Generate, PairedSamples
from infrabench_selfcheck.validation.sites import SiteCampaign, apart, blocks, campaign

REPLICATES = 10_000
Answers = NDArray[np.bool_]


def percentile_bootstrap(x: Array) -> Answers:
    """The percentile bootstrap of a mean, however few values there are."""

    def ends(counts: intervals.Counts, x: Array) -> intervals.Ends:
        mean = x.mean(axis=-1, keepdims=True)
        low, high = intervals.percentile_ends(intervals.sums(x - mean, counts) / x.shape[-1])
        return low + mean[:, 0], high + mean[:, 0]

    return covers(intervals.over_cells(ends, x, resamples=RESAMPLES), 0.0)


def welch_p(x: Array, y: Array) -> Array:
    """p of Welch's t test (1947) of two systems, as if their trials shared no block."""
    return np.asarray(stats.ttest_ind(x, y, axis=-1, equal_var=False).pvalue)


def as_if_independent(x: Array) -> Answers:
    """Student's t on whatever numbers there are, as if each were a trial of its own."""
    return covers(intervals.t_interval(x), 0.0)


def exact_baseline(data: PairedSamples) -> Answers:
    """The interval of the system's mean divided by the baseline's mean, as if that were a known constant."""
    return covers(intervals.t_interval(data.x / data.y.mean(axis=-1, keepdims=True)), RATIO)


def all_trials(data: Array) -> Answers:
    """The paired t interval over the blocks of all sites, as if they were of one."""
    logs = np.log(data[:, :, 1] / data[:, :, 0])
    return as_if_independent(logs.reshape(len(logs), -1))


def one_truth(data: SiteCampaign) -> Answers:
    """The mean weighted by precision, and its interval as if all sites had one true value."""
    found = meta_analysis.weighted(data.estimate, data.error, np.inf, np.zeros(len(data.estimate)))
    return np.abs(found.mean) <= special.ndtri(1 - ALPHA / 2) * np.sqrt(found.variance)


def plugged_in(data: SiteCampaign) -> Answers:
    """The prediction interval with t of k - 2, the between-site variance taken for its estimate."""
    k = data.estimate.shape[-1]
    variance = meta_analysis.between_variance(data.estimate, data.error)
    mean = meta_analysis.weighted(data.estimate, data.error, np.inf, variance)
    half = special.stdtrit(k - 2, 1 - ALPHA / 2) * np.sqrt(variance + mean.variance)
    return np.abs(mean.mean - data.new) <= half


def _control(
    id_: str, what: str, data: str, generate: Generate[Any], procedure: Procedure, low: float, high: float
) -> Check:
    """What is done, to which data, and the share that it must be seen to get."""
    expected = what, procedure, between(low, high)
    return Check(id_, f"control: {what}", (case(data, generate, expected, fast=REPLICATES, full=REPLICATES),))


CHECKS = (
    _control("N1", "percentile bootstrap of 5 values", "normal", draw.sample(draw.normal(), 5), percentile_bootstrap,
             0.82, 0.86),
    _control("N2", "t interval of a dependent series", "AR(1), phi 0.6, n = 30", draw.ar1(0.6, 30), as_if_independent,
             0.66, 0.69),
    _control("N3", "one system after the other", "linear drift of 3 %, n = 30",
             draw.campaigns("linear drift of 3 %", 30, sequential=True),
             lambda d: rejects(welch_p(d.values[:, 0], d.values[:, 1])), 0.99, 1.0),
    _control("N4", "six t tests without correction", "four identical systems, n = 30", draw.blocked(4, 30, 0.0),
             lambda x: any_pair_rejected(x, welch_p), 0.18, 0.22),
    _control("N5", "1 deployment of 30 runs, by runs", "deployment sd = run sd", draw.deployed(1, 30, 1.0),
             lambda x: rejects(welch_p(x[:, 0], x[:, 1])), 0.70, 0.74),
    _control("N6", "samples inside runs, pooled", "5 runs of 60 samples, intra-run correlation 0.2",
             draw.pooled(5, 60, 0.2), as_if_independent, 0.39, 0.43),
    _control("N7", "baseline taken as a constant", "CoV 2 %/2 %, n = 30", draw.pair(RATIO, (0.02, 0.02), 30),
             exact_baseline, 0.83, 0.855),
    _control("N8", "all trials of all sites in one interval", f"5 sites, {apart(3.0)}", blocks(5, 3.0), all_trials,
             0.49, 0.54),
    _control("N9", "sites weighted by precision, their differences left out", f"5 sites, {apart(3.0)}",
             campaign(5, 3.0), one_truth, 0.41, 0.46),
    _control("N10", "a new site, the variance between sites taken for its estimate", f"10 sites, {apart(1.0)}",
             campaign(10, 1.0), plugged_in, 0.865, 0.895),
)  # fmt: skip
