"""Runs on a host, with nothing but its python3: ends what an earlier trial has started and left.

Argument: what the environment of such a process has. For each line on stdin it ends those that run, with their
children, and prints one line of JSON: ``ended`` and ``left`` (those that cannot be ended), each [process id, name].

A process is ended only if it bears the mark, or its parent does; by a handle (where there are any), so that no other
one that got its number can be meant. What runs in a container (another PID namespace) goes with the container.
"""

import contextlib
import errno
import json
import os
import signal
import sys
import time

WAIT_S = 2.0  # for processes to go: one that waits for a disk may need it
POLL_S = 0.01


def read(pid, name):
    with open("/proc/" + pid + "/" + name, "rb") as file:
        return file.read()


def is_marked(pid, mark):
    try:
        return b"\0" + mark in b"\0" + read(pid, "environ") and namespace(pid) == namespace("self")
    except OSError:  # it has ended, or is another user's
        return False


def namespace(pid):
    return os.readlink("/proc/" + pid + "/ns/pid")


def children(pid):
    try:
        return read(pid, "task/" + pid + "/children").decode().split()
    except OSError:
        return []


def handle(pid):
    try:
        return os.pidfd_open(int(pid))
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", errno.ENOSYS) == errno.ENOSYS:
            return None  # before Python 3.9, or Linux 5.3
        raise


def end(found):
    """End processes that, once there is a handle of each, still are ours."""
    handles = {}
    for pid, is_ours in found.items():
        try:
            handles[pid] = handle(pid)
        except OSError:  # it has ended
            continue
        if not is_ours():
            release(handles.pop(pid))
    for pid, each in handles.items():
        with contextlib.suppress(OSError):  # it has ended, or may not be ended by this user
            os.kill(int(pid), signal.SIGKILL) if each is None else signal.pidfd_send_signal(each, signal.SIGKILL)
        release(each)


def release(each):
    if each is not None:
        os.close(each)


def sweep(mark):
    deadline = time.monotonic() + WAIT_S
    known = {}
    while True:
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if is_marked(pid, mark):
                found[pid] = lambda pid=pid: is_marked(pid, mark)
                for child in children(pid):
                    found.setdefault(child, lambda pid=pid, child=child: child in children(pid))
        for pid in found:
            known.setdefault(pid, name(pid))
        if not found or time.monotonic() > deadline:
            return {
                "ended": [[int(pid), known[pid]] for pid in known if pid not in found],
                "left": [[int(pid), known[pid]] for pid in found],
            }
        end(found)
        time.sleep(POLL_S)


def name(pid):
    try:
        return "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in read(pid, "comm").rstrip(b"\n"))
    except OSError:
        return "?"


if __name__ == "__main__":
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(sweep(sys.argv[1].encode())) + "\n")
        sys.stdout.flush()
