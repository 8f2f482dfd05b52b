"""Identical systems of which one loses its slowest trials: how often it is called different, here always faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import at_least, at_most
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import Array, Rng
from infrabench.selfcheck.validation.tables import campaigns_table
from infrabench.stats.contrasts import contrasts
from infrabench.stats.verdicts import DIFFERENT, WITHIN

BLOCKS = 30
MARGIN = 0.02
SYSTEMS = ("native", "other")


def slowest_lost(lost: tuple[int, int], ratio: float = 1.0, sd: float = 0.02) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): rates of baseline and system, `ratio` times it; NaN for their `lost` slowest."""

    def generate(rng: Rng, replicates: int) -> Array:
        values = 100 * np.exp(sd * rng.normal(size=(replicates, 2, BLOCKS))) * np.array([1.0, ratio])[:, None]
        rank = values.argsort(axis=-1).argsort(axis=-1)
        return np.where(rank < np.array(lost)[:, None], np.nan, values)

    return generate


def called_different(values: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its verdict is that the systems differ."""
    return _different(campaigns_table(values, SYSTEMS))


def rest_alone(values: Array) -> NDArray[np.bool_]:
    """Return the same of the trials that ended, as if the lost ones had never been tried."""
    table = campaigns_table(values, SYSTEMS)
    return _different(table[table["state"] == "ok"])


def _different(table: pd.DataFrame) -> NDArray[np.bool_]:
    found = contrasts(table, SYSTEMS[0], {"": MARGIN}).sort_values("scenario")
    return found["verdict"].isin([DIFFERENT, WITHIN]).to_numpy()


def _case(data: str, generate: Callable[[Rng, int], Array], *expectations: ExpectedShare) -> SimulatedCase:
    return SimulatedCase(f"{data}, {BLOCKS} blocks", generate, expectations, fast=100, full=4_000, batch=500)


CHECKS = (
    Check(
        "V26", "trials that time out: systems alike but for their losses",
        (
            *(
                _case(
                    f"the slowest {own} of one and {base} of the other lost", slowest_lost((base, own)),
                    ExpectedShare("called different", called_different, at_most(0.05)),
                )
                for own, base in ((3, 0), (3, 3))
            ),
            _case(
                "the slowest 10 of one lost", slowest_lost((0, 10)),
                ExpectedShare("called different", called_different, at_most(0.05)),
                ExpectedShare("the rest alone, which has to fail here", rest_alone, at_least(0.3)),
            ),
            _case(
                "5 % faster, the slowest 2 lost", slowest_lost((0, 2), 1.05),
                ExpectedShare("called different", called_different, at_least(0.9)),
            ),
        ),
    ),
)  # fmt: skip
