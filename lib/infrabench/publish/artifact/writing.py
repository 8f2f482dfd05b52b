"""What goes into the archive, and under which name; and the recorded tables, made again and compared byte by byte.

The files of a commit, as git gives them: what nobody committed is not in it. Executed notebooks: what they show stays,
when and where they were executed does not.
"""

from __future__ import annotations

import io
import json
import logging
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import yaml

from infrabench.analysis import results, session_data
from infrabench.analysis.tables import notation
from infrabench.core import DesignError, InfrabenchError, LedgerError
from infrabench.ledger import archive, catalogue
from infrabench.ledger.archive import ArchiveMember
from infrabench.ledger.files import SUMS, line, read_bytes
from infrabench.ledger.records import read_session
from infrabench.notebook import api
from infrabench.publish.artifact import crate, licences

log = logging.getLogger(__name__)

RESULTS = "results"  # below the root of an archive: SESSION/tables/STUDY/KIND.{md,csv,tex}
GUIDE, LICENCES = "REPRODUCE.md", "LICENCES.md"
LICENCES_SAY = (
    "infrabench itself is under the Apache License 2.0, see LICENSE. This is what the packages of its environment "
    "state of themselves; none of them is in this archive, they come from the Python package index by hash."
)
MB = 1e6
PATTERN = "*-recorded.ipynb"  # what `make figures` leaves
OF_A_RUN = ("papermill", "execution")  # times, and paths of the machine


@dataclass(frozen=True, slots=True)
class PackedArtifact:
    """An archive that was written: where, how many files and bytes are in it, and its SHA-256."""

    path: Path
    files: int
    unpacked_bytes: int
    sha256: str


def write(path: Path, *, root: Path, executed: Path | None = None) -> PackedArtifact:
    """Write the archive of the commit that is checked out in `root`, and return what was written.

    `executed`: the folder of executed notebooks, where some go in. Equal commits, executed notebooks and environments
    give equal bytes: every time in it is the commit's.

    Raises `DesignError` where `path` is not called so, or `root` is no git checkout or has changes that nobody
    committed: the tables would not be those of the commit.
    """
    if not path.name.endswith(catalogue.ARCHIVE):
        raise DesignError(f"an archive is called NAME{catalogue.ARCHIVE}, not {path}")
    # what differs from the commit that is checked out, and new files that git does not ignore
    if found := [line[3:] for line in _git(root, "status", "--porcelain").decode().splitlines()]:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise DesignError(f"an archive is of a commit, and {found[0]}{more} is not committed: commit it or put it away")
    commit = head_commit(root)
    members = {each.name: each for each in (*commit_files(root, commit), *_results(executed))}
    if "CITATION.cff" not in members:
        raise DesignError("the commit has no CITATION.cff, and an archive needs it")
    citation, sessions = yaml.safe_load(members["CITATION.cff"].data), list(_sessions(members))
    log.info("licences, metadata and checksums")
    guide = Template((resources.files("infrabench.publish.artifact") / "REPRODUCE.md").read_text(encoding="utf-8"))
    rows = "\n".join(f"| `{each.name}` | {each.title} {each.told} |" for each in sessions)
    texts = {
        LICENCES: f"# Licences of the environment\n\n{notation.markdown(licences.table(root / 'lib'), LICENCES_SAY)}",
        GUIDE: guide.substitute(
            title=citation["title"], version=citation["version"], commit=commit.hash, date=commit.date, sessions=rows
        ),
    }
    members |= {name: ArchiveMember(name, text.encode()) for name, text in texts.items()}
    members[crate.NAME] = ArchiveMember(
        crate.NAME, crate.metadata(citation, commit.date, commit.hash, members, sessions)
    )
    packed = sorted(members.values())
    sums = "".join(line(sha256(each.data).hexdigest(), each.name) for each in packed)
    packed.append(ArchiveMember(SUMS, sums.encode()))
    size = sum(len(each.data) for each in packed)
    log.info("compressing %d files, %.0f MB", len(packed), size / MB)
    top = f"infrabench-{citation['version']}-{commit.hash[:12]}"
    archive.write(path, (each._replace(name=f"{top}/{each.name}") for each in packed), commit.time_s)
    return PackedArtifact(path, len(packed), size, sha256(path.read_bytes()).hexdigest())


def _results(executed: Path | None) -> Iterator[ArchiveMember]:
    """The tables of the recorded sessions, made now; and executed notebooks, where there are some."""
    with tempfile.TemporaryDirectory() as folder:
        list(make_tables(Path(folder)))
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            yield ArchiveMember(f"{RESULTS}/{file.relative_to(folder).as_posix()}", file.read_bytes())
    if executed is not None:
        yield from executed_notebooks(executed, f"{RESULTS}/notebooks/")


def _sessions(members: Mapping[str, ArchiveMember]) -> Iterator[crate.Recorded]:
    """The recorded sessions whose archive is among the files."""
    for name, path in sorted(catalogue.recorded().items()):
        relative = path.relative_to(catalogue.home()).as_posix()
        if relative in members:
            data = read_session(catalogue.find(None, str(path)))
            summary = f"Profile {data['profile']}, {data['blocks']} blocks: {', '.join(data['systems'])}."
            tables = f"{RESULTS}/{name}/"
            yield crate.Recorded(name, relative, data["title"], summary, tables, data["created_utc"])


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its hash, and when it was made, as Unix time and as a date (ISO 8601)."""

    hash: str
    time_s: int
    date: str


def head_commit(root: Path) -> Commit:
    """Return the commit that is checked out in `root`; `DesignError` where there is none."""
    value, time_s = _git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Commit(value, int(time_s), datetime.fromtimestamp(int(time_s), UTC).date().isoformat())


def commit_files(root: Path, commit: Commit) -> list[ArchiveMember]:
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
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise DesignError(f"{root} is no git checkout, and an archive is made of a commit: {reason}")
    return done.stdout


def executed_notebooks(folder: Path, prefix: str) -> Iterator[ArchiveMember]:
    """Yield the executed notebooks on recorded sessions that lie in `folder`, under `prefix`."""
    for path in sorted(folder.glob(PATTERN)):
        try:
            book = _clean(json.loads(read_bytes(path)))
        except (ValueError, KeyError, TypeError) as error:
            raise InfrabenchError(f"{path} is not a notebook ({error}): make it again with make figures") from error
        text = json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        yield ArchiveMember(f"{prefix}{path.name}", text.encode())


def _clean(book: dict[str, Any]) -> dict[str, Any]:
    """Drop what differs from run to run: metadata of the execution, cells' random ids, and what was said meanwhile."""
    for number, cell in enumerate(book["cells"]):
        cell["id"] = f"cell-{number}"
        if "outputs" in cell:
            cell["outputs"] = [each for each in cell["outputs"] if each["output_type"] != "stream"]
    for each in (book, *book["cells"]):
        each["metadata"] = {name: value for name, value in each["metadata"].items() if name not in OF_A_RUN}
    return book


def make_tables(destination: Path) -> Iterator[tuple[str, int]]:
    """Write every table of every recorded session below `destination`, and yield each session and its files' number."""
    for name, path in sorted(catalogue.recorded().items()):
        session = session_data.open_session(catalogue.find(None, str(path)))
        found = api.results(session, str(destination.resolve() / name))
        for kind in results.TABLES:
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
    # A byte that is no text was damaged: it is shown, so that it is found to differ.
    texts = (data.decode("utf-8", "backslashreplace").splitlines() for data in (then, now))
    lines = zip(*texts, strict=False)
    number, (old, new) = next(((i, pair) for i, pair in enumerate(lines, 1) if pair[0] != pair[1]), (0, ("", "")))
    return f"line {number}: recorded {old[:200]!r}, now {new[:200]!r}" if number else "more or fewer lines"
