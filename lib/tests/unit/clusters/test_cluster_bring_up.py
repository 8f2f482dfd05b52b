"""Bringing a cluster up on hosts that answer by script: the order of things, and what is said when one fails."""

from __future__ import annotations

import json

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.clusters import cluster
from infrabench_platforms.clusters.cluster import Cluster, Kubectl
from tests.support.cluster_fakes import Scripted, answers, machines, scripts

NEVER = "no script has this"


def control_host(ranges: str = "198.19.0.0/24 198.19.1.0/24", refuses: str = NEVER) -> Scripted:
    told = {refuses: (1, "it does not start"), "for file": "kubeconfig\0" * 6, "podCIDR": ranges}
    return Scripted(answers(told), name="control", address="198.18.0.21")


def worker_host(number: int, refuses: str = NEVER) -> Scripted:
    told = {refuses: (1, "no overlay file system"), "grep -v": "E1121 cannot reach the API"}
    return Scripted(answers(told), name=f"worker{number}", address=f"198.18.0.{21 + number}")


def started(host: Scripted) -> list[str]:
    return [name for argv in scripts(host, b"systemctl start") for name in argv[3:]]


def test_a_cluster_is_three_hosts_whose_units_start_in_order() -> None:
    plane, one, two = control_host(), worker_host(1), worker_host(2)
    made = cluster.bring_up(machines(plane, one, two))
    assert started(plane) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert started(one) == started(two) == ["containerd", "kubelet", "kube-proxy"]
    assert [worker.name for worker in made.workers] == list(made.nodes) == ["worker1", "worker2"]
    assert made.kubectl.prefix[0] == "/opt/infrabench/kubernetes/kubectl"
    units = [path for host in (plane, one, two) for path in host.pushed if path.endswith(".service")]
    assert len(units) == 10
    assert all(path.startswith("/etc/systemd/system/infrabench-") for path in units)


def test_nodes_that_do_not_register_are_told_with_what_their_kubelets_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REGISTER_S", 0.05)
    hosts = control_host(ranges="198.19.0.0/24"), worker_host(1), worker_host(2)  # one of two has come
    with pytest.raises(ProvisionError, match=r"register .* worker1: E1121 cannot reach the API; worker2: E1121"):
        cluster.bring_up(machines(*hosts))


@pytest.mark.parametrize(
    ("where", "text", "told"),
    [
        ("control", "init phase certs", "it does not start"),
        ("control", "/readyz", "it does not start"),
        ("worker2", "images import", "no overlay file system"),
        ("worker1", "systemctl start", "no overlay file system"),
    ],
)
def test_what_does_not_start_is_told_with_its_host(where: str, text: str, told: str) -> None:
    hosts = [control_host(refuses=text if where == "control" else NEVER)]
    hosts += [worker_host(number, refuses=text if where == f"worker{number}" else NEVER) for number in (1, 2)]
    with pytest.raises(ProvisionError, match=rf"on {where} exited with 1 .*: {told}"):
        cluster.bring_up(machines(*hosts))


def test_nodes_that_are_not_ready_say_why() -> None:
    def node(name: str, status: str, message: str) -> dict[str, object]:
        return {
            "metadata": {"name": name},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False", "message": "enough"},
                {"type": "Ready", "status": status, "message": message},
            ]},
        }  # fmt: skip

    listed = {"items": [node("worker1", "True", "fine"), node("worker2", "False", "cni plugin not initialized")]}
    host = Scripted(answers(wait=(1, "timed out"), get=listed))
    with pytest.raises(ProvisionError) as error:
        cluster.wait_ready(Cluster(Kubectl(host, ("k",)), cluster.NODES))
    assert str(error.value) == "nodes are not Ready after 120 s: worker2: cni plugin not initialized"
    assert host.asked[0][1:5] == ("wait", "--for=condition=Ready", "node/worker1", "node/worker2")


def test_a_ready_node_that_takes_no_pods_yet_is_waited_for() -> None:
    others = {"spec": {"taints": [{"key": "ours/own", "effect": "NoSchedule"}]}}
    taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    told = iter([{"items": [others, {"spec": {"taints": each}}]} for each in (taints, taints, [])])
    host = Scripted(lambda argv, stdin: (0, b"" if "wait" in argv else json.dumps(next(told)).encode()))
    cluster.wait_ready(Cluster(Kubectl(host, ("k",)), cluster.NODES))
    assert next(told, None) is None
