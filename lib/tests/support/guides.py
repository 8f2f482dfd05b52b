"""Guides as text: the command lines that stand in them, their links, and the anchors of their headings."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPENING = re.compile(r"^```(\w*)(?: (\w+))?$")
FIRST = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make|(?:\.venv/bin/)?(?:infrabench|python)|papermill|conda) ")


@dataclass(frozen=True)
class Command:
    """A command line of a page; `runs`: it is to be run, and not only looked at."""

    page: str
    line: str
    runs: bool

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)

    @property
    def environment(self) -> dict[str, str]:
        given = self.words[: next(i for i, word in enumerate(self.words) if not re.match(r"[A-Z_]+=", word))]
        return dict(word.split("=", 1) for word in given)

    @property
    def argv(self) -> list[str]:
        return self.words[len(self.environment) :]


def commands_of(page: Path) -> list[Command]:
    """Return the lines of blocks marked sh, the indented ones that are commands, and what stands in backticks."""
    text = page.read_text()
    found, kind, runs = [], None, False
    for line in re.sub(r" \\\n\s*", " ", text).splitlines():  # what goes on in the next line is one command
        if line.startswith("```"):
            opened = OPENING.match(line)
            assert opened, line
            kind, runs = (opened[1] or "text", opened[2] == "run") if kind is None else (None, False)
        elif kind == "sh" and line.strip():
            found.append(Command(page.name, line.strip(), runs))
        elif kind is None and line.startswith("    ") and FIRST.match(line.strip()):
            found.append(Command(page.name, line.strip(), False))
    assert kind is None, f"a block of {page.name} is not closed"
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        if FIRST.match(f"{quoted} "):
            found.append(Command(page.name, quoted, False))
    return found


EVERY = [command for page in PAGES for command in commands_of(page)]


def links_of(page: Path) -> list[tuple[str, str]]:
    """Return the (target, anchor) of every link and picture of a page that leads into this repository."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(<?([^)\s>]*)", re.sub(r"`[^`\n]+`", "", prose))
    return [(path, anchor) for path, _, anchor in (each.partition("#") for each in targets if "://" not in each)]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that a page's headings have where it is shown: lower case, dashes for spaces."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
