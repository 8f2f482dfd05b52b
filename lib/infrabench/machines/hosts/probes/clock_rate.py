"""Runs on a host, with nothing but its python3: holds the clock rate of its processors until stdin has an empty line.

Or its end, which comes when whoever started it ends or loses the connection. Each setting is then again what it was
before, but for those that somebody else has changed meanwhile. Any other line is a question: ``lost`` answers it.

A governor that an administrator has fixed a rate with (`userspace`) holds it already, and is left alone.

Argument: the folder of the settings. Prints a line of JSON when all are set: ``before`` has the values that were
changed, by the name of their file, ``failed`` a file that cannot be set, or null; all is set back at once then. Prints
another line at the end: ``left`` are files that could not be set back, ``lost`` files that somebody else has changed.
"""

import glob
import json
import os
import signal
import sys

WANTED = {"cpu[0-9]*/cpufreq/scaling_governor": "performance", "intel_pstate/no_turbo": "1", "cpufreq/boost": "0"}
HELD = "userspace"
ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def read(path):
    """Return what a setting is; None where it cannot be told, as of a processor that is switched off."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def write(path, value):
    """Set a setting, and return whether it is set: drivers may take a value and keep their own."""
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError:
        return False
    return read(path) == value


def hold(folder, before, held):
    """Set all settings, note what they are in `held` and what they were in `before`; return one that cannot be set."""
    for pattern, value in WANTED.items():
        for path in sorted(glob.glob(os.path.join(folder, pattern))):
            found = read(path)
            if found in (None, HELD):
                continue
            held[path] = value
            if found == value:
                continue
            before[path] = found, value
            if not write(path, value):
                return path
    return None


def find_lost(held):
    return [path for path, value in held.items() if read(path) not in (None, value)]


def give_back(before):
    return [path for path, (found, value) in before.items() if read(path) == value and not write(path, found)]


def ignore_ends():
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)


def end(*_):
    ignore_ends()  # several may come together
    sys.exit(1)


def answer(**said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main(folder):
    for number in ENDS:
        signal.signal(number, end)
    before, held, lost = {}, {}, []
    try:
        failed = hold(folder, before, held)
        values = {}
        for path, (found, _) in before.items():
            values.setdefault(os.path.basename(path), set()).add(found)
        answer(before={name: sorted(every) for name, every in values.items()}, failed=failed)
        if failed is None:
            while sys.stdin.readline().strip():
                answer(lost=find_lost(held))
            lost = find_lost(held)
    finally:
        try:
            ignore_ends()
        finally:
            left = give_back(before)
    answer(left=left, lost=lost)


if __name__ == "__main__":
    main(*sys.argv[1:])
