"""A host far away, on loopback: an SSH server in a process of its own, which can be stopped and killed.

Arguments: folder with ``host_key`` and ``key.pub``, and a port (0: any). Prints the port, and then serves.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import paramiko

CHUNK = 1 << 15


class Door(paramiko.ServerInterface):
    """Lets one key in, and runs each command in a shell, as sshd does."""

    def __init__(self, known: str) -> None:
        self.known = known

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        right = base64.b64encode(key.asbytes()).decode() == self.known
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=carry_out, args=(channel, command.decode()), daemon=True).start()
        return True


def carry_out(channel: paramiko.Channel, command: str) -> None:
    pipe = subprocess.PIPE
    child = subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    threading.Thread(target=taken, args=(channel, child), daemon=True).start()
    errors = threading.Thread(target=told, args=(child.stderr.fileno(), channel.sendall_stderr), daemon=True)
    errors.start()
    told(child.stdout.fileno(), channel.sendall)
    errors.join()
    with suppress(OSError, EOFError, paramiko.SSHException):
        channel.send_exit_status(child.wait() % 256)
        channel.close()


def taken(channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        while data := channel.recv(CHUNK):
            os.write(child.stdin.fileno(), data) if len(data) <= 4096 else child.stdin.write(data)
            child.stdin.flush()
    with suppress(OSError):
        child.stdin.close()


def told(descriptor: int, send) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        while data := os.read(descriptor, CHUNK):
            send(data)


def main(folder: str, port: str) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    home = Path(folder)
    key = paramiko.Ed25519Key(filename=str(home / "host_key"))
    listening = socket.create_server(("127.0.0.1", int(port)))
    print(listening.getsockname()[1], flush=True)  # noqa: T201 (who started it reads this)
    while True:
        one, _ = listening.accept()
        transport = paramiko.Transport(one)
        transport.add_server_key(key)
        with suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=Door((home / "key.pub").read_text().split()[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
