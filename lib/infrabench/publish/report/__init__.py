"""Executed notebooks, with their figures, tables and data, as one static site that opens from a file, offline."""

from infrabench.publish.report.pages import report

__all__ = ["report"]
