"""Images are named by the hash of what goes into them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.lab import images, pod_images


def test_a_node_has_everything_that_a_guest_has() -> None:
    guest, node = images.packages("guest"), images.packages("node")
    assert set(guest) < set(node)
    assert len(node) == len(set(node))
    assert {"docker.io", "lxc", "lxd", "openssh-server"} <= set(node)


@pytest.mark.parametrize(("here", "slurm"), [("bookworm", "bookworm"), ("trixie", "trixie"), ("noble", "trixie")])
def test_nodes_with_this_python_are_of_its_release(here: str, slurm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": here})
    others = {"guest": "trixie", "node": "trixie", "cluster": "trixie", "node12": "bookworm"}
    assert {kind: images.suite(kind) for kind in (*others, "slurm")} == {**others, "slurm": slurm}


def test_the_hash_follows_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {}
    for part in {part for kind in images.KINDS for part in images.parts(kind)}:
        parts[part.name] = tmp_path / part.name
        shutil.copytree(part, parts[part.name])
    monkeypatch.setattr(images, "parts", lambda kind: [parts[name] for name in images.KINDS[kind]])
    before = images.content_hash("guest"), images.content_hash("node")
    assert before == (images.content_hash("guest"), images.content_hash("node"))
    script = parts["node"] / "setup.sh"
    script.write_text(script.read_text() + "\n: # more\n")
    assert images.content_hash("guest") == before[0]
    assert images.content_hash("node") != before[1]
    with open(parts["guest"] / "packages.txt", "a") as packages:
        packages.write("jq  # one more\n")
    assert images.content_hash("guest") != before[0]


def test_a_named_archive_makes_other_images_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> tuple[str, str, tuple[str | Path, ...]]:
        command = images.mmdebstrap("minbase", ["a", "b"], "trixie", tmp_path, "--customize-hook=true")
        return images.content_hash("guest"), pod_images.content_hash("tools"), command

    monkeypatch.delenv(images.ARCHIVE, raising=False)
    guest, tools, command = state()
    assert command[-3:] == ("--customize-hook=true", "trixie", tmp_path)  # apt's own archives, which have to be current
    monkeypatch.setenv(images.ARCHIVE, "https://archive.example/debian/20260101T000000Z")
    of_a_day = state()
    assert of_a_day[2][-1] == "https://archive.example/debian/20260101T000000Z"
    assert images.OF_A_DAY in of_a_day[2]
    assert of_a_day[0] != guest
    assert of_a_day[1] != tools
    monkeypatch.setenv(images.ARCHIVE, "https://archive.example/debian/20260201T000000Z")
    assert state()[0] not in (guest, of_a_day[0])


@pytest.mark.parametrize("address", ["--customize-hook=rm", "20260101", "https://archive.example/a b"])
def test_what_is_no_address_of_an_archive_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(images.ARCHIVE, address)
    with pytest.raises(ProvisionError, match="INFRABENCH_DEBIAN must be an archive's address"):
        images.content_hash("guest")


def test_installed_packages_are_read_from_dpkg_status() -> None:
    status = (
        "Package: b\nStatus: install ok installed\nVersion: 2-1\nDescription: x\n more: text\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: a\nStatus: install ok installed\nVersion: 1:1.0\n"
    )
    assert images._installed(status) == "a 1:1.0\nb 2-1\n"
