"""The verdicts of a session as one row per case and one column per system, from what its notebook computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infrabench.notebook import session_summary

CASE = ("workload", "scenario", "metric")


def matrix(told: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return an abstract's verdicts for the template: systems, rows of cells, and a line that says what they are of.

    `above`: the heading or question that they stand under; a title that says the same is left out.
    """
    rows = [dict(zip(told["verdicts"]["columns"], row, strict=True)) for row in told["verdicts"]["rows"]]
    there = {row["system"] for row in rows}
    systems = [name for name in told["systems"] if name in there]
    cases: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in CASE), {})[row["system"]] = row
    return {
        "title": "" if told["title"] == above else told["title"],
        "line": (
            f"Ratios to {told['baseline']} with 95 % intervals. {session_summary.line(told)}. {told['note']}"
        ).strip(),
        "baseline": told["baseline"],
        "systems": systems,
        "rows": [_row(case, cells, systems) for case, cells in cases.items()],
        "not_run": told["not_run"],
    }


def _row(case: tuple[str, ...], cells: Mapping[str, Mapping[str, str]], systems: list[str]) -> dict[str, Any]:
    first = next(iter(cells.values()))
    return {
        **dict(zip(CASE, case, strict=True)), "better": first["better"], "margin": first["margin %"],
        "cells": [_cell(cells[name]) if name in cells else None for name in systems],
    }  # fmt: skip


def _cell(row: Mapping[str, str]) -> dict[str, str]:
    verdict, _, decides = row["verdict"].partition(" (")
    more = decides.removesuffix(" decides)")  # as in "inconclusive (n = 14 decides)"
    other = row["verdict without flagged"]
    ruled = row.get(session_summary.RULED_OUT, "")
    remarks = [f"n = {row['n']}", f"{more} would decide" if more else "", ruled, row["reason"]]
    remarks.append(f"without the values flagged as outliers: {other}" if other else "")
    return {
        "verdict": verdict, "kind": verdict.replace(",", "").replace(" ", "-"), "ratio": row["ratio"],
        "interval": row["ratio 95 % CI"], "remark": "; ".join(filter(None, remarks)),
    }  # fmt: skip
