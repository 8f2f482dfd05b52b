"""infrabench: reproducible studies that compare infrastructure. These names are what a notebook may use.

Each is imported when it is first used: reading a session needs no SDK, and ``import infrabench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infrabench.abstract import results
    from infrabench.accounts import (
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
    from infrabench.facade import (
        Session,
        contrasts,
        estimates,
        open_session,
        pool,
        probes,
        request,
        run_or_load,
        show_log,
        study,
    )
    from infrabench.landing import look_around, machine_table, own_table, recorded_table, studies_table
    from infrabench.planned import plan_from_pilot, plan_summary, plan_table, power_summary

HOME = {
    "blocks_table": "accounts",
    "capabilities_table": "accounts",
    "deployments_table": "accounts",
    "diff_table": "accounts",
    "paths_table": "accounts",
    "provenance_table": "accounts",
    "reasons_table": "accounts",
    "size_table": "accounts",
    "validity_table": "accounts",
    "Session": "facade",
    "contrasts": "facade",
    "estimates": "facade",
    "open_session": "facade",
    "pool": "facade",
    "probes": "facade",
    "request": "facade",
    "results": "abstract",
    "run_or_load": "facade",
    "show_log": "facade",
    "study": "facade",
    "look_around": "landing",
    "machine_table": "landing",
    "own_table": "landing",
    "recorded_table": "landing",
    "studies_table": "landing",
    "plan_from_pilot": "planned",
    "plan_summary": "planned",
    "plan_table": "planned",
    "power_summary": "planned",
}
__all__ = [
    "Session",
    "blocks_table",
    "capabilities_table",
    "contrasts",
    "deployments_table",
    "diff_table",
    "estimates",
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
    "reasons_table",
    "recorded_table",
    "request",
    "results",
    "run_or_load",
    "show_log",
    "size_table",
    "studies_table",
    "study",
    "validity_table",
]


def __getattr__(name: str) -> Any:
    if name in HOME:
        return getattr(import_module(f"infrabench.{HOME[name]}"), name)
    raise AttributeError(f"module 'infrabench' has no attribute {name!r}; a notebook may use {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
