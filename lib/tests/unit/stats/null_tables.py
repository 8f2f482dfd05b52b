"""The simulation behind the table of `split`: ``python -m tests.unit.stats.null_tables`` prints it."""

from __future__ import annotations

import sys

import numpy as np

from infrabench.stats.diagnostics import split

SEED = 1985
CRITICAL_SIZES = (6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 20, 25, 30, 40, 50, 70, 100, 200, 500, 1000)
NUMBERS = 2**22  # held at a time


def split_quantile(n: int, replicates: int, seed: int = SEED, share: float = 0.99) -> float:
    """Return the quantile of the split statistic over normal samples of `n`."""
    rng = np.random.default_rng([seed, n])
    step = max(NUMBERS // n, 1)
    sizes = [min(step, replicates - i) for i in range(0, replicates, step)]
    return float(np.quantile(np.concatenate([split(rng.normal(size=(m, n))).d for m in sizes]), share))


def main() -> None:
    for n in CRITICAL_SIZES:
        sys.stdout.write(f"    {n}: {split_quantile(n, 400_000):.3f},\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
