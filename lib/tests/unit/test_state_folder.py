"""The state folder of the lab: what is in it is removed, so it is ours by a marker and never by the names in it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infrabench.core import ProvisionError, SiteError
from infrabench.machines import lab
from infrabench.machines.lab import images, network, nodes, shell
from infrabench.machines.sites import site


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state"
    monkeypatch.setenv("INFRABENCH_STATE", str(path))
    return path


def test_a_new_folder_is_marked_and_entered_by_its_owner_alone(folder: Path) -> None:
    assert shell.lab_label() == "none"
    assert shell.open_state_dir() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    label = shell.lab_label()
    assert len(bytes.fromhex(label)) == 2
    assert shell.open_state_dir() == folder
    assert shell.lab_label() == label
    assert nodes.SERVER.container == f"infrabench-{label}-server"
    assert [path.name for path in folder.iterdir()] == [shell.MARKER]


def test_makers_at_once_draw_one_label(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: (shell.open_state_dir(), shell.lab_label()), range(32)))
    assert len(set(folders)) == 1


@pytest.mark.parametrize("name", ["lab", "images", "data", "thesis"])
def test_a_folder_with_other_things_is_refused_and_nothing_of_it_removed(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "require", lambda: None)
    mine = folder / name / "chapter.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = folder.stat().st_mode
    for remove in (lab.down, lab.purge, lab.up):
        with pytest.raises(SiteError, match=rf"{folder} has other things in it.*INFRABENCH_STATE.*{folder}/infrabench"):
            remove()
    assert mine.read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == [name]
    assert folder.stat().st_mode == before


def test_the_default_folder_bears_our_name_and_is_marked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_default_state_dir", lambda: folder)
    (folder / "images").mkdir(parents=True)
    shell.open_state_dir()
    assert "label" in json.loads((folder / shell.MARKER).read_text())


def test_a_lab_of_another_state_folder_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[object, ...]] = []
    monkeypatch.setattr(network, "_owner", lambda: "/disk/other")
    monkeypatch.setattr(network, "sh", lambda *argv, **_: commands.append(argv))
    monkeypatch.setattr(nodes, "sh", lambda *argv, **_: commands.append(argv))
    monkeypatch.setattr(lab, "require", lambda: None)
    for change in (network.up, network.down, lab.up, lab.down, lab.purge):
        with pytest.raises(SiteError, match="INFRABENCH_STATE=/disk/other infrabench lab down"):
            change()
    assert commands == []


@pytest.mark.parametrize("user", [0, 1000])
def test_an_image_made_without_a_lab_lies_in_a_marked_folder_that_its_owner_alone_enters(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    """On site local: images have programs with setuid root, also while they are made."""
    modes, words = [], list[object]()

    def fail(*argv: object, **_: object) -> None:
        modes.append(folder.stat().st_mode & 0o777)
        words.extend(argv)
        raise ProvisionError("no mmdebstrap here")

    monkeypatch.setattr(images, "sh", fail)
    monkeypatch.setattr(shell.os, "geteuid", lambda: user)
    monkeypatch.setattr(site.shutil, "which", lambda program: program)
    assert site._local_guest(print)["guest_image_reason"].endswith("no mmdebstrap here")
    assert modes == [0o700]
    assert (folder / shell.MARKER).exists()
    scratch = [str(each) for each in words if str(each).startswith("TMPDIR=")]
    assert scratch == ([f"TMPDIR={folder}/images/guest-{images.content_hash('guest')}.part"] if user == 0 else [])
