"""The raw area of a volume: filled once, as far as it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench_platforms.stores.node import block
from infrabench_platforms.stores.node.config import GIB, Config, StoreError


def test_the_area_is_filled_once_and_not_when_its_filling_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config("zfs", "zfs", 8 * GIB, 5 * GIB, homes=str(tmp_path))
    config.home.mkdir()
    ran: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], **_: float) -> None:
        ran.append(argv)
        if len(ran) == 1:
            raise StoreError("fio failed: the server is gone")

    monkeypatch.setattr(block.daemons, "run", run)
    with pytest.raises(StoreError, match="is gone"):
        block.fill(config, None, 1000)
    assert block.fill(config, None, 1000) == {"written_B": 1000}
    assert block.fill(config, None, 600) == {"written_B": 0}
    assert block.fill(config, None, 1100) == {"written_B": 1100}
    for argv, size in zip(ran, (1000, 1000, 1100), strict=True):
        assert {f"--uri={config.uri}", f"--size={size}", "--end_fsync=1"} <= set(argv)
    with pytest.raises(StoreError, match="too many"):
        block.fill(config, None, config.raw_bytes + 1)
