"""Two versions of an engine in one session on real systems, and one of them against itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import registry
from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue, records
from infrabench.ledger.session_folder import SessionFolder
from infrabench_platforms.lab import node_groups

pytestmark = pytest.mark.timeout(600)


def measure(**wanted: object) -> SessionFolder:
    request = session.request(
        registry.study("containers"), profile="smoke", workloads=["sysbench-cpu", "web", "startup"], runs=1, site="lab",
        **wanted,  # type: ignore[arg-type]
    )  # fmt: skip
    stored = SessionFolder(runs.carry_out(request).path)
    assert records.verify(stored.path) == []
    return stored


def test_versions_of_engines_are_measured_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    systems = ["native@debian13", "docker@20.10", "docker@26.1", "lxc@6.0", "lxd@debian13", "incus@6.0", "podman@5.4"]
    stored = measure(systems=systems)
    assert stored.session["not_run"] == {}
    states = {(each.trial.system, each.state) for each in stored.records.values() if each.state != "invalid"}
    assert states == {(name, "ok") for name in stored.session["systems"]}
    facts = {name: each["facts"] for name, each in records.read_provenance(stored.path, "deployments").items()}
    assert {name: facts[name]["release"] for name in systems} == dict.fromkeys(systems, "debian13") | {
        "docker@20.10": "debian12"
    }
    assert facts["docker@20.10"]["version"].startswith("20.10")
    assert facts["docker@26.1"]["version"].startswith("26.1")
    assert {each["image"] for name, each in facts.items() if "native" not in name} == {facts["docker@26.1"]["image"]}
    for each in stored.records.values():  # the guards see its own cgroups, on its own server
        if each.state == "ok":
            server = each.conditions[f"release-{facts[each.trial.system]['release']}-server"]
            assert (server["oom_kills"], server["memory_limit_hits"]) == (0, 0)
            assert server["throttled_periods"] is not None
    assert not [name for name in node_groups.slots() if name.startswith("release-")]
