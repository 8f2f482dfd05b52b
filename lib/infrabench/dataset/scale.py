"""What many rows cost: tidying, analysis and report, each by its own command in a process of its own.

The data sets are synthetic (`synthetic`) and are gone afterwards. Tidying is measured on copies of a recorded ledger
as well, at two sizes, for that is where raw files are read; for more rows than those it is extrapolated, and said so.
Every command runs on two processors at the most, and its peak is that of its largest process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from infrabench import runs
from infrabench.core import DesignError, InfrabenchError

BOUND_MB = 2_000.0
LIKE = "lab-quick-2026-11"  # the recorded session that all are like
LEDGERS = (2, 20)
CORES = 2
LIMIT_S = 3 * 3600.0
NOTEBOOK = "dataset"
LEDGER = "tidy ledgers"
# A process counts what its parent held when it was started as its own peak, so the parent is one that holds nothing.
METER = """
import os, sys
os.set_inheritable(int(sys.argv[1]), False)
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
os.write(int(sys.argv[1]), f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}".encode())
"""
HEAD = f"{'step':22s}{'rows':>10s}{'seconds':>9s}{'rows/s':>9s}{'peak MB':>9s}  growth"


class Taken(NamedTuple):
    """What a command took: wall seconds, and the peak resident memory of its largest process."""

    seconds: float
    peak_mb: float


def report(sizes: Sequence[int], sites: int) -> Iterator[str]:
    """Yield the table of these sizes, as it is measured; `InfrabenchError` at the end when a peak is above `BOUND_MB`.

    Growth is how many times as long a step took as at the size before, beside how many times as many rows that is.
    """
    if min(sizes) < 1 or not 1 <= sites <= 1000:
        raise DesignError(f"{min(sizes)} rows over {sites} sites: give at least one row, and 1 to 1000 sites")
    session = runs.find(None, LIKE)
    peaks: dict[str, float] = {}
    yield HEAD
    with tempfile.TemporaryDirectory(prefix="infrabench-") as name, _cores(CORES):
        made = Path(name)
        pace, before = 0.0, dict[str, tuple[int, Taken]]()
        for step, rows, taken in _ledgers(session, made):
            yield _line(step, rows, taken, before.get(step))
            before[step] = rows, taken
            pace = taken.seconds / rows if step == LEDGER else pace
            peaks[f"{step} of {rows} rows"] = taken.peak_mb
        for size in sorted(set(sizes)):
            for step, rows, taken in _steps(session, made / str(size), size, sites):
                yield _line(step, rows, taken, before.get(step))
                before[step] = rows, taken
                peaks[f"{step} of {rows} rows"] = taken.peak_mb
            yield f"{LEDGER:22s}{size:10d}{pace * size:9.0f}  extrapolated from the pace above, not measured"
    worst = max(peaks, key=lambda what: peaks[what])
    yield f"largest peak: {worst}, {peaks[worst]:.0f} MB (bound: {BOUND_MB:.0f} MB)"
    if peaks[worst] > BOUND_MB:
        raise InfrabenchError(f"the {worst} held {peaks[worst]:.0f} MB, more than {BOUND_MB:.0f} MB")


def measured(argv: Sequence[str]) -> Taken:
    """Return what a command took; `InfrabenchError` with the end of what it said when it failed."""
    reads, writes = os.pipe()
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as said, open(reads, encoding="ascii") as told:
        meter = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", METER, str(writes), *argv), stdout=said, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, pass_fds=(writes,), start_new_session=True,
        )  # fmt: skip
        os.close(writes)
        try:
            words = told.read().split()
            meter.wait()
        except BaseException:
            os.killpg(meter.pid, signal.SIGKILL)
            meter.wait()
            raise
        seconds = time.perf_counter() - begin
        if len(words) != 2 or words[0] != "0":
            said.seek(0)
            ended = said.read().decode("utf-8", "replace")[-800:]
            raise InfrabenchError(f"{' '.join(argv[:4])} ... exited with {(words or ['no status'])[0]}: {ended}")
    return Taken(seconds, int(words[1]) / 1_000)


def _ledgers(session: Path, made: Path) -> Iterator[tuple[str, int, Taken]]:
    """Yield what it takes to tidy real ledgers, and to find that nothing was added to them."""
    for count in LEDGERS:
        ledgers, root = made / f"ledgers-{count}", made / f"tidied-{count}"
        rows = _synthetic("copies", session, ledgers, count)
        names = [str(path) for path in sorted(ledgers.iterdir())]
        yield LEDGER, rows, measured(_command("tidy", *names, "--out", str(root)))
        yield "tidy, nothing new", rows, measured(_command("tidy", *names, "--out", str(root)))


def _steps(session: Path, made: Path, size: int, sites: int) -> Iterator[tuple[str, int, Taken]]:
    """Yield, for one size, each step with the rows that there were."""
    root, out = made / "dataset", made / "out"
    rows = _synthetic("write", session, root, size, sites)
    yield "survey", rows, measured(_command("survey", str(root), "--out", str(out)))
    page = out / f"{NOTEBOOK}.ipynb"
    source = runs.home() / "notebooks" / f"{NOTEBOOK}.ipynb"
    given = ("-p", "dataset", str(root), "-p", "out", str(out))
    yield "notebook (surveys too)", rows, measured(_command("notebook", str(source), str(page), *given))
    yield "report", rows, measured(_command("report", str(page), "--out", str(out)))


def _synthetic(what: str, session: Path, folder: Path, *numbers: int) -> int:
    """Have something written by `synthetic`, in a process of its own, and return how many rows it has."""
    argv = (sys.executable, "-m", "infrabench.dataset.synthetic", what, str(session), str(folder), *map(str, numbers))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise InfrabenchError(f"{' '.join(argv[2:4])} exited with {done.returncode}: {done.stderr[-800:]}")
    return int(done.stdout)


def _command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "infrabench.cli", *words)


@contextmanager
def _cores(count: int) -> Iterator[None]:
    """Let what is started meanwhile run on so many processors at the most."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _line(step: str, rows: int, taken: Taken, before: tuple[int, Taken] | None = None) -> str:
    growth = ""
    if before is not None:
        growth = f"  {taken.seconds / before[1].seconds:.1f} times the time for {rows / before[0]:.1f} times the rows"
    pace = rows / taken.seconds
    return f"{step:22s}{rows:10d}{taken.seconds:9.1f}{pace:9.0f}{taken.peak_mb:9.0f}{growth}"
