"""Talking with a child process through its three pipes: bounded in time and in memory, whatever the child does.

A child that has ended counts as ended, also while a daemon that it left behind holds its pipes open.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

CHUNK = 1 << 16
# A command that has ended, but whose stdout a daemon still holds open, is given this long to say more.
LINGER_S = 0.5
MOST_BYTES = 64 * 2**20  # of one stream: no tool says so much, and what a trial says is kept
KEPT_BYTES = 2**20  # of a stream that was more
REAPED_S = 5.0
SIGNALS_S = 0.5  # the longest wait: a signal that arrives just before a wait is handled only after it


class Flood(Exception):
    """A command said more than `MOST_BYTES` on one stream."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What a child did. `ended_s` is the monotonic time at which it ended, or was given up."""

    status: int | None
    stdout: bytes
    stderr: bytes
    ended_s: float
    timed_out: bool
    flooded: bool


def communicate(child: subprocess.Popen[bytes], stdin: bytes, timeout_s: float) -> ChildResult:
    """Hand `stdin` to `child`, collect what it says, and return that once it has ended.

    The child leads a session of its own. Its process group is killed after `timeout_s`, when it floods a stream, and
    when this is interrupted.
    """
    talk = _Talk(child, stdin)
    try:
        timed_out, flooded = talk.until(time.monotonic() + timeout_s)
        if timed_out or flooded:
            kill_group(child)
            talk.until(time.monotonic() + LINGER_S)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel may not let go of one that waits for a disk
            child.wait(REAPED_S)
    except BaseException:  # an interrupt must not leave the tool running behind us
        kill_group(child)
        raise
    finally:
        talk.close()
    out, err = (bytes(each[:KEPT_BYTES] if flooded else each) for each in talk.heard.values())
    ended_s = talk.ended_s or time.monotonic()
    return ChildResult(None if timed_out or flooded else child.returncode, out, err, ended_s, timed_out, flooded)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the process group that `child` leads; it may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def check_size(stream: bytearray) -> None:
    """Raise `Flood` when a stream has become longer than any tool's."""
    if len(stream) > MOST_BYTES:
        raise Flood


class LineStream:
    """The two ends of a long-lived process that takes and prints lines.

    `receive` waits for output at most as long as it is told, then raises `TimeoutError`; it returns nothing at the end.
    """

    def __init__(self, send: Callable[[bytes], object], receive: Callable[[float], bytes]) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""

    def write_line(self, line: str) -> None:
        """Send a line to the process."""
        self._send(line.encode() + b"\n")

    def read_line(self, timeout_s: float) -> str:
        """Return the next line; `TimeoutError` when there is none in time, `EOFError` when the process has ended."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            try:
                chunk = self._receive(max(0.001, deadline - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(f"no line within {timeout_s:g} s") from None
            if not chunk:
                raise EOFError("the process ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace")


class _Talk:
    """The pipes that are still open, and what came out of them."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self.child, self.left = child, memoryview(stdin)
        self.heard = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
        self.ended_s: float | None = None
        self.open = selectors.PollSelector()
        self.gone = os.pidfd_open(child.pid)
        for descriptor in (self.gone, *self.heard):
            self.open.register(descriptor, selectors.EVENT_READ)
        self.input = child.stdin.fileno()
        if stdin:
            os.set_blocking(self.input, False)
            self.open.register(self.input, selectors.EVENT_WRITE)
        else:
            child.stdin.close()

    def until(self, deadline: float) -> tuple[bool, bool]:
        """Talk until the child has ended and its pipes are closed; return whether it was too late, or too much."""
        while self.open.get_map():
            last = deadline if self.ended_s is None else min(deadline, self.ended_s + LINGER_S)
            ready = self.open.select(min(SIGNALS_S, max(0.0, last - time.monotonic())))
            if not ready and time.monotonic() >= last:
                return self.ended_s is None, False
            try:
                for key, _ in ready:
                    self.one(key.fd)
            except Flood:
                return False, True
        return False, False

    def one(self, descriptor: int) -> None:
        """Do what one pipe is ready for."""
        if descriptor == self.gone:
            self.ended_s = time.monotonic()
            self.open.unregister(descriptor)
        elif descriptor == self.input:
            self.feed()
        else:
            chunk = os.read(descriptor, CHUNK)
            self.heard[descriptor] += chunk
            if not chunk:
                self.open.unregister(descriptor)
            check_size(self.heard[descriptor])

    def feed(self) -> None:
        try:
            self.left = self.left[os.write(self.input, self.left[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it ends without reading all; its status is what counts
            self.left = memoryview(b"")
        if not self.left:
            self.open.unregister(self.input)
            assert self.child.stdin is not None
            self.child.stdin.close()

    def close(self) -> None:
        self.open.close()
        os.close(self.gone)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
