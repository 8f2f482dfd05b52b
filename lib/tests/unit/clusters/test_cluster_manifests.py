"""What is put on a cluster, as data: pods that nothing evicts, a policy for the right pod, a service for every port."""

from __future__ import annotations

import ipaddress
import json
import re

import pytest

from infrabench.workloads import iperf3, netperf
from infrabench_platforms.clusters import pods
from infrabench_platforms.systems import _cni

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def every_label(manifest: object) -> list[str]:
    """Return the values of all labels of a manifest, in whatever depth."""
    if isinstance(manifest, list):
        return [value for each in manifest for value in every_label(each)]
    if not isinstance(manifest, dict):
        return []
    own = [value for key in ("labels", "matchLabels") for value in manifest.get(key, {}).values()]
    return own + [value for each in manifest.values() for value in every_label(each)]


def pod(**more: object) -> pods.Manifest:
    return pods.pod("server", "worker1", "localhost/tools:1", memory_bytes=512 * 2**20, **more)


def test_a_pod_is_on_its_node_with_its_limit_and_tolerates_that_this_was_frozen() -> None:
    spec = pod()["spec"]
    (container,) = spec["containers"]
    assert spec["nodeName"] == "worker1"  # past the scheduler: cordons and taints do not keep it away
    assert container["resources"]["limits"] == {"memory": "536870912"}
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert spec["hostNetwork"] is False
    assert "runtimeClassName" not in spec
    assert pod()["metadata"]["annotations"] == {}
    tolerated = {(each["key"].split("/")[1], each["effect"], each["operator"]) for each in spec["tolerations"]}
    assert tolerated == {("not-ready", "NoExecute", "Exists"), ("unreachable", "NoExecute", "Exists")}
    assert not any("tolerationSeconds" in each for each in spec["tolerations"])


def test_pods_without_multus_clients_and_witnesses_are_told_apart() -> None:
    made = pods.runtime_class(pods.PLAIN)
    assert "overhead" not in made
    assert pods.runtime_class("kata")["overhead"] == {"podFixed": {"memory": "320Mi"}}  # that of Kata's own deployment
    assert pod(runtime_class=pods.class_name(pods.PLAIN))["spec"]["runtimeClassName"] == made["metadata"]["name"]
    assert pod(client=True)["metadata"]["labels"] == {pods.LABEL: "server", pods.CLIENT: "yes"}
    assert pods.CLIENT not in pod()["metadata"]["labels"]
    assert pod(host_network=True)["spec"]["hostNetwork"] is True


def test_the_policy_selects_one_pod_and_lets_clients_in_on_the_ports_only() -> None:
    spec = pods.policy("server-guarded")["spec"]
    assert spec["podSelector"] == {"matchLabels": {pods.LABEL: "server-guarded"}}
    assert spec["policyTypes"] == ["Ingress"]
    ((rule),) = spec["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {pods.CLIENT: "yes"}}}]
    assert {(each["protocol"], each["port"]) for each in rule["ports"]} == {
        (protocol, port) for protocol in ("TCP", "UDP") for port in (5201, 12865, 12866)
    }


def test_a_service_leads_every_port_to_one_pod_as_services_do_by_default() -> None:
    manifest = pods.service("server")
    ports = manifest["spec"]["ports"]
    assert manifest["spec"]["selector"] == {pods.LABEL: "server"}
    assert set(manifest["spec"]) == {"selector", "ports"}
    assert all(each["port"] == each["targetPort"] for each in ports)
    assert len({each["name"] for each in ports}) == len(ports) == 6
    assert all(DNS_LABEL.fullmatch(each["name"]) and len(each["name"]) <= 15 for each in ports)


def test_ports_of_service_and_policy_are_those_that_the_workloads_use() -> None:
    used = iperf3.PARAMS["port"], netperf.PARAMS["port"], netperf.PARAMS["data_port"]
    assert {each.default for each in used} == set(pods.PORTS)


def test_the_second_network_is_a_macvlan_on_the_uplink_whose_pods_bring_their_addresses() -> None:
    network = pods.second_network("eth7")
    config = json.loads(network["spec"]["config"])
    assert (config["type"], config["master"], config["ipam"]) == ("macvlan", "eth7", {"type": "static"})
    assert config["capabilities"] == {"ips": True}
    asked = json.loads(pod(second="198.18.122.11/24")["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"])
    assert asked == [{"name": pods.SECOND, "namespace": pods.NAMESPACE, "ips": ["198.18.122.11/24"]}]
    assert network["metadata"]["name"] == pods.SECOND


@pytest.mark.parametrize("session", ["lab-smoke-1a2b3c4d", "my session", "-x-", "ü" * 80, ""])
def test_every_label_is_valid_whatever_a_session_is_called(session: str) -> None:
    made = [pods.namespace(session), pods.service("server"), pods.policy("server-guarded")]
    for role, (_, client, multus, _) in _cni.ROLES.items():
        runtime_class = "" if multus else pods.class_name(pods.PLAIN)
        made.append(pods.pod(role, "worker1", "x", memory_bytes=1, client=client, runtime_class=runtime_class))
    values = [value for manifest in made for value in every_label(manifest)]
    assert len(values) > len(_cni.ROLES)
    assert [value for value in values if not LABEL_VALUE.fullmatch(value)] == []
    assert all(DNS_LABEL.fullmatch(manifest["metadata"]["name"]) for manifest in made)


def test_roles_have_addresses_of_their_own_on_the_second_network() -> None:
    lasts = [last for _, _, multus, last in _cni.ROLES.values() if multus]
    assert len(set(lasts)) == len(lasts)
    assert all(ipaddress.ip_address(f"198.18.100.{last}") for last in lasts)
    assert {last for _, _, multus, last in _cni.ROLES.values() if not multus} == {0}


def test_every_idle_policy_lets_in_others_than_clients_and_none_of_our_pods() -> None:
    made = pods.idle_policies(3, "server-guarded")
    names = [each["metadata"]["name"] for each in made]
    assert names == ["idle-0000", "idle-0001", "idle-0002"]
    own = pods.policy("server-guarded")["spec"]
    for each in made:
        spec = each["spec"]
        assert spec["podSelector"] == own["podSelector"]
        (who,) = spec["ingress"][0]["from"]
        assert who["podSelector"]["matchLabels"] == {pods.PEER: each["metadata"]["name"].removeprefix("idle-")}


def test_every_idle_service_has_an_endpoint_of_its_own_that_the_controller_need_not_make() -> None:
    made = pods.idle_services(3, "198.19.0.4")
    services, slices = made[0::2], made[1::2]
    names = [each["metadata"]["name"] for each in services]
    assert len(set(names)) == 3
    for service, endpoints in zip(services, slices, strict=True):
        assert "selector" not in service["spec"]
        assert endpoints["metadata"]["labels"] == {"kubernetes.io/service-name": service["metadata"]["name"]}
        assert endpoints["endpoints"][0]["addresses"] == ["198.19.0.4"]
        assert endpoints["ports"] == service["spec"]["ports"]
