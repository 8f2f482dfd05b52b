"""The same analysis the other way round: what a scenario changes, within each system.

"Does the second interface cost throughput?" compares two scenarios of one system, which share their blocks as systems
do. So the table is turned: scenarios stand where systems stood, and the very same paired statistics answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from infrabench.analysis import Results, results


def between(found: Results, workload: str, base: str, others: Sequence[str], view: str) -> Results:
    """Return the analysis of some scenarios of `workload`, each as a ratio to scenario `base`, within every system.

    Parameters
    ----------
    found
        The analysis of a session by systems.
    base, others
        Names of scenarios; those that the session does not have are named as not run.
    view
        Ends the names of the folders that figures and tables go to: ``cnis-VIEW``.

    Returns
    -------
    Results
        Its systems are scenarios, its scenarios systems. No metric is primary: what it says is exploratory.
    """
    names = [base, *others]
    rows = found.table[(found.table["workload"] == workload) & found.table["scenario"].isin(names)]
    turned = rows.assign(system=rows["scenario"], scenario=rows["system"], factor=None, level=float("nan"))
    there = set(turned["system"])
    turned = turned if base in there else turned.iloc[:0]
    absent = [
        {**each, "system": each["scenario"], "scenario": each["system"]}
        for each in found.data.get("not_applicable", [])
        if each["workload"] == workload and each["scenario"] in names
    ]
    elsewhere = there | {each["system"] for each in absent}
    why = f"not part of the profile {found.data['profile']}"
    told: dict[str, Any] = {
        "systems": [name for name in names if name in there], "baseline": base, "primary": [], "variants": {},
        "not_run": {name: why for name in names if name not in elsewhere}, "not_applicable": absent, "view": view,
    }  # fmt: skip
    nothing = pd.DataFrame(columns=["workload", "scenario", "system", "factor", "level", "attempt"])
    made = results(found.data | told, turned.astype(found.table.dtypes), nothing, found.folder)
    return replace(made, probes=found.probes)
