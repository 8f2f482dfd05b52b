"""A Sphinx extension: formulas as MathML, which browsers draw themselves, with nothing to load."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

NAME = "mathml"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer(NAME, inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: Any, node: nodes.math) -> None:
    _write(translator, node, as_block=False)


def _block(translator: Any, node: nodes.math_block) -> None:
    _write(translator, node, as_block=True)


def _write(translator: Any, node: nodes.Element, *, as_block: bool) -> None:
    try:
        made = tex2mathml(node.astext(), as_block=as_block)
    except MathError:  # what it cannot set is shown as it was typed
        made = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(made)
    raise nodes.SkipNode
