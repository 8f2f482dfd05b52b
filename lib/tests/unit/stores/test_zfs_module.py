"""The module's parameters are the machine's: what was changed is put back, whatever happened between."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.machines.stores.node import zfs_kernel
from infrabench.machines.stores.node.config import GIB, Config, StoreError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    made = Config("zfs_kernel", "zfs", 8 * GIB, 5 * GIB, homes=str(tmp_path))
    made.home.mkdir()
    folder = tmp_path / "module/parameters"
    folder.mkdir(parents=True)
    for name, value in {"zfs_arc_max": 0, **zfs_kernel.THROTTLE["default"]}.items():
        (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(zfs_kernel, "PARAMETERS", folder)
    return made


def now() -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in zfs_kernel.PARAMETERS.iterdir()}


def test_parameters_go_back_to_what_they_were_first(config):
    before = now()
    zfs_kernel.tune(config, {"zfs_arc_max": GIB})
    zfs_kernel.tune(config, {"zfs_arc_max": 64 << 20, **zfs_kernel.THROTTLE["open"]})
    assert now()["zfs_arc_max"] == str(64 << 20)
    assert now()["zfs_vdev_nia_delay"] == "0"
    zfs_kernel.untune(config)
    assert now() == before
    zfs_kernel.untune(config)  # nothing is left to put back
    assert now() == before


def test_both_levels_set_the_same_parameters():
    assert set(zfs_kernel.THROTTLE["default"]) == set(zfs_kernel.THROTTLE["open"])


def test_a_kernel_without_the_module_is_refused(config, tmp_path, monkeypatch):
    monkeypatch.setattr(zfs_kernel, "DEVICE", tmp_path / "device")
    monkeypatch.setattr(zfs_kernel.daemons, "run", lambda *_words, **_how: "")
    assert not zfs_kernel.is_loaded()  # its parameters alone are not enough
    with pytest.raises(StoreError, match="no ZFS module"):
        zfs_kernel.load()
    (tmp_path / "device").touch()
    zfs_kernel.load()
