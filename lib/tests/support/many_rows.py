"""What many rows cost: tidying, analysis and report, each by its own command in a process of its own.

The data sets are synthetic and are gone afterwards: a recorded session is the pattern, its trials, cases, states and
provenance under new names. The values are drawn anew around its own from a seed: sites, sessions and blocks move all
systems, each site moves each system a little, and every trial has its noise. They measure what many cost, and are never
shown as results. Tidying is measured on copies of a recorded ledger, for that is where raw files are read, brought
together batch by batch as the sessions of a campaign are. Every command runs on two processors at the most, and its
peak is that of its largest process.

Run from ``lib`` as ``../.venv/bin/python -m tests.support.many_rows 100000 1000000``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from infrabench.analysis import session_data
from infrabench.analysis.dataset import folder as folders
from infrabench.analysis.dataset import part
from infrabench.core import DesignError, InfrabenchError
from infrabench.ledger import catalogue
from infrabench.ledger.files import read_file
from infrabench.ledger.records import SESSION

BOUND_MB = 2_000.0
LIKE = "lab-quick-2026-11-rounds"  # the recorded session that all are like
BATCH = 20  # ledgers that one command brings in
CORES = 2
# A process counts what its parent held when it was started as its own peak, so the parent is one that holds nothing.
METER = """
import os, sys
os.set_inheritable(int(sys.argv[1]), False)
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
os.write(int(sys.argv[1]), f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}".encode())
"""
SEED = 20200315
SITES = 10
# standard deviations of logarithms: between sites, of a system at a site, between sessions, blocks, trials
SPREAD = {"site": 0.2, "system": 0.02, "session": 0.02, "block": 0.01, "trial": 0.01}
NAME = "synthetic"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The session that all are like, and the files that every part of them has."""

    session: session_data.Session
    files: dict[str, bytes]


def pattern(session: Path) -> Pattern:
    """Return a session as a pattern."""
    opened = session_data.open_session(session)
    return Pattern(opened, {SESSION: read_file(session, SESSION), **part.provenance_of(session)})


def write(root: Path, like: Pattern, rows: int, sites: int = SITES) -> int:
    """Write a data set of at least so many rows, spread over so many sites; return how many rows it has."""
    folders.begin(root)
    count = -(-rows // len(like.session.table))
    for number in range(count):
        table = drawn(like, number, sites)
        place = tuple(table.iloc[0][list(part.PLACE)])
        part.store(root.joinpath(*place), place, NAME, table, like.session.missing, like.files)
    return count * len(like.session.table)


def drawn(like: Pattern, number: int, sites: int) -> pd.DataFrame:
    """Return the tidy table of the synthetic session of that number."""
    table = like.session.table
    site, rng = number % sites, np.random.default_rng([SEED, number])
    of_site = np.random.default_rng([SEED, site, sites])
    system, names = pd.factorize(table["system"], sort=True)
    block, blocks = pd.factorize(table["block"])
    shift = of_site.normal(0, SPREAD["site"]) + of_site.normal(0, SPREAD["system"], len(names))[system]
    shift = shift + rng.normal(0, SPREAD["session"]) + rng.normal(0, SPREAD["block"], len(blocks))[block]
    shift = shift + rng.normal(0, SPREAD["trial"], len(table))
    named = {"session": f"{NAME}-{number:05d}", "site": f"{NAME}-{site:03d}"}
    return table.assign(**named, value=table["value"] * np.exp(shift))


class Taken(NamedTuple):
    """What a command took: wall seconds, and the peak resident memory of its largest process."""

    seconds: float
    peak_mb: float


def report(sizes: Sequence[int], sites: int) -> Iterator[str]:
    """Yield the table of these sizes, as it is measured; `InfrabenchError` at the end for a peak above `BOUND_MB`."""
    if min(sizes) < 1 or not 1 <= sites <= 1000:
        raise DesignError(f"{min(sizes)} rows over {sites} sites: give at least one row, and 1 to 1000 sites")
    session, out = catalogue.find(None, LIKE), catalogue.home() / "out"
    out.mkdir(exist_ok=True)
    peaks: dict[str, float] = {}
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:CORES])
    yield f"{'step':22s}{'rows':>10s}{'seconds':>9s}{'rows/s':>9s}{'peak MB':>9s}"
    try:  # where the session is: its copies are links
        with tempfile.TemporaryDirectory(prefix=".rows-", dir=out) as name:
            for size in sorted(set(sizes)):
                made = Path(name) / str(size)
                both = chain(_tidied(session, made, size, sites), _steps(session, made, size, sites))
                for step, rows, taken in both:
                    yield f"{step:22s}{rows:10d}{taken.seconds:9.1f}{rows / taken.seconds:9.0f}{taken.peak_mb:9.0f}"
                    peaks[f"{step} of {rows} rows"] = taken.peak_mb
                shutil.rmtree(made)
    finally:
        os.sched_setaffinity(0, every)
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


def _tidied(session: Path, made: Path, size: int, sites: int) -> Iterator[tuple[str, int, Taken]]:
    """Yield what it takes to bring so many rows of ledgers together, and to find that nothing was added to the last.

    Real ones of so many rows would take many times the space of their table: those of a batch are the ones of the batch
    before, under new names, file by file linked to the session's own.
    """
    ledgers, length = made / "ledgers", len(session_data.open_session(session).table)
    at_hand, done, all_taken = [ledgers / str(number) for number in range(BATCH)], 0, list[Taken]()
    for copy in at_hand:
        shutil.copytree(session, copy, copy_function=os.link)
    while done * length < size:
        wanted = min(BATCH, -(-size // length) - done)
        names = [path.rename(ledgers / f"{NAME}-{done + number:05d}") for number, path in enumerate(at_hand[:wanted])]
        at_hand[:wanted] = names
        site = f"{NAME}-{done // BATCH % sites:03d}"
        command = _command("dataset", "build", *map(str, names), "--out", str(made / "tidied"), "--site", site)
        all_taken.append(measured(command))
        done += wanted
    whole = Taken(sum(each.seconds for each in all_taken), max(each.peak_mb for each in all_taken))
    yield "build from ledgers", done * length, whole
    yield "build, nothing new", len(names) * length, measured(command)


def _steps(session: Path, made: Path, size: int, sites: int) -> Iterator[tuple[str, int, Taken]]:
    """Yield, for one size, each step with the rows that there were."""
    root, out = made / "dataset", made / "out"
    rows = write(root, pattern(session), size, sites)
    yield "analyze", rows, measured(_command("dataset", "analyze", str(root), "--out", str(out)))
    page, source = out / "dataset.ipynb", catalogue.home() / "notebooks/dataset.ipynb"
    given = ("-p", "dataset", str(root), "-p", "out", str(out))
    yield "notebook and analysis", rows, measured(_command("notebook", "run", str(source), str(page), *given))
    yield "report", rows, measured(_command("report", str(page), "--out", str(out)))


def _command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "infrabench.cli", *words)


if __name__ == "__main__":
    for told in report(list(map(int, sys.argv[1:])), SITES):
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()
