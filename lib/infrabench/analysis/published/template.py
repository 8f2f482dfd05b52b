"""Sentences whose numbers come from the data.

``{A.ram.percent.lxd.000}`` is a printed number and ``{unit.A.ram.percent.lxd.000}`` its printed unit, ``{=lead:.1f}`` a
computed number, ``{fact.cpu_threads}`` one that is not the papers'.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

from infrabench.analysis.published.data import Numbers
from infrabench.core import SchemaError


class _Fields(Formatter):
    def __init__(self, known: Numbers, computed: Mapping[str, Any]) -> None:
        self.known, self.computed = known, computed

    def get_field(self, field_name: str, _args: Any, _kwargs: Any) -> tuple[Any, str]:
        if field_name.startswith("unit."):
            return self.known.row(field_name[5:]).unit, field_name
        if field_name.startswith("="):
            values, name = self.computed, field_name[1:]
        elif field_name.startswith("fact."):
            values, name = self.known.facts, field_name[5:]
        else:
            return self.known.printed(field_name), field_name
        if name not in values:
            raise SchemaError(f"{{{field_name}}}: there is {', '.join(values) or 'nothing'}")
        return values[name], field_name


def filled(template: str, known: Numbers, computed: Mapping[str, Any] | None = None) -> str:
    """Return a template with its numbers filled in; `SchemaError` for a name that nothing has."""
    return _Fields(known, computed or {}).format(template)


def fields(template: str) -> list[str]:
    """Return the names in a template."""
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def words(template: str) -> str:
    """Return a template's own text, without its fields."""
    return "".join(text for text, *_ in Formatter().parse(template))
