"""The Go tools of a Kubernetes cluster, built on this machine once and then found: each part is a folder of programs.

`make` is what a caller needs; `missing` says beforehand why it could not work here.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import NotRunnable, unknown_name
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.lab import go_build
from infrabench.machines.lab.go_parts import PARTS, GoPart, Program, needed_go, numbers
from infrabench.machines.lab.shell import free_bytes, locked, remove_tree, state_dir

LOCK = "go.lock"
COLD_BYTES = 15 * 2**30  # all parts from nothing: modules, compiled packages, programs
BASE_BYTES = 2**30  # any part, with everything compiled already
# The pace of this machine is trusted as soon as it has built for about this long; before, that of the table is.
PRIOR_S = 120.0

log = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One program to build; `before_s` is what the table says for those before it."""

    number: int
    part: GoPart
    program: Program
    before_s: float


def content_hash(name: str) -> str:
    """Return the hash that names a part; `NotRunnable` without a Go toolchain, whose version is in it."""
    toolchain = go_build.toolchain()
    if toolchain is None:
        raise NotRunnable(_needs_go([_part(name)]))
    return go_build.content_hash(_part(name), toolchain)


def cached(name: str) -> Path | None:
    """Return the folder of a complete part, or None when it has to be built."""
    toolchain = go_build.toolchain()
    return go_build.complete(_part(name), toolchain) if toolchain else None


def make(names: Sequence[str], say: Say = log.info) -> dict[str, Path]:
    """Return the folders of parts by name; those that are not complete are built first (about 25 minutes for all).

    Raises `NotRunnable` when they cannot be built here, `ProvisionError` when a build fails.
    """
    found = {name: cached(name) for name in names}
    if not all(found.values()):
        with locked(LOCK, say=say):
            require(names)
            toolchain = go_build.toolchain() or ""
            _build([part for part in map(_part, names) if not go_build.complete(part, toolchain)], toolchain, say)
        found = {name: cached(name) for name in names}
    return {name: folder for name, folder in found.items() if folder}


def require(names: Iterable[str]) -> None:
    """Raise `NotRunnable` when parts are neither complete nor can be built here (see `missing`)."""
    if reason := missing(names):
        raise NotRunnable(reason)


def missing(names: Iterable[str]) -> str | None:
    """Return why the parts that are not complete yet cannot be built here, with what to do, or None when they can."""
    parts = [_part(name) for name in names]
    toolchain = go_build.toolchain()
    if toolchain is None:
        return f"{_needs_go(parts)}; there is none"
    parts = [part for part in parts if not go_build.complete(part, toolchain)]
    if not parts:
        return None
    if numbers(toolchain) < numbers(needed_go(parts)):
        return f"{_needs_go(parts)}; {go_build.go()} is {toolchain}"
    packages = _packages(parts)
    if packages:
        return f"the Go tools need Debian packages that are not installed: apt-get install {' '.join(packages)}"
    return _space(parts, toolchain)


def estimate(names: Iterable[str]) -> float:
    """Return about how many seconds building the parts that are not complete takes on two cores, downloads aside."""
    toolchain = go_build.toolchain() or ""
    return sum(program.seconds for part in map(_part, names) for program in go_build.to_build(part, toolchain))


def forget_caches() -> int:
    """Remove Go's own caches and return how many bytes they took; the programs stay.

    A part that changes is then built from nothing, and downloads its modules. `SiteError` while some are built.
    """
    with locked(LOCK, wait_s=0.0):
        held = go_build.caches_bytes()
        go_build.forget_caches()
        return held


def purge() -> None:
    """Remove all Go tools and Go's caches; `SiteError` while some are built."""
    with locked(LOCK, wait_s=0.0):
        go_build.forget_caches()
        remove_tree(go_build.cache_root())


def time_left(step: BuildStep, ahead_s: float, passed_s: float, now_s: float) -> float:
    """Return about how many seconds a build still takes.

    `ahead_s`: what the table says for all steps; `passed_s`: seconds since the first began; `now_s`: since this one.
    """
    pace = (passed_s - now_s + PRIOR_S) / (step.before_s + PRIOR_S)
    after_s = ahead_s - step.before_s - step.program.seconds
    return max(step.program.seconds * pace - now_s, 0.0) + after_s * pace


def duration(seconds: float) -> str:
    """Return a duration in words, as exactly as a guess is."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _part(name: str) -> GoPart:
    if name not in PARTS:
        raise unknown_name("part of the Go tools", name, PARTS)
    return PARTS[name]


def _needs_go(parts: Sequence[GoPart]) -> str:
    return (
        f"the Kubernetes tools are built from source and need Go {needed_go(parts)} or newer: `make build` installs it "
        "into .venv (or take one of your own, on the search path or in /usr/local/go)"
    )


def _packages(parts: Sequence[GoPart]) -> list[str]:
    """Return the Debian packages that compiling C needs and that are not there."""
    lacking = []
    if any(part.compiles_c for part in parts) and not shutil.which("gcc"):
        lacking += ["gcc", "libc6-dev"]
    headers = sorted({header for part in parts for header in part.headers})
    if headers and not shutil.which("pkg-config"):
        return [*lacking, "pkg-config", *(f"{header}-dev" for header in headers)]
    there = LocalHost(environment=os.environ)  # PKG_CONFIG_PATH, say
    return lacking + [
        f"{header}-dev"
        for header in headers
        if not there.run(("pkg-config", "--exists", header), timeout_s=20).ok
    ]  # fmt: skip


def _space(parts: Sequence[GoPart], toolchain: str) -> str | None:
    """Return the reason when too little disk is free. Disk goes with what has to be compiled, and so with time."""
    todo = sum(program.seconds for part in parts for program in go_build.to_build(part, toolchain))
    needed = BASE_BYTES + COLD_BYTES * todo / sum(part.seconds for part in PARTS.values())
    free = free_bytes(state_dir())
    if free < needed:  # what is in the caches is not needed again
        needed = max(BASE_BYTES, needed - go_build.caches_bytes())
    if free >= needed:
        return None
    return (
        f"{state_dir()}: {free / 2**30:.1f} GiB free, building the Go tools needs about {needed / 2**30:.0f}. "
        "Free some space or set INFRABENCH_STATE to a larger disk"
    )


def _steps(parts: Sequence[GoPart], toolchain: str) -> Iterator[BuildStep]:
    number, before_s = 0, 0.0
    for part in parts:
        for program in go_build.to_build(part, toolchain):
            number += 1
            yield BuildStep(number, part, program, before_s)
            before_s += program.seconds


def _build(parts: Sequence[GoPart], toolchain: str, say: Say) -> None:
    steps = list(_steps(parts, toolchain))
    ahead_s = sum(step.program.seconds for step in steps)
    say(
        f"Building {len(steps)} programs for Kubernetes from source with {toolchain}, once: about {duration(ahead_s)} "
        "on two cores when nothing is compiled yet, besides downloads. Interrupted, it goes on where it was"
    )
    begin = time.monotonic()
    for part in parts:
        folder = go_build.unfinished(part, toolchain)
        folder.mkdir(parents=True, exist_ok=True)
        for step in (each for each in steps if each.part is part):

            def tell(now_s: float, done: str, step: BuildStep = step) -> None:
                passed_s = time.monotonic() - begin
                left = duration(time_left(step, ahead_s, passed_s, now_s))
                told = f"{step.program.name}{done and f' ({done})'}: {duration(passed_s)} so far, about {left} left"
                say(f"Building {step.number} of {len(steps)}: {told}")

            tell(0.0, "")
            go_build.build(part, step.program, folder / step.program.name, tell)
        go_build.finish(part, toolchain)
    say(
        f"Built the Go tools in {duration(time.monotonic() - begin)}. What Go keeps for a next build takes "
        f"{go_build.caches_bytes() / 1e9:.1f} GB: `infrabench lab trim` removes it, and nothing that runs needs it"
    )
