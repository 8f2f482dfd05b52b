"""The map of procedures in the docstring of the statistics names only what there is, and its example is right."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

from infrabench import stats


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
