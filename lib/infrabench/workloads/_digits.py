"""Digits of pi, computed here: what a program's digits are compared with."""

from __future__ import annotations

import functools
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context, Decimal

GUARD = 20  # digits that are computed and not told: far more than the rounding of all operations takes
DIGITS_PER_TERM = 14.18  # of the series
A, B, C3_OVER_24 = 13591409, 545140134, 640320**3 // 24
LEAF = 64  # terms that are summed up as integers; larger numbers multiply faster as decimals


@functools.lru_cache(maxsize=4)
def decimals(count: int) -> str:
    """Return the first `count` digits of pi after the point, cut off and not rounded.

    The series of D. V. and G. V. Chudnovsky (1988) by binary splitting, as in H. Haible and T. Papanikolaou, *Fast
    multiprecision evaluation of series of rational numbers* (1998). A million takes some seconds, and is kept.

    >>> decimals(10)
    '1415926535'
    """
    context = Context(prec=count + GUARD, rounding=ROUND_DOWN, Emax=MAX_EMAX, Emin=MIN_EMIN)
    _, q, t = _split(context, 0, int(count / DIGITS_PER_TERM) + 2)
    pi = context.divide(context.multiply(context.multiply(Decimal(426880), _root(context, 10005)), q), t)
    return str(pi)[2 : 2 + count]


def _root(context: Context, number: int) -> Decimal:
    """Return the square root by Newton's method on its inverse: the precision doubles, and nothing is divided."""
    inverse, digits = Context(prec=28).power(Decimal(number), Decimal("-0.5")), 25
    while digits < context.prec:
        digits = min(2 * digits - 2, context.prec)
        now = Context(prec=digits + 4, Emax=MAX_EMAX, Emin=MIN_EMIN)
        missing = now.subtract(Decimal(1), now.multiply(now.multiply(inverse, inverse), Decimal(number)))
        inverse = now.add(inverse, now.multiply(now.multiply(inverse, missing), Decimal("0.5")))
    return context.multiply(inverse, Decimal(number))


def _split(context: Context, first: int, last: int) -> tuple[Decimal, Decimal, Decimal]:
    """Return P, Q and T of the terms from `first` up to but not with `last`."""
    if last - first <= LEAF:
        p, q, t = _sum(first, last)
        return context.create_decimal(p), context.create_decimal(q), context.create_decimal(t)
    middle = (first + last) // 2
    left_p, left_q, left_t = _split(context, first, middle)
    right_p, right_q, right_t = _split(context, middle, last)
    t = context.add(context.multiply(right_q, left_t), context.multiply(left_p, right_t))
    return context.multiply(left_p, right_p), context.multiply(left_q, right_q), t


def _sum(first: int, last: int) -> tuple[int, int, int]:
    p, q, t = 1, 1, 0
    for k in range(first, last):
        step = (6 * k - 5) * (2 * k - 1) * (6 * k - 1) if k else 1
        scale = k**3 * C3_OVER_24 if k else 1
        p, q = p * step, q * scale
        t = t * scale + (-1) ** k * p * (A + B * k)
    return p, q, t
