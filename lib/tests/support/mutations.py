"""Damaged outputs of tools: seeded mutations of bytes, and what a parser may still say of the result.

A mutation of a `FAITHFUL` kind loses, doubles or moves whole lines or parts of JSON, ends lines as a terminal does, or
adds what no tool says: a parser has to refuse it, or to give the same numbers. One of another kind may change a number
where it stands, so only the schema and the kind of error can be judged.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutate = Callable[[bytes, random.Random], bytes]
LONGEST = 1 << 20  # bytes that a blown-up output may have
NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
# What a tool might say instead of a number, or a fault make of it.
WORDS = (
    b"nan", b"-nan", b"inf", b"-1", b"-0", b"0", b"0.0", b"", b"1e999", b"1e308", b"1e-320", b"9" * 25, b"9" * 400,
    b"9" * 5000, b"0x10", b"1_000", b"1,000", b"+1", b" 1", b"1 ", "\u0661".encode(), b"null", b"true", b"[]", b"{}",
    b'"1"', b"--", b"\xff",
)  # fmt: skip


def cut(data: bytes, rng: random.Random) -> bytes:
    """Lose the end."""
    return data[: rng.randrange(len(data))] if rng.random() < 0.5 else data[: -rng.randint(1, min(8, len(data)))]


def lose_begin(data: bytes, rng: random.Random) -> bytes:
    """Lose the first lines."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[rng.randint(1, len(lines)) :])


def lose_lines(data: bytes, rng: random.Random) -> bytes:
    """Lose one line, or some that follow each other."""
    lines = data.splitlines(keepends=True)
    first, count = rng.randrange(len(lines)), 1 if rng.random() < 0.7 else rng.randint(2, 12)
    return b"".join(lines[:first] + lines[first + count :])


def double_lines(data: bytes, rng: random.Random) -> bytes:
    """Say one line twice, or some that follow each other."""
    lines = data.splitlines(keepends=True)
    first, count = rng.randrange(len(lines)), 1 if rng.random() < 0.7 else rng.randint(2, 12)
    return b"".join(lines[: first + count] + lines[first:])


def add_line(data: bytes, rng: random.Random) -> bytes:
    """Say something between two lines that the tool never says."""
    lines = data.splitlines(keepends=True)
    word = rng.choice(
        (b"\n", b"\x00\n", b"\xff\xfe\xfd\n", b"Killed\n", b"WARNING: unresponsive task\n", b"\x1b[2K\r\n")
    )
    at = rng.randint(0, len(lines))
    return b"".join(lines[:at]) + word + b"".join(lines[at:])


def twice(data: bytes, rng: random.Random) -> bytes:
    """Say all twice."""
    return data + data


def terminal(data: bytes, rng: random.Random) -> bytes:
    """End lines as a terminal does: all of them, or some that follow each other."""
    lines = data.splitlines(keepends=True)
    first, last = (0, len(lines)) if rng.random() < 0.5 else sorted(rng.choices(range(len(lines) + 1), k=2))
    return b"".join(
        line.replace(b"\n", b"\r\n") if first <= number < last else line for number, line in enumerate(lines)
    )


def add_remark(data: bytes, rng: random.Random) -> bytes:
    """Say before all else what a tool may say there, or what says that something failed."""
    word = rng.choice((b"fio: terminating on signal 2\n", b"\xef\xbb\xbf", b"iperf3: warning\n", b"sh: not found\n"))
    return word + data


def lose_part(data: bytes, rng: random.Random) -> bytes:
    """Lose one key, or one entry of a list, of JSON."""
    return _in_json(data, rng, lambda holder, key: holder.pop(key))


def double_part(data: bytes, rng: random.Random) -> bytes:
    """Have one entry of a list of JSON twice."""
    return _in_json(data, rng, lambda holder, key: isinstance(holder, list) and holder.insert(key, holder[key]))


def flip(data: bytes, rng: random.Random) -> bytes:
    """Flip up to three bits."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    """Exchange two lines."""
    lines = data.splitlines(keepends=True)
    one = rng.randrange(len(lines))
    other = min(one + 1, len(lines) - 1) if rng.random() < 0.5 else rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def digit(data: bytes, rng: random.Random) -> bytes:
    """Change, add or lose one digit of one number."""
    start, end = _a_number(data, rng)
    at = rng.randrange(start, max(end, start + 1))
    new = rng.choice((b"", b"%d" % rng.randrange(10), data[at : at + 1] + b"%d" % rng.randrange(10)))
    return data[:at] + new + data[at + 1 :]


def word(data: bytes, rng: random.Random) -> bytes:
    """Have a word where a number was."""
    start, end = _a_number(data, rng)
    return data[:start] + rng.choice(WORDS) + data[end:]


def lose_bytes(data: bytes, rng: random.Random) -> bytes:
    """Lose some bytes in the middle."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 40) :]


def noise(data: bytes, rng: random.Random) -> bytes:
    """Have some bytes of noise in place of others."""
    at, count = rng.randrange(len(data)), rng.randint(1, 20)
    return data[:at] + rng.randbytes(count) + data[at + count :]


def other_type(data: bytes, rng: random.Random) -> bytes:
    """Have a value of another type in JSON."""
    new = rng.choice(
        (None, True, False, 0, -1, 1.5, "", "1", [], {}, [[]], {"": None}, 10**400, float("nan"), float("inf"))
    )
    return _in_json(data, rng, lambda holder, key: holder.__setitem__(key, new))


def blow_up(data: bytes, rng: random.Random) -> bytes:
    """Say some bytes again and again, up to a mebibyte."""
    at, count = rng.randrange(len(data)), rng.randint(1, 60)
    part = data[at : at + count]
    return data[:at] + part * rng.randint(2, LONGEST // max(len(part), 1)) + data[at:]


def deep(data: bytes, rng: random.Random) -> bytes:
    """Have JSON that is nested deeply in place of a number."""
    start, end = _a_number(data, rng)
    depth = rng.choice((200, 600, 900, 5000))
    return data[:start] + b"[" * depth + b"]" * depth + data[end:]


FAITHFUL: tuple[Mutate, ...] = (
    cut, lose_begin, lose_lines, double_lines, add_line, twice, terminal, add_remark, lose_part, double_part,
)  # fmt: skip
LOOSE: tuple[Mutate, ...] = (flip, swap_lines, digit, word, lose_bytes, noise, other_type)
COSTLY: tuple[Mutate, ...] = (blow_up, deep)
COSTLY_SHARE = 1 / 400  # of all mutations: each costs as much as many others


def mutated(data: bytes, rng: random.Random) -> tuple[Mutate, bytes]:
    """Return one mutation of `data`, which is not empty, and what it was."""
    if rng.random() < COSTLY_SHARE:
        kind = rng.choice(COSTLY)
    else:
        kind = rng.choice(FAITHFUL) if rng.random() < 0.5 else rng.choice(LOOSE)
    return kind, kind(data, rng)


def _a_number(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Return begin and end of one number, or of one byte where there is none."""
    at = rng.randrange(len(data))
    found = NUMBER.search(data, at) or NUMBER.search(data)
    return found.span() if found else (at, at + 1)


def _in_json(data: bytes, rng: random.Random, change: Callable[[Any, Any], object]) -> bytes:
    """Return JSON (a whole text, or one line of several) with a change at one place; other output as it is."""
    lines = data.split(b"\n") if not _is_json(data) else [data]
    places = [number for number, line in enumerate(lines) if line[:1] in (b"{", b"[")]
    if not places:
        return data
    chosen = rng.choice(places)
    try:
        tree = json.loads(lines[chosen])
    except ValueError:
        return data
    holders: list[Any] = []
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict | list) and node:
            holders.append(node)
            left.extend(node.values() if isinstance(node, dict) else node)
    if not holders:
        return data
    holder = rng.choice(holders)
    change(holder, rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder)))
    # Dumping is as strict as the tools are lax: what is no JSON number is written as the word for it.
    lines[chosen] = json.dumps(tree).encode()
    return b"\n".join(lines)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


INFLATED = 200_000  # bytes: what is quadratic takes minutes


def inflated(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return a name and the output with a very long run of what a pattern may repeat."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    at = rng.randrange(len(lines))
    line, sign = lines[at], rng.choice((b" ", b"\t", b"1", b"a", b"\n", b"[", b"{", b'"', b".", b":", b"-", b"0,"))
    run = sign * (INFLATED // len(sign))
    cut = rng.randrange(len(line) + 1)
    kinds = {
        f"a run of {sign!r} in line {at}": [*lines[:at], line[:cut] + run + line[cut:], *lines[at + 1 :]],
        f"a run of {sign!r} before line {at}": [*lines[:at], run, *lines[at:]],
        f"line {at} again and again": [*lines[:at], line * (INFLATED // len(line)), *lines[at:]],
        f"the beginning of line {at} again and again": [
            *lines[:at],
            line[:cut] * (INFLATED // max(cut, 1)),
            *lines[at:],
        ],
    }
    kind = rng.choice(sorted(kinds))
    return kind, b"".join(kinds[kind])
