"""Runs on a host, with nothing but its python3: holds the host for one session until stdin ends.

That is when whoever started it ends or loses the connection.

What is locked is a folder that root owns and every user may open: no user can remove it, or leave something in its
place that keeps others out; nothing is written, and a read-only file system does. Who holds the lock stands in the
arguments of the process that the kernel names: nobody can forge the lock itself.

Arguments: a folder to lock instead where it exists (or nothing), how long to wait (seconds), who claims (JSON).
Prints one line of JSON: ``state`` is ``taken``, ``shared`` (the same claim holds it already), ``busy`` (with the
``holder``, its JSON, or null where it cannot be seen) or ``error`` (with the ``reason``). ``place`` is what is locked.
"""

import fcntl
import json
import os
import sys
import time

FOLDERS = ("/run/lock", "/run", "/")
POLL_S = 0.1


def holder(lock):
    """Return who has the lock, as that process was told; None where it cannot be seen."""
    inode = str(os.fstat(lock).st_ino)
    with open("/proc/locks") as file:
        rows = [line.split() for line in file]
    for row in rows:
        if row[1:4] == ["FLOCK", "ADVISORY", "WRITE"] and row[5].split(":")[2] == inode:
            try:
                with open("/proc/" + row[4] + "/cmdline", "rb") as file:
                    told = json.loads(file.read(65536).split(b"\0")[-2])
            except (OSError, ValueError, IndexError):
                continue
            if isinstance(told, dict):
                return told
    return None


def claim(lock, wait_s, own):
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return {"state": "taken"}
        except BlockingIOError:
            other = holder(lock)
        if other is not None and other.get("claim") == own["claim"]:
            return {"state": "shared"}
        if time.monotonic() > deadline:
            return {"state": "busy", "holder": other}
        time.sleep(POLL_S)


def main(folder, wait_s, own):
    try:
        place = next(each for each in (folder, *FOLDERS) if os.path.isdir(each))
        answer = claim(os.open(place, os.O_RDONLY | os.O_DIRECTORY), float(wait_s), json.loads(own))
        answer["place"] = place
    except OSError as error:
        answer = {"state": "error", "reason": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
