"""What the cells of a notebook show, as harmless HTML: no script, nothing to load, every picture a file with words.

Tables that a library made are HTML, and they hold what tools printed and people typed. All of it goes through a
sanitiser that knows what is harmless and drops the rest, whether it was escaped where it was made or not. HTML in
Markdown is shown as it was typed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import mistune
import nh3
import pygments
from markupsafe import Markup
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from infrabench.publish.report.files import Figure, Picture

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
# No SVG: opened by itself, a picture of a stranger could run a script.
PICTURE = re.compile(r"data:image/(?P<kind>png|jpeg|gif);base64,(?P<data>[A-Za-z0-9+/=\s]+)")
SUFFIX = {"png": ".png", "jpeg": ".jpg", "gif": ".gif"}
# Of what the sanitiser has written: attributes are quoted, and text has no "<" of its own.
TAG = re.compile(r'<(?P<closes>/?)(?P<tag>\w+)(?P<attributes>(?: [\w-]+="[^"]*")*)>')
ATTRIBUTE = re.compile(r' ([\w-]+)="([^"]*)"')
ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
CODE = HtmlFormatter(style="tango")
CODE_DARK = HtmlFormatter(style="native")
Place = Callable[[Picture], Figure]  # what keeps a picture


def render_cells(node: NotebookNode, place: Place) -> Iterator[tuple[Markup, list[Markup] | None]]:
    """Yield the cells of a notebook as HTML, code with its outputs; pictures are given to `place`."""
    markdown, section = make_markdown(), ""
    for number, cell in enumerate(node.cells, start=1):
        if cell.cell_type == "markdown":
            section = ([section, *re.findall(r"^#+\s+(.+)$", cell.source, re.MULTILINE)])[-1]
            yield Markup(markdown(cell.source)), None
        elif cell.cell_type == "code" and cell.source.strip():
            code = Markup(pygments.highlight(cell.source, PythonLexer(), CODE))
            yield code, list(_outputs(cell.outputs, number, section, place))


class _Renderer(mistune.HTMLRenderer):
    """Markdown as JupyterLab shows it, but HTML as text, and pictures as links to them."""

    def __init__(self) -> None:
        super().__init__(escape=True)
        self._numbers = itertools.count(1)

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        return f'<h{level} id="section-{next(self._numbers)}">{text}</h{level}>\n'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return self.link(text, url, title)

    def table(self, text: str) -> str:
        return f'<div class="wide" tabindex="0"><table>{text}</table></div>\n'


def make_markdown() -> Callable[[str], str]:
    """Return what makes HTML of the Markdown of one page; headings are numbered as they come."""
    plugins = ["strikethrough", "table", "url", "task_lists", "def_list"]
    parse = mistune.create_markdown(renderer=_Renderer(), plugins=plugins)
    return lambda text: str(parse(text))


def sanitise(markup: str, section: str, place: Place) -> Markup:
    """Return markup without anything but text, tables, figures and links; its pictures are given to `place`."""
    harmless = nh3.clean(
        markup, tags=TAGS, attributes=ATTRIBUTES, attribute_filter=_attribute, filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
    )  # fmt: skip
    return Markup(TAG.sub(lambda found: _frame(found, section, place), harmless))


def _outputs(outputs: list[NotebookNode], number: int, section: str, place: Place) -> Iterator[Markup]:
    for stream, group in itertools.groupby(outputs, key=lambda each: each.get("name")):
        if stream:
            yield _text("".join(each.text for each in group))
            continue
        for output in group:
            if output.output_type == "error":
                yield _text("\n".join(output.traceback))
                continue
            alt = html.escape(f"Figure of cell {number}, {section}".rstrip(", "))
            kind = next((each for each in SUFFIX if f"image/{each}" in output.data), "")
            picture = f'<img alt="{alt}" src="data:image/{kind};base64,{output.data.get(f"image/{kind}")}">'
            markup = output.data.get("text/html") or (f"<figure>{picture}</figure>" if kind else "")
            yield sanitise(markup, section, place) if markup else _text(output.data.get("text/plain", ""))


def _text(text: str) -> Markup:
    return Markup("<pre>{}</pre>").format(ANSI.sub("", text)) if text else Markup()


def _attribute(tag: str, name: str, value: str) -> str | None:
    if tag == "img" and name == "src":
        return value if PICTURE.fullmatch(value) else None
    return None if name == "href" and value.lstrip().lower().startswith("data:") else value


def _frame(found: re.Match[str], section: str, place: Place) -> str:
    """Give a table a frame that scrolls, and an embedded picture to `place`: a link to a closer look is left of it."""
    if found["tag"] == "table":
        return f"{found[0]}</div>" if found["closes"] else f'<div class="wide" tabindex="0">{found[0]}'
    if found["tag"] != "img":
        return found[0]
    named = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(found["attributes"])}
    embedded, data = PICTURE.fullmatch(named.get("src", "")), b""
    with contextlib.suppress(binascii.Error):
        data = base64.b64decode(embedded["data"]) if embedded else b""
    if not embedded or not data:
        return "<em>a picture that is not in the notebook, or cannot be read</em>"
    alt = " ".join(named.get("alt", "").split()) or f"Figure of the section {section or 'without a heading'}"
    figure = place(Picture(data, SUFFIX[embedded["kind"]], alt))
    wide = Markup(' width="{}"').format(figure.width) if figure.width else ""
    return Markup('<a class="zoom" href="{}"><img alt="{}" src="{}"{}></a>').format(
        figure.closer, alt, figure.src, wide
    )
