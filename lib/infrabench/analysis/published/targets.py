"""What a published number that can be compared with a measurement is a ratio of, and how far it can be trusted.

Only numbers that agree with the rest of their paper have the grade *good* or *fair*; a number that its paper
contradicts is *poor*, and one whose definition is missing as well *unusable*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from infrabench.analysis.published.data import Numbers
from infrabench.analysis.published.rounding import RoundingSpan, Value
from infrabench.analysis.published.template import filled

Grade = Literal["good", "fair", "poor", "unusable"]
Use = Literal["size", "direction"]
USE: Mapping[str, Use] = {"good": "size", "fair": "size", "poor": "direction", "unusable": "direction"}
SYSTEMS = ("docker", "lxc", "lxd")
# how printed numbers become a ratio to the baseline; the printed formula |Pm - Pb| / Pb lost the sign, words keep it
CHANGES: Mapping[str, Callable[..., Value]] = {
    "increase": lambda v: 1 + v / 100,
    "decrease": lambda v: 1 - v / 100,
    "share": lambda v: v / 100,
    "rate from time increase": lambda v: 1 / (1 + v / 100),
    "ratio": lambda system, baseline: system / baseline,
}


@dataclass(frozen=True, slots=True)
class ReproductionTarget:
    """One published metric and the metric of ours that stands for it.

    `printed`: ids by system, ``{}`` stands for the system. One id is the number; two are the ends of a range over
    levels, or system and baseline where `change` is ``ratio``. `grade` and `notes` are by system, "" for all others.
    Without `workload`, no study measures it yet. Notes are templates (see `infrabench.analysis.published.template`).
    """

    key: str
    change: str
    printed: tuple[str, ...]
    systems: tuple[str, ...] = SYSTEMS
    baseline: str = "native"
    workload: str = ""
    metric: str = ""
    scenario: str | tuple[str, ...] = ""  # beginning of our scenario's label, or several
    comparable: bool = True  # False: stands beside ours and is never compared; the note says why
    grade: Mapping[str, Grade] = field(default_factory=lambda: {"": "fair"})
    notes: Mapping[str, str] = field(default_factory=dict)

    def ids(self, system: str) -> tuple[str, ...]:
        """Return the ids of the numbers of a system."""
        return tuple(each.format(system) for each in self.printed)

    def ratios(self, system: str, known: Numbers) -> tuple[float, float]:
        """Return the lowest and the highest published ratio of a system to the baseline; equal without a range."""
        ends = self._ratios([known(each) for each in self.ids(system)])
        return min(ends), max(ends)

    def rounded(self, system: str, known: Numbers) -> RoundingSpan:
        """Return what the printed digits leave open of that ratio."""
        spans = self._ratios([known.span(each) for each in self.ids(system)])
        return RoundingSpan(min(each.low for each in spans), max(each.high for each in spans))

    def graded(self, system: str) -> Grade:
        """Return the grade of a system's number."""
        return self.grade.get(system, self.grade.get("", "fair"))

    def note(self, system: str, known: Numbers) -> str:
        """Return what there is to say on a system's number."""
        return filled(self.notes.get(system, self.notes.get("", "")), known)

    def _ratios(self, values: list[Value]) -> list[Value]:
        change = CHANGES[self.change]
        return [change(*values)] if self.change == "ratio" else [change(value) for value in values]
