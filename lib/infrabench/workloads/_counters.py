"""What the kernel's counters say about a transfer: which devices carried it, and what CPU time it took.

Parsing is pure: text of ``/proc/net/dev`` and ``/proc/stat`` in, numbers out. A counter that went backwards (a
reboot, a device made anew) and a device that is not there are `ParseError`; a counter that contradicts what a trial
claims about its path is `NotAsClaimed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infrabench.core import Capture, NotAsClaimed, ParseError, Target
from infrabench.workloads._parse import json_object, one, positive

TOOL = "witness"
CLAIM = "INFRABENCH_CLAIM="  # begins the word of a command that says what its reading has to show
TICK_S = 0.01  # USER_HZ is 100 on every architecture of Linux that matters: /proc/stat has no finer times
BUSY = (0, 1, 2, 5, 6)  # of a line of CPU times: user, nice, system, hard and soft interrupts
BOOT_S = 2  # the kernel works the time of boot out of a clock that is being corrected
PRESENT = 0.9  # least share of the payload that a device which carried it has counted; headers make it more
QUIET = 0.05  # largest share that passes by a device which did not
# What nodes say to each other meanwhile: heartbeats, watches, the stream of the command itself.
CHATTER = {"B": 1_000_000, "packets": 1000}
HEADER = re.compile(r"^Inter-\|.*\n +face \|.*\n", re.MULTILINE)
COUNT = "[0-9]{1,20}"  # the kernel counts up to 2^64
DEVICE = re.compile(rf" *([^\s:]+): *({COUNT}(?: +{COUNT}){{15}})\s*")


@dataclass(frozen=True, slots=True)
class Device:
    """One device: what it has received and sent so far, or between two readings."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass(frozen=True, slots=True)
class Machine:
    """One reading of ``/proc/stat``; times in seconds, of all CPUs together, in steps of `TICK_S`."""

    booted_s: int  # Unix time
    switches: int  # context switches since boot
    forks: int
    busy_s: float  # neither idle, waiting for a disk, nor stolen by a hypervisor
    total_s: float


@dataclass(frozen=True, slots=True)
class Amount:
    """What a tool says it moved from client to server: bytes of payload, or packets at the least."""

    quantity: float
    unit: Literal["B", "packets"]

    def count(self, device: Device, way: Literal["in", "out", "both"]) -> int:
        """Return how much of this unit `device` counted in that direction."""
        received, sent = device.rx_packets, device.tx_packets
        if self.unit == "B":
            received, sent = device.rx_bytes, device.tx_bytes
        return {"in": received, "out": sent, "both": received + sent}[way]


def devices(text: str) -> Mapping[str, Device]:
    """Return the devices in the one ``/proc/net/dev`` that `text` contains, by name."""
    headers = list(HEADER.finditer(text))
    if len(headers) != 1:
        raise ParseError(TOOL, f"expected one /proc/net/dev, found {len(headers)}", text)
    found: dict[str, Device] = {}
    for line in text[headers[0].end() :].splitlines(keepends=True):
        if re.match(r"cpu\s", line):  # /proc/stat follows
            break
        match = DEVICE.fullmatch(line)
        if match is None or not line.endswith("\n") or match[1] in found:
            raise ParseError(TOOL, "a line of /proc/net/dev is not whole, or is there twice", line)
        numbers = [int(number) for number in match[2].split()]
        found[match[1]] = Device(numbers[0], numbers[1], numbers[8], numbers[9])
    return found


def moved(before: str, after: str, name: str) -> Device:
    """Return what device `name` received and sent between two readings."""
    readings = [devices(text) for text in (before, after)]
    for found, text in zip(readings, (before, after), strict=True):
        if name not in found:
            raise ParseError(TOOL, f"there is no device {name}, only {', '.join(found)}", text)
    first, last = (found[name] for found in readings)
    passed = Device(*(getattr(last, key) - getattr(first, key) for key in Device.__slots__))
    if any(getattr(passed, key) < 0 for key in Device.__slots__):
        raise ParseError(TOOL, f"the counters of {name} went backwards", f"{first} {last}")
    return passed


def machine(text: str) -> Machine:
    """Return what the one ``/proc/stat`` in `text` says; it must end the text, and whole."""
    number = rf"({COUNT})"
    times = [int(n) for n in one(TOOL, "CPU times", rf"^cpu +((?:{COUNT} ){{9}}{COUNT})$", text)[1].split()]
    booted = one(TOOL, "the time of boot", rf"^btime {number}$", text)
    switches = one(TOOL, "context switches", rf"^ctxt {number}$", text)
    forks = one(TOOL, "forks", rf"^processes {number}$", text)
    one(TOOL, "the end of /proc/stat", rf"^softirq(?: {COUNT}){{11}}\n\Z", text)
    busy, total = sum(times[i] for i in BUSY), sum(times[:8])  # user includes guest
    return Machine(int(booted[1]), int(switches[1]), int(forks[1]), busy * TICK_S, total * TICK_S)


def busy_s(text: str) -> float:
    """Return busy CPU seconds of all processors between two first lines of ``/proc/stat``, which are all of `text`."""
    times = rf"cpu +((?:{COUNT} ){{9}}{COUNT})\n"
    found = re.fullmatch(times * 2, text)
    if not found:
        raise ParseError(TOOL, "expected two first lines of /proc/stat", text)
    before, after = ([int(n) for n in line.split()] for line in found.groups())
    return TICK_S * sum(after[i] - before[i] for i in BUSY)


def between(before: Machine, after: Machine) -> tuple[float, float]:
    """Return busy and total CPU seconds between two readings of one machine."""
    busy_s, total_s = after.busy_s - before.busy_s, after.total_s - before.total_s
    if after.switches < before.switches or busy_s < 0 or not total_s > 0:
        raise ParseError(TOOL, "the counters of /proc/stat went backwards", f"{before} {after}")
    return busy_s, max(total_s, busy_s)  # idle time may be counted back a little


def same_machine(outer: tuple[Machine, Machine], inner: tuple[Machine, Machine]) -> bool:
    """Return whether two nodes are one machine: `inner` was read between the two readings of `outer`.

    Then all four have one time of boot, and their counts of context switches and forks lie within each other. Two
    machines that booted together do not count alike.
    """
    readings = (outer[0], inner[0], inner[1], outer[1])
    if any(abs(each.booted_s - outer[0].booted_s) > BOOT_S for each in readings):
        return False
    counts = [[getattr(each, key) for each in readings] for key in ("switches", "forks")]
    return all(count == sorted(count) for count in counts)


def counted_s(before: str, after: str, counters: int) -> float:
    """Return the CPU seconds between two readings, of the `counters` files before ``/proc/net/dev`` together.

    Control groups version 1 have nanoseconds alone in a file, version 2 a line ``usage_usec N``.
    """
    used: list[float] = []
    for text in (before, after):
        head = text.partition("Inter-|")[0]
        nanoseconds = re.findall(rf"^({COUNT})$", head, re.MULTILINE)
        microseconds = re.findall(rf"^usage_usec ({COUNT})$", head, re.MULTILINE)
        if len(nanoseconds) + len(microseconds) != counters:
            raise ParseError(TOOL, f"expected {counters} CPU counters", head)
        used.append(sum(map(int, nanoseconds)) / 1e9 + sum(map(int, microseconds)) / 1e6)
    return positive(TOOL, "CPU time", used[1] - used[0])


def reading(node: Target, counters: Sequence[str], *files: str) -> tuple[str, ...]:
    """Return the command that reads a node's `counters` of CPU time, devices and `files`, and claims which it has."""
    claim = {"node": node.role, "devices": dict(node.devices), "counters": len(counters)}
    return ("env", CLAIM + json.dumps(claim, sort_keys=True), "cat", *counters, "/proc/net/dev", *files)


def claimed(capture: Capture, step: str) -> Mapping[str, Any]:
    """Return what the reading of a step was said to show, when it was planned."""
    said = [part.removeprefix(CLAIM) for part in capture[step].argv if part.startswith(CLAIM)]
    if len(said) != 1:
        raise ParseError(TOOL, f"step {step} claims {len(said)} paths", str(capture[step].argv))
    return json_object(TOOL, said[0])


def check_passed(claim: str, where: str, amount: Amount, device: Device, way: Literal["in", "out"] | None) -> None:
    """Raise `NotAsClaimed` unless `device` counted at least nine tenths of `amount` in this direction.

    `way` None: when it counted more than a twentieth of `amount` and the nodes' own chatter in both.
    """
    seen = amount.count(device, way or "both")
    if way and seen < PRESENT * amount.quantity:
        raise NotAsClaimed(f"said {claim}, but {where} carried {seen} of {amount.quantity:.0f} {amount.unit}")
    if not way and seen > QUIET * amount.quantity + CHATTER[amount.unit]:
        raise NotAsClaimed(f"said {claim}, but {where} carried {seen} {amount.unit} of {amount.quantity:.0f}")


def check_enough(amount: Amount) -> None:
    """Raise `NotAsClaimed` for so little traffic that a device which carried it all would pass for a quiet one."""
    if PRESENT * amount.quantity <= QUIET * amount.quantity + CHATTER[amount.unit]:
        raise NotAsClaimed(f"{amount.quantity:.0f} {amount.unit} are too few to tell which way they went")
