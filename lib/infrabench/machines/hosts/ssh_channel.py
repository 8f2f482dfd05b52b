"""Channels of an SSH connection: one of each command, with a limit on what goes in, what comes out, and its end."""

from __future__ import annotations

import contextlib
import threading
import time

import paramiko

from infrabench.machines.hosts import child_process

# What a channel raises whose connection is lost.
LOST = (paramiko.SSHException, OSError, EOFError)
FEED_BYTES = 1 << 15  # less than the window that a channel begins with: it is taken without waiting


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
