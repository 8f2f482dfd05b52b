"""The tables of the recorded sessions: made again, and compared with those that an archive brought, byte by byte."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from infrabench.analysis import results, session_data
from infrabench.core import InfrabenchError, LedgerError
from infrabench.ledger import catalogue
from infrabench.notebook import api

log = logging.getLogger(__name__)

RESULTS = "results"  # below the root of an archive: SESSION/tables/STUDY/KIND.{md,csv,tex}
KINDS = ("estimates", "contrasts", "results", "omnibus", "interactions", "trends", "tiers", "diagnostics", "published")


def make_tables(destination: Path) -> Iterator[tuple[str, int]]:
    """Write every table of every recorded session below `destination`, and yield each session and its files' number."""
    for name, path in sorted(catalogue.recorded().items()):
        session = session_data.open_session(catalogue.find(None, str(path)))
        found = api.results(session, str(destination.resolve() / name))
        for kind in KINDS:
            results.table(found, kind)
        count = len(_files(destination / name))
        log.info("%s: %d tables made", name, count)
        yield name, count


def compare_tables(recorded: Path, again: Path) -> Iterator[str]:
    """Yield a sentence for each session whose tables in `again` are those in `recorded` to the last byte.

    Raises `LedgerError` when there is nothing to compare with, and `InfrabenchError` at the end when a file differs,
    with its first line that does.
    """
    names = sorted(path.name for path in recorded.glob("[!.]*") if (path / "tables").is_dir())
    if not names:
        raise LedgerError(f"there are no tables in {recorded}: `infrabench artifact pack` puts some into results/")
    wrong = []
    for name in names:
        then, now = _files(recorded / name), _files(again / name)
        bad = [f"{key}: {told}" for key in sorted({*then, *now}) if (told := _difference(then.get(key), now.get(key)))]
        wrong += [f"{name}: {told}" for told in bad]
        rows = sum(data.count(b"\n") - 1 for key, data in then.items() if key.endswith(".csv"))
        state = f"{len(bad)} of {len(then)} files DIFFER" if bad else f"{len(then)} files, every byte the same"
        yield f"{name}: {state} ({rows} rows of CSV)"
    absent = sorted({path.name for path in again.glob("[!.]*")} - {*names})
    wrong += [f"{name}: has no recorded tables" for name in absent]
    if wrong:
        raise InfrabenchError("the recorded tables do not come out:\n" + "\n".join(wrong))


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if "tables" in path.parts}


def _difference(then: bytes | None, now: bytes | None) -> str:
    """Return what differs between two files, nothing if nothing does."""
    if then is None or now is None:
        return "is only there now" if then is None else "is not made any more"
    if then == now:
        return ""
    lines = zip(then.decode().splitlines(), now.decode().splitlines(), strict=False)
    number, (old, new) = next(((i, pair) for i, pair in enumerate(lines, 1) if pair[0] != pair[1]), (0, ("", "")))
    return f"line {number}: recorded {old[:200]!r}, now {new[:200]!r}" if number else "more or fewer lines"
