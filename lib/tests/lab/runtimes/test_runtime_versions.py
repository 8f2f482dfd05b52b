"""Two versions of a runtime and of a CNI, each pair in a session on real clusters: each runs what it is named for."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import registry
from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue, records
from infrabench.ledger.session_folder import SessionFolder
from infrabench_platforms.lab import go_parts, node_groups
from tests.support.lab_trials import build_tools

# The first builds what is not built yet: half an hour where nothing is.
pytestmark = pytest.mark.timeout(3600)

PAIRS = {
    "runtimes": ("containerd-runc@2.1", "containerd-runc@2.4", ["pods-startup", "pods-sysbench-cpu"]),
    "cnis": ("flannel@0.28.4", "flannel@0.28.10", ["iperf3", "pod-network"]),
}


@pytest.mark.parametrize("study", PAIRS)
def test_versions_of_a_program_are_measured_side_by_side(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    *systems, workloads = PAIRS[study]
    program = systems[0].partition("@")[0].partition("-")[0]
    build_tools(go_parts.VERSIONS[program].values())
    request = session.request(
        registry.study(study), profile="smoke", systems=systems, workloads=workloads, runs=1, site="lab"
    )
    stored = SessionFolder(runs.carry_out(request).path)
    assert records.verify(stored.path) == []
    assert (stored.session["not_run"], stored.session["baseline"]) == ({}, systems[0])
    states = {(each.trial.system, each.state) for each in stored.records.values() if each.state != "invalid"}
    assert states == {(name, "ok") for name in systems}
    facts = {name: each["facts"] for name, each in records.read_provenance(stored.path, "deployments").items()}
    for name in systems:
        wanted = name.partition("@")[2]
        assert facts[name]["version_wanted"] == wanted
        assert f"{wanted}." in f"{facts[name]['version']}."
        assert facts[name]["versions"][program].startswith(f"v{wanted}")
    older, newer = (facts[name]["versions"] for name in systems)
    assert {part for part in older if older[part] != newer[part]} == {program}
    assert (
        facts[systems[0]]["nodes"] != facts[systems[1]]["nodes"] or study == "cnis"
    )  # what the kubelets say of theirs
    assert not [name for name in node_groups.slots() if "@" in name or program in name]
