"""infrabench: reproducible studies that compare infrastructure. These names are what a notebook may use.

Each is imported when it is first used: reading a session needs no SDK, and ``import infrabench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infrabench.analysis.export import export
    from infrabench.analysis.results import findings, table, whole
    from infrabench.analysis.session_data import Session, open_session, pool
    from infrabench.notebook.api import contrasts, estimates, probes, request, run_or_load, show_log, study
    from infrabench.notebook.explore import explore
    from infrabench.notebook.one_contrast import choose_contrast
    from infrabench.notebook.plan_tables import plan_from_pilot, plan_summary, plan_table, power_summary
    from infrabench.notebook.published_measured import published, published_metrics, published_score
    from infrabench.notebook.sections import (
        answer,
        fold,
        fold_diagnostics,
        fold_plan,
        fold_provenance,
        fold_tests,
        join,
        section,
    )
    from infrabench.notebook.session_figures import figure
    from infrabench.notebook.session_summary import results
    from infrabench.notebook.session_tables import (
        blocks_table,
        capabilities_table,
        deployments_table,
        diff_table,
        paths_table,
        provenance_table,
        reasons_table,
        size_table,
        validity_table,
    )
    from infrabench.notebook.start_page import look_around, machine_table, own_table, recorded_table, studies_table

HOME = {
    "answer": "notebook.sections",
    "figure": "notebook.session_figures",
    "findings": "analysis.results",
    "table": "analysis.results",
    "whole": "analysis.results",
    "fold": "notebook.sections",
    "fold_diagnostics": "notebook.sections",
    "fold_plan": "notebook.sections",
    "fold_provenance": "notebook.sections",
    "fold_tests": "notebook.sections",
    "join": "notebook.sections",
    "section": "notebook.sections",
    "blocks_table": "notebook.session_tables",
    "capabilities_table": "notebook.session_tables",
    "deployments_table": "notebook.session_tables",
    "diff_table": "notebook.session_tables",
    "paths_table": "notebook.session_tables",
    "provenance_table": "notebook.session_tables",
    "reasons_table": "notebook.session_tables",
    "size_table": "notebook.session_tables",
    "validity_table": "notebook.session_tables",
    "Session": "analysis.session_data",
    "choose_contrast": "notebook.one_contrast",
    "contrasts": "notebook.api",
    "estimates": "notebook.api",
    "export": "analysis.export",
    "explore": "notebook.explore",
    "open_session": "analysis.session_data",
    "pool": "analysis.session_data",
    "probes": "notebook.api",
    "request": "notebook.api",
    "published": "notebook.published_measured",
    "published_metrics": "notebook.published_measured",
    "published_score": "notebook.published_measured",
    "results": "notebook.session_summary",
    "run_or_load": "notebook.api",
    "show_log": "notebook.api",
    "study": "notebook.api",
    "look_around": "notebook.start_page",
    "machine_table": "notebook.start_page",
    "own_table": "notebook.start_page",
    "recorded_table": "notebook.start_page",
    "studies_table": "notebook.start_page",
    "plan_from_pilot": "notebook.plan_tables",
    "plan_summary": "notebook.plan_tables",
    "plan_table": "notebook.plan_tables",
    "power_summary": "notebook.plan_tables",
}
__all__ = [
    "Session",
    "answer",
    "blocks_table",
    "capabilities_table",
    "choose_contrast",
    "contrasts",
    "deployments_table",
    "diff_table",
    "estimates",
    "explore",
    "export",
    "figure",
    "findings",
    "fold",
    "fold_diagnostics",
    "fold_plan",
    "fold_provenance",
    "fold_tests",
    "join",
    "look_around",
    "machine_table",
    "open_session",
    "own_table",
    "paths_table",
    "plan_from_pilot",
    "plan_summary",
    "plan_table",
    "pool",
    "power_summary",
    "probes",
    "provenance_table",
    "published",
    "published_metrics",
    "published_score",
    "reasons_table",
    "recorded_table",
    "request",
    "results",
    "run_or_load",
    "section",
    "show_log",
    "size_table",
    "studies_table",
    "study",
    "table",
    "validity_table",
    "whole",
]


def __getattr__(name: str) -> Any:
    if name in HOME:
        return getattr(import_module(f"infrabench.{HOME[name]}"), name)
    raise AttributeError(f"module 'infrabench' has no attribute {name!r}; a notebook may use {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
