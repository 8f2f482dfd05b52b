"""Files of random bytes and their hashes. Runs on the store as ``python3 -c TEXT VERB WORD...``; one JSON object.

``write FOLDER FILES BYTES``: makes so many files of so many bytes, each flushed. ``read FOLDER PART SECONDS``: reads
the first PART-th of them (1: all). Both print {"verb", "begun_s", "done_s", "bytes", "files": {name: SHA-256},
"unreadable": {name: why}}; the hashes of ``write`` are of the bytes in memory, before any storage has seen them.
``wait SECONDS STORE...``: asks the store (the beginning of its verbs) for its state until it is clean, and prints that.
Standard library only.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

PIECE = 2**20
POLL_S = 0.5


def write(folder, files, size):
    """Make the files; return hashes, and that every one was written."""
    hashes = {}
    for number in range(int(files)):
        path, digest, left = Path(folder) / f"file-{number:04d}", hashlib.sha256(), int(size)
        with path.open("xb", buffering=0) as file:
            while left:
                data = os.urandom(min(PIECE, left))
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                digest.update(data)
                left -= len(data)
            os.fsync(file.fileno())
        hashes[path.name] = digest.hexdigest()
    flush(folder)
    return {"bytes": int(files) * int(size), "files": hashes, "unreadable": {}}


def read(folder, part, seconds):
    """Read files, all at once; return the hashes of those that could be read to their end, and why others could not.

    A file that is not read within so many seconds is given up: what it waits for may never come.
    """
    try:
        names = sorted(entry.name for entry in Path(folder).iterdir() if entry.name.startswith("file-"))
    except OSError as error:
        return {"bytes": 0, "files": {}, "unreadable": {".": error.strerror}}
    names = names[: -(-len(names) // int(part))]
    found, threads = {}, []
    for name in names:
        threads.append(threading.Thread(target=hashed, args=(Path(folder) / name, found), daemon=True))
        threads[-1].start()
    deadline = time.monotonic() + float(seconds)
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    rows = {name: found.get(name, (None, 0, "no answer")) for name in names}
    return {
        "bytes": sum(size for _, size, _ in rows.values()),
        "files": {name: digest for name, (digest, _, _) in rows.items() if digest},
        "unreadable": {name: why for name, (_, _, why) in rows.items() if why},
    }


def hashed(path, found):
    """Put the file's hash, or why it cannot be read, into `found`."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as file:
            while data := file.read(PIECE):
                digest.update(data)
                size += len(data)
    except OSError as error:
        found[path.name] = (None, size, error.strerror)
    else:
        found[path.name] = (digest.hexdigest(), size, None)


def flush(folder):
    """Return once the folder itself is on the disks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def wait(seconds, *store):
    """Return the first state that is clean."""
    deadline = time.monotonic() + float(seconds)
    while True:
        done = subprocess.run([*store, "state"], capture_output=True, text=True, timeout=float(seconds))
        if done.returncode:
            sys.exit(f"state ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        state = json.loads(done.stdout)
        if state["clean"]:
            return {"state": state}
        if time.monotonic() > deadline:
            sys.exit(f"the store was not clean within {seconds} s: {done.stdout.strip()[-400:]}")
        time.sleep(POLL_S)


def main(verb, *words):
    """Return what a verb did, as it is printed."""
    begun_s = time.time()
    told = {"write": write, "read": read, "wait": wait}[verb](*words)
    return {"verb": verb, "begun_s": begun_s, "done_s": time.time(), **told}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
        sys.stdout.flush()
        os._exit(0)  # a thread that waits for what never comes is not waited for
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        sys.exit(f"integrity: {error}")
