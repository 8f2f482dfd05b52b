"""What cells put out, made fit for a static page: no script, no page of others, every picture a file with words.

Tables that a library made are HTML, and they hold what tools printed and people typed. All of it goes through a
sanitiser that knows what is harmless and drops the rest, whether it was escaped where it was made or not.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import nh3
from nbformat import NotebookNode

from infrabench.core import InfrabenchError
from infrabench.publish.report.offline import external_references

TAGS = {
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "details", "div", "dl", "dt",
    "em", "figcaption", "figure", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s",
    "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u",
    "ul",
}  # fmt: skip
ATTRIBUTES = {
    "*": {"class", "style", "title"}, "a": {"href"}, "img": {"src", "alt"}, "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}  # fmt: skip
STYLES = {"text-align", "vertical-align", "font-weight", "font-style", "white-space"}
PICTURE = re.compile(r"data:image/(?P<kind>png|jpeg|gif|svg\+xml);base64,(?P<data>[A-Za-z0-9+/=\s]+)")
SUFFIX = {"png": ".png", "jpeg": ".jpg", "gif": ".gif", "svg+xml": ".svg"}
SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
# Of what the sanitiser has written: attributes are quoted, and text has no "<" of its own.
TAG = re.compile(r'<(?P<closes>/?)(?P<tag>\w+)(?P<attributes>(?: [\w-]+="[^"]*")*)>')
ATTRIBUTE = re.compile(r' ([\w-]+)="([^"]*)"')
SCRIPT_END = re.compile(r"</script\s*>", re.IGNORECASE)
DIRECTIVE = re.compile(r"^(\s*(?:`{3,}|~{3,})\s*)\{([\w:-]+)\}", re.MULTILINE)


@dataclass(frozen=True)
class Picture:
    """A picture of a cell's output: its bytes, what it shows in words, and the heading it stands under."""

    data: bytes
    suffix: str
    alt: str
    section: str

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes."""
        return sha256(self.data).hexdigest()


# Keeps a picture and returns two addresses, relative to the page: of the picture, and of the file for a closer look;
# and how wide it is shown where there is room (CSS pixels, 0: as wide as it is).
Place = Callable[[Picture], tuple[str, str, int]]


def sanitise_notebook(node: NotebookNode, place: Place) -> NotebookNode:
    """Return a notebook whose outputs are harmless HTML or text, and whose Markdown is only Markdown.

    `InfrabenchError` when an output would load something over the network.
    """
    made, section = node.copy(), ""
    made.cells = []
    for number, cell in enumerate(node.cells, start=1):
        each = cell.copy()
        if cell.cell_type == "markdown":
            section = ([section, *re.findall(r"^#+\s+(.+)$", cell.source, re.MULTILINE)])[-1]
            # JupyterLab knows no directives: what looks like one is a code block there, and here
            each.source = DIRECTIVE.sub(r"\1\2", cell.source)
        elif cell.cell_type == "code":
            each.outputs = [_output(output, number, section, place) for output in cell.outputs]
        made.cells.append(each)
    return made


def sanitise_markup(markup: str, section: str, place: Place) -> str:
    """Return markup without anything but text, tables, figures and links; its pictures are given to `place`."""
    loaded = external_references(_without_scripts(markup))
    if loaded:
        raise InfrabenchError(f"an output below {section!r} would load {loaded[0]}: embed it instead")
    harmless = nh3.clean(
        markup, tags=TAGS, attributes=ATTRIBUTES, attribute_filter=_attribute, filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
    )  # fmt: skip
    return TAG.sub(lambda found: _frame(found, section, place), harmless)


def _without_scripts(markup: str) -> str:
    # Behind the last end there is no whole script, and to look for one from each beginning would take for ever.
    ends = [found.end() for found in SCRIPT_END.finditer(markup)]
    last = ends[-1] if ends else 0
    return SCRIPT.sub("", markup[:last]) + markup[last:]


def _output(output: NotebookNode, number: int, section: str, place: Place) -> NotebookNode:
    if output.output_type not in ("display_data", "execute_result"):
        return output
    each = output.copy()
    each.metadata = NotebookNode()
    markup = output.data.get("text/html") or _embedded(output.data, f"Figure of cell {number}, {section}".rstrip(", "))
    if markup:
        each.data = NotebookNode({"text/html": sanitise_markup(markup, section, place)})
    else:
        each.data = NotebookNode({"text/plain": output.data.get("text/plain", "")})
    return each


def _embedded(data: Mapping[str, Any], alt: str) -> str:
    """Return a picture that a cell put out as such as HTML; empty where there is none."""
    told = html.escape(alt, quote=True)
    for kind in SUFFIX:
        content = data.get(f"image/{kind}")
        if content:
            text = base64.b64encode(content.encode()).decode() if kind == "svg+xml" else content
            return f'<figure><img alt="{told}" src="data:image/{kind};base64,{text}"></figure>'
    return ""


def _attribute(tag: str, name: str, value: str) -> str | None:
    if tag == "img" and name == "src":
        return value if PICTURE.fullmatch(value) else None
    return None if name == "href" and value.lstrip().lower().startswith("data:") else value


def _frame(found: re.Match[str], section: str, place: Place) -> str:
    """Give a table a frame that scrolls, and a picture an address, words and a link to a closer look."""
    closes, tag = found["closes"], found["tag"]
    if tag == "table":
        return f"{found[0]}</div>" if closes else f'<div class="wide" tabindex="0">{found[0]}'
    if tag != "img":
        return found[0]
    named = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(found["attributes"])}
    return _picture(named, section, place)


def _picture(named: Mapping[str, str], section: str, place: Place) -> str:
    """Give the bytes of an embedded picture to `place`, and return the picture as a link to a closer look."""
    found = PICTURE.fullmatch(named.get("src", ""))
    try:
        data = base64.b64decode(found["data"]) if found else b""
    except binascii.Error:
        data = b""
    if not found or not data:
        return "<em>a picture that cannot be read</em>"
    alt = " ".join(named.get("alt", "").split()) or f"Figure of the section {section or 'without a heading'}"
    source, closer, width = place(Picture(data, SUFFIX[found["kind"]], alt, section))
    told, src, href = (html.escape(text, quote=True) for text in (alt, source, closer))
    wide = f' width="{width}"' if width else ""
    return f'<a class="zoom" href="{href}"><img alt="{told}" src="{src}"{wide}></a>'
