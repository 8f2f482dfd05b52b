"""Go tools are built once and named by what they are made from; what stands in the way is said before the build.

The builds here are real ones of modules with no dependency. Faults are a `go` that misbehaves.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench.core import DesignError, NotRunnable, ProvisionError
from infrabench.machines.lab import go_parts, go_tools
from infrabench.machines.lab.go_parts import Extra, GoPart, Program

HELLO = 'package main\n\nimport "fmt"\n\nvar number = "none"\n\nfunc main() { fmt.Println("hello", number) }\n'
USES_C = """package main

// #include <stdlib.h>
import "C"
import "fmt"

func main() { fmt.Println("hello", C.atoi(C.CString("7"))) }
"""
CRD = "# text\n---\nkind: CustomResourceDefinition\nname: a\n---\nkind: DaemonSet\n"
C_MAIN = '#include "b.h"\nint main(void) { return answer(); }\n'

Make = Callable[..., GoPart]
Fake = Callable[..., Path]

needs_go = pytest.mark.skipif(go_tools.find_toolchain() is None, reason="not run: no Go toolchain here")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="not run: no gcc here")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Go's compiled packages of all tests here: its own library is compiled once."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def home(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder and a folder of parts of our own; Go's own compiled packages are shared to save time."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(go_parts, "GO_DIR", tmp_path / "parts")
    monkeypatch.setattr(go_tools, "PARTS", {})
    monkeypatch.setattr(go_tools, "compiled", lambda: compiled)
    return tmp_path


@pytest.fixture
def module(home: Path) -> Make:
    """Make a Go module without dependencies and register it as a part."""

    def make(name: str = "tiny", programs: tuple[str, ...] = ("hello",), **more: object) -> GoPart:
        folder = home / "parts" / name
        for program in programs:
            (folder / program).mkdir(parents=True)
            (folder / program / "main.go").write_text(HELLO)
        (folder / "go.mod").write_text(f"module example/{name}\n\ngo 1.21\n")
        (folder / "go.sum").write_text("")
        part = GoPart(name, tuple(Program(each, f"example/{name}/{each}", 10) for each in programs), **more)
        go_tools.PARTS[name] = part
        return part

    return make


@pytest.fixture
def fake_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a `go` first on the search path: it answers `env`, notes each build and then runs a script."""

    def make(script: str, version: str = "go1.26.8") -> Path:
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


def silent(text: str) -> None:
    """Say nothing."""


@needs_go
def test_a_module_is_built_once_and_found_again(module: Make) -> None:
    module()
    said: list[str] = []
    assert go_tools.cached("tiny") is None
    folder = go_tools.make(["tiny"], said.append)["tiny"]
    ran = subprocess.run([folder / "hello"], capture_output=True, check=True)
    assert ran.stdout == b"hello none\n"
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
    program = go_tools.make(["tiny"], silent)["tiny"] / "hello"
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"hello 7\n"
    assert b"/ld-linux" not in program.read_bytes(), "it asks for a loader, and with it for libraries of that machine"


@needs_go
def test_neither_flags_nor_paths_of_the_user_go_in(module: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    monkeypatch.setenv("GOFLAGS", "-ldflags=-X=main.number=7")
    monkeypatch.setenv("GOOS", "plan9")
    folder = go_tools.make(["tiny"], silent)["tiny"]
    assert subprocess.run([folder / "hello"], capture_output=True, check=True).stdout == b"hello none\n"
    assert str(go_parts.GO_DIR).encode() not in (folder / "hello").read_bytes()


@needs_go
def test_a_build_that_fails_says_why_and_leaves_nothing_complete(module: Make) -> None:
    part = module()
    (part.folder / "hello" / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(ProvisionError, match="tiny: building hello failed") as raised:
        go_tools.make(["tiny"], silent)
    assert "undefined: undefinedThing" in str(raised.value)
    assert "goes on" in str(raised.value)
    assert go_tools.cached("tiny") is None


def test_a_failing_build_takes_nothing_half_written_and_goes_on_with_the_programs_that_are_left(
    module: Make, fake_go: Fake, home: Path
) -> None:
    module(programs=("one", "two", "three"))
    calls = fake_go(
        f"case $out in *two.new) [ -e {home}/mended ] || "
        '{ echo half >$out; echo "no such thing" >&2; exit 3; };; esac; echo x >$out\n'
    )
    with pytest.raises(ProvisionError, match=r"building two failed \(status 3\):\nno such thing"):
        go_tools.make(["tiny"], silent)
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
    part = module()
    fake_go(f"(while :; do date +%s%N >{home}/alive; sleep 0.05; done) & sleep 60\n")
    source = (
        "from pathlib import Path; from infrabench.machines.lab import go_parts, go_tools; import sys\n"
        "go_parts.GO_DIR = Path(sys.argv[1])\n"
        "part = go_parts.GoPart('tiny', (go_parts.Program('hello', 'p', 1),))\n"
        "go_tools.build(part, part.programs[0], Path(sys.argv[2]), print)\n"
    )
    user = subprocess.Popen([sys.executable, "-c", source, str(part.folder.parent), str(home / "hello")])
    alive = home / "alive"
    deadline = time.monotonic() + 30
    while not alive.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive.exists()
    user.send_signal(signal.SIGINT if os.geteuid() else signal.SIGKILL)
    user.wait()
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
    monkeypatch.setattr(go_tools, "PROGRAM_TIMEOUT_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(ProvisionError, match="waiting for godot"):
        go_tools.make(["tiny"], silent)
    assert time.monotonic() - begin < 10


def test_the_time_left_follows_the_pace_of_this_machine() -> None:
    times = (600.0, 100.0)
    assert go_tools.time_left(times, 0, passed_s=0, now_s=0) == 700
    assert go_tools.time_left(times, 0, passed_s=200, now_s=200) == 500
    assert go_tools.time_left(times, 1, passed_s=600, now_s=0) == 100
    assert go_tools.time_left(times, 1, passed_s=1320, now_s=0) == 200  # twice as slow as the table
    assert go_tools.time_left(times, 1, passed_s=1620, now_s=300) == 0  # late, not less than nothing
    assert go_tools.duration(99.4) == "99 s"
    assert go_tools.duration(1500) == "25 min"


@needs_go
@needs_gcc
def test_what_a_module_holds_besides_programs(module: Make) -> None:
    part = module(
        extra=(
            Extra("sources", "example/tiny", "c", "folder"),
            Extra("crd.yaml", "example/tiny", "deploy.yml", "definitions"),
            Extra("answer", "example/tiny", "c", "C"),
        )
    )
    (part.folder / "deploy.yml").write_text(CRD)
    (part.folder / "c").mkdir()
    for name, text in (
        ("a.c", C_MAIN), ("b.c", "int answer(void) { return 42; }\n"), ("b.h", "int answer(void);\n"),
    ):  # fmt: skip
        (part.folder / "c" / name).write_text(text)
        (part.folder / "c" / name).chmod(0o444)
    to = part.folder / "made"
    to.mkdir()
    for extra in part.extra:
        go_tools.add(part, extra, to / extra.name)
    assert (to / "sources" / "a.c").read_text() == C_MAIN
    assert (to / "sources" / "a.c").stat().st_mode & 0o200
    assert (to / "crd.yaml").read_text() == "kind: CustomResourceDefinition\nname: a\n"
    assert subprocess.run([to / "answer"]).returncode == 42
    with pytest.raises(ProvisionError, match="example/tiny has no nothing"):
        go_tools.add(part, Extra("x", "example/tiny", "nothing", "folder"), to / "x")
    (part.folder / "deploy.yml").write_text("kind: DaemonSet\n")
    with pytest.raises(ProvisionError, match="defines no resource"):
        go_tools.add(part, part.extra[1], to / "y")


def test_the_hash_follows_everything_that_goes_in(module: Make) -> None:
    part = module()
    before = go_parts.content_hash(part, "go1.26.8")
    assert go_parts.content_hash(part, "go1.26.8") == before
    others = [
        replace(part, tags="x"),
        replace(part, cgo=True),
        replace(part, programs=(replace(part.programs[0], package="example/tiny/other"),)),
        replace(part, programs=(replace(part.programs[0], tags="y"),)),
        replace(part, extra=(Extra("x", "m", "p", "folder"),)),
    ]
    hashes = [go_parts.content_hash(each, "go1.26.8") for each in others] + [go_parts.content_hash(part, "go1.26.9")]
    for name in ("go.sum", "go.mod"):
        (part.folder / name).write_text((part.folder / name).read_text() + "\n")
        hashes.append(go_parts.content_hash(part, "go1.26.8"))
    assert len({before, *hashes}) == len(hashes) + 1
    slower = replace(part, programs=(replace(part.programs[0], seconds=99),))
    assert go_parts.content_hash(slower, "go1.26.8") == hashes[-1]  # an estimate is no content


def test_old_folders_of_this_part_alone_are_removed(module: Make, fake_go: Fake) -> None:
    part = module()
    module("tiny-other")
    fake_go("echo x >$out\n")
    other = go_tools.make(["tiny-other"], silent)["tiny-other"]
    made = []
    stale = go_tools.cache_root() / "tiny-0123456789abcdef.part"
    stale.mkdir()
    for number in range(3):
        (part.folder / "go.sum").write_text(f"{number}")
        made.append(go_tools.make(["tiny"], silent)["tiny"])
        os.utime(made[-1], (number, number))
    assert [path.exists() for path in made] == [False, True, True]
    assert other.exists()
    assert not stale.exists()


def test_an_old_toolchain_and_none_are_told(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    fake_go("", version="go1.19.8")
    assert re.search(r"need Go 1\.21 or newer.*bin/go is go1\.19\.8", go_tools.missing(["tiny"]) or "")
    fake_go("", version="go1.21.0")
    assert go_tools.missing(["tiny"]) is None
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: None)
    assert "need Go 1.21 or newer" in (go_tools.missing(["tiny"]) or "")
    assert go_tools.cached("tiny") is None
    with pytest.raises(NotRunnable, match="make build"):
        go_tools.make(["tiny"], silent)
    assert go_tools.content_hash("tiny") == ""
    assert go_tools.missing([]) is None


def test_a_toolchain_of_the_environment_is_used_where_the_machine_s_is_too_old(
    module: Make, fake_go: Fake, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module()
    fake_go("", version="go1.27.3")
    ours = home / "ours"
    (home / "bin/go").rename(ours)
    fake_go("", version="go1.19.8")
    monkeypatch.setattr(go_tools, "PLACES", (str(home / "nothing"), str(ours)))
    assert go_tools.find_toolchain() == (str(ours), "go1.27.3")
    fake_go("", version="go1.26.9")
    monkeypatch.setattr(go_tools, "PLACES", (str(ours),))
    assert go_tools.find_toolchain() == (str(home / "bin/go"), "go1.26.9")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (("gcc", "pkg-config"), "apt-get install nosuchlibrary-dev"),
        (("gcc",), "apt-get install pkg-config nosuchlibrary-dev"),
        ((), "apt-get install gcc libc6-dev pkg-config nosuchlibrary-dev"),
    ],
)
def test_missing_compilers_and_headers_are_told(
    module: Make,
    fake_go: Fake,
    monkeypatch: pytest.MonkeyPatch,
    there: tuple,
    said: str,
) -> None:
    module(cgo=True, headers=("nosuchlibrary",))
    fake_go("")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: which(name) if name in (*there, "go") else None)
    assert (go_tools.missing(["tiny"]) or "").endswith(said)


def test_a_full_disk_is_told_before_the_build(module: Make, fake_go: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module()
    calls = fake_go("echo x >$out\n")
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2**30))
    with pytest.raises(NotRunnable, match=r"1\.0 GiB free, building the Go tools needs about 16.*INFRABENCH_STATE"):
        go_tools.make(["tiny"], silent)
    assert not calls.exists()
    monkeypatch.setattr(go_tools, "caches_bytes", lambda: 15 * 2**30)  # most of it was done before
    assert go_tools.missing(["tiny"]) is None


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(DesignError, match="did you mean kubernetes"):
        go_tools.cached("kubernets")


@needs_go
def test_caches_are_counted_and_removed_and_the_programs_stay(module: Make) -> None:
    module()
    folder = go_tools.make(["tiny"], silent)["tiny"]
    locked = go_tools.modules() / "m"
    locked.mkdir(parents=True)
    (locked / "f").write_text("x")
    locked.chmod(0o555)
    held = go_tools.caches_bytes()
    assert held > 0
    assert go_tools.forget_caches() == held
    assert go_tools.caches_bytes() == 0
    assert go_tools.cached("tiny") == folder
    go_tools.purge()
    assert not go_tools.cache_root().exists()


@pytest.mark.parametrize("name", go_parts.PARTS)
def test_every_part_is_pinned_and_complete(name: str) -> None:
    part = go_parts.PARTS[name]
    assert (part.folder / "go.sum").stat().st_size > 0
    text = (part.folder / "go.mod").read_text()
    assert go_parts.numbers(go_parts.go_version(part.folder / "go.mod")) >= (1, 25, 0)
    for program in part.programs:
        assert program.package in text, "a tool directive names every program that is built"
        assert "-trimpath" in go_parts.build_flags(part, program)
    for extra in part.extra:
        assert go_parts.version(part, extra.module).startswith("v")


def test_kubernetes_reports_the_version_that_is_pinned() -> None:
    part = go_parts.PARTS["kubernetes"]
    number = go_parts.version(part, "k8s.io/kubernetes")
    major, minor = number[1:].split(".")[:2]
    link = go_parts.build_flags(part, part.programs[0])[-1]
    assert link.startswith("-s -w -X k8s.io/component-base/version.gitVersion=v")
    assert f"gitVersion={number} " in link
    assert link.endswith(f"gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}")
