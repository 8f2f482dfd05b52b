"""The FTP client of the guest against a server of ours that waits before the first byte and in the middle."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.places import PLATFORMS
from tests.support.started_commands import unused_port

CLIENT = PLATFORMS / "lab/guest/overlay/usr/local/bin/ib-ftp"
CONTENT = bytes(range(256)) * 400
BEFORE_S, BETWEEN_S = 0.2, 0.1
ANSWERS = {"USER": "331 name", "PASS": "230 in", "TYPE": "200 type", "QUIT": "221 bye"}


def serve(control: socket.socket, data: socket.socket) -> None:
    connection, _ = control.accept()
    with connection, connection.makefile("rw", newline="\r\n") as lines:

        def say(line: str) -> None:
            lines.write(line + "\n")
            lines.flush()

        say("220 ready")
        for line in lines:
            verb = line.split()[0].upper()
            if verb == "PASV":
                port = data.getsockname()[1]
                say(f"227 Entering Passive Mode (127,0,0,1,{port >> 8},{port & 255})")
            elif verb == "RETR" and "file" not in line:
                say("550 Failed to open file.")
            elif verb == "RETR":
                say("150 sending")
                peer, _ = data.accept()
                with peer:
                    time.sleep(BEFORE_S)
                    peer.sendall(CONTENT[:50000])
                    time.sleep(BETWEEN_S)
                    peer.sendall(CONTENT[50000:])
                say("226 done")
            else:
                say(ANSWERS[verb])
            if verb == "QUIT":
                return


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as control, socket.create_server(("127.0.0.1", 0)) as data:
        thread = threading.Thread(target=serve, args=(control, data), daemon=True)
        thread.start()
        yield control.getsockname()[1]
        thread.join(5)


def run(*arguments: str | int) -> subprocess.CompletedProcess[str]:
    argv = [shutil.which("python3"), CLIENT, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


def test_times_are_of_the_first_and_the_last_byte(port: int) -> None:
    done = run("get", "--address", "127.0.0.1", "--port", port, "--file", "file", "--bytes", len(CONTENT))
    found = json.loads(done.stdout)
    assert found["bytes"] == len(CONTENT)
    assert found["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert found["login_s"] + BEFORE_S <= found["first_byte_s"] <= found["total_s"] - BETWEEN_S + 0.01


@pytest.mark.parametrize("asked", [len(CONTENT) - 1, len(CONTENT) + 1])
def test_other_sizes_show(port: int, asked: int) -> None:
    done = run("get", "--address", "127.0.0.1", "--port", port, "--file", "file", "--bytes", asked)
    assert json.loads(done.stdout)["bytes"] == len(CONTENT)


def test_missing_file_is_an_error(port: int) -> None:
    done = run("get", "--address", "127.0.0.1", "--port", port, "--file", "gone", "--bytes", 5)
    assert (done.returncode, done.stdout) == (1, "")
    assert "550 Failed to open file" in done.stderr


def test_ready_needs_a_server(port: int) -> None:
    assert run("ready", "--address", "127.0.0.1", "--port", port).returncode == 0
    assert run("ready", "--address", "127.0.0.1", "--port", unused_port()).returncode == 1
