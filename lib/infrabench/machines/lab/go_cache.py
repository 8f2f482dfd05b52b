"""Where built Go tools are kept: one folder a part, named by the hash of everything that it was made from.

A folder with its final name is complete. `NAME.part` is one that is being made: it keeps its finished programs, so
an interrupted build goes on from them.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from infrabench.core import digest
from infrabench.machines.lab import go_build
from infrabench.machines.lab.go_parts import GoPart, Program, build_flags, version
from infrabench.machines.lab.shell import remove_tree, sh, state_dir

FORMAT = 1  # raise it when parts are made differently
KEEP = 2


def root() -> Path:
    """Return the folder of all Go tools and of Go's own caches."""
    return state_dir() / "go"


def content_hash(part: GoPart, toolchain: str) -> str:
    """Return the hash that names a part: its pinned modules, programs, flags and extras, and the Go version."""
    flags = {program.name: [program.package, *build_flags(part, program)] for program in part.programs}
    extra = [[each.name, each.module, each.path, each.how] for each in part.extra]
    pinned = [hashlib.sha256((part.folder / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return digest([FORMAT, part.name, flags, part.cgo, extra, go_build.C_FLAGS, pinned, toolchain])


def complete(part: GoPart, toolchain: str) -> Path | None:
    """Return the folder of a part, or None when it is not complete."""
    folder = _folder(part, toolchain)
    return folder if folder.exists() else None


def unfinished(part: GoPart, toolchain: str) -> Path:
    """Return the folder that a part is made in."""
    folder = _folder(part, toolchain)
    return folder.with_name(f"{folder.name}.part")


def to_build(part: GoPart, toolchain: str) -> list[Program]:
    """Return the programs of a part that are still to be built, in order."""
    if complete(part, toolchain):
        return []
    return [program for program in part.programs if not (unfinished(part, toolchain) / program.name).exists()]


def finish(part: GoPart, toolchain: str) -> Path:
    """Add what a part holds besides programs, and a note of what it was made from; give it its name; older ones go."""
    folder, made_in = _folder(part, toolchain), unfinished(part, toolchain)
    for extra in part.extra:
        remove_tree(made_in / extra.name)
        go_build.add(part, extra, made_in / extra.name)
    note = {
        "part": part.name,
        "go": toolchain,
        "cgo": part.cgo,
        "programs": {
            each.name: {
                "package": each.package,
                "flags": build_flags(part, each),
                "sha256": _sha256(made_in / each.name),
            }
            for each in part.programs
        },
        "extra": {each.name: f"{each.module}@{version(part, each.module)}/{each.path}" for each in part.extra},
    }
    (made_in / "made.json").write_text(json.dumps(note, indent=1))
    sh("sync", "-f", made_in, timeout_s=300)
    made_in.rename(folder)
    folder.touch()
    _prune(part, folder)
    return folder


def caches_bytes() -> int:
    """Return how much disk Go's own caches take; they serve the next build alone."""
    there = [path for path in (go_build.modules(), go_build.compiled()) if path.exists()]
    if not there:
        return 0
    return int(sh("du", "-scB1", *there, timeout_s=300).stdout.decode().splitlines()[-1].split()[0])


def forget_caches() -> None:
    """Remove Go's own caches; the programs stay. A part that changes is then built from nothing (and downloads)."""
    for path in (go_build.modules(), go_build.compiled()):
        if path.exists():
            sh("chmod", "-R", "u+w", path, timeout_s=300)  # Go keeps modules read-only
            remove_tree(path)


def _folder(part: GoPart, toolchain: str) -> Path:
    return root() / f"{part.name}-{content_hash(part, toolchain)}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _prune(part: GoPart, newest: Path) -> None:
    """Remove all but the newest `KEEP` folders of a part, and unfinished ones of other contents."""
    named = re.compile(rf"{re.escape(part.name)}-[0-9a-f]{{16}}(\.part)?")  # of flannel, not of flannel-cni
    there = [path for path in newest.parent.iterdir() if named.fullmatch(path.name)]
    done = sorted((path for path in there if path.suffix != ".part"), key=lambda path: path.stat().st_mtime)
    for old in [*done[:-KEEP], *(path for path in there if path.suffix == ".part")]:
        remove_tree(old)
