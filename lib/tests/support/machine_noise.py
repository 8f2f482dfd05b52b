"""What a shared machine does to a test that runs a whole session: it steals processor time, and trials become invalid.

A session is right to call such a trial invalid, and to repeat it only so often. A test of anything but the guards takes
a trial as carried out when nothing is held against it but the machine.
"""

from __future__ import annotations

from infrabench.core import TrialRecord

NOISE = (
    "CPU time stolen by the hypervisor", "runnable tasks per CPU just before", "time with all tasks waiting for memory",
)  # fmt: skip


def is_carried_out(record: TrialRecord) -> bool:
    """Return whether a trial is ok, or was ended as planned and is invalid for the machine's load alone."""
    if record.state != "invalid":
        return record.state == "ok"
    reasons = record.conditions.get("invalid", ())
    return bool(reasons) and all(any(each in reason for each in NOISE) for reason in reasons)
