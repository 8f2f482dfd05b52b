"""What the lab is made from can be made ahead of time, named one by one, looked at and removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import NotRunnable
from infrabench.machines import lab
from infrabench.machines.lab import go_parts, go_tools, images, pod_images, prebuild, shell
from infrabench.machines.lab.go_parts import GoPart, Program

FAKE_GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.26.8; exit; }
while [ "$1" != -o ]; do shift; done
echo x >$2
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder, one part of Go tools, and a `go` that builds at once."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(go_parts, "GO_DIR", tmp_path / "parts")
    monkeypatch.setattr(go_tools, "PARTS", {"tiny": GoPart("tiny", (Program("hello", "p", 600),))})
    monkeypatch.setattr(prebuild, "require", lambda: None)  # of images, pause alone is made here: it needs no root
    monkeypatch.setattr(lab, "_leftovers", tuple)
    monkeypatch.setattr(shell, "contained", list)
    monkeypatch.setattr(shell, "free_bytes", lambda folder: 10**12)
    (tmp_path / "parts/tiny").mkdir(parents=True)
    (tmp_path / "parts/tiny/go.mod").write_text("module p\n\ngo 1.21\n")
    (tmp_path / "parts/tiny/go.sum").write_text("")
    program = tmp_path / "go"
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def said(capsys: pytest.CaptureFixture, *argv: str) -> str:
    status = cli.main(["lab", *argv])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def test_tools_are_made_ahead_looked_at_and_trimmed(go: Path, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    assert "Go tools tiny" in said(capsys, "status")
    assert "(not made yet)" in prebuild.describe("tiny")
    out = said(capsys, "build", "--only", "tiny")
    assert out.startswith("about 10 min on two cores, besides downloads\ntiny: ")
    assert f"Go tools tiny: {go_tools.content_hash('tiny')} (made)" in said(capsys, "status")
    assert said(capsys, "build", "--only", "tiny").startswith("everything is made already\n")
    cache = tmp_path / "state/go/build"
    cache.mkdir()
    (cache / "x").write_bytes(bytes(2 * 10**8))
    assert said(capsys, "trim") == "0.2 GB removed\n"
    assert not cache.exists()
    assert go_tools.cached("tiny")


def test_what_cannot_be_made_is_told_before_anything_is(
    go: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli.main(["lab", "build", "--only", "tine"]) == 2
    assert "did you mean tiny" in capsys.readouterr().err
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: None)
    assert "not made yet: the Kubernetes tools are built from source" in prebuild.describe("tiny")
    with pytest.raises(NotRunnable, match="need Go"):
        list(prebuild.build(["pause", "tiny"]))
    assert not (tmp_path / "state/images").exists()


def test_everything_has_a_name_and_a_time() -> None:
    assert len(prebuild.names()) == len(set(prebuild.names()))
    assert set(prebuild.IMAGE_S) == {*images.KINDS, *pod_images.KINDS}
