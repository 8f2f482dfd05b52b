"""infrabench: reproducible studies that compare infrastructure. These names are what a notebook may use.

Each is imported when it is first used: reading a session needs no host, and ``import infrabench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infrabench.analysis.export import export
    from infrabench.analysis.results import findings, table, whole
    from infrabench.analysis.session_data import Session, open_session, pool
    from infrabench.notebook.api import choose_contrast, contrasts, probes, request, run_or_load, show_log
    from infrabench.notebook.explore import explore
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
        load_knee,
        section,
    )
    from infrabench.notebook.session_figures import figure
    from infrabench.notebook.session_tables import (
        blocks_table,
        capabilities_table,
        deployments_table,
        paths_table,
        provenance_table,
        reasons_table,
        results,
        size_table,
        validity_table,
    )
    from infrabench.notebook.start_page import look_around, machine_table, own_table, recorded_table, studies_table

# module -> what of it a notebook may use
MODULES = {
    "analysis.export": "export",
    "analysis.results": "findings table whole",
    "analysis.session_data": "open_session pool Session",
    "notebook.api": "choose_contrast contrasts probes request run_or_load show_log",
    "notebook.explore": "explore",
    "notebook.plan_tables": "plan_from_pilot plan_summary plan_table power_summary",
    "notebook.published_measured": "published published_metrics published_score",
    "notebook.sections": "answer fold fold_diagnostics fold_plan fold_provenance fold_tests join load_knee section",
    "notebook.session_figures": "figure",
    "notebook.session_tables": "blocks_table capabilities_table deployments_table paths_table "
    "provenance_table reasons_table results size_table validity_table",
    "notebook.start_page": "look_around machine_table own_table recorded_table studies_table",
}
HOME = {name: module for module, names in MODULES.items() for name in names.split()}
__all__ = sorted(HOME)


def __getattr__(name: str) -> Any:
    if name in HOME:
        return getattr(import_module(f"infrabench.{HOME[name]}"), name)
    raise AttributeError(f"module 'infrabench' has no attribute {name!r}; a notebook may use {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
