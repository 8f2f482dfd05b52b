"""Images of pods hold what a pod needs, run without anything else, and are the same bytes when made again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.lab import pod_images
from infrabench_platforms.lab.pod_images import LayerEntry
from tests.support.scripts import write_program


def unpacked(archive: bytes) -> tuple[list[dict], dict, tarfile.TarFile]:
    """Return the manifest, the configuration and the layer of a docker archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        files = {each.name: file.read() for each in outer if (file := outer.extractfile(each))}
    manifest = json.loads(files["manifest.json"])
    layer = files[manifest[0]["Layers"][0]]
    config = json.loads(files[manifest[0]["Config"]])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert manifest[0]["Config"] == f"{hashlib.sha256(files[manifest[0]['Config']]).hexdigest()}.json"
    return manifest, config, tarfile.open(fileobj=io.BytesIO(layer))


def test_an_archive_is_the_same_bytes_whatever_the_order() -> None:
    entries = {"a/b": LayerEntry(0o755, b"x"), "a/c": LayerEntry(0o777, link="b"), "tmp": LayerEntry(0o1777)}
    settings = {"Cmd": ["/a/b"], "Env": ["A=b"]}
    archive = pod_images.archive(entries, "localhost/x:1", settings)
    assert pod_images.archive(dict(reversed(entries.items())), "localhost/x:1", settings) == archive
    manifest, config, layer = unpacked(archive)
    assert manifest[0]["RepoTags"] == ["localhost/x:1"]
    assert config["config"] == settings
    assert config["architecture"] in ("amd64", "arm64", pod_images.architecture())
    assert layer.getnames() == ["a", "a/b", "a/c", "tmp"]
    assert {(each.uid, each.gid, each.mtime) for each in layer} == {(0, 0, 0)}
    assert layer.getmember("tmp").mode == 0o1777
    assert layer.getmember("a").isdir()
    assert layer.getmember("a/c").linkname == "b"


@pytest.mark.parametrize("places", [("bin/sh", "lib64/ld.so"), ("usr/bin/sh", "usr/lib64/ld.so")])
def test_packages_are_laid_out_as_in_an_installed_debian(
    places: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's packages have files beside ``usr`` that lie below it in Debian 13's."""

    def make(*argv: object, **_: object) -> None:
        with tarfile.open(tmp_path / "packages.tar", "w") as made:
            for name in (*(str(Path(place).parent) for place in places), *places):
                entry = tarfile.TarInfo(f"./{name}")
                entry.type, entry.mode = (tarfile.REGTYPE, 0o4755) if name in places else (tarfile.DIRTYPE, 0o755)
                made.addfile(entry, io.BytesIO())

    monkeypatch.setattr(pod_images, "sh", make)
    pod_images._unpack(tmp_path)
    assert {*pod_images.closure(tmp_path, ["bin/sh"])} == {"bin/sh"}
    assert pod_images._library(tmp_path, "ld.so") == tmp_path / "lib64/ld.so"
    assert (tmp_path / "usr/bin/sh").stat().st_mode & 0o7777 == 0o755


def test_a_failed_build_leaves_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(pod_images, "PROGRAMS", {})
    compiler = write_program(tmp_path / "bin/gcc", "exit 1")
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=os.pathsep)
    with pytest.raises(ProvisionError, match="gcc"):
        pod_images.make("pause", lambda text: None)
    assert pod_images.cached("pause") is None


def test_what_is_not_installed_and_a_full_disk_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path))
    monkeypatch.setattr(pod_images, "PROGRAMS", {"no-such-program": "such-a-package"})
    with pytest.raises(ProvisionError, match="not installed: such-a-package"):
        pod_images.make("tools", lambda text: None)
    monkeypatch.setattr(pod_images, "PROGRAMS", {})
    monkeypatch.setattr(pod_images, "NEEDED_BYTES", 2**60)
    with pytest.raises(ProvisionError, match="GiB free, a pod image needs"):
        pod_images.make("tools", lambda text: None)


def test_the_hash_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {kind: pod_images.content_hash(kind) for kind in pod_images.KINDS}
    assert len(set(before.values())) == 2
    shutil.copytree(pod_images.POD, tmp_path / "pod")
    monkeypatch.setattr(pod_images, "POD", tmp_path / "pod")
    assert {kind: pod_images.content_hash(kind) for kind in pod_images.KINDS} == before
    with open(tmp_path / "pod/packages.txt", "a") as packages:
        packages.write("jq usr/bin/jq  # one more\n")
    assert pod_images.programs()["jq"] == ["usr/bin/jq"]
    assert pod_images.content_hash("tools") != before["tools"]
    assert pod_images.content_hash("pause") == before["pause"]
    packages = pod_images.content_hash("tools")
    with open(tmp_path / "pod/pods/pods.h", "a") as header:
        header.write("/* more */\n")
    assert pod_images.content_hash("tools") != packages
    (tmp_path / "pod/pause.c").write_text("int main(void) { return 0; }")
    assert pod_images.content_hash("pause") != before["pause"]


def test_another_compiler_makes_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hashes = set()
    for name in ("x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu-gcc-14"):
        (tmp_path / name).touch(mode=0o755)
        (tmp_path / "gcc").unlink(missing_ok=True)
        (tmp_path / "gcc").symlink_to(name)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert pod_images.compiler() == name
        hashes |= {pod_images.content_hash(kind) for kind in pod_images.KINDS}
    assert len(hashes) == 2 * len(pod_images.KINDS)
