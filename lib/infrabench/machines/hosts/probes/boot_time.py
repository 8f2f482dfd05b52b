"""Runs on a host, with nothing but its python3: prints when its kernel started, in Unix nanoseconds.

The kernel keeps it as one number, exact until somebody sets the clock, and the same for all containers of a machine; a
`boot_id` is not, for containers are given one of their own.
"""

import sys
import time

TRIES = 50  # the two clocks are read one after the other: the shortest time between gives the truth

if __name__ == "__main__":
    clocks = time.CLOCK_REALTIME, time.CLOCK_BOOTTIME
    read = [[time.clock_gettime_ns(each) for each in clocks] for _ in range(TRIES)]
    sys.stdout.write(f"{max(now - up for now, up in read)}\n")
