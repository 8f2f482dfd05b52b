"""What a plan costs: time, and space on disks. Estimates before a session; a session corrects its own as it runs."""

from __future__ import annotations

from dataclasses import dataclass

from infrabench.core import Study
from infrabench.experiment.design.design import Design, treatments

TRIAL_OVERHEAD_S = 0.05  # switching systems, starting commands, monitors and ledger; corrected while a session runs
RECORD_BYTES = 12_000  # one trial on disk, beside its monitor samples
SAMPLE_BYTES = 1_800  # one monitor sample of one host, 1 Hz


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a plan costs: wall time, space inside a target, and space of the ledger."""

    seconds: float
    target_bytes: int
    ledger_bytes: int


def expected(
    design: Design, *, overhead_s: float = TRIAL_OVERHEAD_S, hosts: int = 2, probe_s: float = 0.0, deploy_s: float = 0.0
) -> Expectation:
    """Return the expected cost of `design`: seconds, and bytes in a target and in the ledger.

    `overhead_s` is of one trial, `probe_s` of one block, `deploy_s` of making one system ready. Blocks that are added
    later, and repeats of invalid trials, cannot be known and are not in it.
    """
    planned = treatments(design)
    tool_s = design.blocks * sum(case.seconds for _, case in planned)
    count = design.blocks * len(planned)
    return Expectation(
        seconds=tool_s
        + count * overhead_s
        + len(design.systems) * design.deployments * deploy_s
        + design.blocks * probe_s,
        target_bytes=max((case.disk_bytes for case in design.cases), default=0),
        ledger_bytes=count * RECORD_BYTES + int((tool_s + 2 * count) * hosts * SAMPLE_BYTES),
    )


def of_study(study: Study, design: Design) -> Expectation:
    """Return the expected cost of a design of `study`, its drift probes and its making ready included."""
    return expected(design, probe_s=study.probe_s, deploy_s=study.deploy_s)
