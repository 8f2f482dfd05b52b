"""One contrast of a session, chosen to be worked through step by step with the functions that made its table."""

from __future__ import annotations

from typing import Any

import numpy as np

from infrabench.analysis.results import Results, alone
from infrabench.core import DesignError, unknown_name
from infrabench.stats.events import COUNT, SHARE
from infrabench.stats.losses import LOST
from infrabench.stats.table import BLOCK, kinds
from infrabench.stats.verdicts import NOT_COMPARABLE, resolution_step, undithered

NAMES = ("workload", "metric", "scenario", "system")
OTHERWISE = {
    COUNT: "counts are compared exactly, not by their means",
    SHARE: "shares are compared by their difference",
}
NONE = "no contrast of this session rests on complete blocks and printed digits alone"


def choose_contrast(
    found: Results, workload: str = "", metric: str = "", scenario: str = "", system: str = ""
) -> Any:  # fmt: skip
    """Return the first contrast of these names, primary metrics first as declared, as a row of `Results.contrasts`.

    >>> contrast = ib.choose_contrast(results, "stream", "triad_B_per_s", system="lxc")

    It is one whose interval is Fieller's of the pairs and nothing else, so that it can be worked through: not of counts
    and shares, not with lost trials, and not where rounding widens it. Raises `DesignError` for a name that the session
    has not, and where no contrast of the names is of that kind. Without names there is always a row: without an
    interval where the session has none to work through, and then its ``reason`` says why.
    """
    rows, given = found.contrasts, dict(zip(NAMES, (workload, metric, scenario, system), strict=True))
    rows = rows.assign(kind=kinds(rows, found.table)) if len(rows) else rows
    for name, value in given.items():
        if value and not (rows[name] == value).any():
            raise unknown_name(name, value, set(rows[name]))
        rows = rows[rows[name] == value] if value else rows
    declared = {tuple(each): place for place, each in enumerate(found.data["primary"])}
    place = [declared.get(key, len(declared)) for key in zip(rows["workload"], rows["metric"], strict=True)]
    why = ""
    for row in rows.assign(place=place).sort_values("place", kind="stable").itertuples():
        unlike = _explain_unlike(found, row)
        if not unlike:
            return row
        why = why or unlike
    if any(given.values()):
        raise DesignError(f"{', '.join(filter(None, given.values()))} cannot be worked through: {why}")
    reason = f"{NONE}: {why}" if why else alone(found).text
    words = {"workload": "", "metric": "", "scenario": "no scenario", "system": "no system", "reason": reason}
    words |= {"baseline": found.data["baseline"], "verdict": NOT_COMPARABLE, "better": "", "flags": ""}
    return next(found.contrasts.reindex([-1]).assign(**words).itertuples())


def _explain_unlike(found: Results, row: Any) -> str:
    """Return what but Fieller's interval of the pairs has made a contrast; nothing where that is all."""
    if row.kind in OTHERWISE:
        return OTHERWISE[row.kind]
    if LOST in row.flags or not np.isfinite(row.ratio_low):
        return str(row.reason or row.flags)
    case = found.table[(found.table[list(NAMES[:3])] == [getattr(row, name) for name in NAMES[:3]]).all(axis=1)]
    blocks = case.dropna(subset="value").pivot(index=BLOCK, columns="system", values="value")
    values = blocks[[row.system, row.baseline]].dropna().to_numpy()
    coarse = undithered(resolution_step(values.reshape(-1)), values.std(axis=0, ddof=1).min())
    return "it is printed so coarsely that rounding widens its interval" if coarse else ""
