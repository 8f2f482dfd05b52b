"""What cells put out is harmless on a page, whatever a tool printed or a person typed."""

from __future__ import annotations

import base64
import re

import nbformat
import pytest

from infrabench.publish.report.content import make_markdown, render_cells, sanitise
from infrabench.publish.report.files import Figure, FileLink, Picture
from tests.support.report_fixtures import HOSTILE, PNG, figure, shown


def rendered(*cells: nbformat.NotebookNode, kept: list[Picture] | None = None) -> list[tuple]:
    return list(render_cells(nbformat.v4.new_notebook(cells=list(cells)), placed([] if kept is None else kept)))


def placed(kept: list[Picture]):
    def place(picture: Picture) -> Figure:
        kept.append(picture)
        closer = FileLink("p/closer.svg", "SVG", 1)
        return Figure(f"p/{picture.digest[:4]}{picture.suffix}", picture.alt, "", (closer,), 300)

    return place


@pytest.mark.parametrize(
    ("markup", "gone"),
    [
        ('<b>1</b><script>alert("x")</script>', "alert"),
        ('<script src="https://example.org/a.js"></script><b>1</b>', "example.org"),
        ('<b onclick="evil()">1</b>', "evil"),
        ('<a href="javascript:evil()"><b>1</b></a>', "evil"),
        ('<a href="data:text/html,evil"><b>1</b></a>', "evil"),
        ('<b>1</b><form action="x"><input name="evil"></form>', "evil"),
        ("<style>p{color:evil}</style><b>1</b>", "evil"),
        ('<b style="position:fixed;text-align:left">1</b>', "fixed"),
        ("<b>1</b><!-- evil -->", "evil"),
        ('<b>1</b><img src="/etc/evil.png">', "evil"),
        ('<b>1</b><img alt="a" src="https://example.org/a.png" srcset="//example.org/b.png 2x">', "example.org"),
        ('<b>1</b><img src="data:image/svg+xml;base64,ZXZpbA==">', "ZXZp"),
        ("<style>@import url(https://example.org/a.css)</style><b>1</b>", "example.org"),
        ('<b style="background:url(//example.org/a.png)">1</b>', "example.org"),
        ('<link rel=stylesheet href="//example.org/a.css"><b>1</b>', "example.org"),
        ('<b>1</b><iframe src="https://example.org"></iframe><object data="//example.org/o"></object>', "example.org"),
        ('<b>1</b><svg><image xlink:href="https://example.org/a.png"/></svg>', "example.org"),
        (
            '<base href="https://example.org/"><meta http-equiv="refresh" content="0; url=//example.org"><b>1</b>',
            "example",
        ),
    ],
)
def test_what_is_not_text_table_or_figure_is_dropped(markup: str, gone: str) -> None:
    made = sanitise(markup, "", placed([]))
    assert gone not in made
    assert ">1</b>" in made


def test_text_and_tables_stay_and_what_looks_like_a_tag_in_words_is_none() -> None:
    table = '<table><thead><tr><th style="text-align:left">a &lt; b &amp; c</th></tr></thead><tbody></tbody></table>'
    assert sanitise(table, "", placed([])) == f'<div class="wide" tabindex="0">{table}</div>'
    words = '<b title="&lt;table&gt; &lt;img src=x&gt;">a &lt;table&gt; b</b>'
    assert '<div class="wide"' not in sanitise(words, "", placed([]))
    made = sanitise(f'{words}<table title="a &quot;b&quot; > c"><tbody></tbody></table>', "", placed([]))
    assert made.count('<div class="wide" tabindex="0"><table title=') == made.count("</table></div>") == 1


def test_a_picture_becomes_a_file_with_words_and_a_closer_look() -> None:
    kept: list[Picture] = []
    made = sanitise(figure('n > 30 & "more"'), "Disk", placed(kept))
    assert kept == [Picture(PNG, ".png", 'n > 30 & "more"')]
    assert 'alt="n &gt; 30 &amp; &#34;more&#34;"' in made
    assert '<a class="zoom" href="p/closer.svg"><img' in made
    assert 'width="300"></a>' in made
    assert "base64" not in made
    for wordless in (figure(""), figure("  "), figure().replace(' alt="A picture of nothing."', "")):
        sanitise(wordless, "Disk", placed(kept))
        assert kept[-1].alt == "Figure of the section Disk"
    assert "<em>a picture that is not in the notebook" in sanitise('<img src="https://a.org/a.png">', "", placed(kept))


def test_a_bare_picture_is_a_figure_too_and_svg_is_left_out() -> None:
    kept: list[Picture] = []
    data = {
        "image/png": base64.b64encode(PNG).decode(),
        "image/svg+xml": "<svg onload=evil()></svg>",
        "text/plain": "F",
    }
    output = nbformat.v4.new_output("display_data", data=data)
    heading = nbformat.v4.new_markdown_cell("## Disk")
    made = rendered(heading, nbformat.v4.new_code_cell("1", outputs=[output]), kept=kept)
    assert kept[0].alt == "Figure of cell 2, Disk"
    assert "evil" not in made[1][1][0]
    del output.data["image/png"]
    assert rendered(nbformat.v4.new_code_cell("1", outputs=[output]))[0][1] == ["<pre>F</pre>"]


def test_streams_are_text_in_one_piece_and_errors_too_and_other_kinds_are_left_out() -> None:
    output = shown(text="plain")
    output.data["application/javascript"] = "evil()"
    raw, code = nbformat.v4.new_raw_cell("<script>evil()</script>"), nbformat.v4.new_code_cell("1", outputs=[output])
    assert [outputs for _, outputs in rendered(raw, code)] == [["<pre>plain</pre>"]]
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("\x1b[31m<b>", "1</b>\n")]
    outputs.append(nbformat.v4.new_output("error", ename="E", evalue="e", traceback=["\x1b[0;31mE\x1b[0m", "<i>"]))
    ((_, said),) = rendered(nbformat.v4.new_code_cell("1", outputs=outputs))
    assert said == ["<pre>&lt;b&gt;1&lt;/b&gt;\n</pre>", "<pre>E\n&lt;i&gt;</pre>"]


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE, '<img src=x onerror="evil()">', "[x](javascript:evil())", "[x](vbscript:evil)",
        "[x](data:text/html,evil)",
        "![evil](https://example.org/a.png)", "```mermaid\n<script>evil()</script>\n```",
        "```{include} /etc/passwd\n```", "# <script>evil()</script>", "| <i onclick=evil()> |\n|---|\n| <script> |",
        '[x](/a"onclick="evil()")', "<https://example.org/\"onclick=evil()>", "<div>\n<script>evil()</script>\n</div>",
    ],
)  # fmt: skip
def test_markdown_is_only_markdown(text: str) -> None:
    tags = re.findall(r"<(/?\w+)([^>]*)>", make_markdown()(text))
    assert {name.strip("/") for name, _ in tags} <= {
        "p", "a", "h1", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert not [told for _, told in tags if re.search(r"script:|data:|\s(on\w+|src)=", told)]
