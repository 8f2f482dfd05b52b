"""What the commands of artifact evaluation do: claims, the archive, and the tables made again."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench import runs
from infrabench.core import InfrabenchError, NotRunnable, SiteError

MB = 1e6


def claims(arguments: Namespace) -> Iterator[str]:
    """Check claims and yield them; `InfrabenchError` at the end when one has failed. All columns go to a table."""
    from infrabench import claims as stated  # pandas and scipy are loaded for this command alone
    from infrabench import tables

    if arguments.record:
        yield from (str(stated.record(name)) for name in arguments.record)
        return
    levels = [arguments.level] if arguments.level else list(stated.LEVELS)
    if arguments.measure:
        yield from _measured(arguments.sources, arguments.measure, arguments.site)
    kept: list[stated.Claim] = []

    def keeping() -> Iterator[stated.Claim]:
        for each in stated.collected(arguments.sources, levels, arguments.sessions):
            kept.append(each)
            yield each

    yield from stated.lines(keeping(), every=arguments.all)
    caption = "Every claim, the command that checks it, and what came of it on this machine."
    yield str(tables.save(stated.table(kept), runs.home() / arguments.out, "claims", caption)[0])
    failed = sum(each.judged.outcome == stated.FAIL for each in kept)
    if failed:
        raise InfrabenchError(f"{failed} of {len(kept)} claims fail")


def _measured(sources: list[str], profile: str, site: str) -> Iterator[str]:
    """Measure here what the recorded sessions measured; one that cannot run here says why, and the others go on."""
    from infrabench.claims import anew, collect

    for source, recorded in collect.sources().items():
        if collect.asked_for(source, sources):
            try:
                yield f"{source}: measured in {anew.measure(recorded, profile, site)}"
            except (NotRunnable, SiteError) as error:
                yield f"{source}: not measured: {error}"


def archive(arguments: Namespace) -> Iterator[str]:
    """Write the archive of this commit and yield where it is, its size, and its SHA-256."""
    from infrabench import artifact  # pandas and scipy are loaded for this command alone

    executed = Path(arguments.notebooks)
    done = artifact.write(Path(arguments.archive), root=runs.home(), executed=executed if executed.is_dir() else None)
    size, unpacked = done.path.stat().st_size / MB, done.unpacked_bytes / MB
    yield f"{done.path}: {size:.1f} MB, {done.files} files, {unpacked:.1f} MB unpacked"
    yield f"SHA-256 {done.sha256}"


def reproduce(arguments: Namespace) -> Iterator[str]:
    """Make the tables of the recorded sessions again and compare them with those of the archive; yield how it went."""
    from infrabench import artifact

    recorded = Path(arguments.results) if arguments.results else runs.home() / "results"
    if not recorded.is_dir():
        raise InfrabenchError(f"there is no {recorded}: it is in the archive that `infrabench archive` writes")
    with tempfile.TemporaryDirectory() as again:
        made = sum(count for _, count in artifact.make_tables(Path(again)))
        yield from artifact.compared(recorded, Path(again))
    yield f"{made} tables made again from raw output: every byte is as recorded"
