"""A real SSH server on loopback, inside the test's own process: commands run as this user, on this machine."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import paramiko

from infrabench.machines.hosts.host import SSHHost

CHUNK = 1 << 15


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach the server: what an inventory says of a host, and the file that knows its key."""

    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path

    def host(self, name: str = "server", kind: type[SSHHost] = SSHHost, **other: Path) -> SSHHost:
        """Return the server as a host; `other`: another key, or file of known hosts."""
        files = {"key": self.key, "known_hosts": self.known_hosts} | other
        return kind(name, self.address, user=self.user, port=self.port, **files)

    @property
    def machine(self) -> dict[str, Any]:
        """What an inventory says of the server."""
        return {"address": self.address, "port": self.port, "user": self.user, "key": str(self.key)}


class _Policy(paramiko.ServerInterface):
    def __init__(self, user: str, allowed: paramiko.PKey, into: Sequence[str], refused: Iterator[bool]) -> None:
        self._user, self._allowed, self._into, self._refused = user, allowed, into, refused

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == self._user and key == self._allowed
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_FAILED_CONNECT_FAILED if next(self._refused, False) else paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_execute, args=(channel, command, self._into), daemon=True).start()
        return True


@contextmanager
def serving(
    folder: Path, *, address: str = "127.0.0.1", user: str = "someone", into: Sequence[str] = (), port: int = 0,
    refused: Iterable[bool] = (),
) -> Iterator[Login]:  # fmt: skip
    """Yield how to log in to a server that stops with the context; its keys are made in `folder`.

    `into`: words before each command, which lead to another place than this machine. `port`: 0 for any that is free.
    `refused`: whether each session is, as a server does that has as many as it allows; those after the last are not.
    """
    host_key, own = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
    own.write_private_key_file(str(folder / "id"))
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as listener:
        port = listener.getsockname()[1]
        known = folder / "known_hosts"
        known.write_text(f"[{address}]:{port} {host_key.get_name()} {host_key.get_base64()}\n")
        listener.settimeout(0.1)
        over, transports = threading.Event(), list[paramiko.Transport]()
        policy = _Policy(user, own, into, iter(refused))
        worker = threading.Thread(target=_accept, args=(listener, host_key, policy, over, transports), daemon=True)
        worker.start()
        try:
            yield Login(address, port, user, folder / "id", known)
        finally:
            over.set()
            worker.join(10)
            for transport in transports:
                transport.close()


def _accept(
    listener: socket.socket, key: paramiko.PKey, policy: _Policy, over: threading.Event,
    transports: list[paramiko.Transport],
) -> None:  # fmt: skip
    while not over.is_set():
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            continue
        transport = paramiko.Transport(peer)
        transport.add_server_key(key)
        transports.append(transport)
        with suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(threading.Event(), policy)


def _execute(channel: paramiko.Channel, command: bytes, into: Sequence[str]) -> None:
    child = subprocess.Popen(
        [*into, "sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        start_new_session=True, env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    ways = [
        threading.Thread(target=_to_peer, args=(child.stdout, channel.sendall), daemon=True),
        threading.Thread(target=_to_peer, args=(child.stderr, channel.sendall_stderr), daemon=True),
    ]
    threading.Thread(target=_to_child, args=(channel, child), daemon=True).start()
    for way in ways:
        way.start()
    for way in ways:
        way.join()
    with suppress(OSError, EOFError):
        channel.send_exit_status(child.wait())
        channel.close()


def _to_peer(source: IO[bytes], send: Callable[[bytes], object]) -> None:
    with suppress(OSError, EOFError):
        while data := source.read(CHUNK):
            send(data)


def _to_child(channel: paramiko.Channel, child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    with suppress(OSError, EOFError):
        while data := channel.recv(CHUNK):
            child.stdin.write(data)
    with suppress(OSError):
        child.stdin.close()
