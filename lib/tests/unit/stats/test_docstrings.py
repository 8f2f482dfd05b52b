"""Every public name of the statistics says what it returns; array functions also say shapes and whose formula it is.

The map of procedures in the package's docstring names only what there is.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from infrabench import stats
from tests.support.checks import check_each

FILES = sorted(Path(stats.__file__).parent.glob("*.py"))
ARRAYS = ("Array", "ArrayLike", "NDArray", "Numbers", "Counts", "Moments", "Pairs")
SHAPE = re.compile(r"\((?:\.\.\.|cells|cases|n|m|r_n|levels|tests|blocks)[,)]|\bshape\b")
SOURCE = re.compile(r"\b(?:18|19|20)\d\d\b|\bscipy\b")
UNKNOWN = re.compile(r"\bNaN\b|\bRaises\b|\b[Ff]alse\b|\b[Ii]nfinite\b|\bempty\b")
DEFINITION = "arithmetic or a definition: there is nobody to cite"
HANDLING = "moves values or intervals about and computes nothing"
OURS = "a rule of this project, stated in full"
COMPOSED = "its parts name their sources"
# what may go without a source, and why
NO_SOURCE = {
    "multiplicity.by_family": HANDLING,
    **dict.fromkeys(("table.sample", "table.paired", "meta_analysis.sites"), HANDLING),
    "diagnostics.bimodal": OURS,
    "knee.crossing": OURS,
    "table.stacks": HANDLING,
    "table.by_size": HANDLING,
    "dependence.dependent": OURS,
    "estimates.largest": DEFINITION,
    "events.judge_events": COMPOSED,
    "planning.blocks_to_decide": OURS,
    "planning.is_decisive": OURS,
    "intervals.constant": DEFINITION,
    "intervals.interval": HANDLING,
    "losses.account_losses": COMPOSED,
    "losses.explain_lost": HANDLING,
    "losses.is_lost": DEFINITION,
    "verdicts.measure_effects": COMPOSED,
    "intervals.over_cells": HANDLING,
    "intervals.means": DEFINITION,
    "intervals.percentile_ends": DEFINITION,
    "verdicts.resolution_step": OURS,
    "verdicts.resolution_limited": OURS,
    "verdicts.undithered": OURS,
    "verdicts.widened": OURS,
    "stopping.relative_width": COMPOSED,
    "verdicts.decide": OURS,
    "verdicts.judge": COMPOSED,
    "verdicts.same": DEFINITION,
    "verdicts.swapped_times": DEFINITION,
}
# what says nothing of NaN or errors, because it has none of its own
ALWAYS_KNOWN = {
    "table.stacks": HANDLING,
    "diagnostics.outlier_mask": "says that there is none where the rule has no scale",
    "intervals.constant": "says what one value or none gives",
    "losses.is_lost": "a truth for any values",
    "intervals.means": "`over_cells` keeps away what has no answer",
    "intervals.percentile_ends": "`over_cells` keeps away what has no answer",
    "verdicts.decide": "one of five words, for any values",
    "verdicts.judge": "says when nothing is inferred",
    "verdicts.same": "a truth for any values",
}


def public(source: str) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def takes_arrays(node: ast.FunctionDef) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    text = " ".join(ast.unparse(each.annotation) for each in arguments if each.annotation)
    return any(re.search(rf"\b{name}\b", text) for name in ARRAYS)


def lacking(source: str, name: str) -> list[str]:
    """Return what is missing in the docstrings of a module called `name`."""
    found = []
    for node in public(source):
        text, where = ast.get_docstring(node) or "", f"{name}.{node.name}"
        if not text:
            found.append(f"{where}: no docstring")
            continue
        if isinstance(node, ast.ClassDef):
            continue
        if not text.startswith(("Return ", "Yield ")):
            found.append(f"{where}: the first line does not say what comes back")
        if takes_arrays(node):
            wanted = {
                "no shape": SHAPE.search(text),
                "no source": where in NO_SOURCE or SOURCE.search(text),
                "neither NaN nor an error": where in ALWAYS_KNOWN or UNKNOWN.search(text),
            }
            found += [f"{where}: {missing}" for missing, there in wanted.items() if not there]
    return found


def test_public_names_are_described() -> None:
    assert len(FILES) > 10
    check_each(lambda file: lacking(file.read_text(), file.stem), FILES, lambda file: file.name)


def test_exceptions_are_needed_and_exist() -> None:
    """An exception whose function has gone, or has learnt to say it, is taken off the list."""
    texts = {
        f"{file.stem}.{node.name}": ast.get_docstring(node) or ""
        for file in FILES
        for node in public(file.read_text())
        if isinstance(node, ast.FunctionDef) and takes_arrays(node)
    }
    for names, said in ((NO_SOURCE, SOURCE), (ALWAYS_KNOWN, UNKNOWN)):
        assert [name for name in names if name not in texts or said.search(texts[name])] == []


def test_every_procedure_on_the_map_exists() -> None:
    listed = [each.name for each in pkgutil.iter_modules(stats.__path__)]
    modules = {name: importlib.import_module(f"infrabench.stats.{name}") for name in listed}
    told = stats.__doc__ or ""
    assert set(re.findall(r"`(\w+)`:", told)) <= set(modules)
    names = set(re.findall(r"\b[a-z]+_[a-z_]+\b", told))
    assert len(names) > 40
    assert not {name for name in names if not any(hasattr(module, name) for module in modules.values())}


def test_the_example_on_the_map_is_right() -> None:
    failed, tried = doctest.testmod(stats)
    assert (failed, tried) == (0, 2)
