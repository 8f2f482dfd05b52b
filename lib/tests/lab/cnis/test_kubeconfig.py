"""A cluster that stands, used through nothing but its kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import DeploySpec, Limits, ProvisionError
from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue, records
from infrabench.machines.sites import cluster_claim
from infrabench.machines.sites.site import open_site
from infrabench.registry import study, system
from infrabench_platforms import lab
from infrabench_platforms.clusters import control, pods
from infrabench_platforms.clusters.cluster import Kubectl
from infrabench_platforms.clusters.cni import make_cluster
from tests.support.machine_noise import is_carried_out

CILIUM = system("cilium")
MIB = 2**20
SPEC = DeploySpec("test", Limits(memory_bytes=256 * MIB), "198.18.64.10")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with Cilium, outside the lab's own folder."""
    file = tmp_path_factory.mktemp("there") / "cluster.yml"
    try:
        with lab.keep_cluster("cilium", CILIUM.CNI.parts) as machines:
            file.write_bytes(make_cluster(machines, CILIUM.CNI).kubectl.host.get(control.ADMIN))
        yield file
    finally:
        lab.down()


def _there(kubeconfig: Path) -> Kubectl:
    with open_site(kubeconfig) as site:
        return Kubectl(site.hosts["server"], tuple(site.facts["kubectl"]))


def _has_namespace(kubeconfig: Path) -> bool:
    return _there(kubeconfig).run("get", "namespace", pods.NAMESPACE).ok


def test_a_study_runs_on_it_and_leaves_nothing(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    before = _there(kubeconfig).check("get", "all,configmaps,secrets,networkpolicies", "--all-namespaces", "-o", "name")
    wanted = session.request(
        study("cnis"), profile="smoke", systems=["cilium"], workloads=["iperf3", "netperf"], runs=1,
        site=str(kubeconfig),
    )  # fmt: skip
    folder = runs.carry_out(wanted).path
    data = records.read_session(folder)
    assert data["baseline"] == "cilium"
    assert data["site"]["kind"] == "kubeconfig"
    found = records.read_trials(folder)
    assert found
    assert [record.reason for record in found if not is_carried_out(record)] == []
    absent = {each["scenario"]: each["reason"] for each in data["not_applicable"]}
    assert "tcp second two-nodes" in absent
    assert "tcp two-nodes" not in absent
    told = json.loads((folder / "provenance/deployments.json").read_bytes())["cilium"]["facts"]
    assert told["runs_on"] == "a cluster as it was found"
    assert "kernel and sysctl settings" in told["not_controlled"]
    assert len(told["nodes"]) == 2
    assert not _has_namespace(kubeconfig)
    after = _there(kubeconfig).check("get", "all,configmaps,secrets,networkpolicies", "--all-namespaces", "-o", "name")
    assert sorted(after.split()) == sorted(before.split())
    assert runs.carry_out(wanted).path == folder  # it is complete, and found again
    assert not _there(kubeconfig).run("get", "lease", cluster_claim.NAME, f"--namespace={cluster_claim.NAMESPACE}").ok


def test_an_image_that_the_nodes_do_not_have_is_told(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_POD_IMAGE", "registry.invalid/none:1")
    monkeypatch.setattr("infrabench_platforms.systems._namespace.PODS_S", 8.0)
    told = r"registry\.invalid/none:1.*can the cluster's nodes pull it"
    with open_site(kubeconfig) as site, pytest.raises(ProvisionError, match=told), CILIUM.deploy(site, SPEC):
        pass
    assert not _has_namespace(kubeconfig)
