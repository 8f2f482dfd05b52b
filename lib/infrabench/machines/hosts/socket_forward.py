"""A unix socket here that is one over there: each connection has a channel of its own, both ways, until one ends."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from infrabench.core import SiteError, locks

CHUNK = 1 << 16
FOLDER = "infrabench-relay-"
# Copies between its own stdin/stdout and a unix socket; runs at the far end.
FAR_END = """
import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
def down():
    while True:
        b = s.recv(65536)
        if not b: os._exit(0)
        while b: b = b[os.write(1, b):]
threading.Thread(target=down, daemon=True).start()
while True:
    b = os.read(0, 65536)
    if not b: break
    s.sendall(b)
s.shutdown(socket.SHUT_WR)
threading.Event().wait(60)
"""


class Channel(Protocol):
    """What is used of an SSH channel."""

    def settimeout(self, seconds: float | None) -> None: ...

    def recv(self, size: int) -> bytes: ...

    def sendall(self, data: bytes) -> None: ...

    def shutdown_write(self) -> None: ...


@contextmanager
def forward_socket(connect: Callable[[], Channel]) -> Iterator[str]:
    """Yield the path of a local socket; `connect` opens a channel on which `FAR_END` runs, or raises `SiteError`.

    Its folder is locked while it is used, so that the next one removes those of processes that were killed.
    """
    _remove_left_folders()
    with (
        tempfile.TemporaryDirectory(prefix=FOLDER) as folder,
        locks.locked(Path(folder)),
        socket.socket(socket.AF_UNIX) as listener,
    ):
        local = f"{folder}/relay.sock"
        listener.bind(local)
        listener.listen(16)
        stop = threading.Event()
        thread = threading.Thread(target=_serve, args=(listener, connect, stop), daemon=True)
        thread.start()
        try:
            yield local
        finally:
            stop.set()
            thread.join(2)


def _remove_left_folders() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        # One without a socket may be about to be locked.
        if (folder / "relay.sock").exists() and folder.stat().st_uid == os.getuid() and not locks.is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _serve(listener: socket.socket, connect: Callable[[], Channel], stop: threading.Event) -> None:
    listener.settimeout(0.2)
    while not stop.is_set():
        try:
            peer, _ = listener.accept()
        except (TimeoutError, OSError):
            continue
        try:
            channel = connect()
        except SiteError:  # the caller sees a closed socket, and its own next command says why
            peer.close()
            continue
        channel.settimeout(None)
        there = (peer.recv, channel.sendall, channel.shutdown_write)
        back = (channel.recv, peer.sendall, functools.partial(_hang_up, peer))
        for ends in (there, back):
            threading.Thread(target=_pump, args=ends, daemon=True).start()


def _hang_up(peer: socket.socket) -> None:
    # Closing alone would leave it open as long as the other thread waits in recv, and a client would use it again.
    with peer:
        peer.shutdown(socket.SHUT_RDWR)


def _pump(read: Callable[[int], bytes], write: Callable[[bytes], Any], end: Callable[[], Any]) -> None:
    with contextlib.suppress(OSError, EOFError):
        while chunk := read(CHUNK):
            write(chunk)
    with contextlib.suppress(OSError, EOFError):
        end()
