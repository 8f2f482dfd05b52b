"""Executed notebooks, with their figures, tables and data, as one static site that opens from a file, offline."""

from infrabench.publish.report.assemble import report
from infrabench.publish.report.offline import external_references, of_folder

__all__ = ["external_references", "of_folder", "report"]
