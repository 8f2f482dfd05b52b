"""What tests of the lab's clusters share: their tools, and one trial without a session and without guards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, Guards, NotRunnable, Site, Trial, TrialRecord, default_params
from infrabench.experiment.execution import preflight
from infrabench.experiment.execution.monitor import watching
from infrabench.experiment.execution.trial import Bench, Finished, execute
from infrabench_platforms.lab import go_tools, node_groups


def build_tools(parts: Iterable[str]) -> None:
    """Build what is not built of the Go tools of all clusters and of these parts; without a toolchain the test ends."""
    try:
        go_tools.make(tuple(dict.fromkeys((*node_groups.TOOLS, *parts))))
    except NotRunnable as error:
        pytest.skip(f"not run: {error}")


def run_trial(site: Site, deployment: Deployment, workload: str, **params: Any) -> Finished:
    """Carry out one trial of a workload, with its defaults but for `params`."""
    module = registry.workload(workload)
    given = {**default_params(module), **params}
    planned = Trial("0" * 16, 0, 0, deployment.system, workload, "x", given, None, None, 30.0)
    with watching([], {}) as monitor:
        bench = Bench(preflight.roles(site, deployment), monitor, {}, Guards(None, None, None, None))
        return execute(planned, module, bench)


def values(record: TrialRecord) -> dict[str, float]:
    """Return what a trial measured, by metric; it has to have been carried out, and to have left nothing."""
    assert (record.state, record.reason) == ("ok", ""), f"{record.state}: {record.reason}"
    assert not record.conditions.get("cleanup_failed"), record.conditions
    return {each.metric: each.value for each in record.measurements}
