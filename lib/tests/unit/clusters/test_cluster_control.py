"""Files of the control plane (kubeadm's configuration, units, roles) and of workers; command lines of `kubectl`."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib

import pytest
import yaml

from infrabench.core import ProvisionError
from infrabench_platforms.clusters import cluster, cni, control, runtimes, workers
from infrabench_platforms.clusters.cluster import Cluster, Kubectl
from infrabench_platforms.lab import network, node_groups
from infrabench_platforms.systems import _cni
from tests.support.cluster_fakes import Scripted, answers, machines, scripts

SECRETS = [f"kubeconfig {number}" for number in range(5)]


@pytest.fixture
def plane() -> control.ControlPlane:
    """A control plane on a host that prints the five kubeconfigs and the CA where it is asked for them."""
    host = Scripted(answers({"for file": "\0".join([*SECRETS, "the CA", ""])}), address="198.18.0.21")
    return control.identities(host, "/opt/k", "v1.34.4", ("worker1", "worker2"))


def unit_words(host: Scripted, name: str) -> list[str]:
    text = host.pushed[f"/etc/systemd/system/infrabench-{name}.service"]
    found = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].split()


def test_kubeadm_is_told_the_version_the_address_and_ranges_that_do_not_meet(plane: control.ControlPlane) -> None:
    host = plane.host
    first, second = yaml.safe_load_all(host.pushed["/etc/kubernetes/kubeadm.yaml"])
    assert (first["kind"], second["kind"]) == ("InitConfiguration", "ClusterConfiguration")
    assert first["localAPIEndpoint"] == {"advertiseAddress": "198.18.0.21", "bindPort": 6443}
    assert second["kubernetesVersion"] == "v1.34.4"
    assert second["controlPlaneEndpoint"] == "198.18.0.21:6443"
    assert "198.18.0.21" in second["apiServer"]["certSANs"]
    ranges = [ipaddress.ip_network(second["networking"][key]) for key in ("serviceSubnet", "podSubnet")]
    assert not ranges[0].overlaps(ranges[1])
    assert all(each.subnet_of(network.RANGE) for each in ranges)  # nothing leaves the range for benchmarks
    assert not any(each.overlaps(other) for each in ranges for other in (network.NODES_NET, network.GUESTS_NET))


def test_second_networks_lie_outside_of_all_other_ranges_and_no_two_sets_share_one() -> None:
    for address in range(256):
        given = ipaddress.ip_interface(_cni.second_address(Scripted(address=f"198.18.0.{address}"), 11))
        assert given.network.subnet_of(network.RANGE)
        for other in (control.POD_NET, control.SERVICE_NET, network.NODES_NET, network.GUESTS_NET):
            assert not given.network.overlaps(ipaddress.ip_network(str(other)))
    firsts = [node_groups.place_nodes("x", slot, node_groups.ROLES)[1] for slot in range(node_groups.SLOTS)]
    second = {_cni.second_address(Scripted(address=node.address), 11) for node in firsts}
    assert len(second) == node_groups.SLOTS


def test_every_user_gets_the_kubeconfig_of_its_name(plane: control.ControlPlane) -> None:
    names = ("admin", "network", "kube-proxy", "kubelet-worker1", "kubelet-worker2")
    assert plane.kubeconfigs == dict(zip(names, SECRETS, strict=True))
    assert plane.ca == "the CA"
    assert b"umask 077" in next(text for text in plane.host.given if b"init phase certs" in text)


def test_roles_give_each_user_what_it_lacks_and_no_more(plane: control.ControlPlane) -> None:
    roles = json.loads(plane.host.pushed["/etc/kubernetes/roles.json"])["items"]
    bound = {
        (subject["kind"], subject["name"]): role["roleRef"]["name"] for role in roles for subject in role["subjects"]
    }
    assert bound == {
        ("User", "kube-apiserver-kubelet-client"): "system:kubelet-api-admin",
        ("User", "infrabench:network"): "cluster-admin",
        ("User", "system:kube-proxy"): "system:node-proxier",
    }


@pytest.mark.parametrize("throw_away", [True, False])
def test_the_controller_manager_starts_after_the_api_and_takes_no_frozen_node_for_dead(
    plane: control.ControlPlane, throw_away: bool
) -> None:
    host = plane.host
    control.run(plane, "/opt/k", "/opt/e", throw_away=throw_away)
    started = [argv[3:] for argv in scripts(host, b"systemctl start")]
    waits = next(number for number, argv in enumerate(host.asked) if "/readyz" in argv)
    assert started == [("etcd", "kube-apiserver"), ("kube-controller-manager", "kube-scheduler")]
    assert [b"systemctl start" in text for text in host.given].index(True) < waits
    assert "--node-monitor-grace-period=24h0m0s" in unit_words(host, "kube-controller-manager")
    assert ("--unsafe-no-fsync" in unit_words(host, "etcd")) is throw_away
    assert unit_words(host, "kube-scheduler")[0] == "/opt/k/kube-scheduler"
    for name in ("etcd", "kube-apiserver"):
        addresses = re.findall(r"https?://([^:/ ]+)", " ".join(unit_words(host, name)))
        assert set(addresses) <= {"127.0.0.1", "kubernetes.default.svc"}, f"{name}: etcd has no password"
    assert f"--cluster-cidr={control.POD_NET}" in unit_words(host, "kube-controller-manager")
    for name in ("kube-apiserver", "kube-controller-manager"):
        assert f"--service-cluster-ip-range={control.SERVICE_NET}" in unit_words(host, name)


@pytest.mark.parametrize(("said", "restricted"), [(b"free\n", False), (b"restricted\n", True)])
def test_a_runtime_knows_where_each_kind_of_pod_gets_its_network(said: bytes, restricted: bool) -> None:
    host = Scripted(lambda argv, stdin: (0, said if b"oom_score_adj" in stdin else b""), name="worker1")
    workers.prepare("worker1", machines(host), names=("runc", "plain"))
    config = tomllib.loads(host.pushed["/etc/containerd/config.toml"])
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["restrict_oom_score_adj"] is restricted
    assert runtime["cni"]["conf_dir"] == runtimes.CNI_CONFIG
    assert runtime["containerd"]["runtimes"]["plain"]["cni_conf_dir"] == runtimes.PLAIN_CONFIG
    assert "cni_conf_dir" not in runtime["containerd"]["runtimes"]["runc"]
    assert config["plugins"]["io.containerd.cri.v1.images"]["pinned_images"] == {"sandbox": "localhost/pause:1"}
    assert config["plugins"]["io.containerd.server.v1.metrics"]["address"].startswith("127.0.0.1:")
    assert scripts(host, b"images import")[0][-2:] == ("/opt/images/pause.tar", "/opt/images/tools.tar")


def test_a_worker_gets_its_own_identity_and_only_that(plane: control.ControlPlane) -> None:
    host = Scripted(address="198.18.0.23")
    workers.join(workers.Worker("worker2", host, machines(host)), plane)
    files = host.pushed
    assert files["/etc/kubernetes/kubelet.conf"] == plane.kubeconfigs["kubelet-worker2"]
    assert plane.kubeconfigs["admin"] not in files.values()
    assert {"--hostname-override=worker2", "--node-ip=198.18.0.23"} <= set(unit_words(host, "kubelet"))
    kubelet = json.loads(files[workers.KUBELET_CONFIG])
    assert (kubelet["cgroupDriver"], kubelet["failSwapOn"], kubelet["failCgroupV1"]) == ("cgroupfs", False, False)
    proxy = json.loads(files["/etc/kubernetes/kube-proxy.yaml"])
    assert (proxy["hostnameOverride"], proxy["clusterCIDR"]) == ("worker2", control.POD_NET)
    assert (proxy["conntrack"]["maxPerCore"], proxy["conntrack"]["min"]) == (0, 0)  # the machine's, not the node's


def test_multus_is_first_in_the_runtimes_folder_and_delegates_to_the_file_of_the_cni() -> None:
    members = tuple(workers.Worker(f"worker{n}", Scripted(address=f"198.18.0.2{n + 1}"), machines()) for n in (1, 2))
    made = Cluster(Kubectl(Scripted(), ("kubectl",)), cluster.NODES, members, machines())
    cni.install_multus(made, "/opt/multus", "10-x.conflist")
    for worker in members:
        (path,) = worker.host.pushed
        text = json.loads(worker.host.pushed[path])
        assert path.startswith(f"{runtimes.CNI_CONFIG}/00-")
        assert text["clusterNetwork"] == f"{runtimes.PLAIN_CONFIG}/10-x.conflist"
        assert runtimes.PLAIN_CONFIG != runtimes.CNI_CONFIG


def test_kubectl_commands_name_the_cluster_carry_manifests_on_stdin_and_say_what_kubectl_says() -> None:
    prefix = ("/opt/k/kubectl", "--kubeconfig", "/f")
    host = Scripted(answers(pods={}, services=(1, "error: forbidden")))
    asked = Kubectl(host, prefix)
    asked.apply([{"kind": "A"}, {"kind": "B"}])
    assert host.asked == [(*prefix, "apply", "--filename=-")]
    assert [each["kind"] for each in json.loads(host.given[0])["items"]] == ["A", "B"]
    assert asked.get("pods", "-n", "x") == {}
    assert host.asked[1][3:] == ("get", "pods", "-n", "x", "--output=json")
    in_pod = asked.exec_prefix("infrabench", "server")  # what follows is never taken for an option of kubectl
    assert (in_pod[:5], in_pod[-1]) == ((*prefix, "exec", "--namespace=infrabench"), "--")
    with pytest.raises(ProvisionError, match=r"get services.* on node exited with 1 .*: error: forbidden"):
        asked.get("services")
    assert not asked.run("get", "services").ok
