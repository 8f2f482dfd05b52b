"""The papers' own numbers, what does not add up in them, and where they stand beside ours."""

from infrabench.analysis.published.compare import (
    AGREES_DIRECTION,
    AGREES_SIZE,
    DISAGREES,
    NOT_COMPARABLE,
    against,
    agreement,
    plain,
    prediction,
)
from infrabench.analysis.published.data import COLUMNS, CONTAINERS, numbers, papers, published
from infrabench.analysis.published.findings import KINDS, OUTCOMES, audit, outcomes, tally
from infrabench.analysis.published.score import ENGINES, VERSIONS, composite, order, orders
from infrabench.analysis.published.targets_list import TARGETS, usable

__all__ = [
    "AGREES_DIRECTION",
    "AGREES_SIZE",
    "COLUMNS",
    "CONTAINERS",
    "DISAGREES",
    "ENGINES",
    "KINDS",
    "NOT_COMPARABLE",
    "OUTCOMES",
    "TARGETS",
    "VERSIONS",
    "against",
    "agreement",
    "audit",
    "composite",
    "numbers",
    "order",
    "orders",
    "outcomes",
    "papers",
    "plain",
    "prediction",
    "published",
    "tally",
    "usable",
]
