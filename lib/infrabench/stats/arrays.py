"""What an array function is given, as an array of finite numbers, or a sentence that says what is wrong with it.

A value that is missing is nobody's number: NaN in one trial would make a mean NaN here and drop a value there, and 12
values against 1 would be 12 pairs with the same partner. Neither is guessed at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def sample(values: ArrayLike, name: str = "the sample") -> Array:
    """Return `values` as an array of floats, shape (..., n), trials on the last axis; lists will do.

    Raises `ValueError` for a single number and, with its place, for a value that is NaN or infinite.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim == 0:
        raise ValueError(f"{name} is the single number {x}: give its trials as a list, or as the last axis of an array")
    if not np.isfinite(x).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        where = ", ".join(map(str, place))
        raise ValueError(f"{name} has {x[place]} at [{where}]: leave out what has no value, of pairs both")
    return x


def paired(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Return two samples of one shape (..., n), in which element i of both is one block.

    Raises `ValueError` as `sample`, and when the shapes differ: nothing is broadcast.
    """
    first, second = sample(x, "x"), sample(y, "y")
    if first.shape != second.shape:
        raise ValueError(f"x has the shape {first.shape} and y {second.shape}: pairs need one partner for every value")
    return first, second


def sites(estimate: ArrayLike, error: ArrayLike, df: ArrayLike) -> tuple[Array, Array, Array]:
    """Return what k sites say, each (..., k): estimates, standard errors, and the degrees of freedom of these.

    `error`: also (k,), where sites have the same in all cells; `df`: also that, or one number. Raises `ValueError` as
    `sample`, for an error or degrees of freedom that are not positive, and for those of other sites.
    """
    y, e, free = sample(estimate, "the estimates"), sample(error, "the errors"), np.asarray(df, dtype=float)
    if e.shape not in (y.shape, y.shape[-1:]) or free.shape not in (y.shape, y.shape[-1:], ()):
        raise ValueError(f"{y.shape} estimates have {e.shape} errors with {free.shape} df: give one to each site")
    if not (e > 0).all() or not (free > 0).all():
        raise ValueError("a standard error or its degrees of freedom is not above 0: leave out a site without spread")
    return y, np.broadcast_to(e, y.shape), np.broadcast_to(free, y.shape)
