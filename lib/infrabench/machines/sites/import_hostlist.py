"""Slurm's short form of many host names: ``node[01-03,7],gpu5`` is node01, node02, node03, node7 and gpu5.

Slurm's own `scontrol show hostnames` is asked where it is there; this is for where it is not (inside a container, say).
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

from infrabench.core import SiteError

LONGEST = 65536  # characters of a list
MOST = 4096  # hosts; Slurm's own default of names in one list is 64 000, and no study has so many
_PART = r"(?:[A-Za-z0-9_.-]|\[[0-9,-]+\])+"
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


def expand_list(text: str) -> tuple[str, ...]:
    """Return the host names of a list, in its order; `SiteError` for what is no list, or names a host twice."""
    if len(text) > LONGEST:
        raise SiteError(f"a list of {len(text)} characters is no list of hosts: {LONGEST} are the most")
    if not re.fullmatch(f"{_PART}(?:,{_PART})*", text):
        raise SiteError(f"{text[:60]!r} is no list of hosts such as node[01-03,7],gpu5")
    names: list[str] = []
    for part in re.findall(_PART, text):
        pieces = [_numbers(piece[1:-1], text) if piece[0] == "[" else (piece,) for piece in _pieces(part)]
        count = 1
        for piece in pieces:
            count *= len(piece)
        _check_count(len(names) + count, text)
        names += ["".join(words) for words in product(*pieces)]
    return check_names(names)


def check_names(names: list[str]) -> tuple[str, ...]:
    """Return names of hosts if that is what they are, each once and not too many; `SiteError` else."""
    _check_count(len(names), ",".join(names[:5]))
    for name in names:
        if not _NAME.fullmatch(name):
            raise SiteError(f"{name[:60]!r} is no name of a host")
    if twice := [name for name, count in Counter(names).items() if count > 1][:5]:
        raise SiteError(f"the list names a host twice: {', '.join(twice)}")
    return tuple(names)


def _pieces(part: str) -> list[str]:
    return re.findall(r"\[[^\]]*\]|[^\[\]]+", part)


def _numbers(ranges: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each)
        if not match:
            raise SiteError(f"{each[:40]!r} in {text[:60]!r} is neither a number nor a range of numbers")
        first, last = match[1], match[2] or match[1]
        # Leading zeros are a width that the numbers keep; without them a number is as long as it is.
        width = len(first)
        if int(last) < int(first):
            raise SiteError(f"the range {each} in {text[:60]!r} runs backwards")
        _check_count(len(found) + int(last) - int(first) + 1, text)
        found += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return tuple(found)


def _check_count(count: int, text: str) -> None:
    if count > MOST:
        raise SiteError(f"{text[:60]!r} names {count} hosts; {MOST} are the most")
