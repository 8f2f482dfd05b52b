"""Keys that are made or written here are for their owner's eyes alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.lab import shell
from tests.unit.security import test_key_files

_open_umask = test_key_files._open_umask  # the fixture of the module beside it in the gate


def test_another_user_holds_no_lock_of_the_lab_and_enters_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        state = Path(folder) / "state"
        monkeypatch.setenv("INFRABENCH_STATE", str(state))
        with shell.locked("lock"), shell.in_use():
            (state / "images").mkdir()
        for command in (("flock", "-n", state / "lock", "true"), ("flock", "-n", state / "use.lock", "true"),
                        ("ls", state / "images")):  # fmt: skip
            as_other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *map(str, command))
            assert LocalHost().run(as_other, timeout_s=10).stderr.endswith(b"Permission denied\n")
            assert LocalHost().run([str(each) for each in command], timeout_s=10).ok
