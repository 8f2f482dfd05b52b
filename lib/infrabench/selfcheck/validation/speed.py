"""How fast the analysis is: a large table through every frame function.

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

from infrabench.selfcheck.validation.check import SEED
from infrabench.selfcheck.validation.generators import METRIC, WORKLOAD, Array, campaigns_table
from infrabench.stats import contrasts, diagnostics, estimates, omnibus

CASES, BLOCKS = 500, 50
SYSTEMS = ("native", "docker", "lxc", "lxd")
TARGET_S, TARGET_MB = 20.0, 1_000.0


class AnalysisTiming(NamedTuple):
    """Seconds of each part, and the peak resident memory of a process that did nothing else."""

    trials: int
    seconds: dict[str, float]
    peak_mb: float


def report() -> Iterator[str]:
    """Yield the lines of the measurement, with its targets."""
    done = in_fresh_process(analysed)
    yield f"{done.trials} trials: {CASES} cases, {len(SYSTEMS)} systems, {BLOCKS} blocks"
    yield from (f"  {name:12s}{seconds:8.2f} s" for name, seconds in done.seconds.items())
    yield f"  {'in all':12s}{sum(done.seconds.values()):8.2f} s   (target: below {TARGET_S:g} s)"
    yield f"  {'peak memory':12s}{done.peak_mb:8.0f} MB  (target: below {TARGET_MB:g} MB)"


def in_fresh_process(function: Callable[[], AnalysisTiming]) -> AnalysisTiming:
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
    seconds = {}
    for name, part in parts.items():
        begin = time.perf_counter()
        part()
        seconds[name] = time.perf_counter() - begin
    return AnalysisTiming(len(table), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000)


def simulated(cases: int, blocks: int) -> Array:
    """Return (cases, systems, blocks): blocks that move all systems, and systems some per cent apart."""
    rng = np.random.default_rng(SEED)
    shared = rng.normal(0, 0.01, (cases, 1, blocks))
    own = rng.normal(0, 0.02, (cases, len(SYSTEMS), blocks))
    effect = np.array([1.0, 0.97, 0.995, 1.03])[:, None]
    return 1_000 * effect * np.exp(shared + own)
