"""null: run `true`. What is left is the harness itself: exec path, SSH, and the bookkeeping around them.

Metric: ``wall_s``, the wall time of the one step, seen from the controlling machine (lower is better).
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.core import Capture, Measurements, Params, ParseError, Roles, Step, Steps
from infrabench.workloads._parse import lower, positive

PROGRAMS: Mapping[str, Mapping[str, str]] = {}
VERSION = ("true", "--version"), r"^true \(GNU coreutils\) (\S+)$"
PARAMS = {}
METRICS = {"wall_s": "time"}


def plan(params: Params, roles: Roles) -> Steps:
    """Return one step that does nothing."""
    return (Step("true", "server", ("true",), timeout_s=30.0),)


def parse(capture: Capture) -> Measurements:
    """Return ``wall_s``; `ParseError` when `true` said anything, since then it was not `true`."""
    result = capture["true"]
    if result.stdout or result.stderr:
        raise ParseError("true", "expected no output", result.stdout or result.stderr)
    return lower("s", wall_s=positive("true", "wall time", result.duration_s))
