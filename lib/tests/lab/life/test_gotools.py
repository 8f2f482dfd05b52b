"""Go tools are real programs of pinned sources alone, and their build ends with whoever started it."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.lab import go_parts, go_tools
from infrabench_platforms.lab.go_parts import Extra, GoPart
from tests.unit.lab import test_prebuild
from tests.unit.lab.test_prebuild import Fake, Make, build

module, fake_go = test_prebuild.module, test_prebuild.fake_go  # the fixtures of the module beside it in the gate
HELLO = 'package main\n\nimport "fmt"\n\nvar number = "none"\n\nfunc main() { fmt.Println("hello", number) }\n'
USES_C = """package main

// #include <stdlib.h>
import "C"
import "fmt"

func main() { fmt.Println("hello", C.atoi(C.CString("7"))) }
"""
CRD = "# text\n---\nkind: CustomResourceDefinition\nname: a\n---\nkind: DaemonSet\n"
C_SOURCES = {
    "c/a.c": '#include "b.h"\nint main(void) { return answer(); }\n', "c/b.c": "int answer(void) { return 42; }\n",
    "c/b.h": "int answer(void);\n",
}  # fmt: skip

needs_go = pytest.mark.skipif(go_tools.find_toolchain() is None, reason="not run: no Go toolchain here")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="not run: no gcc here")


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Go's own caches of all tests here: its own library is compiled once."""
    return {name: tmp_path_factory.mktemp(name) for name in go_tools.caches()}


@pytest.fixture
def sources(module: Make, caches: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a Go module that has files, the program `hello` first, and register it as a part."""
    monkeypatch.setattr(go_tools, "caches", lambda: caches)

    def make(name: str = "tiny", files: dict[str, str] | None = None, **more: object) -> GoPart:
        part = module(name, **more)
        for file, text in {"hello/main.go": HELLO, **(files or {})}.items():
            (part.folder / file).parent.mkdir(exist_ok=True)
            (part.folder / file).write_text(text)
            (part.folder / file).chmod(0o444)  # as Go keeps modules
        return part

    return make


def printed(program: Path) -> bytes:
    return subprocess.run([program], capture_output=True, check=True).stdout


@needs_go
def test_a_module_is_built_once_with_neither_flags_nor_paths_of_the_user(
    sources: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources()
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
def test_what_has_c_in_it_needs_no_c_library_where_it_runs(sources: Make) -> None:
    sources(files={"hello/main.go": USES_C}, cgo=True)
    program = build() / "hello"
    assert printed(program) == b"hello 7\n"
    assert b"/ld-linux" not in program.read_bytes(), "it asks for a loader, and with it for libraries of that machine"


@needs_go
@needs_gcc
def test_what_a_module_holds_besides_programs(sources: Make) -> None:
    definitions = Extra("crd.yaml", "deploy.yml", "definitions")
    extra = (Extra("sources", "c", "folder"), definitions, Extra("answer", "c", "C"))
    sources(files={"deploy.yml": CRD, **C_SOURCES}, extra=extra)
    folder = build()
    assert (folder / "sources/a.c").read_text() == C_SOURCES["c/a.c"]
    assert (folder / "sources/a.c").stat().st_mode & 0o200
    assert (folder / "crd.yaml").read_text() == "kind: CustomResourceDefinition\nname: a\n"
    assert subprocess.run([folder / "answer"]).returncode == 42
    sources("lacking", extra=(Extra("x", "nothing", "folder"),))
    with pytest.raises(ProvisionError, match="example/lacking has no nothing"):
        build("lacking")
    sources("empty", files={"deploy.yml": "kind: DaemonSet\n"}, extra=(definitions,))
    with pytest.raises(ProvisionError, match="defines no resource"):
        build("empty")


def test_the_build_ends_with_its_user(module: Make, fake_go: Fake, tmp_path: Path) -> None:
    module()
    alive = tmp_path / "alive"
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
