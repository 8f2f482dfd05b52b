"""Go tools are built once and named by what they are made from; what stands in the way is said before the build.

The builds here are real ones of modules with no dependency. Faults are a `go` that misbehaves.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infrabench.core import NotRunnable, ProvisionError
from infrabench.machines.lab import go_parts, go_tools, shell
from infrabench.machines.lab.go_parts import Extra, GoPart, Program

HELLO = 'package main\n\nimport "fmt"\n\nvar number = "none"\n\nfunc main() { fmt.Println("hello", number) }\n'
USES_C = """package main

// #include <stdlib.h>
import "C"
import "fmt"

func main() { fmt.Println("hello", C.atoi(C.CString("7"))) }
"""
CRD = "# text\n---\nkind: CustomResourceDefinition\nname: a\n---\nkind: DaemonSet\n"
C_SOURCES = {
    "a.c": '#include "b.h"\nint main(void) { return answer(); }\n', "b.c": "int answer(void) { return 42; }\n",
    "b.h": "int answer(void);\n",
}  # fmt: skip

Make = Callable[..., GoPart]
Fake = Callable[..., Path]

needs_go = pytest.mark.skipif(go_tools.find_toolchain() is None, reason="not run: no Go toolchain here")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="not run: no gcc here")


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Go's own caches of all tests here: its own library is compiled once."""
    return {name: tmp_path_factory.mktemp(name) for name in go_tools.caches()}


@pytest.fixture
def home(tmp_path: Path, caches: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder and a folder of parts of our own, on a large disk."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(go_parts, "GO_DIR", tmp_path / "parts")
    monkeypatch.setattr(go_tools, "PARTS", {})
    monkeypatch.setattr(go_tools, "caches", lambda: caches)
    monkeypatch.setattr(shell, "free_bytes", lambda folder: 10**12)
    return tmp_path


@pytest.fixture
def module(home: Path) -> Make:
    """Make a Go module without dependencies and register it as a part."""

    def make(name: str = "tiny", programs: tuple[str, ...] = ("hello",), **more: object) -> GoPart:
        part = GoPart(name, f"example/{name}", tuple(Program(each, each, 10) for each in programs), **more)
        for program in programs:
            (part.folder / program).mkdir(parents=True)
            (part.folder / program / "main.go").write_text(HELLO)
        (part.folder / "go.mod").write_text(f"module example/{name}\n\ngo 1.21\n")
        (part.folder / "go.sum").write_text("")
        go_tools.PARTS[name] = part
        return part

    return make


@pytest.fixture
def fake_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a `go` first on the search path: it answers `env`, notes each build and then runs a script."""

    def make(script: str = "echo x >$out\n", version: str = "go1.26.8") -> Path:
        program = home / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = env ] && {{ echo {version}; exit; }}\n'
            f'echo "$@" >>{home}/calls\n'
            'while [ "$1" != -o ]; do shift; done\nout=$2\n' + script
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(go_tools, "PLACES", ())
        return home / "calls"

    return make


def build(name: str = "tiny") -> Path:
    return go_tools.make([name], lambda text: None)[name]


def printed(program: Path) -> bytes:
    return subprocess.run([program], capture_output=True, check=True).stdout


@needs_go
def test_a_module_is_built_once_with_neither_flags_nor_paths_of_the_user(
    module: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    module()
    monkeypatch.setenv("GOFLAGS", "-ldflags=-X=main.number=7")
    monkeypatch.setenv("GOOS", "plan9")
    said: list[str] = []
    assert go_tools.cached("tiny") is None
    folder = go_tools.make(["tiny"], said.append)["tiny"]
    assert printed(folder / "hello") == b"hello none\n"
    assert str(go_parts.GO_DIR).encode() not in (folder / "hello").read_bytes()
    assert folder.name == f"tiny-{go_tools.content_hash('tiny')}"
    assert go_tools.cached("tiny") == folder
    assert any("Building 1 of 1: hello" in line for line in said)
    count = len(said)
    assert go_tools.make(["tiny"], said.append)["tiny"] == folder
    assert len(said) == count


@needs_go
@needs_gcc
def test_what_has_c_in_it_needs_no_c_library_where_it_runs(module: Make) -> None:
    part = module(cgo=True)
    (part.folder / "hello/main.go").write_text(USES_C)
    program = build() / "hello"
    assert printed(program) == b"hello 7\n"
    assert b"/ld-linux" not in program.read_bytes(), "it asks for a loader, and with it for libraries of that machine"


@needs_go
@needs_gcc
def test_what_a_module_holds_besides_programs(module: Make) -> None:
    part = module(
        extra=(
            Extra("sources", "c", "folder"),
            Extra("crd.yaml", "deploy.yml", "definitions"),
            Extra("answer", "c", "C"),
        )
    )
    (part.folder / "deploy.yml").write_text(CRD)
    (part.folder / "c").mkdir()
    for name, text in C_SOURCES.items():
        (part.folder / "c" / name).write_text(text)
        (part.folder / "c" / name).chmod(0o444)
    folder = build()
    assert (folder / "sources" / "a.c").read_text() == C_SOURCES["a.c"]
    assert (folder / "sources" / "a.c").stat().st_mode & 0o200
    assert (folder / "crd.yaml").read_text() == "kind: CustomResourceDefinition\nname: a\n"
    assert subprocess.run([folder / "answer"]).returncode == 42
    module("lacking", extra=(Extra("x", "nothing", "folder"),))
    with pytest.raises(ProvisionError, match="example/lacking has no nothing"):
        build("lacking")
    (module("empty", extra=part.extra[1:2]).folder / "deploy.yml").write_text("kind: DaemonSet\n")
    with pytest.raises(ProvisionError, match="defines no resource"):
        build("empty")


def test_a_failing_build_says_why_takes_nothing_half_written_and_goes_on_with_the_programs_that_are_left(
    module: Make, fake_go: Fake, home: Path
) -> None:
    module(programs=("one", "two", "three"))
    printed_lines = ("go: downloading m v1.0.0", "fmt", "# example/tiny/two", "two/main.go:3:15: undefined: thing")
    fails = "; ".join(("echo half >$out", *(f"echo '{line}' >&2" for line in printed_lines), "exit 3"))
    calls = fake_go(f"case $out in *two.new) [ -e {home}/mended ] || {{ {fails}; }};; esac; echo x >$out\n")
    why = "\n".join(
        ("tiny: building two failed (status 3):", *printed_lines[2:], "What was built is kept, and the same")
    )
    with pytest.raises(ProvisionError, match=rf"^{re.escape(why)} command goes on.*GOPROXY"):
        build()
    assert len(calls.read_text().splitlines()) == 2
    assert go_tools.cached("tiny") is None
    assert go_tools.estimate(["tiny"]) == 20  # what is half written does not count
    (home / "mended").touch()
    said: list[str] = []
    folder = go_tools.make(["tiny"], said.append)["tiny"]
    assert {path.name for path in folder.iterdir()} == {"one", "two", "three"}
    assert len(calls.read_text().splitlines()) == 4  # one was not built again
    assert any("Building 1 of 2: two" in line for line in said)
    assert not list(folder.parent.glob("*.part"))


def test_the_build_ends_with_its_user(module: Make, fake_go: Fake, home: Path) -> None:
    module()
    alive = home / "alive"
    fake_go(f"(while :; do date +%s%N >{alive}; sleep 0.05; done) & sleep 60\n")
    user = multiprocessing.get_context("fork").Process(target=build)
    user.start()
    deadline = time.monotonic() + 30
    while not alive.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive.exists()
    os.kill(user.pid or 0, signal.SIGINT if os.geteuid() else signal.SIGKILL)
    user.join()
    time.sleep(0.5)
    before = alive.read_text()
    time.sleep(0.5)
    assert alive.read_text() == before


def test_a_long_build_says_that_it_lives(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    fake_go("echo 'go: downloading m v1.0.0' >&2; sleep 1.5; echo a/b >&2; echo a/c >&2; sleep 1.5; echo x >$out\n")
    monkeypatch.setattr(go_tools, "TICK_S", 0.5)
    said: list[str] = []
    go_tools.make(["tiny"], said.append)
    text = "\n".join(said)
    assert re.search(r"1 of 1: hello \(1 modules downloaded\): [12] s so far, about [789] s left", text)
    assert re.search(r"1 of 1: hello \(2 packages compiled\): \d+ s so far, about [0-8] s left", text)


def test_a_stuck_build_is_ended(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    fake_go("echo waiting for godot >&2; sleep 60\n")
    monkeypatch.setattr(go_tools, "TICK_S", 0.2)
    monkeypatch.setattr(go_tools, "PROGRAM_TIMEOUT_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(ProvisionError, match="waiting for godot"):
        build()
    assert time.monotonic() - begin < 10


def test_old_folders_of_this_part_alone_are_removed(module: Make, fake_go: Fake) -> None:
    part = module()
    module("tiny-other")
    fake_go()
    other = build("tiny-other")
    made = []
    stale = go_tools.cache_root() / "tiny-0123456789abcdef.part"
    stale.mkdir()
    for number in range(3):
        (part.folder / "go.sum").write_text(f"{number}")
        made.append(build())
        os.utime(made[-1], (number, number))
    assert [path.exists() for path in made] == [False, True, True]
    assert other.exists()
    assert not stale.exists()


def test_an_old_toolchain_and_none_are_told_and_that_of_the_environment_is_taken(
    module: Make, fake_go: Fake, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module()
    fake_go(version="go1.19.8")
    with pytest.raises(NotRunnable, match=r"need Go 1\.21 or newer: `make build` .*bin/go is go1\.19\.8"):
        build()
    fake_go(version="go1.27.3")
    ours = home / "ours"
    (home / "bin/go").rename(ours)
    fake_go(version="go1.19.8")
    monkeypatch.setattr(go_tools, "PLACES", (str(home / "nothing"), str(ours)))
    assert go_tools.find_toolchain() == (str(ours), "go1.27.3")
    fake_go(version="go1.21.0")  # of this machine, and new enough
    monkeypatch.setattr(go_tools, "PLACES", (str(ours),))
    assert go_tools.find_toolchain() == (str(home / "bin/go"), "go1.21.0")
    go_tools.require(["tiny"])
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: None)
    with pytest.raises(NotRunnable, match=r"need Go 1\.21 or newer.*there is none"):
        build()
    assert go_tools.cached("tiny") is None
    go_tools.require([])


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (("gcc", "pkg-config"), "apt-get install nosuchlibrary-dev"),
        (("gcc",), "apt-get install pkg-config nosuchlibrary-dev"),
        ((), "apt-get install gcc libc6-dev pkg-config nosuchlibrary-dev"),
    ],
)
def test_missing_compilers_and_headers_are_told(
    module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch, there: tuple, said: str
) -> None:
    module(cgo=True, headers=("nosuchlibrary",))
    fake_go()
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: which(name) if name in (*there, "go") else None)
    with pytest.raises(NotRunnable, match=rf"{said}$"):
        build()


def test_a_full_disk_is_told_before_the_build(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    calls = fake_go()
    monkeypatch.setattr(shell, "free_bytes", lambda folder: 2**30)
    with pytest.raises(NotRunnable, match=r"1\.0 GiB free, building the Go tools needs about 16.*INFRABENCH_STATE"):
        build()
    assert not calls.exists()
    monkeypatch.setattr(go_tools, "caches_bytes", lambda: 15 * 2**30)  # most of it was done before
    go_tools.require(["tiny"])
