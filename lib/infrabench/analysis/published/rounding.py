"""What the printed digits leave open: interval arithmetic on rounded numbers.

A printed 0.74 stands for anything from 0.735 to 0.745. Run-to-run spread, which no paper prints, comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class RoundingSpan:
    """All values between `low` and `high`. Sums, differences, products, quotients and powers are outer bounds.

    They are exact where every number enters once; products, quotients and powers are for positive spans.
    """

    low: float
    high: float

    def __add__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low + other.low, self.high + other.high)

    def __sub__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low - other.high, self.high - other.low)

    def __mul__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low / other.high, self.high / other.low)

    def __pow__(self, exponent: float) -> RoundingSpan:
        return RoundingSpan(self.low**exponent, self.high**exponent)

    def __radd__(self, other: float) -> RoundingSpan:
        return self + other

    def __rsub__(self, other: float) -> RoundingSpan:
        return _span(other) - self

    def __rmul__(self, other: float) -> RoundingSpan:
        return self * other

    def __rtruediv__(self, other: float) -> RoundingSpan:
        return _span(other) / self

    @property
    def sign(self) -> int:
        """1 or -1 where every value has that sign, else 0."""
        return int(self.low > 0) - int(self.high < 0)


Value = TypeVar("Value", float, RoundingSpan)


def printed_span(printed: str) -> RoundingSpan:
    """Return the values that round to a printed decimal, half a unit of its last digit to each side.

    Examples
    --------
    >>> printed_span("77")
    RoundingSpan(low=76.5, high=77.5)
    """
    value = float(printed)
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return RoundingSpan(value - half, value + half)


def _span(value: RoundingSpan | float) -> RoundingSpan:
    return value if isinstance(value, RoundingSpan) else RoundingSpan(value, value)
