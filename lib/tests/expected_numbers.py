"""What a recorded session gives now, written as what it has to give from now on: ``python -m tests.expected_numbers``.

Run it in ``lib``, with the study's name, when a session is recorded, and read what it wrote before it is kept: from
then on a change of the analysis that changes a number is a test that fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import infrabench as ib

FOLDER = Path(__file__).parent / "data" / "notebooks"
VALUES = ("ratio", "ratio_low", "ratio_high", "verdict")


def expected(study: str, profile: str = "quick") -> str:
    """Return every contrast of a primary metric of the recorded session, as JSON."""
    session = ib.run_or_load(ib.request(study, profile=profile), mode="load")
    primary = {tuple(each) for each in session.data["primary"]}
    rows = [
        {"key": [row.workload, row.scenario, row.metric, row.system], **{name: getattr(row, name) for name in VALUES}}
        for row in ib.contrasts(session)
        .sort_values(["workload", "metric", "scenario", "system"], kind="stable")
        .itertuples()
        if (row.workload, row.metric) in primary
    ]
    return json.dumps({"profile": profile, "contrasts": rows}, indent=1) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (FOLDER / f"{name}.json").write_text(expected(name), encoding="utf-8")
