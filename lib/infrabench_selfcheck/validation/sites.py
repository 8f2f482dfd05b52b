"""Campaigns over several sites: the mean and its interval, a new site, whether sites differ, and which one does.

A site's estimate is drawn around its own true value, and its standard error with the degrees of freedom that 30 blocks
or 6 deployments leave; the spread between sites is given in units of one site's error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.stats import meta_analysis, multiplicity, sites
from infrabench.stats.contrasts import contrasts
from infrabench.stats.verdicts import DIFFERENT, WITHIN
from infrabench_selfcheck.validation import check
from infrabench_selfcheck.validation.check import Check, Expected, at_most, between, case, near, no_less
from infrabench_selfcheck.validation.comparisons import rejects
from infrabench_selfcheck.validation.estimation import covers
from infrabench_selfcheck.validation.generators import Array, Generate, Rng, campaigns_table, generator

BLOCKS, DEPLOYMENTS = 30, 6
ERROR = 0.005  # of a site's log ratio
SYSTEMS = ("native", "other")
MARGIN = 0.02


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


@generator
def campaign(
    rng: Rng, replicates: int, k: int, spread: float, units: int = BLOCKS, unequal: float = 1.0, planted: float = 0.0
) -> SiteCampaign:
    """Return campaigns of `k` sites whose true values have a standard deviation of `spread` errors.

    `units`: blocks or deployments of a site; `unequal`: the largest error over the smallest; `planted`: added to the
    first site, in errors.
    """
    error = ERROR * np.geomspace(unequal**-0.5, unequal**0.5, k)
    true = spread * ERROR * rng.normal(size=(replicates, k))
    true[:, 0] += planted * ERROR
    estimate = true + error * rng.normal(size=true.shape)
    df = units - 1.0
    said = error * np.sqrt(rng.chisquare(df, size=true.shape) / df)
    return SiteCampaign(estimate, said, df, spread * ERROR * rng.normal(size=replicates))


@generator
def analysed(rng: Rng, replicates: int, generate: Generate[SiteCampaign]) -> CampaignSummary:
    """Return what `generate` draws together with its summary."""
    drawn = generate(rng, replicates)
    return CampaignSummary(drawn, meta_analysis.summary(*drawn[:3]))


@generator
def blocks(rng: Rng, replicates: int, k: int, spread: float, planted: float = 0.0) -> Array:
    """Return the trials of two systems at `k` sites, (replicates, k, 2, blocks), in units of `campaign`.

    The blocks of a site differ by far more than the systems in one; the second system of the first site is `planted`.
    """
    true = spread * ERROR * rng.normal(size=(replicates, k))
    true[:, 0] += planted * ERROR
    noise = ERROR * np.sqrt(BLOCKS / 2) * rng.normal(size=(replicates, k, 2, BLOCKS))
    noise[:, :, 1] += true[..., None]
    return 100.0 * np.exp(noise + 0.05 * rng.normal(size=(replicates, k, 1, BLOCKS)))


@generator
def tabled(rng: Rng, replicates: int, generate: Generate[Array]) -> Any:
    """Return the table over sites of the trials that `generate` draws, the whole way from the tidy table."""
    data = generate(rng, replicates)
    each = {
        f"site {i}": contrasts(campaigns_table(data[:, i], SYSTEMS), SYSTEMS[0], {"": MARGIN})
        for i in range(data.shape[1])
    }
    return sites.over_sites(sites.per_site(each), list(each))[1].sort_values("scenario")


def unpredicted(data: SiteCampaign) -> NDArray[np.bool_]:
    """Return which sites the others do not predict, (replicates, k)."""
    return rejects(multiplicity.holm(meta_analysis.deleted(*data[:3]).p_predicted))


def _variance(spread: float, allowed: check.Allowed, holds: str = "") -> Expected:
    return (
        f"interval of the variance{holds}",
        lambda data: covers(meta_analysis.between_interval(*data[:3]), (spread * ERROR) ** 2), allowed,
    )  # fmt: skip


def _equal(allowed: check.Allowed) -> Expected:
    return "Welch's test of equal sites", lambda d: rejects(meta_analysis.welch_homogeneity(*d[:3]).p), allowed


def _intervals(k: int, spread: float, what: str = "", **how: Any) -> check.SimulatedCase:
    """Coverage of the mean and of a new site; near 95 % where sites differ widely, else not much below."""
    wide = spread >= 10

    def new(data: CampaignSummary) -> NDArray[np.bool_]:
        low, high, _ = data.summary.predicted
        return (low <= data.campaign.new) & (data.campaign.new <= high)

    return case(
        f"{k} sites, {apart(spread)}{what}", analysed(campaign(k, spread, **how)),
        ("interval of the mean", lambda d: covers(d.summary.interval, 0.0),
         near(0.95, 0.005) if wide else no_less(0.94)),
        ("interval of a new site", new, near(0.95, 0.01) if wide else no_less(0.935)),
        fast=400, full=5_000, batch=500,
    )  # fmt: skip


def apart(spread: float) -> str:
    """Return how far sites are apart, in words."""
    return "one true value" if not spread else f"sd between sites {spread:g} errors"


def _tests(k: int, units: int, what: str) -> check.SimulatedCase:
    """Size of the test, and whether the interval of the variance holds none: 5 and 97.5 %.

    Ten sites with five degrees of freedom each are where Welch's approximation gives: 7 and 96 %. Q says 25 % there.
    """
    hard = k == 10 and units == DEPLOYMENTS
    return case(
        f"{k} sites of {what}, one true value", campaign(k, 0.0, units),
        _equal(near(0.07, 0.01) if hard else near(0.05, 0.006)),
        _variance(0.0, near(0.96, 0.01) if hard else near(0.975, 0.006), " holds 0"),
    )  # fmt: skip


def _tabled(data: str, generate: Generate[Array], *expected: Expected) -> check.SimulatedCase:
    return case(data, tabled(generate), *expected, fast=100, full=1_000, batch=100)


SIX = f"{DEPLOYMENTS} deployments"
CHECKS = (
    Check("V16", "mean over sites, and what a new site would show", (
        *(_intervals(k, spread) for k in (3, 5, 10) for spread in (0.0, 1.0, 10.0)),
        *(_intervals(k, 1.0, f", {SIX} each", units=DEPLOYMENTS) for k in (3, 10)),
        _intervals(5, 1.0, ", errors 1 to 4", unequal=4.0),
    )),
    Check("V17", "do sites differ, and by how much", (
        *(_tests(k, BLOCKS, f"{BLOCKS} blocks") for k in (3, 5, 10)),
        *(_tests(k, DEPLOYMENTS, SIX) for k in (3, 10)),
        *(
            case(f"{k} sites, {apart(3.0)}", campaign(k, 3.0), _variance(3.0, near(0.95, 0.005)),
                 _equal(between(low, 1.0)))
            for k, low in ((3, 0.68), (5, 0.88), (10, 0.98))
        ),
        case(f"3 sites of {SIX}, one true value", campaign(3, 0.0, DEPLOYMENTS),
             ("Cochran's Q, which has to fail here",
              lambda d: rejects(meta_analysis.cochran_q(d.estimate, d.error).p), between(0.08, 0.15))),
    )),
    Check("V18", "one site whose ratio is another", (
        *(
            case(f"5 sites, {apart(spread)}", campaign(5, spread),
                 ("any that the others do not predict", lambda d: unpredicted(d).any(axis=1), at_most(0.05)),
                 fast=300, full=3_000, batch=300)
            for spread in (0.0, 3.0)
        ),
        *(
            case(f"{k} sites, the first {planted:g} errors off", campaign(k, 0.0, planted=planted),
                 ("the others do not predict it", lambda d: unpredicted(d)[:, 0], between(low, high)),
                 fast=300, full=3_000, batch=300)
            for k, planted, low, high in ((3, 30.0, 0.35, 0.6), (5, 10.0, 0.8, 1.0), (10, 10.0, 0.97, 1.0))
        ),
    )),
    Check("V19", "full pipeline: blocks at several sites, from trials to verdict", (
        _tabled(f"5 sites, {apart(3.0)}", blocks(5, 3.0),
                ("called different", lambda t: t["verdict"].isin([DIFFERENT, WITHIN]).to_numpy(), at_most(0.06))),
        _tabled("3 sites, one true value", blocks(3, 0.0),
                ("any site named", lambda t: (t["named"] != "").to_numpy(), at_most(0.05))),
        _tabled("3 sites, the first 10 errors off", blocks(3, 0.0, planted=10.0),
                ("the first named, alone", lambda t: t["named"].str.fullmatch("site 0 [^,]*").to_numpy(),
                 between(0.85, 1.0)),
                ("another one named", lambda t: t["named"].str.contains("site [1-9]").to_numpy(), at_most(0.01))),
    )),
)  # fmt: skip
