"""The contract of a workload: steps to run, what they captured, and the measurements read from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from infrabench.core.errors import DesignError, ParseError
from infrabench.core.hosts import Result, Target
from infrabench.core.systems import Deployment


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a trial. Only ``measure`` steps are timed as tool work; ``cleanup`` steps always run.

    ``rescue`` steps run before those of ``cleanup``, and only after a step that failed or a host that was lost: they
    keep evidence, and remove what the next trial must not find.

    `until_ok_s`: repeat until exit status 0 or this many seconds have passed (readiness; ``prepare`` only).
    `host`: run on the target's host, outside the target (life-cycle commands).
    """

    name: str
    role: str
    argv: tuple[str, ...]
    timeout_s: float = 60.0
    phase: Literal["prepare", "measure", "rescue", "cleanup"] = "measure"
    stdin: bytes = b""
    until_ok_s: float | None = None
    host: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise DesignError(f"step name {self.name!r}: use lower-case letters, digits, - and _")
        if self.until_ok_s is not None and self.phase != "prepare":
            raise DesignError(f"step {self.name!r}: a measurement is never retried")


@dataclass(frozen=True, slots=True)
class Capture:
    """The immutable raw outcome of a trial: each step's `Result` by step name, and the trial's parameters."""

    steps: Mapping[str, Result]
    params: Mapping[str, Any]

    def __getitem__(self, name: str) -> Result:
        """Return the result of step `name`; `ParseError` when the trial never reached it."""
        if name not in self.steps:
            raise ParseError("capture", f"step {name!r} is missing; there are {sorted(self.steps)}")
        return self.steps[name]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of one trial, in SI base units."""

    metric: str
    value: float
    unit: str
    better: Literal["higher", "lower"]


UNITS = frozenset({"1", "s", "B", "B/s", "bit/s", "1/s", "1/min", "%", "W", "K", "s/B"})

# What a metric is, and by that how its trials are averaged and compared:
# "time": costs and times, by their mean; "fixed-work rate": work over time of the same work in every trial, by the mean
# of the times; "fixed-time rate": what was done in a time that is the same in every trial, by its mean; "count": rare
# events of a trial, whose chances are as many in every trial (requests, files, seconds); "share": the part of a
# trial's chances that came true, in 0 .. 1 or in percent (one or none of a single chance too); "quantity": any other.
Kind = Literal["time", "fixed-work rate", "fixed-time rate", "count", "share", "quantity"]
# A kind; or metric -> kind, where it depends on which of these the trial reports as well.
MetricKind = Kind | Mapping[str, Kind]


class Workload(Protocol):
    """The contract of a module in ``workloads/``. All four are module functions; `DEFAULTS` names every parameter.

    `plan` raises `NotRunnable` for parameters that the system at hand has no place for (a second interface, say): that
    treatment is then left out of every block, with the reason.

    `NEEDS`, which a module may have, says what programs a host needs for it where no image brings them: role of `plan`
    -> program (or file) -> Debian package, nothing where the guest image has it. ``infrabench hosts prepare`` installs
    them.

    `READS`, which a module has whose output is another project's, names the versions of its tool (see `version`) that
    its parser was tested with. What `version` says after a space (a library, a server) makes no other version.

    `METRICS`, which a module should have, says of each metric that it reports what kind it is: metric -> `MetricKind`.
    One that it does not name is a quantity.
    """

    DEFAULTS: Mapping[str, Any]

    def plan(self, params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]: ...

    def version(self, target: Target) -> str: ...

    def supported(self, deployment: Deployment) -> str | None: ...

    def parse(self, capture: Capture) -> Sequence[Measurement]: ...
