"""The suite's own files come out of the guest image as they are there, and nothing else does."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from infrabench.core import ProvisionError
from infrabench.machines.sites.prepare import requirements
from infrabench_platforms import provider
from infrabench_platforms.lab import images


def _image(path: Path) -> Path:
    files = {
        "./usr/local/bin/ib-x": b"x", "./usr/local/bin/other": b"", "./usr/bin/ib-x": b"", "./etc/passwd": b"",
        "./etc/infrabench/web/a.conf": b"a", "./etc/infrabench/../../root/x": b"", "./etc/infrabench/b c": b"",
    }  # fmt: skip
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o4755 if "bin" in name else 0o644
            tar.addfile(member, io.BytesIO(data))
        for name in ("./srv/infrabench", "./srv/infrabench/ftp", "./var/log/infrabench", "./var/log"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        link = tarfile.TarInfo("./usr/local/bin/ib-link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        tar.addfile(link)
    return path


def test_files_and_folders_of_ours_are_read_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = SimpleNamespace(tar=_image(tmp_path / "guest.tar"), hash="")
    monkeypatch.setattr(images, "cached", lambda kind: image)
    found = requirements.load_files(print)
    assert [(each.path, each.mode, each.data) for each in found.files] == [
        ("/etc/infrabench/web/a.conf", 0o644, b"a"), ("/usr/local/bin/ib-x", 0o755, b"x"),
    ]  # fmt: skip
    assert found.folders == ("/srv/infrabench/ftp", "/var/log/infrabench")


def test_an_image_that_cannot_be_made_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind, say):
        raise ProvisionError("mmdebstrap exited with 1:\nno network")

    monkeypatch.setattr(images, "cached", lambda kind: None)
    monkeypatch.setattr(images, "make", refuse)
    monkeypatch.setattr(provider.shutil, "which", lambda program: program)
    assert requirements.load_files(print).reason == "it cannot be made by this user here: no network"
