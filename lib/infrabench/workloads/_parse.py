"""What every workload needs to read a tool's output strictly: exactly one match, no default, nothing guessed.

One rule holds for all: what an output says of its own parameters is compared with what was asked for (`Field`,
`equal`), and what it says twice, as a rate and as an amount over a time, has to agree (`within`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from infrabench.core import Capture, DesignError, Measurement, Measurements, Params, ParseError, Result, plain

KIB, MIB, GIB = 2**10, 2**20, 2**30
LARGEST = 1e30  # no quantity in the units of any tool is larger, and products of some such numbers stay finite
DEEPEST = 100  # levels of JSON
LARGEST_REPORT = 16 * 2**20  # characters of JSON: parsed, they take up to 25 times as much memory
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


@dataclass(frozen=True, slots=True)
class Field:
    """A number that a text says exactly once, as the first group of `pattern`, in which NUM stands for any number.

    `equals`: what it has to be, a number or the name of the parameter that was asked for.
    """

    pattern: str
    equals: str | float | None = None


def text(result: Result) -> str:
    """Return a command's standard output as text; `ParseError` when only some of its lines are of a terminal."""
    return plain(result.stdout)


def whole(tool: str, capture: Capture, step: str) -> str:
    """Return a step's output; `ParseError` when it failed: a step of cleanup does not end a trial."""
    result = capture[step]
    if not result.ok:
        raise ParseError(tool, f"step {step} ended with {result.status}", result.stderr or result.stdout)
    return text(result)


def one(tool: str, what: str, pattern: str, output: str) -> re.Match[str]:
    """Return the only match of `pattern` (``^`` and ``$`` mean lines) in `output`; `ParseError` for none or several.

    >>> one("ab", "complete requests", r"^Complete requests: +([0-9]+)$", "Complete requests:   10\\n")[1]
    '10'
    """
    found = list(re.finditer(pattern, output, re.MULTILINE))
    if len(found) != 1:
        raise ParseError(tool, f"expected {what} once, found it {len(found)} times", output)
    return found[0]


def number(tool: str, what: str, pattern: str, output: str) -> float:
    """Return the number in the first group of the only match of `pattern`; `ParseError` when it is none."""
    return quantity(tool, what, one(tool, what, pattern, output)[1])


def read_fields(tool: str, fields: Mapping[str, Field], output: str, params: Params) -> dict[str, float]:
    """Return the numbers of all `fields` of `output`; `ParseError` for one that is not there once, or not as asked for.

    >>> fields = {"prime limit": Field(r"^Prime numbers limit: NUM$", equals="cpu_max_prime")}
    >>> read_fields("sysbench", fields, "Prime numbers limit: 9\\n", {"cpu_max_prime": 9})
    {'prime limit': 9.0}
    """
    found = {}
    for what, field in fields.items():
        found[what] = number(tool, what, field.pattern.replace("NUM", NUMBER), output)
        if field.equals is not None:
            expected = params[field.equals] if isinstance(field.equals, str) else field.equals
            equal(tool, what, found[what], float(expected))
    return found


def quantity(tool: str, what: str, found: str) -> float:
    """Return the number that `found` is; `ParseError` when it is none, or larger than anything that is measured."""
    try:
        value = float(found)
    except ValueError as error:
        raise ParseError(tool, f"{what} is no number", found) from error
    if not abs(value) < LARGEST:
        raise ParseError(tool, f"{what} is not finite", found)
    return value


def json_object(tool: str, output: str) -> Mapping[str, Any]:
    """Return the JSON object that `output` is; `ParseError` when it is half of one or something else.

    A key that is there twice with two values has none, and what is nested without end, or so large that it would take
    gigabytes of memory, is no report.
    """
    if len(output) > LARGEST_REPORT:
        raise ParseError(tool, f"JSON of {len(output)} characters, more than a report has", output)
    depths = accumulate(1 if bracket[0] in "[{" else -1 for bracket in re.finditer(r"[\[\]{}]", output))
    if any(depth > DEEPEST for depth in depths):
        raise ParseError(tool, f"JSON of more than {DEEPEST} levels", output)
    try:
        data = json.loads(output, object_pairs_hook=_each_once)
    except ValueError as error:
        raise ParseError(tool, f"no JSON ({error})", output) from error
    if not isinstance(data, dict):
        raise ParseError(tool, "expected a JSON object", output)
    return data


def at(tool: str, data: Any, *path: str | int) -> Any:
    """Return what lies at `path` in parsed JSON; `ParseError` names the first part that is missing."""
    for depth, key in enumerate(path):
        in_list = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if not in_list and not (isinstance(data, dict) and key in data):
            raise ParseError(tool, f"{'.'.join(map(str, path[: depth + 1]))} is missing", str(data))
        data = data[key]
    return data


def value(tool: str, data: Any, *path: str | int) -> float:
    """Return the finite number at `path` in parsed JSON; `ParseError` for anything else."""
    found = at(tool, data, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < LARGEST:
        raise ParseError(tool, f"{'.'.join(map(str, path))} is no finite number", str(found))
    return float(found)


def items(tool: str, data: Any, *path: str | int) -> list[Any]:
    """Return the list at `path` in parsed JSON; `ParseError` for anything else."""
    found = at(tool, data, *path)
    if not isinstance(found, list):
        raise ParseError(tool, f"{'.'.join(map(str, path))} is no list", str(found))
    return found


def positive(tool: str, what: str, quantity: float) -> float:
    """Return `quantity`; `ParseError` when it is not above 0, since it is a time or an amount that was measured."""
    if not quantity > 0:
        raise ParseError(tool, f"{what} must be above 0", str(quantity))
    return quantity


def equal(tool: str, what: str, found: object, expected: object) -> None:
    """Raise `ParseError` unless the output says what was asked for: the run's own check of itself."""
    if found != expected:
        raise ParseError(tool, f"{what} must be {expected}", str(found))


def in_order(tool: str, what: str, quantities: Iterable[float], output: str) -> None:
    """Raise `ParseError` when one of `quantities` is below the one before it."""
    values = list(quantities)
    if values != sorted(values):
        raise ParseError(tool, f"{what} are not in order", output)


def within(tool: str, what: str, found: float, lowest: float, highest: float) -> float:
    """Return `found`; `ParseError` when it is not from `lowest` to `highest`: the output contradicts itself."""
    if not lowest <= found <= highest:
        raise ParseError(tool, f"{what} must be from {lowest:g} to {highest:g}", f"{found:g}")
    return found


def check_rate(
    tool: str, what: str, count: float, total_s: float, rate: float, half_step: float, slack_s: float, output: str
) -> None:
    """Raise `ParseError` unless `count` in `total_s`, known to within `slack_s`, are `rate` per second as printed.

    `half_step`: half of the step to which the rate is rounded.
    """
    if abs(count / rate - total_s) > slack_s + count * half_step / rate**2:
        raise ParseError(tool, f"{count:g} {what} in {total_s:g} s are not {rate:g} per second", output)


def higher(unit: str, **values: float) -> Measurements:
    """Return a measurement in `unit` of each named value; more is better.

    >>> higher("1/s", requests_per_s=941.0)
    (Measurement(metric='requests_per_s', value=941.0, unit='1/s', better='higher'),)
    """
    return tuple(Measurement(name, found, unit, "higher") for name, found in values.items())


def lower(unit: str, **values: float) -> Measurements:
    """Return a measurement in `unit` of each named value; less is better."""
    return tuple(Measurement(name, found, unit, "lower") for name, found in values.items())


def at_least(name: str, quantity: float, lowest: float) -> None:
    """Raise `DesignError` when a parameter is below what another one makes the tool take."""
    if quantity < lowest:
        raise DesignError(f"{name} must be at least {lowest:g}, not {quantity}")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # iperf3 says some things twice
        for key, said in pairs:
            if said != found[key]:
                raise ValueError(f"{key!r} is there twice and differs")
    return found
