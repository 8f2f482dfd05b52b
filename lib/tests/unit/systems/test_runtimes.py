"""Runtimes as systems: which class and node they take, what a pod has to say of itself, and how many fit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Limits, NotRunnable, ProvisionError, SiteError, Target
from infrabench.machines.sites.site import OpenSite
from infrabench.studies.runtimes import STUDY
from infrabench_platforms.clusters.cluster import Cluster, Kubectl
from infrabench_platforms.systems import _cni, _namespace, container_runtimes
from tests.support import cluster_fakes
from tests.support.cluster_fakes import Scripted, answers

MIB = 2**20
NODE = {"kernelVersion": "6.1.0", "containerRuntimeVersion": "containerd://2.1.6"}
CLASSES = {
    "items": [
        {"metadata": {"name": "kata-qemu"}, "handler": "kata-qemu", "scheduling": {"nodeSelector": {"kata": "true"}}},
        {"metadata": {"name": "katalog"}, "handler": "katalog"},
        {"metadata": {"name": "sandboxed"}, "handler": "runsc"},
    ]
}


def cluster(**told: Any) -> Kubectl:
    """Return a kubectl that answers ``get KIND`` (and anything that has the word in it) with what is told of it."""
    return Kubectl(Scripted(answers(told)), ("kubectl",))


def test_every_system_of_the_study_is_a_plug_in() -> None:
    local = OpenSite("local", "local", {})
    for name in STUDY.systems:
        assert "nodes of its own" in (registry.system(name).supported(local) or "")


def test_a_class_is_found_by_its_handler_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_namespace.CLASSES, raising=False)
    kubectl = cluster(runtimeclasses=CLASSES)
    assert _namespace.find_class(kubectl, "runc") is None
    assert _namespace.find_class(kubectl, "kata")["metadata"]["name"] == "kata-qemu"  # type: ignore[index]
    assert _namespace.find_class(kubectl, "runsc")["handler"] == "runsc"  # type: ignore[index]
    monkeypatch.setenv(_namespace.CLASSES, "runc=sandboxed, kata=katalog")
    assert _namespace.find_class(kubectl, "runc")["metadata"]["name"] == "sandboxed"  # type: ignore[index]
    assert _namespace.find_class(kubectl, "kata")["metadata"]["name"] == "katalog"  # type: ignore[index]


def test_a_class_that_is_not_there_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = cluster(runtimeclasses=CLASSES)
    monkeypatch.setenv(_namespace.CLASSES, "kata=nope")
    with pytest.raises(SiteError, match=r"nope for kata.*kata-qemu \(handler kata-qemu\), katalog .*, sandboxed"):
        _namespace.find_class(kubectl, "kata")
    monkeypatch.setenv(_namespace.CLASSES, "kata")
    with pytest.raises(SiteError, match="write RUNTIME=NAME"):
        _namespace.find_class(kubectl, "kata")
    monkeypatch.delenv(_namespace.CLASSES)
    with pytest.raises(NotRunnable, match=r"^Kata is not installed: the cluster has no runtime class.*It has: none"):
        _namespace.find_class(cluster(runtimeclasses={"items": []}), "kata")


def test_a_class_asks_for_labels_of_a_node() -> None:
    wanted = CLASSES["items"][0]
    assert _namespace.takes(wanted, {"metadata": {"labels": {"kata": "true"}}})
    assert not _namespace.takes(wanted, {"metadata": {}})
    assert _namespace.takes(CLASSES["items"][1], {"metadata": {}})


@pytest.mark.parametrize(("module", "system"), [(_cni, "flannel"), (container_runtimes, "containerd-runc")])
@pytest.mark.parametrize("embedded", [True, False])
def test_machines_of_an_inventory_are_those_that_are_measured(
    monkeypatch: pytest.MonkeyPatch, module: Any, system: str, embedded: bool
) -> None:
    hosts = {role: Scripted(name=role) for role in ("control", "worker1")}
    machines = replace(cluster_fakes.machines(*hosts.values()), embedded=embedded)
    monkeypatch.setattr(module, "make_cluster", lambda *how, **more: Cluster(Kubectl(Scripted(), ("k",)), ("worker1",)))
    monkeypatch.setattr(module, "_deploy_pods", lambda *how: Deployment(system, {}, {}))
    site = OpenSite("own", "inventory", {}, {}, lambda *asked: nullcontext(machines))
    spec = DeploySpec("s", Limits(), "198.18.64.10")
    with registry.system(system).deploy(site, spec) as made:
        assert made.machines == ({} if embedded else hosts)


def unmade(low: str) -> None:
    """Make a system on a cluster that makes no pod of a population."""
    conductor = {"metadata": {"name": "conductor"}, "status": {"podIP": "198.19.0.4"}}
    kubectl = cluster(**{
        "} create 1": (1, "1 of 1 pods are not Ready after 33 s: 1 of them: no /dev/vhost-net"),
        "} evidence": "# kubectl get pods\npod-001 ContainerCreating\n",
        "/proc/meminfo": "MemAvailable: 1000000 kB\n", "kubectl": {"items": [conductor], "spec": {}},
    })  # fmt: skip
    spec = DeploySpec("s", Limits(memory_bytes=256 * MIB), "198.18.64.10", 0, 1)
    container_runtimes._deploy_pods(
        Cluster(kubectl, ("worker1",)), spec, container_runtimes.Pair("crio", low), "localhost/tools:1"
    )


def test_what_is_known_of_a_pod_that_does_not_come_goes_with_the_reason() -> None:
    with pytest.raises(NotRunnable, match=r"^kata makes no pod here: .*no /dev/vhost-net") as error:
        unmade("kata")
    assert error.value.evidence == "# kubectl get pods\npod-001 ContainerCreating\n"
    with pytest.raises(ProvisionError, match="crio-runc: 1 of 1 pods"):  # the usual one has to work
        unmade("runc")


def said(**facts: Any) -> Kubectl:
    usual = {"kernel": "6.1.0", "hypervisor": "KVMKVMKVM", "cpus": 2, "memory_limit_B": 256 * MIB}
    return cluster(facts=usual | facts)


def seen(low: str, **facts: Any) -> tuple[dict[str, str], bool]:
    return container_runtimes.inspect_pod(said(**facts), Limits(memory_bytes=256 * MIB), low, NODE)


def test_a_pod_has_to_be_on_the_kernel_that_its_runtime_gives() -> None:
    assert seen("runc")[0]["kernel"] == "6.1.0 (the node's)"
    assert seen("runsc", kernel="4.4.0", memory_limit_B=None)[0]["memory_limit"] == "not told inside"
    with pytest.raises(ProvisionError, match=r"kata does not make the pods: their kernel 6.1.0 is the node's own"):
        seen("kata")
    with pytest.raises(ProvisionError, match=r"their kernel 5.19 is not the node's"):
        seen("crun", kernel="5.19")


@pytest.mark.parametrize(
    ("signature", "said", "emulated"),
    [
        ("TCGTCGTCGTCG", "a virtual machine: emulation by QEMU (TCG)", True),
        ("KVMKVMKVM", "a virtual machine: KVM", False),
        (None, "a virtual machine: its processor does not say which", False),
    ],
)
def test_an_emulated_guest_is_told_from_one_under_kvm(signature: str | None, said: str, emulated: bool) -> None:
    told, found = seen("kata", kernel="6.12.28", hypervisor=signature)
    assert (told["isolation"], found) == (said, emulated)


def test_another_memory_limit_than_asked_for_is_refused() -> None:
    with pytest.raises(ProvisionError, match="memory limit is 1, not 268435456 bytes"):
        seen("crio-runc".partition("-")[2], memory_limit_B=1)


def fits(available: int, cost: int, *, pods: int = 110, net: str = "198.19.0.0/24", limit: int = 256 * MIB) -> Any:
    node = {"status": {"allocatable": {"pods": str(pods)}}, "spec": {"podCIDR": net}}
    others = [
        {"metadata": {"labels": {}}, "spec": {}, "status": {"phase": "Running"}},
        {"metadata": {"labels": {"infrabench-population": "yes"}}, "spec": {}, "status": {"phase": "Running"}},
        {"metadata": {}, "spec": {}, "status": {"phase": "Succeeded"}},
    ]
    before, after = container_runtimes.Free(available, 0), container_runtimes.Free(available - 7 * MIB, cost)
    return container_runtimes.fits(cluster(pods={"items": others}, node=node), "worker1", before, after, limit)


def test_the_tightest_bound_says_how_many_pods_fit_and_why() -> None:
    assert fits(100 * 2**30, 10 * MIB) == (109, "the kubelet takes 110, and 1 others are there")
    assert fits(100 * 2**30, 10 * MIB, net="198.19.0.0/28") == (12, "addresses of 198.19.0.0/28")
    count, reason = fits(20 * 2**30, 10 * MIB)
    assert count == (18 * 1024) // 272
    assert reason == "memory: 18 GiB free for them, 272 MiB each"
    assert fits(20 * 2**30 + 900 * MIB, 3 * MIB) == (count, reason)  # small differences do not change it
    assert fits(20 * 2**30, 450 * MIB)[0] == (18 * 1024) // (256 + 464)
    assert fits(20 * 2**30, -5)[0] == count  # a pod is never free of cost
    with pytest.raises(ProvisionError, match="no room for a pod: memory"):
        fits(2**30, 0)


def test_memory_of_a_node_is_read_where_it_can_be() -> None:
    shown = b"MemTotal: 24000000 kB\nMemAvailable:   1000 kB\n"
    conductor = Target("conductor", Scripted(lambda argv, stdin: (0, shown)))
    assert container_runtimes.Free.now({"conductor": conductor}) == container_runtimes.Free(1000 * 1024, None)
    worker = Target("worker1", Scripted(lambda argv, stdin: (0, b'{"used_B": 5}')), lifecycle={"memory": ("x",)})
    assert container_runtimes.Free.now({"conductor": conductor, "worker1": worker}).used_bytes == 5
