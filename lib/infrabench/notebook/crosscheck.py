"""Does a ratio point the same way with another engine? Two sessions side by side, by direction and by nothing else.

The other engine runs in an emulated machine, so neither its rates nor the size of its ratios say anything here. It
counts one way: there ZFS's own work is emulated, Ceph's is not, so that ZFS behind Ceph there refutes nothing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from infrabench.analysis.results import Results, Shown, kept, listed
from infrabench.analysis.session_data import open_session
from infrabench.analysis.tables import notation
from infrabench.notebook.api import contrasts

WORKLOAD, METRIC, PATH = "fio-4k", "iops", " kernel"
SAME, OTHER, OPEN = "same direction", "other direction", "not decided"
NONE = "No cross-check was named: `crosscheck` takes the name of a session of the profile crosscheck."


def directions(found: Results, name: str | None) -> Shown:
    """Return our ratios beside those of the session `name`, of the same operation and durability mode.

    *same direction*: both intervals lie on the same side of 1; *other direction*: on different sides; *not decided*:
    one of them holds 1, or is not there.
    """
    if not name:
        return listed([NONE])
    others = _rows(contrasts(open_session(name)))
    rows = []
    for scenario, ours in _rows(found.contrasts).items():
        if other := others.get(scenario):
            rows.append({"scenario": scenario, **_ratio_cells("ratio", ours), **_ratio_cells("cross-check", other)})
            one, two = ((row.ratio_low > 1) - (row.ratio_high < 1) for row in (ours, other))
            rows[-1]["direction"] = (SAME if one == two else OTHER) if one and two else OPEN
    if not rows:
        return listed([f"There is no operation that both this session and {name} have a ratio of."])
    return kept(found, pd.DataFrame(rows), "crosscheck", f"{notation.metric_title(METRIC)} beside {name}.")


def _rows(found: pd.DataFrame) -> dict[str, Any]:
    """Return the contrasts of single requests by scenario, without the path that they took."""
    rows = found[(found["workload"] == WORKLOAD) & (found["metric"] == METRIC)]
    return {row.scenario.removesuffix(PATH): row for row in rows.itertuples(index=False)}


def _ratio_cells(what: str, row: Any) -> dict[str, str]:
    ratio, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
    return {what: f"{row.system} / {row.baseline}", f"{what}, value": ratio, f"{what}, 95 % CI": interval}
