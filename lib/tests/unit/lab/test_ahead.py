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
    monkeypatch.setattr(go_tools, "PARTS", {"tiny": GoPart("tiny", "p", (Program("hello", "", 600),))})
    monkeypatch.setattr(prebuild, "require", lambda: None)  # of images, pause alone is made here: it needs no root
    monkeypatch.setattr(pod_images, "missing", lambda: None)
    monkeypatch.setattr(pod_images, "_compiled", lambda *_: pod_images.LayerEntry(0o755, b"program"))
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


def test_images_and_tools_are_made_ahead_looked_at_and_trimmed(
    go: Path, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    assert "Go tools tiny" in said(capsys, "status")
    assert "(not made yet)" in prebuild.describe("tiny")
    assert prebuild.seconds(["pause"]) == prebuild.IMAGE_S["pause"]
    out = said(capsys, "build", "--only", "tiny", "pause").splitlines()
    assert out[0] == "about 10 min on two cores, besides downloads"
    assert [line.split(": ")[0] for line in out[1:]] == ["pause", "tiny"]
    assert f"Go tools tiny: {go_tools.content_hash('tiny')} (made)" in said(capsys, "status")
    assert prebuild.seconds(["pause"]) == 0
    assert said(capsys, "build", "--only", "tiny", "pause").startswith("everything is made already\n")
    for name, mode in (("mod/m", 0o555), ("build", 0o755)):  # Go keeps modules read-only
        folder = tmp_path / "state/go" / name
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(bytes(10**8))
        folder.chmod(mode)
    assert said(capsys, "trim") == "0.2 GB removed\n"
    assert go_tools.caches_bytes() == 0
    folder = go_tools.cached("tiny")
    assert folder is not None
    assert list((tmp_path / "state/go").iterdir()) == [folder]
    go_tools.purge()
    assert not (tmp_path / "state/go").exists()


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
