"""A disk is lost and replaced under a constant load. Runs on the store as ``python3 -c TEXT ASKED``; one JSON object.

ASKED is JSON: ``store`` (the beginning of its verbs), ``folder`` (of our own), ``fio`` (the load, without its log),
``disk`` (0, 1, or null: drawn now), ``lead_s``, ``tail_s``, ``poll_s``, ``bin_s``, ``limit_s`` (for the rebuild).

The load begins; after ``lead_s`` the disk fails; once the store says that it is not clean, the disk is replaced; and
``tail_s`` after it is clean the load is ended. The store is asked for its state all the time, before the loss too, so
that asking costs the load the same throughout. Every request of the load is counted in the bin in which it was
completed. All times are of this machine's clock. Standard library only.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ANSWER_S = 60.0  # for a state
SEEN_S = 90.0  # until the store says that a disk is lost
END_S = 60.0  # fio writes its log and report
INTERRUPTED = 128  # how fio ends when it is asked to


class Failed(Exception):
    """What did not happen as it should."""


def main(asked):
    """Return what happened, as it is printed."""
    folder = Path(asked["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    disk = random.SystemRandom().randrange(2) if asked["disk"] is None else asked["disk"]
    load, states = Load(asked, folder), States(asked)
    try:
        load.begin()
        states.begin()
        events = lose(asked, disk, load, states)
        report = load.end()
        return {
            "disk": disk,
            "events": events,
            "states": states.end(),
            "bin_s": asked["bin_s"],
            "bins": bins(load.log, asked["bin_s"]),
            "fio": report,
        }
    finally:
        states.end()
        load.kill()
        shutil.rmtree(folder, ignore_errors=True)


def lose(asked, disk, load, states):
    """Lose the disk and replace it; return the store's answers once it is clean again and the tail has passed."""
    deadline = time.monotonic() + asked["limit_s"]
    if not states.until(lambda clean: True, SEEN_S, load):
        raise Failed("the store is not clean before a disk is lost")
    load.rest(asked["lead_s"])
    events = {"fail": ask(asked, asked["limit_s"], "fail", str(disk))}
    states.until(lambda clean: not clean, SEEN_S, load)
    events["replace"] = ask(asked, asked["limit_s"], "replace", str(disk))
    while True:
        states.until(lambda clean: clean, deadline - time.monotonic(), load)
        load.rest(asked["tail_s"])
        if states.until(lambda clean: True, SEEN_S, load):
            return events


def ask(asked, wait_s, *words):
    """Return what the store answers to a verb."""
    done = subprocess.run([*asked["store"], *words], capture_output=True, text=True, timeout=wait_s)
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


class States:
    """What the store says of itself, asked at a fixed pace by a thread."""

    def __init__(self, asked):
        self.asked, self.rows, self.wrong = asked, [], None
        self.stop, self.more = threading.Event(), threading.Condition()
        self.thread = threading.Thread(target=self.poll, daemon=True)

    def begin(self):
        self.thread.start()

    def poll(self):
        due = time.monotonic()
        while not self.stop.is_set():
            try:
                told = ask(self.asked, ANSWER_S, "state")
                row = {key: told[key] for key in ("begun_s", "done_s", "clean", "copied_B", "left_B")}
                row |= {"since_s": told["since_s"]} if "since_s" in told else {}
            except (Failed, subprocess.TimeoutExpired, ValueError, KeyError) as error:
                row, self.wrong = None, f"state: {error!r}"
            with self.more:
                self.rows += [row] if row else []
                self.more.notify_all()
            if not row:
                return
            due = max(due + self.asked["poll_s"], time.monotonic())
            self.stop.wait(due - time.monotonic())

    def until(self, true, wait_s, load):
        """Return what the first state that begins from now on, and for which `true` is so, says of being clean."""
        since_s, deadline = time.time(), time.monotonic() + wait_s
        while True:
            load.check()
            with self.more:
                for row in self.rows:
                    if row["begun_s"] >= since_s and true(row["clean"]):
                        return row["clean"]
                self.more.wait(0.1)
            if self.wrong:
                raise Failed(self.wrong)
            if time.monotonic() > deadline:
                raise Failed(f"the store's state did not change within {wait_s:.0f} s: {self.rows[-1:]}")

    def end(self):
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join()
        return self.rows


class Load:
    """fio, from its first request until it is told to end."""

    def __init__(self, asked, folder):
        prefix = folder / "load"
        # Every request has a line of its own: an average over a time in which nothing was completed would hide that.
        self.argv = [*asked["fio"], f"--write_lat_log={prefix}"]
        self.log, self.said = folder / "load_lat.log", folder / "said"
        self.process = None

    def begin(self):
        # An exception between the start of the load and the moment in which it is known here would leave it behind.
        late = []
        before = signal.signal(signal.SIGTERM, lambda number, frame: late.append(number))
        try:
            with self.said.open("wb") as said, self.said.with_suffix(".err").open("wb") as complaints:
                self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=said, stderr=complaints)
        finally:
            signal.signal(signal.SIGTERM, before)
        if late:
            ended(late[0], None)

    def check(self):
        """Raise `Failed` when the load has ended before it was told to."""
        if self.process.poll() is not None:
            said = self.said.with_suffix(".err").read_text(errors="replace") or self.said.read_text(errors="replace")
            raise Failed(f"the load ended with {self.process.returncode}: {said.strip()[-400:]}")

    def rest(self, wait_s):
        """Let it run for a while."""
        deadline = time.monotonic() + wait_s
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.1))

    def end(self):
        """Tell it to end, and return its report."""
        self.check()
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(END_S)
        said = self.said.read_text(errors="replace")
        if status not in (0, INTERRUPTED):
            raise Failed(f"the load ended with {status}: {said[-400:]}")
        return json.loads(said[said.index("{") :])  # it says before that it was interrupted

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def bins(log, bin_s):
    """Return rows [begin, reads, their sum of latencies, writes, sum, longest], in Unix time and seconds.

    One for each bin in which something was completed; a line of `log` is of one request: Unix time in ms, latency in
    ns, 0 for reads and 1 for writes.
    """
    found = {}
    with log.open() as lines:
        for line in lines:
            at_ms, latency_ns, way = map(int, line.split(",")[:3])
            number = int(at_ms / 1e3 / bin_s)
            row = found.setdefault(number, [round(number * bin_s, 3), 0, 0.0, 0, 0.0, 0.0])
            row[1 + 2 * way] += 1
            row[2 + 2 * way] += latency_ns * 1e-9
            row[5] = max(row[5], latency_ns * 1e-9)
    return [[round(each, 9) for each in found[number]] for number in sorted(found)]


def ended(number, frame):
    """End by an exception, so that the load goes too."""
    raise Failed(f"signal {number}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    try:
        sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
    except (Failed, subprocess.TimeoutExpired, OSError, ValueError) as error:
        sys.exit(f"rebuild: {error}")
