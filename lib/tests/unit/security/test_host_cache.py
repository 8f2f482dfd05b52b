"""What lies in a host's cache is used only if it is what would be copied, and nobody else could have put it there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench.machines import host_cache
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites import site

NAME = "guest-0123.tar"


@pytest.fixture
def cache(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    image = {"guest_image": {"hash": "0123", "tar": str(source)}}
    monkeypatch.setattr("infrabench_platforms.provider.guest_image", lambda say: image)
    monkeypatch.setattr(host_cache, "FOLDER", str(folder))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rootfs.tar"
    path.write_bytes(b"an image")
    return path


def _upload() -> list[str]:
    said: list[str] = []
    site._upload_image(LocalHost("server"), said.append)
    return said


def test_an_image_is_copied_once(cache: Path, source: Path) -> None:
    before = os.umask(0o002)  # as many users have it
    try:
        assert _upload() == ["Copying the guest image to server"]
        assert _upload() == []
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"an Image"),
        lambda path: path.write_bytes(b""),
        lambda path: path.chmod(0o666),
        lambda path: path.chmod(0o755),
        lambda path: (path.rename(path.with_name("other")), path.symlink_to("other")),
        lambda path: (path.unlink(), path.mkdir(), (path / "x").write_text("x")),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.symlink_to("/nowhere")),
    ],
    ids=["changed", "empty", "open", "executable", "link", "folder", "fifo", "dangling"],
)
def test_anything_else_by_its_name_is_replaced(cache: Path, source: Path, change: Callable[[Path], object]) -> None:
    _upload()
    change(cache / NAME)
    assert _upload() == ["Copying the guest image to server"]
    assert (cache / NAME).read_bytes() == b"an image"
    assert not (cache / NAME).is_symlink()
    assert (cache / NAME).stat().st_mode & 0o022 == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda folder: folder.chmod(0o777), "can be written by others (mode 777)"),
        (lambda folder: folder.chmod(0o775), "can be written by others (mode 775)"),
        (lambda folder: (folder.rename(folder.with_name("x")), folder.symlink_to("x")), "is a link"),
    ],
    ids=["world", "group", "link"],
)
def test_a_cache_that_others_may_change_is_refused(
    cache: Path, source: Path, change: Callable[[Path], object], why: str
) -> None:
    _upload()
    change(cache)
    with pytest.raises(SiteError) as error:
        _upload()
    assert f"server: {cache} {why}, and programs and images there would be run" in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can give a file away")
def test_what_belongs_to_another_user_is_not_used(cache: Path, source: Path) -> None:
    _upload()
    os.chown(cache / NAME, 65534, 65534)
    assert _upload() == ["Copying the guest image to server"]
    os.chown(cache, 65534, 65534)
    with pytest.raises(SiteError, match="belongs to user 65534"):
        _upload()
