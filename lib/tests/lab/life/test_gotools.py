"""Go tools are real programs of pinned sources alone, and their build ends with whoever started it."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.lab import go_parts, go_tools
from tests.unit.lab import test_prebuild
from tests.unit.lab.test_prebuild import Fake, Make, build

module, fake_go = test_prebuild.module, test_prebuild.fake_go  # the fixtures of the module beside it in the gate
HELLO = 'package main\n\nimport "fmt"\n\nvar number = "none"\n\nfunc main() { fmt.Println("hello", number) }\n'

needs_go = pytest.mark.skipif(go_tools.find_toolchain() is None, reason="not run: no Go toolchain here")


@needs_go
def test_a_module_is_built_once_with_neither_flags_nor_paths_of_the_user(
    module: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = module().folder / "hello/main.go"
    main.parent.mkdir()
    main.write_text(HELLO)
    main.chmod(0o444)  # as Go keeps modules
    monkeypatch.setenv("GOFLAGS", "-ldflags=-X=main.number=7")
    monkeypatch.setenv("GOOS", "plan9")
    said: list[str] = []
    assert go_tools.cached("tiny") is None
    folder = go_tools.make(["tiny"], said.append)["tiny"]
    assert subprocess.run([folder / "hello"], capture_output=True, check=True).stdout == b"hello none\n"
    assert str(go_parts.GO_DIR).encode() not in (folder / "hello").read_bytes()
    assert folder.name == f"tiny-{go_tools.content_hash('tiny')}"
    assert go_tools.cached("tiny") == folder
    assert any("Building 1 of 1: hello" in line for line in said)
    count = len(said)
    assert go_tools.make(["tiny"], said.append)["tiny"] == folder
    assert len(said) == count


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
