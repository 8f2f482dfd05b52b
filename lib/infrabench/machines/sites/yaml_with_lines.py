"""Reading a YAML file that a person wrote: nothing in it is run, it ends in time, and faults have line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infrabench.core import InfrabenchError

LARGEST_FILE = 2**20  # bytes; reading YAML takes a second for some hundred thousand of them
MOST_BRACKETS = 1000  # levels of YAML take time by the square of their number

Place = tuple[str, ...]  # keys and numbers from the top down


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """What a file says, the line of each place in it, and the places whose key stands there more than once."""

    data: Any
    lines: dict[Place, int]
    repeated: dict[Place, int]  # place -> line of the second time

    def line(self, place: tuple[object, ...]) -> int:
        """Return the line of a place, or of the nearest one above it that is written down; 1 where none is."""
        keys = tuple(str(part) for part in place)
        return next((self.lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self.lines), 1)


def read(path: Path, what: str, error: type[InfrabenchError]) -> YamlDocument:
    """Return what the YAML file says; `error`, naming the file and what is wrong, when it cannot be read.

    `what`: what it ought to be, with its article, for the message.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise error(f"{path}: {what} has at most {LARGEST_FILE} bytes. Is it the right file?")
        text = path.read_text()
        if text.count("[") + text.count("{") > MOST_BRACKETS or re.search(r"(?:[-?:] ){50}", text):
            raise error(f"{path}: {what} is not nested like this. Is it the right file?")
        loader = yaml.SafeLoader(text)
        top = loader.get_single_node()
        lines: dict[Place, int] = {}
        repeated: dict[Place, int] = {}
        for place, line in _places(top, (), set()):
            known = repeated if place in lines else lines
            known.setdefault(place, line)
        # Last: constructing merges what `<<` refers to into the nodes.
        return YamlDocument(None if top is None else loader.construct_document(top), lines, repeated)
    except OSError as why:
        raise error(f"{path}: cannot be read: {why.strerror}") from why
    # A date or a number that cannot be is a ValueError of its own.
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        raise error(f"{path}: not YAML: {str(why)[:1000]}") from why


def _places(node: yaml.Node | None, above: Place, seen: set[int]) -> Iterator[tuple[Place, int]]:
    """Yield every place below a node with its line; what an alias stands for is gone through once."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*above, str(key.value))
            yield place, key.start_mark.line + 1
            yield from _places(value, place, seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            place = (*above, str(number))
            yield place, value.start_mark.line + 1
            yield from _places(value, place, seen)
