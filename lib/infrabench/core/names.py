"""What can be a name: of a file or folder that is written, and of what a session has measured."""

from __future__ import annotations

import re
from unicodedata import category

from infrabench.core.errors import LONGEST_NAME, SchemaError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
LONGEST_FILE_NAME = 200  # characters of at most one byte each; the kind of file and a temporary prefix come on top
LEADING = "=+-@.~/\\"  # a spreadsheet, a shell or a file system reads something else into a name that starts so


def is_name(name: object) -> bool:
    """Tell whether this can be the name of a session: of a folder, and of a label of what systems make."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def is_label(name: object) -> bool:
    """Tell whether this can be what a system, workload, scenario or metric is called: one line of printable text."""
    return (
        isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and name[0] not in LEADING
        and name.strip() == name
    )  # fmt: skip


def terminal_text(text: str) -> str:
    """Return `text` as a terminal may be given it: without what moves its cursor, clears it or turns its lines round.

    >>> terminal_text("a\x1b[2Jb")
    'a?[2Jb'
    """
    if text.isprintable():
        return text
    return "".join("?" if each not in "\n\t" and category(each).startswith("C") else each for each in text)


def file_name(name: str) -> str:
    """Return the name of a file or folder to write, without the kind of file; `SchemaError` when it cannot be one."""
    if not is_label(name) or "/" in name or "\\" in name or len(name.encode()) > LONGEST_FILE_NAME:
        raise SchemaError(
            f"{name[:60]!r} cannot be the name of a file: it needs 1 to {LONGEST_FILE_NAME} printable characters, no "
            "slash, and a letter or digit first. Names of studies, systems, workloads and scenarios become part of it"
        )
    return name
