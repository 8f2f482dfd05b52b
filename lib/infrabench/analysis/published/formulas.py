"""Sentences and formulas of published numbers, which are data: what stands in braces is looked up, and computed with.

``{A.ram.percent.lxd.000}`` is a number (in a sentence as printed), ``{unit.A.ram.percent.lxd.000}`` its printed unit,
``{fact.cpu_threads}`` one that is not the papers'. In a sentence ``{=lead:.1f}`` is a computed number.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import string
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from infrabench.analysis.published.printed_numbers import Numbers
from infrabench.core import SchemaError

FIELD = re.compile(r"\{([^}:]+):?([^}]*)\}")  # a name, and how it is written
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.Eq: operator.eq, ast.Gt: operator.gt,
}  # fmt: skip
OF_SPAN = ("low", "high", "sign")


def detectable_effect(runs: int, power: float, level: float) -> float:
    """Return the difference of two means, in standard deviations, found by a t-test of `runs` each, less than 2.

    Noncentral t distribution, both tails (Cohen 1988, chapter 2).
    """
    critical = stats.t.ppf(1 - level / 2, 2 * runs - 2)

    def lack(effect: float) -> float:
        shift = effect * np.sqrt(runs / 2)
        return stats.nct.sf(critical, 2 * runs - 2, shift) + stats.nct.cdf(-critical, 2 * runs - 2, shift) - power

    return float(brentq(lack, 0, 2))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "floor": math.floor, "max": max, "min": min, "round": round, "length": len,
    "mean": lambda *values: np.mean(values), "sd": lambda *values: np.std(values, ddof=1),
    "count": lambda *values: len(values), "t": stats.t.ppf, "detectable_effect": detectable_effect,
    "common_end": lambda *texts: sum(takewhile(bool, (x == y for x, y in zip(*map(reversed, texts), strict=False)))),
    "not_hexadecimal": lambda text: ", ".join(sorted(set(text) - set(string.hexdigits.lower()))),
}  # fmt: skip


def filled(template: str, known: Numbers, computed: Mapping[str, Any] | None = None) -> str:
    """Return a sentence with its numbers filled in; `SchemaError` for a name that nothing has."""

    def text(found: re.Match[str]) -> str:
        name, form = found.groups()
        value = entry(computed or {}, name[1:]) if name[0] == "=" else look_up(name, known, known.printed)
        return format(value, form)

    return FIELD.sub(text, template)


def look_up(name: str, known: Numbers, plain: Callable[[str], Any]) -> Any:
    """Return what a name in braces stands for; `plain` reads one that is no more than an id."""
    kind, _, rest = name.partition(".")
    if kind == "fact":
        return entry(known.facts, rest)
    if kind == "unit":
        return known.row(rest).unit
    return getattr(known, kind)(rest) if kind in ("printed", "span") else plain(name)


def entry(values: Mapping[str, Any], name: str) -> Any:
    """Return a value by its name; `SchemaError` with the names that there are."""
    if name not in values:
        raise SchemaError(f"nothing is called {name!r}: there is {', '.join(values) or 'nothing'}")
    return values[name]


def evaluate(formula: str, read: Callable[[str], Any], computed: Mapping[str, Any]) -> Any:
    """Return the value of a formula: arithmetic on what `read` makes of names in braces, and on what was computed.

    Raises `SchemaError` for anything else in it.

    Examples
    --------
    >>> evaluate("100 * part / max(2, {four})", {"four": 4}.get, {"part": 1.0})
    25.0
    """
    names = dict(computed)

    def name_of(found: re.Match[str]) -> str:
        name = f"printed_{len(names)}"
        names[name] = read(found[1])
        return name

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Attribute(value=span, attr=name) if name in OF_SPAN:
                return getattr(value(span), name)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return value(body) if value(test) else value(otherwise)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, arguments))
        raise SchemaError(f"formula {formula!r}: {ast.unparse(node)} is no arithmetic, and nothing has that name")

    return value(ast.parse(FIELD.sub(name_of, formula), mode="eval").body)
