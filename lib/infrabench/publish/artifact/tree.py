"""The files of a commit, as git gives them: what nobody committed is not in an archive."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infrabench.core import DesignError, InfrabenchError
from infrabench.ledger.archive import ArchiveMember


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its hash, and when it was made."""

    hash: str
    time_s: int  # Unix time

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.time_s, UTC).date().isoformat()


def head(root: Path) -> Commit:
    """Return the commit that is checked out in `root`; `DesignError` where there is none."""
    value, time_s = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Commit(value, int(time_s))


def changes(root: Path) -> list[str]:
    """Return the files that differ from the commit that is checked out, and new ones that git does not ignore."""
    return [line[3:] for line in _git(root, "status", "--porcelain").decode().splitlines()]


def files(root: Path, commit: Commit) -> list[ArchiveMember]:
    """Return every file of a commit, by name."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", commit.hash))) as tar:
        for member in tar.getmembers():
            source = tar.extractfile(member) if member.isreg() else None
            if source is not None:
                found.append(ArchiveMember(member.name, source.read(), bool(member.mode & 0o100)))
            elif not member.isdir():
                raise InfrabenchError(f"{member.name} is neither file nor folder, and no archive of ours holds such")
    return sorted(found)


def _git(root: Path, *words: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrabenchError(f"git cannot be asked about {root}: {error}") from error
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip()
        raise DesignError(f"{root} is no git checkout, and an archive is made of a commit: {told}")
    return done.stdout
