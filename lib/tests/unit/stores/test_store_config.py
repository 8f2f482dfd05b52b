"""What a store is told, and that nothing without its label is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infrabench_platforms.stores.node import config as configs
from infrabench_platforms.stores.node import main
from infrabench_platforms.stores.node.config import Config, StoreError


def written(folder: Path, **changed: object) -> str:
    data = {"engine": "ceph", "name": "one", "disk_bytes": 2**30, "memory_bytes": 2**30, "homes": str(folder / "homes")}
    path = folder / "one.json"
    path.write_text(json.dumps({**data, **changed}))
    return str(path)


def test_a_configuration_is_read_and_everything_lies_below_its_home(tmp_path):
    config = configs.load(written(tmp_path, options={"plugin": "x.so"}))
    assert config.home == tmp_path / "homes/one"
    for path in (config.run, config.log, config.socket, config.mount, config.shown):
        assert config.home in path.parents
    assert str(config.socket) in config.uri


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"disks": 3}, "unknown keys: disks"),
        ({"name": "../etc"}, "must be plain words"),
        ({"name": ""}, "must be plain words"),
        ({"engine": "os.path"}, "must be plain words"),
        ({"raw_bytes": 2**50}, "a part of the volume"),
        ({"copies": 3}, "copies must be 2"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, changed, said):
    with pytest.raises(StoreError, match=said):
        configs.load(written(tmp_path, **changed))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"engine": "ceph"}'])
def test_half_a_file_is_refused(tmp_path, text):
    path = tmp_path / "half.json"
    path.write_text(text)
    with pytest.raises(StoreError):
        configs.load(str(path))


def test_a_folder_without_our_label_is_never_removed(tmp_path, capsys):
    path = written(tmp_path)
    home = tmp_path / "homes/one"
    home.mkdir(parents=True)
    (home / "thesis.txt").write_text("years")
    for verb in ("destroy", "create", "remake", "usage"):
        assert main.main([path, verb]) == 1
        assert "does not carry our label" in capsys.readouterr().err
    (home / configs.LABEL).write_text(json.dumps({"infrabench-store": "another"}))
    assert main.main([path, "destroy"]) == 1
    assert (home / "thesis.txt").read_text() == "years"


def test_a_home_elsewhere_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "homes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="refused"):
        configs.claim(Config("ceph", "one", 1, 1, homes=str(tmp_path / "homes")))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("engine", "words", "said"),
    [
        ("", ["fly"], "verbs are create"),
        ("", ["state"], "there is no store"),
        ("", [], "usage"),
        ("ceph", ["fail", "2"], "take one of 0, 1"),
        ("zfs", ["serve", "fast"], "take one of default, strict"),
        ("zfs", ["fill", "1k"], "no number of bytes"),
        ("ceph", ["mount", "strict", "-5"], "no number of bytes"),
        ("ceph", ["corrupt", "all"], "take one of one, both"),
        ("ceph", ["throttle"], "wrong words"),
        ("ceph", ["state", "now"], "wrong words"),
    ],
)
def test_wrong_words_are_an_error_and_no_answer(tmp_path, capsys, engine, words, said):
    path = written(tmp_path, engine=engine or "ceph")
    if engine:
        configs.claim(configs.load(path))
    assert main.main([path, *words]) == 1
    answer = capsys.readouterr()
    assert said in answer.err
    assert answer.out == ""


def test_an_engine_that_nobody_has(tmp_path, capsys):
    path = written(tmp_path, engine="btrfs")
    assert main.main([path, "create"]) == 1
    assert "unknown engine 'btrfs'" in capsys.readouterr().err
