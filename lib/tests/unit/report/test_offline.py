"""What a site would fetch over the network is found, in every kind of file that it has; links are no such thing."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.publish.report import external_references, of_folder

HOST = "example.org"


@pytest.mark.parametrize(
    "page",
    [
        '<img src="https://example.org/a.png">',
        "<img alt=x src=//example.org/a.png>",
        "<img src=' \\\\example.org/a.png'>",
        '<img src="a.png" srcset="b.png 1x, https://example.org/c.png 2x">',
        "<link rel=stylesheet href='//example.org/a.css'>",
        '<link href="https&#58;//example.org/a.css">',
        '<script type="text/javascript" src="HTTPS://example.org/a.js"></script>',
        '<script type="module">import m from "https://example.org/m.mjs"; m()</script>',
        '<script>if (a < b) { import("https://example.org/m.mjs") }</script>',
        "<script>const s = document.createElement('script'); s.src = 'https://example.org/a.js'</script>",
        "<script>fetch(`https://example.org/x`)</script>",
        '<script>r.open("GET", "https://example.org/x")</script>',
        '<script>new WebSocket("wss://example.org")</script>',
        "<style>@import url(https://example.org/a.css)</style>",
        "<style>@import 'https://example.org/a.css'</style>",
        "<style>p{background:url('http://example.org/a.png')}</style>",
        '<p style="background: url(//example.org/a.png)">x</p>',
        '<iframe src="https://example.org"></iframe>',
        '<video poster="https://example.org/a.png"></video>',
        '<object data="https://example.org/a.svg"></object>',
        '<base href="https://example.org/">',
        '<meta http-equiv="refresh" content="0; url=https://example.org">',
        '<?xml-stylesheet href="https://example.org/a.css"?><svg></svg>',
        '<svg><image xlink:href="https://example.org/a.png"/></svg>',
        '<svg><use href="https://example.org/a.svg#x"/></svg>',
    ],
)
def test_what_a_page_loads_is_found(page: str) -> None:
    assert any(HOST in address for address in external_references(page)), page


@pytest.mark.parametrize(
    "page",
    [
        '<a href="https://example.org">x</a>',
        '<p>see https://example.org/x</p><code>fetch("https://example.org")</code>',
        '<img src="a/b.png"><img src="data:image/png;base64,AAAA//8//example.org">',
        '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>',
        '<!DOCTYPE svg PUBLIC "x" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"><svg></svg>',
        "<style>/* url(https://example.org) */ p{background:url(data:image/png;base64,AA)}</style>",
        "<script>const NS = 'http://www.w3.org/2000/svg'; // https://example.org</script>",
    ],
)
def test_links_text_and_data_are_not_loads(page: str) -> None:
    assert external_references(page) == []


def test_every_file_of_a_site_is_read(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    for name, text in {
        "_static/a.css": "p { background: url( 'https://example.org/a.png' ) }",
        "_static/b.js": "importScripts('//example.org/b.js')",
        "c.svg": '<svg><style>@import "https://example.org/c.css";</style></svg>',
        "d.html": '<img src="https://example.org/d.png">',
        "e.html": '<a href="https://example.org">x</a>',
        "f.json": '{"src": "https://example.org"}',
    }.items():
        (tmp_path / name).write_text(text)
    assert set(of_folder(tmp_path)) == {"_static/a.css", "_static/b.js", "c.svg", "d.html"}
