"""Channels of an SSH connection: one of each command, with a limit on what goes in, what comes out, and its end.

A unix socket over there is a socket here (`forward_socket`): each connection has a channel of its own, both ways, until
one ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko

from infrabench.core import SiteError, locks
from infrabench.machines.hosts import child_process

# What a channel raises whose connection is lost.
LOST = (paramiko.SSHException, OSError, EOFError)
FEED_BYTES = 1 << 15  # less than the window that a channel begins with: it is taken without waiting
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


def open_stream(channel: paramiko.Channel) -> child_process.LineStream:
    """Return the two ends of the process that a channel belongs to."""

    def receive(timeout_s: float) -> bytes:
        channel.settimeout(timeout_s)
        return channel.recv(child_process.CHUNK)

    return child_process.LineStream(channel.sendall, receive)


def close(channel: paramiko.Channel) -> None:
    """Close a channel. Where the connection is gone there is nobody to tell: what was found before says so."""
    with contextlib.suppress(*LOST):
        channel.close()


def start_feeding(channel: paramiko.Channel, stdin: bytes) -> threading.Thread:
    """Return the thread that hands `stdin` to the command: it may take it only after it has said much itself."""
    thread = threading.Thread(target=feed, args=(channel, stdin), daemon=True)
    if len(stdin) > FEED_BYTES:
        thread.start()
    else:
        thread.run()
    return thread


def feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Send all of `stdin` and then its end: half of it must never look like the whole."""
    left = memoryview(stdin)
    # A command that exits without reading its input closes the channel; its status is what counts.
    with contextlib.suppress(*LOST):
        while left:
            try:
                sent = channel.send(bytes(left[:FEED_BYTES]))
            except TimeoutError:
                continue  # who waits for the command's answer decides how long
            if not sent:
                return
            left = left[sent:]
        channel.shutdown_write()


def drain(channel: paramiko.Channel, out: bytearray, err: bytearray, deadline: float) -> bool:
    """Collect both streams until the command ends (True) or the deadline passes (False); `Flood` for too much."""
    channel.settimeout(child_process.LINGER_S)
    while True:
        # Asked before waiting: a command that ends just after a silent wait still has its output to be read.
        had_exited = channel.exit_status_ready()
        try:
            chunk = channel.recv(child_process.CHUNK)
        except TimeoutError:
            chunk = None
        _drain_stderr(channel, err)
        if chunk:
            out += chunk
            child_process.check_size(out)
        elif (chunk == b"" and _wait_for_end(channel, err, deadline)) or (chunk is None and had_exited):
            return True
        if time.monotonic() > deadline:
            return False


def _drain_stderr(channel: paramiko.Channel, err: bytearray) -> None:
    while channel.recv_stderr_ready():
        err += channel.recv_stderr(child_process.CHUNK)
        child_process.check_size(err)


def _wait_for_end(channel: paramiko.Channel, err: bytearray, deadline: float) -> bool:
    """After the end of stdout: collect the rest of stderr and wait for the exit status."""
    while time.monotonic() < deadline:
        ended = channel.status_event.wait(child_process.LINGER_S)
        _drain_stderr(channel, err)
        if ended:
            return True
    return False


@contextmanager
def forward_socket(connect: Callable[[], paramiko.Channel]) -> Iterator[str]:
    """Yield the path of a local socket; `connect` opens a channel on which `FAR_END` runs, or raises `SiteError`.

    Its folder is locked while it is used, so that the next one removes those of processes that were killed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        # One without a socket may be about to be locked.
        if (left / "relay.sock").exists() and left.stat().st_uid == os.getuid() and not locks.is_locked(left):
            shutil.rmtree(left, ignore_errors=True)
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


def _serve(listener: socket.socket, connect: Callable[[], paramiko.Channel], stop: threading.Event) -> None:
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
        while chunk := read(child_process.CHUNK):
            write(chunk)
    with contextlib.suppress(OSError, EOFError):
        end()
