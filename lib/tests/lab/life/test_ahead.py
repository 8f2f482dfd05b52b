"""What the lab is made from can be made ahead of time, named one by one, looked at and removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infrabench.machines.lab import prebuild
from tests.unit.lab import test_ahead
from tests.unit.lab.test_ahead import said

go = test_ahead.go  # the fixture of the module beside it in the gate


@pytest.mark.skipif(shutil.which("gcc") is None, reason="not run: no gcc here")
def test_an_image_is_made_ahead(go: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuild.pod_images, "PROGRAMS", {"gcc": "gcc"})
    assert prebuild.seconds(["pause"]) == prebuild.IMAGE_S["pause"]
    out = said(capsys, "build", "--only", "pause")
    assert out.endswith("(made)\n")
    assert prebuild.seconds(["pause"]) == 0
