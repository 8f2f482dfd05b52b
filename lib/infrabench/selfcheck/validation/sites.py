"""Campaigns over several sites: the mean and its interval, a new site, whether sites differ, and which one does.

A site's estimate is drawn around its own true value, and its standard error with the degrees of freedom that 30 blocks
or 6 deployments leave; the spread between sites is given in units of one site's error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from infrabench.selfcheck.validation.check import (
    Allowed,
    Band,
    Check,
    ExpectedShare,
    SimulatedCase,
    at_most,
    between,
    binomial_band,
    near,
)
from infrabench.selfcheck.validation.estimation import covers
from infrabench.selfcheck.validation.generators import Array, Rng, campaigns_table
from infrabench.stats import intervals, meta_analysis, multiplicity, sites
from infrabench.stats.contrasts import contrasts
from infrabench.stats.verdicts import DIFFERENT, WITHIN

BLOCKS, DEPLOYMENTS = 30, 6
ERROR = 0.005  # of a site's log ratio
ALPHA = 0.05
SYSTEMS = ("native", "other")
MARGIN = 0.02
Answers = NDArray[np.bool_]


class SiteCampaign(NamedTuple):
    """What each of k sites says, (replicates, k), with the true value of one more site; the true mean is 0."""

    estimate: Array
    error: Array
    df: float
    new: Array


class CampaignSummary(NamedTuple):
    """A campaign and what is made of it, once for all that is expected of it."""

    campaign: SiteCampaign
    summary: meta_analysis.Summary


def campaign(
    k: int, spread: float, units: int = BLOCKS, unequal: float = 1.0, planted: float = 0.0
) -> Callable[[Rng, int], SiteCampaign]:
    """Return campaigns of `k` sites whose true values have a standard deviation of `spread` errors.

    `units`: blocks or deployments of a site; `unequal`: the largest error over the smallest; `planted`: added to the
    first site, in errors.
    """

    def generate(rng: Rng, replicates: int) -> SiteCampaign:
        error = ERROR * np.geomspace(unequal**-0.5, unequal**0.5, k)
        true = spread * ERROR * rng.normal(size=(replicates, k))
        true[:, 0] += planted * ERROR
        estimate = true + error * rng.normal(size=true.shape)
        df = units - 1.0
        said = error * np.sqrt(rng.chisquare(df, size=true.shape) / df)
        return SiteCampaign(estimate, said, df, spread * ERROR * rng.normal(size=replicates))

    return generate


def analysed(generate: Callable[[Rng, int], SiteCampaign]) -> Callable[[Rng, int], CampaignSummary]:
    """Return what `generate` draws together with its summary."""

    def both(rng: Rng, replicates: int) -> CampaignSummary:
        drawn = generate(rng, replicates)
        return CampaignSummary(drawn, meta_analysis.summary(*drawn[:3]))

    return both


def blocks(k: int, spread: float, planted: float = 0.0) -> Callable[[Rng, int], Array]:
    """Return the trials of two systems at `k` sites, (replicates, k, 2, blocks), in units of `campaign`.

    The blocks of a site differ by far more than the systems in one; the second system of the first site is `planted`.
    """

    def generate(rng: Rng, replicates: int) -> Array:
        true = spread * ERROR * rng.normal(size=(replicates, k))
        true[:, 0] += planted * ERROR
        noise = ERROR * np.sqrt(BLOCKS / 2) * rng.normal(size=(replicates, k, 2, BLOCKS))
        noise[:, :, 1] += true[..., None]
        return 100.0 * np.exp(noise + 0.05 * rng.normal(size=(replicates, k, 1, BLOCKS)))

    return generate


def _mean(data: CampaignSummary) -> Answers:
    return covers(data.summary.interval, 0.0)


def _new(data: CampaignSummary) -> Answers:
    low, high, _ = data.summary.predicted
    return (low <= data.campaign.new) & (data.campaign.new <= high)


def _differ(data: SiteCampaign) -> Answers:
    return np.asarray(meta_analysis.welch_homogeneity(*data[:3]).p) < ALPHA


def _differ_by_q(data: SiteCampaign) -> Answers:
    return np.asarray(meta_analysis.cochran_q(data.estimate, data.error).p) < ALPHA


def _variance(spread: float) -> Callable[[SiteCampaign], Answers]:
    return lambda data: covers(meta_analysis.between_interval(*data[:3]), (spread * ERROR) ** 2)


def _unpredicted(data: SiteCampaign) -> Answers:
    """Which sites the others do not predict, (replicates, k)."""
    return multiplicity.holm(meta_analysis.deleted(*data[:3]).p_predicted) < ALPHA


def tabled(generate: Callable[[Rng, int], Array]) -> Callable[[Rng, int], Any]:
    """Return the table over sites of the trials that `generate` draws, the whole way from the tidy table."""

    def whole(rng: Rng, replicates: int) -> Any:
        data = generate(rng, replicates)
        names = [f"site {i}" for i in range(data.shape[1])]
        each = {
            name: contrasts(campaigns_table(data[:, i], SYSTEMS), SYSTEMS[0], {"": MARGIN})
            for i, name in enumerate(names)
        }
        return sites.over_sites(sites.per_site(each), names)[1].sort_values("scenario")

    return whole


def _called_different(table: Any) -> Answers:
    return table["verdict"].isin([DIFFERENT, WITHIN]).to_numpy()


def _named_first(table: Any) -> Answers:
    """Whether the first site, and it alone, is named."""
    told = table["named"]
    return (told.str.startswith("site 0 ") & ~told.str.contains(",")).to_numpy()


def _named_another(table: Any) -> Answers:
    return table["named"].str.contains("site [1-9]").to_numpy()


def _named(table: Any) -> Answers:
    return (table["named"] != "").to_numpy()


def _all_trials(data: Array) -> Answers:
    """The paired t interval over the blocks of all sites, as if they were of one."""
    logs = np.log(data[:, :, 1] / data[:, :, 0])
    return covers(intervals.t_interval(logs.reshape(len(logs), -1)), 0.0)


def _one_truth(data: SiteCampaign) -> Answers:
    """The mean weighted by precision, and its interval as if all sites had one true value."""
    found = meta_analysis.weighted(data.estimate, data.error, np.inf, np.zeros(len(data.estimate)))
    return np.abs(found.mean) <= special.ndtri(1 - ALPHA / 2) * np.sqrt(found.variance)


def _plugged_in(data: SiteCampaign) -> Answers:
    """The prediction interval with t of k - 2, the between-site variance taken for its estimate."""
    k = data.estimate.shape[-1]
    variance = meta_analysis.between_variance(data.estimate, data.error)
    mean = meta_analysis.weighted(data.estimate, data.error, np.inf, variance)
    half = special.stdtrit(k - 2, 1 - ALPHA / 2) * np.sqrt(variance + mean.variance)
    return np.abs(mean.mean - data.new) <= half


def _no_less(p: float) -> Allowed:
    """A coverage of `p` or more: from the lower end of its band."""
    return lambda replicates: Band(binomial_band(p, replicates).low, 1.0)


def _intervals(k: int, spread: float, what: str = "", **how: Any) -> SimulatedCase:
    """Coverage of the mean and of a new site; near 95 % where sites differ widely, else not much below."""
    wide = spread >= 10
    return SimulatedCase(
        f"{k} sites, {_apart(spread)}{what}", analysed(campaign(k, spread, **how)),
        (
            ExpectedShare("interval of the mean", _mean, near(0.95, 0.005) if wide else _no_less(0.94)),
            ExpectedShare("interval of a new site", _new, near(0.95, 0.01) if wide else _no_less(0.935)),
        ),
        fast=400, full=5_000, batch=500,
    )  # fmt: skip


def _apart(spread: float) -> str:
    return "one true value" if not spread else f"sd between sites {spread:g} errors"


def _tests(k: int, units: int, what: str) -> SimulatedCase:
    """Size of the test, and whether the interval of the variance holds none: 5 and 97.5 %.

    Ten sites with five degrees of freedom each are where Welch's approximation gives: 7 and 96 %. Q says 25 % there.
    """
    hard = k == 10 and units == DEPLOYMENTS
    return SimulatedCase(
        f"{k} sites of {what}, one true value", campaign(k, 0.0, units),
        (
            ExpectedShare("Welch's test of equal sites", _differ, near(0.07, 0.01) if hard else near(0.05, 0.006)),
            ExpectedShare("interval of the variance holds 0", _variance(0.0),
                        near(0.96, 0.01) if hard else near(0.975, 0.006)),
        ),
        full=20_000,
    )  # fmt: skip


SIX = f"{DEPLOYMENTS} deployments"
CHECKS = (
    Check(
        "V16", "mean over sites, and what a new site would show",
        (
            *(_intervals(k, spread) for k in (3, 5, 10) for spread in (0.0, 1.0, 10.0)),
            _intervals(3, 1.0, f", {SIX} each", units=DEPLOYMENTS),
            _intervals(10, 1.0, f", {SIX} each", units=DEPLOYMENTS),
            _intervals(5, 1.0, ", errors 1 to 4", unequal=4.0),
        ),
    ),
    Check(
        "V17", "do sites differ, and by how much",
        (
            *(_tests(k, BLOCKS, f"{BLOCKS} blocks") for k in (3, 5, 10)),
            *(_tests(k, DEPLOYMENTS, SIX) for k in (3, 10)),
            *(
                SimulatedCase(f"{k} sites, {_apart(3.0)}", campaign(k, 3.0),
                     (ExpectedShare("interval of the variance", _variance(3.0), near(0.95, 0.005)),
                      ExpectedShare("Welch's test of equal sites", _differ, between(low, 1.0))), full=20_000)
                for k, low in ((3, 0.68), (5, 0.88), (10, 0.98))
            ),
            SimulatedCase(f"3 sites of {SIX}, one true value", campaign(3, 0.0, DEPLOYMENTS),
                 (ExpectedShare("Cochran's Q, which has to fail here", _differ_by_q, between(0.08, 0.15)),)),
        ),
    ),
    Check(
        "V18", "one site whose ratio is another",
        (
            *(
                SimulatedCase(f"5 sites, {_apart(spread)}", campaign(5, spread),
                     (ExpectedShare("any that the others do not predict", lambda d: _unpredicted(d).any(axis=1),
                                  at_most(0.05)),), fast=300, full=3_000, batch=300)
                for spread in (0.0, 3.0)
            ),
            *(
                SimulatedCase(f"{k} sites, the first {planted:g} errors off", campaign(k, 0.0, planted=planted),
                     (ExpectedShare("the others do not predict it", lambda d: _unpredicted(d)[:, 0],
                                  between(low, high)),),
                     fast=300, full=3_000, batch=300)
                for k, planted, low, high in ((3, 30.0, 0.35, 0.6), (5, 10.0, 0.8, 1.0), (10, 10.0, 0.97, 1.0))
            ),
        ),
    ),
    Check(
        "V19", "full pipeline: blocks at several sites, from trials to verdict",
        (
            SimulatedCase(f"5 sites, {_apart(3.0)}", tabled(blocks(5, 3.0)),
                 (ExpectedShare("called different", _called_different, at_most(0.06)),),
                 fast=100, full=1_000, batch=100),
            SimulatedCase("3 sites, one true value", tabled(blocks(3, 0.0)),
                 (ExpectedShare("any site named", _named, at_most(0.05)),), fast=100, full=1_000, batch=100),
            SimulatedCase("3 sites, the first 10 errors off", tabled(blocks(3, 0.0, planted=10.0)),
                 (ExpectedShare("the first named, alone", _named_first, between(0.85, 1.0)),
                  ExpectedShare("another one named", _named_another, at_most(0.01))), fast=100, full=1_000, batch=100),
        ),
    ),
)  # fmt: skip
CONTROLS = (
    Check(
        "N8", "control: all trials of all sites in one interval",
        (SimulatedCase(f"5 sites, {_apart(3.0)}", blocks(5, 3.0),
              (ExpectedShare("trials of all sites as if of one", _all_trials, between(0.49, 0.54)),),
              fast=10_000, full=10_000),),
    ),
    Check(
        "N9", "control: sites weighted by precision, their differences left out",
        (SimulatedCase(f"5 sites, {_apart(3.0)}", campaign(5, 3.0),
              (ExpectedShare("one true value for all", _one_truth, between(0.41, 0.46)),), fast=10_000, full=10_000),),
    ),
    Check(
        "N10", "control: a new site, the variance between sites taken for its estimate",
        (SimulatedCase(f"10 sites, {_apart(1.0)}", campaign(10, 1.0),
              (ExpectedShare("prediction interval with t of k - 2", _plugged_in, between(0.865, 0.895)),),
              fast=10_000, full=10_000),),
    ),
)  # fmt: skip
