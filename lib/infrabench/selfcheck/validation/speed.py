"""How fast the analysis is: a large table through every frame function, and the bootstrap beside scipy's.

It runs in a process of its own, started afresh, so that the peak memory is that of the analysis and nothing else.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from infrabench.selfcheck.validation.check import SEED
from infrabench.selfcheck.validation.controls import percentile_interval
from infrabench.selfcheck.validation.generators import METRIC, WORKLOAD, Array, campaigns_table
from infrabench.stats import contrasts, diagnostics, estimates, omnibus

CASES, BLOCKS = 500, 50
SYSTEMS = ("native", "docker", "lxc", "lxd")
CELLS, TRIALS, RESAMPLES = 1_000, 30, 9_999
TARGET_S, TARGET_MB, TARGET_TIMES = 20.0, 1_000.0, 10.0


class AnalysisTiming(NamedTuple):
    """Seconds of each part, and the peak resident memory of a process that did nothing else."""

    trials: int
    seconds: dict[str, float]
    peak_mb: float


class BootstrapTiming(NamedTuple):
    """Seconds of the vectorised bootstrap and of a loop over scipy's, and how far their interval ends are apart."""

    ours_s: float
    scipy_s: float
    apart: float


def report() -> Iterator[str]:
    """Yield the lines of both measurements, with their targets."""
    done = in_fresh_process(analysed)
    yield f"{done.trials} trials: {CASES} cases, {len(SYSTEMS)} systems, {BLOCKS} blocks"
    yield from (f"  {name:12s}{seconds:8.2f} s" for name, seconds in done.seconds.items())
    yield f"  {'in all':12s}{sum(done.seconds.values()):8.2f} s   (target: below {TARGET_S:g} s)"
    yield f"  {'peak memory':12s}{done.peak_mb:8.0f} MB  (target: below {TARGET_MB:g} MB)"
    boot = in_fresh_process(compared)
    yield f"percentile bootstrap of {CELLS} means of {TRIALS} trials, {RESAMPLES} resamples"
    yield f"  {'infrabench':12s}{boot.ours_s:8.2f} s"
    times = boot.scipy_s / boot.ours_s
    yield f"  {'scipy loop':12s}{boot.scipy_s:8.2f} s   ({times:.1f} times as long; target: {TARGET_TIMES:g})"
    yield f"  largest difference of an interval's end: {boot.apart:.1e} of the mean"


def in_fresh_process(function: Callable[[], Any]) -> Any:
    """Return what `function` returns in a process that has loaded nothing before."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function).result()


def analysed(cases: int = CASES, blocks: int = BLOCKS) -> AnalysisTiming:
    """Return what the whole analysis of a simulated table takes; `cases` and `blocks` set its size."""
    table = campaigns_table(simulated(cases, blocks), SYSTEMS)
    primary = ((WORKLOAD, METRIC),)
    parts: dict[str, Callable[[], Any]] = {
        "estimates": lambda: estimates(table, None),
        "contrasts": lambda: contrasts(table, SYSTEMS[0], {"": 0.02}, primary),
        "omnibus": lambda: omnibus(table, primary),
        "diagnostics": lambda: diagnostics(table),
    }
    seconds = {name: _timed(part)[0] for name, part in parts.items()}
    return AnalysisTiming(len(table), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000)


def compared(cells: int = CELLS, trials: int = TRIALS, resamples: int = RESAMPLES) -> BootstrapTiming:
    """Return both ways of the percentile bootstrap: all cells at once, and scipy cell by cell from the same seed."""
    x = np.random.default_rng(SEED).lognormal(0, 0.1, (cells, trials))
    percentile_interval(x[:1], 9)  # what is loaded at the first call is not part of the second
    _scipy(x[:1], 9)
    ours_s, ours = _timed(lambda: percentile_interval(x, resamples))
    scipy_s, theirs = _timed(lambda: _scipy(x, resamples))
    apart = np.abs(np.stack([ours.low, ours.high], axis=-1) - theirs).max(axis=-1) / x.mean(axis=-1)
    return BootstrapTiming(ours_s, scipy_s, float(apart.max()))


def simulated(cases: int, blocks: int) -> Array:
    """Return (cases, systems, blocks): blocks that move all systems, and systems some per cent apart."""
    rng = np.random.default_rng(SEED)
    shared = rng.normal(0, 0.01, (cases, 1, blocks))
    own = rng.normal(0, 0.02, (cases, len(SYSTEMS), blocks))
    effect = np.array([1.0, 0.97, 0.995, 1.03])[:, None]
    return 1_000 * effect * np.exp(shared + own)


def _scipy(x: Array, resamples: int) -> Array:
    how = {"n_resamples": resamples, "method": "percentile", "vectorized": True}
    return np.array(
        [stats.bootstrap((row,), np.mean, rng=np.random.default_rng(SEED), **how).confidence_interval for row in x]
    )


def _timed(part: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = part()
    return time.perf_counter() - begin, result
