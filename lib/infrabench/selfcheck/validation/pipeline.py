"""The whole way from a tidy table to a verdict, on identical systems: how often they are called different."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import at_most, near
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import ENVIRONMENTS, Array, campaigns, deployed
from infrabench.selfcheck.validation.tables import METRIC, WORKLOAD, campaigns_table
from infrabench.stats.contrasts import contrasts
from infrabench.stats.verdicts import DIFFERENT, WITHIN

BLOCKS = 30
DEPLOYMENTS, RUNS = 6, 5
MARGIN = 0.02
SYSTEMS = ("native", "other")


def called_different(table: Any) -> NDArray[np.bool_]:
    """Return, by campaign, whether the verdict says "different" (also within the margin): the interval excludes 1."""
    found = contrasts(table, SYSTEMS[0], {"": MARGIN}, ((WORKLOAD, METRIC),)).sort_values("scenario")
    return found["verdict"].isin([DIFFERENT, WITHIN]).to_numpy()


def _drifting(data: Any) -> NDArray[np.bool_]:
    return called_different(campaigns_table(data.values, SYSTEMS, positions=data.positions))


def _split_plot(values: Array) -> NDArray[np.bool_]:
    deployment = np.repeat(np.arange(DEPLOYMENTS), RUNS)
    return called_different(campaigns_table(values, SYSTEMS, deployment=deployment))


CHECKS = (
    Check(
        "V12", "full pipeline: identical systems in blocks, on a host that drifts",
        tuple(
            SimulatedCase(name, campaigns(name, BLOCKS), (ExpectedShare("called different", _drifting, near(0.05)),),
                 fast=1_000, full=10_000, batch=500)
            for name in ENVIRONMENTS
        ),
    ),
    Check(
        "V13", "full pipeline: identical systems, deployed anew each time",
        (
            SimulatedCase(
                f"{DEPLOYMENTS} deployments of {RUNS} runs, deployment sd = run sd", deployed(DEPLOYMENTS, RUNS, 1.0),
                (ExpectedShare("called different", _split_plot, at_most(0.055)),),
            ),
        ),
    ),
)  # fmt: skip
