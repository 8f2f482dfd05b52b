"""``SHA256SUMS`` files, in the format of ``sha256sum --check``."""

from __future__ import annotations

import re
from pathlib import Path

from infrabench.core import LedgerError

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00\n]+)")


def line(value: str, name: str) -> str:
    """Return the line of one file."""
    return f"{value}  {name}\n"


def read_sums(path: Path) -> tuple[dict[str, str], bool]:
    """Return the sums by file name, and whether the last line was torn (written without its newline, and left out).

    Raises `LedgerError` naming the line when any other line is not one of ``sha256sum``.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}; restore it from a copy") from error
    lines = text.split("\n")
    torn = lines.pop() != ""
    found: dict[str, str] = {}
    for number, content in enumerate(lines, start=1):
        match = _LINE.fullmatch(content)
        if match is None or match[2] in found:
            raise LedgerError(f"{path}, line {number}: {'named twice' if match else 'not a sum'}: {content[:100]!r}")
        found[match[2]] = match[1]
    return found, torn
