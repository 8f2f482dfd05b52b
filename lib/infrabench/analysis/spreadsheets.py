"""Text in a CSV file that a spreadsheet would otherwise execute: names and reasons may come from somebody else."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

QUOTE = "'"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def quote_formula(text: str) -> str:
    """Return text with an apostrophe before it where a spreadsheet would take it for a formula; numbers stay.

    >>> quote_formula("=1+1"), quote_formula("-0.5"), quote_formula("docker")
    ("'=1+1", '-0.5', 'docker')
    """
    # Behind apostrophes too: one is taken off when the text is read
    is_formula = text.lstrip(QUOTE).startswith(FORMULA)
    return f"{QUOTE}{text}" if is_formula and not _is_number(text) else text


def write_csv(table: pd.DataFrame, target: Path | None = None) -> str | None:
    """Write a table as CSV to `target`, or return it as text; no spreadsheet executes what is in it."""
    texts = (column.dropna().unique() for _, column in table.items() if not pd.api.types.is_numeric_dtype(column))
    has_return = any("\r" in each for column in texts for each in column if isinstance(each, str))
    # Only lines that end as `lineterminator` says are quoted by themselves: behind a return, a cell would begin a row.
    quoting = csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL
    quoted = _quote_texts(table).rename(columns=lambda name: quote_formula(name) if isinstance(name, str) else name)
    return quoted.to_csv(target, index=False, lineterminator="\n", quoting=quoting)


def _quote_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with every text in it as of `quote_formula`, which sees each different text once."""
    changed = table.copy(deep=False)
    for number, name in enumerate(table.columns):
        column = table.iloc[:, number]
        if pd.api.types.is_numeric_dtype(column):
            continue
        texts = {each: quote_formula(each) for each in column.dropna().unique() if isinstance(each, str)}
        differing = {text: new for text, new in texts.items() if text != new}
        if differing:
            changed[name] = column.map(lambda each, new=differing: new.get(each, each)).astype(column.dtype)
    return changed


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
