"""The history of a study as files: a table of all its series, and a figure of each case."""

from __future__ import annotations

from pathlib import Path

from infrabench.analysis import figures, tables
from infrabench.analysis.history import RATIO, History, describe_history
from infrabench.notebook.session_figures import rows_of

CASE = ["workload", "metric", "scenario"]


def write_history(found: History, out: Path) -> list[Path]:
    """Write the table (Markdown, CSV, LaTeX) and the figures (PDF, SVG, PNG) of a history below `out`.

    >>> write_history(read_history(folders), Path("out"))

    Returns the table's and each figure's first file. A case without any value has no figure.
    """
    name = f"history-{found.study}" + ("" if found.view == RATIO else f"-{found.view}")
    table = tables.history_table(found.series, found.changes)
    whole = found.series.merge(found.changes.drop(columns=["unit", "better"]), on=["system", *CASE], how="left")
    caption = " ".join(describe_history(found))
    paths = tables.save(table, out / "tables" / name, "changes", caption, whole=whole)[:1]
    for workload, metric, scenario in found.points.dropna(subset="estimate")[CASE].drop_duplicates().to_numpy():
        page, column = (
            figures.history(found, workload, metric, scenario, width_mm=width_mm)
            for width_mm in (figures.PAGE_MM, figures.COLUMN_MM)
        )
        called = "-".join((workload, metric, scenario)).replace("=", "-").replace(" ", "-")
        about = {"kind": "history", "workload": workload, "metric": metric, "scenario": scenario,
                 "view": found.view, "session": list(found.sessions)}  # fmt: skip
        rows = rows_of(found.points, workload, metric, scenario)
        paths += figures.save(page.figure, out / "figures" / name, called, rows, about, page.caption, column.figure)[:1]
    return paths
