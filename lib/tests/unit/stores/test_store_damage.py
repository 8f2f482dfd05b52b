"""Damage finds the blocks of files by content, where they are once, and hits nothing else."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from infrabench_platforms.stores.node import damage, disks
from infrabench_platforms.stores.node.config import Config, StoreError
from infrabench_platforms.stores.node.damage import BLOCK

MIB = 2**20


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A store whose disks hold four files each, at other places, between data of others and holes."""
    made = Config("ceph", "one", 64 * MIB, 1, homes=str(tmp_path))
    made.mount.mkdir(parents=True)
    disks.folder(made).mkdir()
    monkeypatch.setattr(damage.disks, "device", disks.file)  # the file itself stands for its loop device
    monkeypatch.setattr(damage, "_overwrite", overwrite)
    draw = random.Random(7)
    for number in range(4):
        (made.mount / f"f{number}").write_bytes(draw.randbytes(MIB))
    for disk in range(2):
        with open(disks.file(made, disk), "wb") as image:
            image.truncate(64 * MIB)
            for number in range(4):
                image.seek((5 * number + disk + 1) * 2 * MIB + disk * BLOCK)
                image.write(draw.randbytes(64 * BLOCK) + (made.mount / f"f{number}").read_bytes())
    return made


def overwrite(device: Path, offsets: list[int]) -> None:
    with open(device, "r+b") as file:
        for offset in offsets:
            file.seek(offset)
            file.write(os.urandom(BLOCK))


@pytest.mark.parametrize(("hit", "count"), [((1,), 4), ((0, 1), 2)])
def test_one_block_of_each_file_is_hit_on_the_disks_that_were_meant(config, hit, count):
    before, lost = [disks.file(config, disk).read_bytes() for disk in (0, 1)], []
    told = damage.damage_files(config, hit)
    assert (told["places"], told["disks"], told["bytes"]) == (count, list(hit), count * len(hit) * BLOCK)
    for disk in (0, 1):
        one, other = before[disk], disks.file(config, disk).read_bytes()
        blocks = [at for at in range(0, len(one), BLOCK) if one[at : at + BLOCK] != other[at : at + BLOCK]]
        assert len(blocks) == (count if disk in hit else 0)
        files = {name: (config.mount / name).read_bytes() for name in told["files"]}
        held = [name for at in blocks for name, data in files.items() if before[disk][at : at + BLOCK] in data]
        assert sorted(held) == (sorted(told["files"]) if disk in hit else [])
        lost.append({before[disk][at : at + BLOCK] for at in blocks})
    assert hit == (1,) or lost[0] == lost[1]  # both copies of one block


def test_what_is_on_a_disk_twice_is_left_alone(config):
    whole = (config.mount / "f0").read_bytes()
    with open(disks.file(config, 1), "r+b") as image:
        image.seek(60 * MIB)
        image.write(whole)  # data of others that happens to be the same
    assert damage.damage_files(config, (1,))["files"] == ["f1", "f2", "f3"]


def test_files_that_cannot_be_told_on_a_disk_are_an_error(config):
    for path in config.mount.iterdir():
        path.write_bytes(bytes(MIB))
    with pytest.raises(StoreError, match="compressible"):
        damage.damage_files(config, (1,))
    for path in config.mount.iterdir():
        path.write_bytes(os.urandom(MIB))  # never written to the disks
    with pytest.raises(StoreError, match="once and as it is in the file"):
        damage.damage_files(config, (1,))
    for path in config.mount.iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="no files"):
        damage.damage_files(config, (1,))
