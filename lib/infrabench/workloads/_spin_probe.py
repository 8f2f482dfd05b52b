"""Runs inside a target by its own python3: fixed chunks of work, each followed by a busy-wait of a known share.

argv[1]: number of chunks. The environment variable INFRABENCH_BUSY_SHARE (default 0) is how long each busy-wait lasts,
as a share of its own chunk: 0.05 makes the whole take 1.05 times as long, whatever the speed of the machine.
"""

import hashlib
import json
import os
import sys
import time

BLOCK = bytes(range(256)) * 4096  # 1 MiB: about a millisecond of one core


def main():
    chunks, share = int(sys.argv[1]), float(os.environ.get("INFRABENCH_BUSY_SHARE", "0"))
    clock = time.perf_counter
    digest = hashlib.sha256()
    digest.update(BLOCK)  # the first chunk after start-up is not counted
    begin = clock()
    for _ in range(chunks):
        start = clock()
        digest.update(BLOCK)
        now = clock()
        until = now + share * (now - start)
        while now < until:
            now = clock()
    told = {"chunks": chunks, "busy_share": share, "seconds": clock() - begin, "sha256": digest.hexdigest()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
