"""The commands of `infrabench artifact`: the archive of a commit, and the tables made again from it."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench.cli.subcommands import Subparsers, add_command, add_group
from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue

MB = 1e6


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `artifact`."""
    text = "pack everything for evaluators, and reproduce what was packed"
    group = add_group(subparsers, "artifact", text, "pack out/infrabench.tar.xz")
    text = "write one archive: raw data, source, results, metadata, checksums"
    parser = add_command(group, "pack", pack, text, "out/infrabench.tar.xz")
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive to write (.tar.xz)")
    text = "executed notebooks NAME-recorded.ipynb go in from here, as make figures leaves them (default: out)"
    parser.add_argument("--notebooks", default="out", metavar="FOLDER", help=text)
    text = "make an archive's tables again and compare every byte"
    parser = add_command(group, "reproduce", reproduce, text, "--results results")
    text = "the recorded tables (default: results, in an unpacked archive)"
    parser.add_argument("--results", metavar="FOLDER", help=text)


def pack(arguments: Namespace) -> Iterator[str]:
    """Write the archive of this commit and yield where it is, its size, and its SHA-256."""
    from infrabench.publish import artifact  # pandas and scipy are loaded for this command alone

    executed = Path(arguments.notebooks)
    done = artifact.write(
        Path(arguments.archive), root=catalogue.home(), executed=executed if executed.is_dir() else None
    )
    size, unpacked = done.path.stat().st_size / MB, done.unpacked_bytes / MB
    yield f"{done.path}: {size:.1f} MB, {done.files} files, {unpacked:.1f} MB unpacked"
    yield f"SHA-256 {done.sha256}"


def reproduce(arguments: Namespace) -> Iterator[str]:
    """Make the tables of the recorded sessions again and compare them with those of the archive; yield how it went."""
    from infrabench.publish import artifact

    recorded = Path(arguments.results) if arguments.results else catalogue.home() / "results"
    if not recorded.is_dir():
        raise InfrabenchError(f"there is no {recorded}: it is in the archive that `infrabench artifact pack` writes")
    with tempfile.TemporaryDirectory() as again:
        made = sum(count for _, count in artifact.make_tables(Path(again)))
        yield from artifact.compare_tables(recorded, Path(again))
    yield f"{made} tables made again from raw output: every byte is as recorded"
