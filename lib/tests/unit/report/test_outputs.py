"""What cells put out is harmless on a page, whatever a tool printed or a person typed."""

from __future__ import annotations

import base64

import nbformat
import pytest

from infrabench.core import InfrabenchError
from infrabench.publish.report.outputs import Picture, sanitise_markup, sanitise_notebook
from tests.support.report_fixtures import HOSTILE, PNG, figure, shown


def placed(kept: list[Picture]):
    def place(picture: Picture) -> tuple[str, str, int]:
        kept.append(picture)
        return f"p/{picture.digest[:4]}{picture.suffix}", "p/closer.svg", 300

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
    ],
)
def test_what_is_not_text_table_or_figure_is_dropped(markup: str, gone: str) -> None:
    made = sanitise_markup(markup, "", placed([]))
    assert gone not in made
    assert ">1</b>" in made


def test_text_and_tables_stay_as_they_are() -> None:
    table = '<table><thead><tr><th style="text-align:left">a &lt; b &amp; c</th></tr></thead><tbody></tbody></table>'
    assert sanitise_markup(table, "", placed([])) == f'<div class="wide" tabindex="0">{table}</div>'


def test_what_looks_like_a_tag_in_words_is_none() -> None:
    words = '<b title="&lt;table&gt; &lt;img src=x&gt;">a &lt;table&gt; b</b>'
    assert '<div class="wide"' not in sanitise_markup(words, "", placed([]))
    made = sanitise_markup(f'{words}<table title="a &quot;b&quot; > c"><tbody></tbody></table>', "", placed([]))
    assert made.count('<div class="wide" tabindex="0"><table title=') == made.count("</table></div>") == 1


@pytest.mark.parametrize(
    "markup", ['<img src="https://example.org/a.png">', "<style>@import url(https://example.org/a.css)</style>"]
)
def test_what_would_be_loaded_is_refused_not_dropped(markup: str) -> None:
    with pytest.raises(InfrabenchError, match=r"below 'Disk' would load https://example\.org/a"):
        sanitise_markup(markup, "Disk", placed([]))


def test_a_picture_becomes_a_file_with_words_and_a_closer_look() -> None:
    kept: list[Picture] = []
    made = sanitise_markup(figure('n > 30 & "more"'), "Disk", placed(kept))
    assert [each.data for each in kept] == [PNG]
    assert kept[0].alt == 'n > 30 & "more"'
    assert 'alt="n &gt; 30 &amp; &quot;more&quot;"' in made
    assert '<a class="zoom" href="p/closer.svg"><img' in made
    assert 'width="300"></a>' in made
    assert "base64" not in made


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_a_picture_without_words_is_called_after_its_section(alt: str | None) -> None:
    kept: list[Picture] = []
    markup = figure(alt or "") if alt is not None else figure().replace(' alt="A picture of nothing."', "")
    sanitise_markup(markup, "Disk", placed(kept))
    assert kept[0].alt == "Figure of the section Disk"


@pytest.mark.parametrize("kind", ["png", "svg+xml"])
def test_a_bare_picture_is_a_figure_too(kind: str) -> None:
    content = base64.b64encode(PNG).decode() if kind == "png" else "<svg><script>evil()</script></svg>"
    output = nbformat.v4.new_output("display_data", data={f"image/{kind}": content, "text/plain": "<Figure>"})
    cells = [nbformat.v4.new_markdown_cell("## Disk"), nbformat.v4.new_code_cell("1", outputs=[output])]
    kept: list[Picture] = []
    made = sanitise_notebook(nbformat.v4.new_notebook(cells=cells), placed(kept))
    assert kept[0].alt == "Figure of cell 2, Disk"
    assert set(made.cells[1].outputs[0].data) == {"text/html"}
    assert "evil" not in made.cells[1].outputs[0].data["text/html"]


def test_other_kinds_of_output_are_left_out() -> None:
    output = shown(text="plain")
    output.data["application/javascript"] = "evil()"
    made = sanitise_notebook(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])]), placed([])
    )
    assert dict(made.cells[0].outputs[0].data) == {"text/plain": "plain"}


def test_markdown_has_no_directives() -> None:
    cell = nbformat.v4.new_markdown_cell(f"# Q\n\n```{{include}} /etc/passwd\n```\n~~~ {{raw}} html\n~~~\n{HOSTILE}")
    made = sanitise_notebook(nbformat.v4.new_notebook(cells=[cell]), placed([])).cells[0].source
    assert "```include /etc/passwd" in made
    assert "~~~ raw html" in made
