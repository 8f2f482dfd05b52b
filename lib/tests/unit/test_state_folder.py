"""The state folder of the lab: what is in it is removed, so it is ours by a marker and never by the names in it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infrabench.core import NotRunnable, ProvisionError, SiteError
from infrabench_platforms import lab, provider
from infrabench_platforms.lab import go_tools, images, network, nodes, shell


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state"
    monkeypatch.setenv("INFRABENCH_STATE", str(path))
    monkeypatch.setattr(network, "LINKS", tmp_path / "links")  # whatever lab stands on this machine
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


@pytest.mark.parametrize("name", ["lab", "images", "data", "go", "thesis", "lost+found"])
def test_a_folder_of_other_things_is_refused_and_kept(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "require", lambda: None)
    mine = folder / name / "chapter.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = folder.stat().st_mode
    for remove in (lab.down, lab.purge, lab.up, go_tools.forget_caches, go_tools.purge, images.purge):
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


@pytest.mark.parametrize(
    ("signed", "told"),
    [
        ("/disk/other\n", "INFRABENCH_STATE=/disk/other infrabench lab down"),
        ("\n", "has a bridge infrabench0 that no lab has made"),
    ],
)
def test_a_lab_of_another_state_folder_and_a_bridge_that_no_lab_has_made_are_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, signed: str, told: str
) -> None:
    commands: list[tuple[object, ...]] = []
    bridge = network.LINKS / network.BRIDGE
    bridge.mkdir(parents=True)
    (bridge / "ifalias").write_text(signed)
    (bridge / "address").write_text("52:54:00:12:34:56\n")
    for module in (network, nodes):
        monkeypatch.setattr(module, "sh", lambda *argv, **_: commands.append(argv))
    monkeypatch.setattr(lab, "require", lambda: None)
    for change in (network.up, network.down, lab.up, lab.down, lab.purge):
        with pytest.raises(SiteError, match=told):
            change()
    assert commands == []
    (bridge / "address").write_text(f"{network.BRIDGE_MAC}\n")  # its maker was killed before it wrote whose it is
    assert network.is_ours() is (signed == "\n")


@pytest.mark.parametrize("spelling", ["state", "./x/../state", "~/state", "link"])
def test_a_state_folder_is_one_by_any_path(folder: Path, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path stands on the bridge, and mount points are compared with it."""
    (folder.parent / "link").symlink_to("state")
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("INFRABENCH_STATE", spelling)
    assert shell.open_state_dir() == shell.state_dir() == folder
    monkeypatch.chdir("/")
    if spelling == "state":
        assert shell.state_dir() == Path("/state")  # another one


def test_no_name_of_a_state_folder_is_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", "")
    assert shell.state_dir() == shell._default_state_dir().resolve()


@pytest.mark.parametrize(
    "marker", [b"", bytes(40), b"[]", b'{"label": "*"}', b'{"label": "../x"}', b'{"label": 7}', b"{}", b"\xff", None]
)
def test_a_marker_without_a_label_is_told_and_nothing_is_removed(
    folder: Path, marker: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of what is ended are made of it: a pattern there would be anybody's."""
    monkeypatch.setattr(lab, "require", lambda: None)
    (folder / "images").mkdir(parents=True)
    if marker is None:
        (folder / shell.MARKER).mkdir()
    else:
        (folder / shell.MARKER).write_bytes(marker)
    for use in (lab.up, lab.down, lab.purge, lab.status, nodes.container_prefix):
        with pytest.raises(SiteError, match=rf"{shell.MARKER} is damaged: it holds no label"):
            use()
    assert (folder / "images").is_dir()


def test_a_state_folder_of_another_user_is_refused_and_an_open_one_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.open_state_dir()
    folder.chmod(0o777)
    assert shell.open_state_dir().stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(shell.os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(SiteError, match=r"belongs to user \d+, who could change what is run from there"):
        shell.open_state_dir()


@pytest.mark.parametrize("inside", ["", "file", "file/below"])
def test_a_place_that_can_be_no_folder_is_told(folder: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "file").write_text("mine")
    (folder / "loop").symlink_to("loop")
    monkeypatch.setenv("INFRABENCH_STATE", str(folder / (inside or "loop")))
    with pytest.raises(SiteError, match=r"is no path of a folder|cannot hold images and the lab"):
        shell.open_state_dir()
    assert (folder / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["a b", "a:b", "a,upperdir=", "a\nlxc.hook.start=x", 'a"b', "a\\b"])
def test_no_lab_where_its_path_has_options_of_mounts(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(folder / name))
    monkeypatch.setattr(shell.os, "geteuid", lambda: 0)
    monkeypatch.setattr(shell.shutil, "which", lambda program: program)
    with pytest.raises(NotRunnable, match="letters, digits"):
        lab.up()
    assert not folder.exists()


@pytest.mark.parametrize("name", ['a"b', "a$(x)", "a`x`", "a\\"])
def test_no_image_is_made_from_a_checkout_whose_path_a_shell_would_read_in_another_way(name: str) -> None:
    with pytest.raises(ProvisionError, match="move the checkout elsewhere"):
        images._hooks(Path("/home") / name)


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
    monkeypatch.setattr(shell, "_keep_others_out", lambda place: place.chmod(0o700))  # whoever runs this test
    monkeypatch.setattr(provider.shutil, "which", lambda program: program)
    assert provider.guest_image(print)["guest_image_reason"].endswith("no mmdebstrap here")
    assert modes == [0o700]
    assert (folder / shell.MARKER).exists()
    scratch = [str(each) for each in words if str(each).startswith("TMPDIR=")]
    assert scratch == ([f"TMPDIR={folder}/images/guest-{images.content_hash('guest')}.part"] if user == 0 else [])
