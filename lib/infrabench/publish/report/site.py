"""Pages that are notebooks, built into a static site by Sphinx, with MyST-NB to read them and Furo to lay them out.

Chosen because all of it works from a file: the search index is a script, fonts are the system's, light and dark follow
the reader's setting, and pages read well on a phone and on paper. The module is an extension of Sphinx as well:
formulas are MathML, which browsers draw themselves, with nothing to load.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

log = logging.getLogger(__name__)

MAIN = "index"
MATHML = "mathml"
# Notebooks' Markdown is what JupyterLab takes for Markdown: no roles, no comments, and no HTML but in outputs.
DISABLED = ["html_block", "html_inline", "myst_role", "myst_line_comment", "myst_block_break"]
COLOURS = {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"}
COLOURS_DARK = {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"}
CONFIGURATION: dict[str, Any] = {
    "extensions": ["myst_nb", "infrabench.publish.report.site"],
    "root_doc": MAIN,
    "language": "en",
    "html_math_renderer": MATHML,
    "nb_execution_mode": "off",
    "nb_merge_streams": True,
    "myst_enable_extensions": ["dollarmath"],
    "myst_disable_syntax": DISABLED,
    "myst_all_links_external": True,
    "suppress_warnings": ["myst.header", "mystnb.unknown_mime_type"],
    "html_theme": "furo",
    "html_theme_options": {"light_css_variables": COLOURS, "dark_css_variables": COLOURS_DARK},
    "html_css_files": ["report.css"],
    "html_js_files": [("zoom.js", {"defer": "defer"})],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "html_show_search_summary": False,  # a page from a file may not read other files
    "html_use_index": False,
}


def build(pages: Mapping[str, NotebookNode], work: Path, title: str) -> Path:
    """Build the site of these pages, by document name (one is `MAIN`), inside the folder `work`; return its folder.

    What Sphinx finds wrong with a page is logged: a page with a bad heading is still a page.
    """
    source, out = work / "source", work / "site"
    source.mkdir()
    for name, node in pages.items():
        nbformat.write(node, source / f"{name}.ipynb")
    warnings = io.StringIO()
    with resources.as_file(resources.files("infrabench.publish.report") / "assets") as assets:
        told = CONFIGURATION | {"project": title, "html_title": title, "html_static_path": [str(assets)]}
        with patch_docutils(source), docutils_namespace():
            app = Sphinx(
                source, None, out, work / "doctrees", "html", confoverrides=told, status=None, warning=warnings,
                freshenv=True,
            )  # fmt: skip
            app.build(force_all=True)
    for line in filter(None, warnings.getvalue().splitlines()):
        log.warning("%s", line.replace(f"{source}/", ""))
    (out / ".buildinfo").unlink(missing_ok=True)
    (out / "_sources").rmdir()  # Sphinx makes it, and is told to leave it empty
    return out


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer(MATHML, inline_renderers=(_inline, None), block_renderers=(_block, None))
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
