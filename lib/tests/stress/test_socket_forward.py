"""A forwarded socket: bytes go both ways, and what a killed process left is removed by the next one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from infrabench.machines.hosts.socket_forward import FOLDER, forward_socket

KILLED = """
import os
from infrabench.machines.hosts.socket_forward import forward_socket
with forward_socket(lambda: None) as local:
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    with tempfile.TemporaryDirectory() as folder:  # a short path: that of a socket has at most 107 bytes
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


class Echo:
    """A channel that sends back what it is sent."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.settimeout, self.recv, self.sendall = self.here.settimeout, self.there.recv, self.here.sendall

    def shutdown_write(self) -> None:
        self.here.shutdown(socket.SHUT_WR)


def test_each_connection_has_a_channel_and_its_end_is_passed_on(home: Path) -> None:
    with forward_socket(Echo) as local:
        for words in (b"one", b"two" * 100_000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(local)
                client.settimeout(20)
                client.sendall(words)
                client.shutdown(socket.SHUT_WR)
                received = b""
                while chunk := client.recv(1 << 16):
                    received += chunk
                assert received == words
    assert list(home.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_is_used_is_not(home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], timeout=60)
    assert done.returncode == -signal.SIGKILL
    (left,) = home.glob(f"{FOLDER}*")
    with forward_socket(Echo) as used:
        assert not left.exists()
        with forward_socket(Echo) as other:
            assert os.path.exists(used)
            assert os.path.exists(other)
    assert list(home.iterdir()) == []
