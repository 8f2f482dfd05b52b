"""What CNIs do alike, without a cluster: addresses, counters, devices, whose namespace it is; the roles of `host`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli, registry
from infrabench.core import Deployment, DeploySpec, Limits, Machines, NotRunnable, ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.clusters import cluster, cni, hosts, pods
from infrabench_platforms.clusters.cluster import NODES, Cluster, Kubectl, is_ready, until
from infrabench_platforms.clusters.hosts import CNI_DEVICES
from infrabench_platforms.clusters.workers import PLAIN_CONFIG, Worker
from infrabench_platforms.lab import go_parts
from infrabench_platforms.systems import _cni, _namespace, bridge, cilium, flannel, host, migrated
from tests.support.cluster_fakes import Scripted, answers
from tests.support.scripts import write_program

MACHINES = Machines({}, {}, {}, embedded=True)
SPEC = DeploySpec("a session", Limits(memory_bytes=512 * 2**20), "198.18.64.10")
BRIDGE, CILIUM, FLANNEL = (registry.system(name) for name in ("bridge", "cilium", "flannel"))
SECOND = [
    {"name": "cbr0", "interface": "eth0", "ips": ["198.19.0.4"], "default": True},
    {"name": "infrabench/infrabench-second", "interface": "net1", "ips": ["198.18.122.11"]},
]


def kubectl_of(folder: Path, script: str, *prefix: str, host: Any = None) -> Kubectl:
    """Return a kubectl that is this shell script."""
    return Kubectl(host or Scripted(), (str(write_program(folder / "kubectl", script)), *prefix))


def pod(status: object = None) -> dict[str, Any]:
    annotations = {} if status is None else {_cni.STATUS: json.dumps(status)}
    return {"metadata": {"name": "server", "annotations": annotations}, "status": {"podIP": "198.19.0.4"}}


def test_a_pod_is_made_through_multus_or_not_as_asked_for_and_found_as_it_is() -> None:
    both = {"primary": "198.19.0.4", "second": "198.18.122.11"}
    assert _cni._addresses(pod(SECOND), True) == both
    for status, asked in ((SECOND[:1], True), (None, None), (SECOND[:1], None)):
        assert _cni._addresses(pod(status), asked) == {"primary": "198.19.0.4"}
    with pytest.raises(ProvisionError, match="pod server: Multus did not make its network"):
        _cni._addresses(pod(), True)
    with pytest.raises(ProvisionError, match="pod server: Multus made its network"):
        _cni._addresses(pod(SECOND), False)


@pytest.mark.parametrize("name", ["cilium-kpr", "cilium-1000-policies", "flannel-nftables", "flannel-mtu1280"])
def test_how_a_cluster_that_is_there_was_set_up_is_not_taken_on_trust(name: str) -> None:
    site = OpenSite("mine", "kubeconfig", {"server": Scripted()}, {"kubectl": ["k"]})
    with pytest.raises(NotRunnable, match=f"as {name} cannot be told: name flannel, flannel-direct, cilium"):
        _cni._deploy_in_existing(site, SPEC, registry.system(name).CNI)


def test_a_cluster_that_is_there_carries_one_system_at_a_time() -> None:
    site = OpenSite("mine", "kubeconfig", {"server": Scripted()})
    kubectl, made = Kubectl(Scripted(), ("k",)), Deployment("cilium", {}, {})
    for _ in range(2):  # when the first one has gone, there is room again
        with _namespace.borrow(site, kubectl, lambda: made) as found:
            assert found is made
            second = _namespace.borrow(site, kubectl, pytest.fail)
            with pytest.raises(NotRunnable, match="one system at a time"), second:
                pass


def test_the_first_cpu_counter_that_is_there_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / name for name in ("cpuacct.usage", "cpu.stat")]
    monkeypatch.setattr(hosts, "COUNTERS", tuple(map(str, files)))
    assert hosts.counters(LocalHost()) == ()
    files[1].write_text("usage_usec 1\n")
    assert hosts.counters(LocalHost()) == (str(files[1]),)
    files[0].write_text("1\n")
    assert hosts.counters(LocalHost()) == (str(files[0]),)  # v1, where v2 is mounted beside it and counts nothing


def test_waiting_ends_when_it_is_so_or_says_what_was_awaited() -> None:
    tries = iter([False, False, True])
    until("the third try", lambda: next(tries), 5.0)
    with pytest.raises(StopIteration):
        next(tries)
    with pytest.raises(ProvisionError, match="waited 0 s for a miracle"):
        until("a miracle", lambda: False, 0.02)


def test_the_limit_is_read_inside_the_pod() -> None:
    targets = {"server": _cni.Target("server", Scripted(answers({"exec": "536870912\n"})), ("exec",))}
    _cni._check_limits(targets, SPEC)
    with pytest.raises(ProvisionError, match="memory limit is 536870912, not 1 bytes"):
        _cni._check_limits(targets, DeploySpec("s", Limits(memory_bytes=1), ""))


def test_a_fresh_pod_is_made_from_a_file_waited_for_and_taken_from_the_api_where_it_does_not_go(tmp_path: Path) -> None:
    """The command line is run with a `kubectl` that writes down what it is asked."""
    node = Scripted()
    script = 'echo "$@" >>"$0.log"\n[ ! -e "$0.stuck" ] || [ "${*%--force*}" != "$*" ]\n'
    kubectl = kubectl_of(tmp_path, script, "--kubeconfig", "a b", host=node)
    lifecycle = _cni._lifecycle(
        Cluster(kubectl, NODES, (Worker("worker1", node, MACHINES),)), SPEC, "localhost/tools:1"
    )
    assert set(lifecycle) == {"create", "create-plain", "remove", "version"}
    for name in ("create", "create-plain", "remove"):
        assert subprocess.run(lifecycle[name], timeout=10, check=False).returncode == 0
    asked = (tmp_path / "kubectl.log").read_text().splitlines()
    begin = "--kubeconfig a b --namespace=infrabench"
    assert asked == [
        f"{begin} create --filename=/etc/infrabench/fresh.json",
        f"{begin} wait --for=condition=Ready --timeout=60s pod/infrabench-fresh",
        f"{begin} create --filename=/etc/infrabench/fresh-plain.json",
        f"{begin} wait --for=condition=Ready --timeout=60s pod/infrabench-fresh",
        f"{begin} delete pod infrabench-fresh --ignore-not-found --wait --timeout=30s",
    ]
    made = {path: json.loads(text)["spec"] for path, text in node.pushed.items()}
    assert "runtimeClassName" not in made["/etc/infrabench/fresh.json"]
    assert made["/etc/infrabench/fresh-plain.json"]["runtimeClassName"] == pods.class_name(pods.PLAIN)
    (tmp_path / "kubectl.stuck").touch()
    assert subprocess.run(lifecycle["remove"], timeout=10, check=False).returncode == 1  # its trial fails
    *_, asked_last, forced = (tmp_path / "kubectl.log").read_text().splitlines()
    assert asked_last == asked[-1]
    assert forced.endswith(
        "delete pod infrabench-fresh --ignore-not-found --wait --force --grace-period=0 --timeout=20s"
    )


KUBECTL = """case "$*" in
  "--context=c get nodes w1 w2 --output=jsonpath="*) printf %s '{states}' ;;
  "--context=c get --raw /api/v1/nodes/"*) case "$*" in */{down}/*) exit 1 ;; esac; echo ok ;;
  *) exit 64 ;;
esac
"""


@pytest.mark.parametrize(
    ("states", "down", "ready"),
    [
        ("True True ", "none", True),
        ("True False ", "none", False),
        ("Unknown True ", "none", False),
        ("True True ", "w2", False),
        ("", "none", False),
    ],
    ids=["ready", "not ready", "unknown", "kubelet does not answer", "API does not answer"],
)
def test_a_cluster_is_ready_when_nodes_and_kubelets_say_so(tmp_path: Path, states: str, down: str, ready: bool) -> None:
    kubectl = kubectl_of(tmp_path, KUBECTL.format(states=states, down=down), "--context=c", host=LocalHost())
    assert is_ready(Cluster(kubectl, ("w1", "w2"))) is ready


def test_a_thawed_cluster_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    monkeypatch.setattr(cluster, "is_ready", lambda cluster: bool(done.append("asked")) or len(done) > 3)
    monkeypatch.setattr(cluster, "SETTLE_S", 0.0)
    frozen = Cluster(Kubectl(Scripted(), ()), NODES)
    cluster.make_resume(frozen, lambda: done.append("thawed"))()
    assert done == ["thawed", "asked", "asked", "asked"]
    assert cluster.make_resume(frozen, None) is None


def test_the_bridge_gives_every_node_its_own_range_in_the_file_that_multus_delegates_to() -> None:
    ranges = {"worker1": "198.19.1.0/24", "worker2": "198.19.0.0/24"}
    listed = {"items": [{"metadata": {"name": name}, "spec": {"podCIDR": net}} for name, net in ranges.items()]}
    members = tuple(Worker(name, Scripted(), MACHINES) for name in ranges)
    bridge.install(Cluster(Kubectl(Scripted(answers(nodes=listed)), ("k",)), NODES, members))
    for worker in members:
        ((path, text),) = worker.host.pushed.items()  # type: ignore[attr-defined]
        assert path == f"{PLAIN_CONFIG}/{bridge.CNI.config}"
        assert json.loads(text)["ipam"]["subnet"] == ranges[worker.name]


def test_events_say_why_pods_do_not_come() -> None:
    events = "server: old\nserver: FailedMount\nfar: no route\nnear: a\nnear: b\n"
    host = Scripted(answers(wait=(1, "error: timed out waiting for the condition"), events=events))
    reason = "not Ready after 60 s: server: FailedMount; far: no route; near: a; near: b"
    with pytest.raises(ProvisionError, match=reason):
        _namespace.running(Kubectl(host, ("k",)))


def found(more: dict[str, Any] | None = None, nodes: int = 2) -> tuple[OpenSite, Scripted]:
    listed = [{"metadata": {"name": f"n{number}"}, "spec": {}} for number in range(nodes)]
    listed.append({"metadata": {"name": "tainted"}, "spec": {"taints": [{"effect": "NoSchedule", "key": "x"}]}})
    listed.append({"metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}})
    told = {"ciliumnodes": "ciliumnode.cilium.io/n0\nciliumnode.cilium.io/n1\n", "nodes": {"items": listed}}
    machine = Scripted(answers(**told | (more or {})))
    return OpenSite("c", "kubeconfig", {"server": machine}, {"kubectl": ["kubectl"], "pod_image": "x"}), machine


def refusal(site: OpenSite, system: Any) -> str:
    with pytest.raises(NotRunnable) as error, system.deploy(site, SPEC):
        pass
    return str(error.value)


def deletes(machine: Scripted) -> list[tuple[str, ...]]:
    return [argv for argv in machine.asked if "delete" in argv]


def test_a_namespace_that_somebody_else_made_is_never_removed() -> None:
    site, machine = found({"namespace": {"metadata": {"name": "infrabench", "labels": {"team": "web"}}}})
    assert "namespace infrabench that infrabench did not make" in refusal(site, CILIUM)
    assert deletes(machine) == []


def test_a_namespace_that_a_killed_session_left_is_removed() -> None:
    ours = pods.namespace("an earlier session")
    site, machine = found({"namespace": ours, "wait": ""})
    with pytest.raises((ProvisionError, KeyError)), CILIUM.deploy(site, SPEC):
        pass  # there are no pods in this cluster
    assert len(deletes(machine)) == 2  # before, and after the failure
    assert all(argv[:4] == ("kubectl", "delete", "namespace", "infrabench") for argv in deletes(machine))


def test_a_cluster_with_another_cni_is_found_out_before_anything_is_made() -> None:
    site, machine = found()
    assert "the cluster's CNI is not flannel: node n0 has" in refusal(site, FLANNEL)
    assert "the cluster's CNI is not bridge" in refusal(site, BRIDGE)
    site, _ = found({"ciliumnodes": "ciliumnode.cilium.io/n1\n"})
    assert "no CiliumNode of n0" in refusal(site, CILIUM)
    assert deletes(machine) == []
    assert not any("apply" in argv for argv in machine.asked)


def test_nodes_that_take_no_pods_do_not_count() -> None:
    site, _ = found(nodes=1)
    assert refusal(site, CILIUM) == "the cluster has 1 nodes that take pods; two are needed"


PLUGIN = '''
"""Wire: a CNI for tests."""
from infrabench_platforms.clusters import cni
from infrabench_platforms.systems import _cni

CNI = cni.CNI(
    name="wire", parts=(), config="10-wire.conflist",
    install=lambda cluster: None, installed=lambda cluster: "it leaves no mark", joins_nodes=False,
)
FAMILY = {"wire": _cni.System(CNI)}
'''


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/wire.py").write_text(PLUGIN)
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path))
    return registry.system("wire")


def test_a_cni_is_one_file_anywhere(wire: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "wire" in registry.names("systems")
    assert isinstance(wire.CNI, cni.CNI)
    local = OpenSite("local", "local", {"server": LocalHost()})
    hosts = "take site lab, an inventory with machines, or a kubeconfig"
    assert wire.supported(local) == f"a CNI needs three hosts: {hosts}"
    site, _ = found()
    assert refusal(site, wire) == "the cluster's CNI is not wire: it leaves no mark"
    assert cli.main(["lab", "up", "--kubernetes", "host"]) == 2
    assert (
        "known are bridge, cilium, cilium-1000-policies, cilium-1000-services, cilium-direct, "
        in capsys.readouterr().err
    )


def test_a_cni_that_asks_for_machines_gets_them_by_its_name_and_parts(wire: Any) -> None:
    asked = []

    def maker(name: str, tools: tuple[str, ...], workers: int) -> Any:
        asked.append((name, tools))
        raise ProvisionError("no room")

    for system in (wire, FLANNEL, CILIUM, BRIDGE):
        site = OpenSite("lab", "lab", {"server": LocalHost()}, {}, maker)
        with pytest.raises(ProvisionError, match="no room"), system.deploy(site, SPEC):
            pass
    assert asked == [("wire", ()), ("flannel", ("flannel", "flannel-cni")), ("cilium", ("cilium",)), ("bridge", ())]


@pytest.mark.parametrize("name", [*flannel.FAMILY, *cilium.FAMILY, *bridge.FAMILY, *migrated.FAMILY])
def test_every_cni_asks_for_parts_that_can_be_built(name: str) -> None:
    made = registry.system(name).CNI  # type: ignore[attr-defined]
    assert made.name == name
    assert set(made.parts) <= set(go_parts.PARTS)
    assert bool(made.overlay) is (made.encapsulation != "none")
    assert all(test and remedy for test, remedy in made.needs)
    for test, _ in made.needs:
        assert subprocess.run(["sh", "-nc", test], check=False).returncode == 0


def test_what_a_worker_lacks_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = Scripted(lambda argv, stdin: (int("command -v clang" in " ".join(argv)), b""), name="worker1")
    cluster = Cluster(Kubectl(lacks, ("k",)), NODES, (Worker("worker1", lacks, MACHINES),))
    monkeypatch.setattr(cni, "bring_up", lambda machines, *asked: cluster)
    with pytest.raises(NotRunnable, match="cilium on worker1: clang and llc are missing: install clang and llvm"):
        cni.make_cluster(MACHINES, CILIUM.CNI)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "said", "told", "wrong"),
    [
        ("flannel", "iptables", "kube-proxy (iptables)", "nftables"),
        ("flannel-nftables", "nftables", "kube-proxy (nftables)", "iptables"),
        ("cilium-kpr", "", "the CNI itself, no kube-proxy", "iptables"),
    ],
)
def test_what_leads_to_services_is_read_from_every_node(name: str, said: str, told: str, wrong: str) -> None:
    def worker(mode: str) -> Worker:
        return Worker("worker1", Scripted(answers(systemctl=(0 if mode else 3, ""), curl=mode), "worker1"), MACHINES)

    asked = registry.system(name).CNI  # type: ignore[attr-defined]
    kubectl = Kubectl(Scripted(), ("k",))
    assert _cni._find_service(Cluster(kubectl, NODES, (worker(said), worker(said))), asked) == told
    assert _cni._find_service(Cluster(kubectl, NODES), asked) == "as the cluster has it"
    with pytest.raises(ProvisionError, match=f"{name}: worker1 has .*{wrong}, where there should be "):
        _cni._find_service(Cluster(kubectl, NODES, (worker(said), worker(wrong))), asked)


def cluster_with_tools() -> tuple[Cluster, Scripted, list[Scripted]]:
    """Return a cluster that has every CNI's programs, its control host and its workers."""
    answer = answers({"ip -o -4": "eth0\n", "--output=json": {"spec": {}}})
    control = Scripted(answer)
    nodes = [Scripted(answer, name=f"worker{number}", address=f"198.18.0.2{number}") for number in (1, 2)]
    tools = {"cilium": "/c", "flannel": "/f", "flannel-cni": "/g", "multus": "/m"}
    made = Machines({}, tools, {}, embedded=True)
    members = tuple(Worker(node.name, node, made) for node in nodes)
    return Cluster(Kubectl(control, ("k",)), NODES, members, made), control, nodes


def test_an_option_of_a_cni_changes_that_and_nothing_else() -> None:
    def words(name: str) -> set[str]:
        cluster, _, (first, _) = cluster_with_tools()
        registry.system(name).CNI.install(cluster)  # type: ignore[attr-defined]
        options = [text for path, text in first.pushed.items() if "conflist" not in path]
        return set(" ".join(options).replace('"', " ").split())

    assert words("cilium") ^ words("cilium-nftables") == set()
    assert words("cilium") ^ words("cilium-kpr") == {f"--kube-proxy-replacement={each}" for each in ("true", "false")}
    changed = words("cilium") ^ words("cilium-direct")
    assert {each.partition("=")[0] for each in changed} == {
        "--routing-mode", "--tunnel-protocol", "--auto-direct-node-routes", "--ipv4-native-routing-cidr",
    }  # fmt: skip
    assert words("flannel") ^ words("flannel-nftables") == set()
    assert "host-gw" in words("flannel-direct") - words("flannel")


def test_a_cni_that_takes_anothers_place_finds_none_of_its_programs_and_multus_delegates_to_it() -> None:
    cluster, control, nodes = cluster_with_tools()
    flannel_after = registry.system("flannel-migrated").CNI  # type: ignore[attr-defined]
    cni.migrate(cluster, flannel_after.before, flannel_after)
    removed = [argv[2:] for argv in control.asked if argv[:2] == ("sh", "-s") and "infrabench-cilium-operator" in argv]
    assert removed == [("", "", "infrabench-cilium-operator")]
    for node in nodes:
        first = next(argv for argv in node.asked if argv[:2] == ("sh", "-s"))
        assert first[2:] == (f"{PLAIN_CONFIG}/05-cilium.conflist", CNI_DEVICES, "infrabench-cilium-agent")
        assert json.loads(node.pushed[cni.MULTUS_CONFIG])["clusterNetwork"] == f"{PLAIN_CONFIG}/10-flannel.conflist"


def test_what_leads_to_services_is_one_of_a_cnis_agents_wherever_it_runs() -> None:
    def agents(name: str) -> tuple[str, ...]:
        return registry.system(name).CNI.agents  # type: ignore[attr-defined,no-any-return]

    assert agents("flannel-migrated") == agents("flannel") == ("infrabench-flanneld", "infrabench-kube-proxy")
    assert agents("cilium-kpr") == ("infrabench-cilium-agent",)
    assert agents("bridge") == ("infrabench-kube-proxy",)


def test_host_has_both_ends_and_witnesses_on_two_nodes() -> None:
    answer = answers({"ip -o": "eth3\n", "echo": "/sys/fs/cgroup/cpuacct/cpuacct.usage\n"})
    hosts = {name: Scripted(answer, name, f"198.18.0.1{n}") for n, name in enumerate(("server", "client"), 1)}
    with host.deploy(OpenSite("lab", "lab", hosts), SPEC) as made:
        targets = made.targets
    assert {role: each.host.name for role, each in targets.items()} == {
        "server": "server", "near": "server", "far": "client", "worker1": "server", "worker2": "client",
    }  # fmt: skip
    assert {role: each.devices for role, each in targets.items()} == {
        "server": {"primary": "eth3"}, "near": {"primary": "lo"}, "far": {"primary": "eth3"},
        "worker1": {"uplink": "eth3"}, "worker2": {"uplink": "eth3"},
    }  # fmt: skip
    assert all(each.prefix == () for each in targets.values())
    assert targets["worker1"].counters == ("/sys/fs/cgroup/cpuacct/cpuacct.usage",)
    assert targets["server"].addresses == {"primary": "198.18.0.11"}
    assert made.pause is None
    with host.deploy(OpenSite("two", "inventory", hosts), SPEC) as made:  # real hosts' own figures are the machine's
        assert made.targets["worker1"].counters == made.targets["worker2"].counters == ()
