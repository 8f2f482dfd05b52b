"""High-level runtimes and the low-level ones that they take: their configurations, and what stands before programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from infrabench_platforms.clusters import runtimes


def test_the_wrapper_of_gvisors_shim_shows_the_map_to_the_verb_that_starts_and_to_nothing_else(tmp_path: Path) -> None:
    shim, users = tmp_path / "shim", tmp_path / "map"
    shim.write_text("#!/bin/sh\ncat /proc/self/uid_map; head -n 1 /proc/$$/uid_map; printf '%s\\n' \"$@\"\n")
    users.write_text("0 0 7\n")
    shim.chmod(0o755)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(runtimes._SHIM_WRAPPER.format(shim=shim).replace(runtimes.GVISOR_USER_MAP, str(users)))

    def run(*words: str) -> list[str]:
        argv = ["sh", str(wrapper), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout.splitlines()

    child, own, *words = run("-id", "a b", "start")
    assert words == ["-id", "a b", "start"]
    assert own == "0 0 7"
    assert child.split() != ["0", "0", "7"]  # a program that the shim starts sees its own
    assert run("-id", "x", "delete")[1].split() == child.split()
    assert "0 0 7" not in Path("/proc/self/mountinfo").read_text()
    assert str(users) not in Path("/proc/self/mountinfo").read_text()
