"""Command lines that somebody may type: is there such a command, and do its arguments parse?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache

from infrabench import cli
from infrabench.cli import commands
from infrabench.cli.subcommands import CommandParser

PLACEHOLDERS = {"CHECK", "SESSION", "NAME", "PART", "FOLDER"}

Path = tuple[str, ...]  # the words of a command, such as ("session", "list")


@cache
def parsers() -> dict[Path, CommandParser]:
    """Return every parser by the words that lead to it, those of groups and () too, in the order of the help."""
    return dict(_below((), cli.make_parser()))


def _below(path: Path, parser: CommandParser) -> Iterator[tuple[Path, CommandParser]]:
    yield path, parser
    for name, each in children(parser).items():
        yield from _below((*path, name), each)


def children(parser: CommandParser) -> dict[str, CommandParser]:
    """Return the parsers of a group's commands by name; none for a command."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def unknown_word(words: Sequence[str]) -> str | None:
    """Return the first of the words that should name a command and names none, as far as there are words."""
    path: Path = ()
    for word in words:
        if not children(parsers()[path]):
            return None
        path = (*path, word)
        if path not in parsers():
            return word
    return None


def check_words(words: list[str]) -> None:
    """Raise `SystemExit` or `DesignError` unless the words after ``infrabench`` name a command or parse as one."""
    path = tuple(words[:-1] if words[-1:] == ["--help"] else words)
    if path in parsers():
        return  # a sentence that names the command itself
    parsed = parsers()[()].parse_args(words)
    if parsed.verb in ("plan", "run") and parsed.study is not None and not PLACEHOLDERS & set(words):
        commands._wanted(parsed)
