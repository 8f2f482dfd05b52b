"""Runs on a host by its own python3: hash for argv[1] seconds on one core and print bytes and seconds as JSON."""

import hashlib
import json
import sys
import time

BLOCK = bytes(range(256)) * 1024  # 256 KiB


def main():
    length_s = float(sys.argv[1])
    total, begin = 0, time.monotonic()
    while True:
        hashlib.sha256(BLOCK).digest()
        total += len(BLOCK)
        spent = time.monotonic() - begin
        if spent >= length_s:
            break
    sys.stdout.write(json.dumps({"bytes": total, "seconds": spent}) + "\n")


if __name__ == "__main__":
    main()
