"""Runs on a host, with nothing but its python3: prints when its kernel started, in Unix nanoseconds.

The kernel keeps it as one number, exact until somebody sets the clock, and the same for all containers of a machine; a
`boot_id` is not, for containers are given one of their own.
"""

import time

TRIES = 50  # the two clocks are read one after the other: the shortest time between gives the truth

if __name__ == "__main__":
    print(max(time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
              for _ in range(TRIES)))  # fmt: skip
