"""Packages and programs of a session on real systems: kept once, alike when it goes on, and named where one changes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infrabench import cli, registry
from infrabench.core import LedgerError, Site
from infrabench.experiment.execution import preflight, session
from infrabench.experiment.execution.deployments import deployed
from infrabench.experiment.provenance import collect
from infrabench.experiment.provenance.comparability import differences
from infrabench.ledger import records
from tests.support.fakes import run_session, stop_after

pytestmark = pytest.mark.timeout(600)
ENGINE = {"docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc"}
TOOLS = {"sysbench", "ib-stream"}
MOST_S = 10.0  # measured: 2 s on two busy processors


def measure(site: Site, folder: Path, stop: int | None = None) -> Path:
    study = registry.study("containers")
    wanted = {"profile": "smoke", "systems": ["native", "docker"], "workloads": ["sysbench-cpu", "stream"], "runs": 2}
    report = None if stop is None else stop_after(stop)
    return run_session(study, folder, site, report, **wanted)


def test_a_session_says_what_it_measured_and_a_changed_program_is_named(
    lab_site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "one"
    with pytest.raises(KeyboardInterrupt):
        measure(lab_site, folder, 1)
    found = records.read_provenance(folder, records.CONTENTS)
    docker, native = (found["systems"][name]["targets"]["server"] for name in ("docker", "native"))
    assert {*docker["programs"]} == {*native["programs"]} == TOOLS
    assert docker["image"] is native["image"] is True
    assert {*found["systems"]["docker"]["hosts"]["server"]["programs"]} >= ENGINE
    # Inside of native is the node: one list for both, and the guest image has another.
    assert native["packages"] == found["hosts"]["server"]["packages"] != docker["packages"]
    assert len(found["packages"]) == len({native["packages"], docker["packages"], found["hosts"]["client"]["packages"]})
    assert any(line.startswith("sysbench 1.0") for line in found["packages"][docker["packages"]])
    clock = records.read_provenance(folder, "server")["clock"]
    assert isinstance(clock["synchronised"], bool)
    with pytest.raises(KeyboardInterrupt):
        measure(lab_site, folder, 3)  # goes on: nothing has changed
    assert [path.name for path in folder.glob("provenance/contents*")] == ["contents.json"]

    server = lab_site.hosts["server"]
    change = (
        'file=$(command -v sysbench); cp "$file" /root/sysbench; printf x >>/root/sysbench; mv /root/sysbench "$file"'
    )
    assert server.run(("sh", "-c", change), timeout_s=20).ok
    with pytest.raises(LedgerError, match=r"native program sysbench: .*Start another session"):
        measure(lab_site, folder)
    other = measure(lab_site, tmp_path / "two")
    assert records.verify(other) == []
    content = [each for each in differences(folder, other) if each.key.startswith(("program", "packages"))]
    assert [(each.where, each.key, each.checked) for each in content] == [("native", "program sysbench", True)]
    assert cli.main(["session", "diff", str(folder), str(other)]) == 1
    assert "must agree  native program sysbench: " in capsys.readouterr().out


def test_asking_costs_little(lab_site: Site) -> None:
    """Of all systems that the lab has, on top of what a session does at its start."""
    study = registry.study("containers")
    wanted = session.request(study, profile="smoke", systems=["native", "docker", "lxc", "lxd", "podman", "incus"])
    tools = collect.tools_by_role({case.workload: registry.workload(case.workload) for case in wanted.cases})
    with deployed(study, wanted, lab_site, label="contents") as fleet:
        fleet.resume_all()
        roles = {name: preflight.roles(lab_site, each) for name, each in fleet.deployments.items()}
        begin = time.monotonic()
        found = collect.collect_contents(lab_site, fleet.deployments, roles, tools)
        spent_s = time.monotonic() - begin
    places = {
        (system, name): place
        for system, made in found["systems"].items()
        for name, place in {**made["targets"], **made["hosts"]}.items()
    }
    assert {key: place["missing"] for key, place in places.items() if place["missing"]} == {}
    assert spent_s < MOST_S
