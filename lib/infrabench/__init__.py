"""infrabench: reproducible studies that compare infrastructure. These names are what a notebook may use.

Each is imported when it is first used: reading a session needs no SDK, and ``import infrabench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infrabench.facade import (
        Session,
        contrasts,
        deployments_table,
        diff_table,
        estimates,
        open_session,
        plan_from_pilot,
        plan_summary,
        plan_table,
        pool,
        power_summary,
        probes,
        provenance_table,
        reasons_table,
        request,
        results,
        run_or_load,
        show_log,
        study,
        validity_table,
    )

__all__ = [
    "Session",
    "contrasts",
    "deployments_table",
    "diff_table",
    "estimates",
    "open_session",
    "plan_from_pilot",
    "plan_summary",
    "plan_table",
    "pool",
    "power_summary",
    "probes",
    "provenance_table",
    "reasons_table",
    "request",
    "results",
    "run_or_load",
    "show_log",
    "study",
    "validity_table",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("infrabench.facade"), name)
    raise AttributeError(f"module 'infrabench' has no attribute {name!r}; a notebook may use {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
