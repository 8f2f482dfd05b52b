"""The papers' own numbers, what does not add up in them, and where they stand beside ours."""

from infrabench.analysis.published.comparison import (
    AGREES_DIRECTION,
    AGREES_SIZE,
    DISAGREES,
    NOT_COMPARABLE,
    against,
    agreement,
    plain,
    prediction,
    targets,
    usable,
)
from infrabench.analysis.published.findings import KINDS, OUTCOMES, audit, outcomes, tally
from infrabench.analysis.published.printed_numbers import COLUMNS, CONTAINERS, numbers, papers, published
from infrabench.analysis.published.score import ENGINES, VERSIONS, composite, order, orders

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
    "targets",
    "usable",
]
