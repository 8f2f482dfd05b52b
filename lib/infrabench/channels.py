"""One command's channel of an SSH connection: what goes in, what comes out, and its end, each with a limit."""

from __future__ import annotations

import contextlib
import threading
import time

import paramiko

from infrabench import pipes

FEED_BYTES = 1 << 15  # less than the window that a channel begins with: it is taken without waiting


class ChannelStream:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._buffer = b""

    def write_line(self, line: str) -> None:
        self._channel.sendall(line.encode() + b"\n")

    def read_line(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            self._channel.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                chunk = self._channel.recv(pipes.CHUNK)
            except TimeoutError:
                raise TimeoutError(f"no line within {timeout_s:g} s") from None
            if not chunk:
                raise EOFError("the process ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace")


def close(channel: paramiko.Channel) -> None:
    """Close a channel. Where the connection is gone there is nobody to tell: what was found before says so."""
    with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
        channel.close()


def fed(channel: paramiko.Channel, stdin: bytes) -> threading.Thread:
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
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
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
    channel.settimeout(pipes.LINGER_S)
    while True:
        # Asked before waiting: a command that ends just after a silent wait still has its output to be read.
        had_exited = channel.exit_status_ready()
        try:
            chunk = channel.recv(pipes.CHUNK)
        except TimeoutError:
            chunk = None
        _drain_stderr(channel, err)
        if chunk:
            out += chunk
            pipes.bounded(out)
        elif (chunk == b"" and _wait_for_end(channel, err, deadline)) or (chunk is None and had_exited):
            return True
        if time.monotonic() > deadline:
            return False


def _drain_stderr(channel: paramiko.Channel, err: bytearray) -> None:
    while channel.recv_stderr_ready():
        err += channel.recv_stderr(pipes.CHUNK)
        pipes.bounded(err)


def _wait_for_end(channel: paramiko.Channel, err: bytearray, deadline: float) -> bool:
    """After the end of stdout: collect the rest of stderr and wait for the exit status."""
    while time.monotonic() < deadline:
        ended = channel.status_event.wait(pipes.LINGER_S)
        _drain_stderr(channel, err)
        if ended:
            return True
    return False
