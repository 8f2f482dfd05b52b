"""``SHA256SUMS`` files, in the format of ``sha256sum --check``."""

from __future__ import annotations

import re
from pathlib import Path

from infrabench.core import LedgerError
from infrabench.ledger.files import read_bytes

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00\n]+)")


def line(value: str, name: str) -> str:
    """Return the line of one file."""
    return f"{value}  {name}\n"


def read_sums(path: Path, damaged: list[str] | None = None) -> tuple[dict[str, str], bool]:
    """Return the sums by file name, and whether the last line was torn (written without its newline, and left out).

    A line that is not one of ``sha256sum`` is added to `damaged`, in a sentence; without such a list it is a
    `LedgerError`, as is a file that is named twice.
    """
    return parse_sums(path, read_bytes(path), damaged)


def parse_sums(path: Path, content: bytes, damaged: list[str] | None = None) -> tuple[dict[str, str], bool]:
    """Return what the bytes of a file of sums say, as `read_sums` does; errors name `path`."""
    lines = content.decode("utf-8", "replace").split("\n")
    torn = lines.pop() != ""
    found: dict[str, str] = {}
    for number, text in enumerate(lines, start=1):
        match = _LINE.fullmatch(text)
        if match is not None and match[2] not in found:
            found[match[2]] = match[1]
            continue
        problem = f"{path}, line {number}: {'named twice' if match else 'not a sum'}: {text[:100]!r}"
        if match is not None or damaged is None:
            raise LedgerError(problem)
        damaged.append(problem)
    return found, torn
