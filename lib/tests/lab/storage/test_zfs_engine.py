"""Which engine of OpenZFS a host gets: the kernel's module, the one in user space, or none, with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infrabench.machines.hosts.host import LocalHost
from tests.unit.systems.test_zfs_engine import SOURCES


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no compiler here")
@pytest.mark.parametrize("part", ["text", "control"])
def test_what_needs_no_header_of_others_compiles_without_a_warning(part: str, tmp_path: Path) -> None:
    flags = ("-O2", "-std=gnu11", "-fPIC", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")
    built = LocalHost().run(("gcc", *flags, "-c", "-o", str(tmp_path / "o"), f"{SOURCES}/{part}.c"), timeout_s=60)
    assert built.ok, built.stderr.decode()
