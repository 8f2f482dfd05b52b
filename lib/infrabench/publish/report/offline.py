"""What a browser would fetch over the network when it opens a page, a style sheet, a script or a picture.

A link that a reader may click is no such thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

# Browsers take backslashes for slashes here, and spaces before the address.
REMOTE = r"\s*(?:(?:https?|wss?|ftp):[/\\]*|[/\\]{2})[^\s/\\\"'`)>]"
ADDRESS = re.compile(rf"^(?P<a>{REMOTE}\S*)", re.IGNORECASE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
IN_CSS = re.compile(rf"""(?:@import\s+|url\(\s*|@import\s+url\(\s*)["']?(?P<a>{REMOTE}[^"')\s]*)""", re.IGNORECASE)
IN_SCRIPT = re.compile(
    rf"""(?:\b(?:import|from|fetch|importScripts|Worker|SharedWorker|WebSocket|EventSource|Request|sendBeacon)\s*\(?\s*
    |\.(?:src|srcset)\s*=\s*|\.open\(\s*["'`]\w+["'`]\s*,\s*|\bsetAttribute\(\s*["'`](?:src|href)["'`]\s*,\s*
    )["'`](?P<a>{REMOTE}[^"'`\s]*)""",
    re.VERBOSE | re.IGNORECASE,
)
# A figure has thousands of tags and none of these: it need not be read tag by tag.
SUSPECT = re.compile(r"(?:https?|wss?|ftp):|[/\\]{2}|&#", re.IGNORECASE)
NAMES = re.compile(r"""<!DOCTYPE[^>]*>|<metadata>.*?</metadata>|\bxmlns(?::\w+)?=(?:"[^"]*"|'[^']*')""", re.DOTALL)
LOADS = ("src", "srcset", "poster", "data", "background", "xlink:href", "imagesrcset", "manifest")
LOADS_BY_HREF = ("link", "image", "use", "feimage", "base")


def external_references(page: str) -> list[str]:
    """Return the addresses that a browser would fetch over the network when it opens the page (HTML or SVG)."""
    if not SUSPECT.search(NAMES.sub("", page)):
        return []
    reader = _Page()
    reader.feed(page)
    reader.close()
    return reader.found


def in_style(sheet: str) -> list[str]:
    """Return the addresses that a style sheet would load."""
    return [found["a"].strip() for found in IN_CSS.finditer(COMMENT.sub(" ", sheet))]


def in_script(script: str) -> list[str]:
    """Return the addresses that a script names where it loads something."""
    return [found["a"].strip() for found in IN_SCRIPT.finditer(script)]


READERS: dict[str, Callable[[str], list[str]]] = {
    ".html": external_references, ".svg": external_references, ".css": in_style, ".js": in_script, ".mjs": in_script,
}  # fmt: skip


def of_folder(folder: Path) -> dict[str, list[str]]:
    """Return, by file, the addresses that the pages, sheets, scripts and pictures of a site would load."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in READERS and path.is_file():
            addresses = READERS[path.suffix](path.read_text(encoding="utf-8"))
            if addresses:
                found[path.relative_to(folder).as_posix()] = addresses
    return found


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._inside, self._text = "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._finish()
        named = {name: value or "" for name, value in attrs}
        self.found += [address for text in _loaded(tag, named) for address in _remote(text)]
        self.found += in_style(named.get("style", ""))
        if tag == "meta" and named.get("http-equiv", "").lower() == "refresh":
            self.found += _remote(named.get("content", "").partition("=")[2].strip("'\" "))
        if tag in ("style", "script"):
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._finish()

    def handle_data(self, data: str) -> None:
        self._text += data if self._inside else ""

    def handle_pi(self, data: str) -> None:
        if data.startswith("xml-stylesheet"):
            self.found += [address for text in re.findall(r"href=[\"']([^\"']*)", data) for address in _remote(text)]

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self) -> None:
        """Read a style or a script when it has ended: the parser may hand it over in pieces."""
        if self._inside:
            self.found += (in_style if self._inside == "style" else in_script)(self._text)
        self._inside, self._text = "", ""


def _loaded(tag: str, named: dict[str, str]) -> Iterator[str]:
    for name in LOADS:
        text = named.get(name, "")
        yield from text.split(",") if name.endswith("srcset") else [text]
    if tag in LOADS_BY_HREF:
        yield named.get("href", "")


def _remote(text: str) -> list[str]:
    found = ADDRESS.match(text)
    return [found["a"].strip()] if found else []
