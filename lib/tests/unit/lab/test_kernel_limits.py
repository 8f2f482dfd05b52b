"""The limits that the lab raises are put back, and what somebody else has set stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.machines.lab import kernel_limits

INSTANCES = "fs/inotify/max_user_instances"


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    """One limit of a tree that has them all."""
    for name in kernel_limits.LEAST:
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("128\n")
    return tmp_path / "sys" / INSTANCES


def test_a_low_limit_is_raised_and_put_back(limit: Path, tmp_path: Path) -> None:
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "1024\n"
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "128\n"


def test_a_higher_limit_is_left_alone(limit: Path, tmp_path: Path) -> None:
    limit.write_text("8192\n")
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "8192\n"


def test_what_somebody_sets_meanwhile_stays(limit: Path, tmp_path: Path) -> None:
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    limit.write_text("4096\n")
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "4096\n"


def test_nothing_is_put_back_where_nothing_was_raised(limit: Path, tmp_path: Path) -> None:
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "128\n"
