"""Rows like those of real sessions, as many as are asked for: to measure what many cost, never to show as results.

A recorded session is the pattern: its trials, cases, states and provenance, under new names. The values are drawn anew
around its own from a seed: sites, sessions and blocks move all systems, each site moves each system a little, and every
trial has its noise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from infrabench.analysis import session_data
from infrabench.analysis.dataset import folder as folders
from infrabench.analysis.dataset import part
from infrabench.core import DesignError
from infrabench.ledger.files import read_file
from infrabench.ledger.records import SESSION

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
    """Return a session as a pattern; `DesignError` when nothing was measured in it."""
    opened = session_data.open_session(session)
    if opened.table["value"].notna().sum() == 0:
        raise DesignError(f"{session} has no measurement: name another session")
    return Pattern(opened, {SESSION: read_file(session, SESSION), **part.provenance_of(session)})


def write(root: Path, like: Pattern, rows: int, sites: int = SITES) -> int:
    """Write a data set of at least so many rows, spread over so many sites; return how many rows it has."""
    folders.begin(root)
    count = -(-rows // len(like.session.table))
    for number in range(count):
        _write_one(root, like, number, sites)
    return count * len(like.session.table)


def copies(session: Path, folder: Path, count: int) -> list[Path]:
    """Return `count` ledgers below `folder` that are the session under other names, file by file linked to its own."""
    made = []
    for number in range(count):
        copy = folder / f"{NAME}-{number:05d}"
        for source, target in _tree(session, copy):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
        made.append(copy)
    return made


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


def _write_one(root: Path, like: Pattern, number: int, sites: int) -> None:
    table = drawn(like, number, sites)
    first = table.iloc[0]
    about = part.about_of(table, like.session.missing, first["study"], first["site"], first["session"], source=NAME)
    place = root / first["study"] / first["site"] / first["session"]
    part.store(place, about, table, like.session.missing, like.files)


def _tree(session: Path, copy: Path) -> Iterator[tuple[Path, Path]]:
    for base, _, names in os.walk(session):
        yield from ((Path(base) / name, copy / Path(base).relative_to(session) / name) for name in names)


def main(words: Sequence[str]) -> None:
    """Do ``write SESSION FOLDER ROWS SITES`` or ``copies SESSION FOLDER COUNT``, and say how many rows that are."""
    what, session, folder, *numbers = words
    if what == "write":
        rows = write(Path(folder), pattern(Path(session)), int(numbers[0]), int(numbers[1]))
    else:
        rows = len(copies(Path(session), Path(folder), int(numbers[0]))) * len(session_data.open_session(session).table)
    sys.stdout.write(f"{rows}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
