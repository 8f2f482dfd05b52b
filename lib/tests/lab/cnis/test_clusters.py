"""Clusters of the lab for real: they come up in time, run what was built, freeze, survive kills, and leave nothing."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Host, Limits, Site, Target
from infrabench.experiment.execution import reparse
from infrabench.ledger.records import read_plan, read_trial, recorded, verify
from infrabench.machines.sites.site import open_site
from infrabench_platforms import lab
from infrabench_platforms.clusters import control, hosts
from infrabench_platforms.lab import go_parts, go_tools, node_groups, nodes
from infrabench_platforms.lab.shell import sh
from infrabench_platforms.systems import _flows
from tests.support.lab_trials import build_tools, run_trial, values
from tests.support.leftovers import init_of
from tests.support.machine_noise import is_carried_out
from tests.support.started_commands import check_whole, end_command, hash_trials, start_command, thawed, wait_for_trials
from tests.support.storm import LONG, size

# The first test builds what is not built yet: half an hour where nothing is.
pytestmark = [pytest.mark.timeout(3600)]

CNIS = ("flannel", "cilium", "bridge")
UP_S = 60.0  # most for three nodes, warm; 12 to 20 s on a quiet machine
THAW_S = 10.0
FROZEN_S = size(5, 45)  # the long one is longer than 40 s, after which Kubernetes takes a silent node for dead
KILLED_S = ((4.0, 7.0), *(((1.0, 4.0), (7.0, 10.0)) if LONG else ()))  # moments of a bring-up
SEED = 20204
SPEC = DeploySpec("test", Limits(memory_bytes=512 * 2**20), "198.18.64.10")
KUBECTL = ("/opt/infrabench/kubernetes/kubectl", "--kubeconfig", control.ADMIN)
READY = "--output=jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status} {end}"
NASTY = ["%h", "100%", "$HOME", "${HOME}", "a b", "{a}", 'say "x"', "it's", "back\\slash", "", ";", "a;b", "x\ny"]
STUDY = """
from infrabench.core import Case, Guards, Limits, Profile, Study
CASES = (
    Case("iperf3", "tcp", {"placement": "two-nodes", "seconds": 1}, seconds=3.0),
    Case("pod-network", "multus", {"multus": True}, seconds=4.0),
)
STUDY = Study(
    "wires", "Wires", "flannel", ("flannel", "host"), {"smoke": Profile(4, CASES)}, Limits(memory_bytes=512 * 2**20),
    (), {"": 0.05}, Guards(None, None, None, None),
)
"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The Go tools of all clusters here; without a toolchain there is nothing to test."""
    parts = {part for name in CNIS for part in registry.system(name).CNI.parts}  # type: ignore[attr-defined]
    build_tools(sorted(parts))


def kubectl(name: str, *argv: str) -> str:
    """Return what kubectl says of a kept cluster, from this machine."""
    tools = go_tools.cached("kubernetes")
    assert tools is not None
    return sh(tools / "kubectl", "--kubeconfig", lab.kubeconfig(name), *argv).stdout.decode()


def kept_nodes(name: str) -> tuple[nodes.Node, ...]:
    return own_nodes(node_groups.KEPT + name)


def is_frozen(node: nodes.Node) -> bool:
    return all(nodes._has_state(file, True) for file in nodes._freezers(node))


def cpu_s(node: nodes.Node) -> float:
    """Return the CPU time that a node has used so far."""
    tops = [top for top in nodes._cgroups(node.container) if ".payload." in top.name]
    for top in tops:
        if (top / "cpuacct.usage").exists():
            return int((top / "cpuacct.usage").read_text()) / 1e9
    (found,) = {line for top in tops for line in _lines(top / "cpu.stat") if line.startswith("usage_usec ")}
    return int(found.split()[1]) / 1e6


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# ------------------------------------------------------------------------------------- clusters that stay


@pytest.mark.usefixtures("nothing_left")
def test_clusters_come_up_in_time_are_frozen_while_a_session_runs_and_leave_nothing() -> None:
    version = go_parts.version(go_parts.PARTS["kubernetes"])
    for name in CNIS:
        status, said = end_command(start_command("lab", "up", "--kubernetes", name))
        assert status == 0, said
        took = re.search(r"three nodes Ready, with Multus, after (\d+) s", said)
        assert took is not None, said
        assert float(took[1]) < UP_S
        assert json.loads(kubectl(name, "version", "--output=json"))["serverVersion"]["gitVersion"] == version
        told = json.loads(kubectl(name, "get", "nodes", "--output=json"))["items"]
        assert {each["metadata"]["name"] for each in told} == {"worker1", "worker2"}
        assert {each["status"]["nodeInfo"]["kubeletVersion"] for each in told} == {version}
    inits = {node: init_of(node) for name in CNIS for node in kept_nodes(name)}
    status, said = end_command(start_command("lab", "up", "--kubernetes", "flannel"))
    assert (status, "Ready" in said) == (0, False), said  # it stands already
    with open_site("lab"):
        assert all(is_frozen(node) for name in CNIS for node in kept_nodes(name))
    assert not any(is_frozen(node) for name in CNIS for node in kept_nodes(name))
    for name in CNIS:
        assert kubectl(name, "get", "nodes", READY).split() == ["True", "True"]
    assert {node: init_of(node) for node in inits} == inits


@pytest.mark.usefixtures("nothing_left")
def test_a_bring_up_that_is_killed_is_repaired_by_the_next() -> None:
    rng, killed = random.Random(SEED), 0
    for window_s in KILLED_S:
        child = start_command("lab", "up", "--kubernetes", "flannel")
        time.sleep(rng.uniform(*window_s))
        child.send_signal(signal.SIGKILL)
        killed += end_command(child)[0] == -signal.SIGKILL
    assert killed >= (len(KILLED_S) + 1) // 2, "clusters come up faster than they are killed: choose earlier moments"
    status, said = end_command(start_command("lab", "up", "--kubernetes", "flannel"))
    assert status == 0, said
    assert kubectl("flannel", "get", "nodes", READY).split() == ["True", "True"]
    payloads = {path.name for path in nodes._cgroups(f"{nodes.container_prefix()}*") if ".payload." in path.name}
    assert len(payloads) == 5, f"nodes of a killed bring-up are still there: {sorted(payloads)}"


# ---------------------------------------------------------------------------------------- studies on clusters


@pytest.fixture
def study(tmp_path: Path) -> dict[str, str]:
    """The environment of a command that knows a tiny study of flannel and the nodes themselves."""
    (tmp_path / "plugins/studies").mkdir(parents=True)
    (tmp_path / "plugins/studies/wires.py").write_text(STUDY)
    return {**os.environ, registry.VARIABLE: str(tmp_path / "plugins"), "INFRABENCH_HOME": str(tmp_path)}


def running(study: Mapping[str, str], folder: Path, *systems: str) -> subprocess.Popen[str]:
    words = ("run", "wires", "--profile", "smoke", "--site", "lab", "--session", str(folder))
    return start_command(*words, "--systems", *systems, environment=study)


@pytest.mark.usefixtures("nothing_left")
def test_a_session_that_is_killed_and_then_loses_a_worker_ends_with_every_planned_trial_once(
    tmp_path: Path, study: dict[str, str]
) -> None:
    folder = tmp_path / "session"
    child = running(study, folder, "flannel", "host")
    wait_for_trials(folder, 2, child)
    child.send_signal(signal.SIGKILL)
    assert end_command(child)[0] == -signal.SIGKILL
    first = hash_trials(folder)

    child = running(study, folder, "flannel", "host")
    wait_for_trials(folder, len(first) + 2, child)
    (worker,) = (node for node in own_nodes("flannel") if node.role == "worker1")
    os.kill(init_of(worker), signal.SIGKILL)
    status, said = end_command(child)
    assert status not in (0, -signal.SIGKILL), said
    assert "worker1" in said
    assert "Traceback" not in said
    second = hash_trials(folder)
    assert first.items() < second.items()  # nothing recorded is lost or changed
    spoiled = [name for name in second if read_trial(folder, name).state not in ("ok", "invalid")]
    assert len(spoiled) <= 1, said  # none where it dies between two trials
    assert {read_trial(folder, name).state for name in spoiled} <= {"aborted", "failed", "timeout"}
    assert len(second) < len(read_plan(folder))
    assert verify(folder) == []

    status, said = end_command(running(study, folder, "flannel", "host"))
    assert status == 0, said
    assert second.items() < hash_trials(folder).items()
    check_whole(folder)
    assert reparse.compare(folder).differences == ()
    records = [read_trial(folder, name) for name in sorted(recorded(folder)) if name not in spoiled]
    assert {(record.trial.system, record.trial.workload) for record in records} == {
        ("flannel", "iperf3"), ("flannel", "pod-network"), ("host", "iperf3"),
    }  # fmt: skip
    assert [record.reason for record in records if not is_carried_out(record)] == []
    one = next(record for record in records if (record.trial.system, record.trial.workload) == ("flannel", "iperf3"))
    assert_its_path_is_proved(folder, one)


def assert_its_path_is_proved(folder: Path, record: Any) -> None:
    """The stored output proves the path that was claimed; the same output disproves any other claim."""
    assert reparse.reparse_record(folder, record, registry.workload) == record

    def claiming(old: str, new: str) -> Any:
        steps = tuple({**step, "argv": [part.replace(old, new) for part in step["argv"]]} for step in record.steps)
        assert steps != record.steps
        return reparse.reparse_record(folder, replace(record, steps=steps), registry.workload)

    other = claiming('"overlay": "flannel.1"', '"overlay": "lo"')
    assert other.state == "invalid"
    assert re.search(r"said two nodes over lo, but that device of worker1 carried \d+ of \d+ B", other.reason)
    near = claiming('"placement": "two-nodes"', '"placement": "same-node"')
    assert near.state == "invalid"
    assert "said same node, not over" in near.reason


# ------------------------------------------------------------------------------------ two clusters at once


@pytest.fixture(scope="module")
def pair(lab_site: Site) -> Iterator[dict[str, Deployment]]:
    """Flannel and Cilium on clusters of their own, both frozen."""
    with ExitStack() as stack:
        made = {}
        for name in ("flannel", "cilium"):
            made[name] = stack.enter_context(registry.system(name).deploy(lab_site, SPEC))
            made[name].pause()
        yield made


def own_nodes(name: str) -> tuple[nodes.Node, ...]:
    return node_groups.place_nodes(name, node_groups.slots()[name], node_groups.ROLES)


def programs(host: Host) -> set[str]:
    text = "for process in /proc/[0-9]*; do readlink $process/exe; done | sort -u"
    return set(host.run(("sh", "-c", text), timeout_s=20).stdout.decode().split())


def api(targets: Mapping[str, Target], *argv: str) -> str:
    return targets["control"].check((*KUBECTL, *argv), timeout_s=30).decode()


def pod_states(targets: Mapping[str, Target]) -> dict[str, tuple[str, int, str]]:
    """Return identity, restarts and phase of every pod, by name."""
    items = json.loads(api(targets, "get", "pods", "--namespace=infrabench", "--output=json"))["items"]
    return {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            each["status"]["containerStatuses"][0]["restartCount"],
            each["status"]["phase"],
        )
        for each in items
    }


@pytest.mark.parametrize(
    ("name", "policy", "overlay", "agents"),
    [("flannel", "not enforced", "flannel.1", ("flannel/flanneld",)),
     ("cilium", "enforced", "cilium_vxlan", ("cilium/cilium-agent",))],
)  # fmt: skip
def test_a_cluster_is_what_it_says_and_runs_what_was_built(
    pair: dict[str, Deployment], name: str, policy: str, overlay: str, agents: tuple[str, ...]
) -> None:
    facts, version = pair[name].facts, go_parts.version(go_parts.PARTS["kubernetes"])
    assert facts["capabilities"]["network_policy"].startswith(policy)
    assert facts["capabilities"]["encapsulation"] == "vxlan"
    assert facts["capabilities"]["second_interface"] == "macvlan"
    assert 1300 < facts["capabilities"]["mss_bytes"] < 1460  # a VXLAN header less than the nodes' own
    assert {each["kubeletVersion"] for each in facts["nodes"].values()} == {version}
    runtime = facts["versions"]["containerd"].removeprefix("v")
    assert all(runtime in each["containerRuntimeVersion"] for each in facts["nodes"].values())
    with thawed(pair[name]) as targets:
        wanted = {
            "control": ("etcd/etcd", "kubernetes/kube-apiserver", "kubernetes/kube-controller-manager",
                        "kubernetes/kube-scheduler"),
            "worker1": ("kubernetes/kubelet", "kubernetes/kube-proxy", "containerd/containerd",
                        "containerd/containerd-shim-runc-v2", *agents),
        }  # fmt: skip
        for role, parts in wanted.items():
            found = programs(targets[role].host)
            assert {f"/opt/infrabench/{part}" for part in parts} <= found
            known = {program.name for part in go_parts.PARTS.values() for program in part.programs}
            assert [each for each in found if Path(each).name in known and not each.startswith("/opt/infra")] == []
        assert targets["worker1"].devices == {"overlay": overlay, "uplink": "eth0"}
        assert targets["worker1"].check(("cat", *targets["worker1"].counters), timeout_s=10)
        assert set(targets["server"].addresses) == {"primary", "second", "service"}
        assert set(targets["server-plain"].addresses) == {"primary"}
        assert targets["server"].check(("cat", "/sys/class/net/net1/operstate"), timeout_s=10)
        assert not targets["server-plain"].run(("test", "-e", "/sys/class/net/net1"), timeout_s=10).ok


@pytest.mark.parametrize("name", ["flannel", "cilium"])
def test_a_trial_between_the_nodes_takes_the_path_that_it_claims(
    pair: dict[str, Deployment], lab_site: Site, name: str
) -> None:
    with thawed(pair[name]):
        for way in ({}, {"interface": "second"}, {"interface": "service"}, {"multus": False}, {"policy": True}):
            found = values(run_trial(lab_site, pair[name], "iperf3", seconds=1, **way).record)
            assert found["throughput_bit_per_s"] > 50e6
            assert {metric for metric in found if "cpu" in metric} == {"cpu_s_per_B", "cpu_percent"}  # one machine
            assert 0 < found["cpu_percent"] <= 100


def test_two_clusters_with_equal_addresses_do_not_disturb_each_other(pair: dict[str, Deployment]) -> None:
    pods, seconds = ip_network(control.POD_NET), set()
    for name, other in (("flannel", "cilium"), ("cilium", "flannel")):
        assert all(is_frozen(node) for node in own_nodes(other))
        with thawed(pair[name]) as targets:
            server, far = targets["server"], targets["far"]
            assert ip_address(server.addresses["primary"]) in pods
            seconds.add(server.addresses["second"].rsplit(".", 1)[0])
            server.check(_flows.LISTEN, timeout_s=20)
            try:
                for way in ("primary", "second", "service"):
                    argv = ("iperf3", "-c", server.addresses[way], "-p", str(_flows.FLOW_PORT), "-t", "1", "-J")
                    told = json.loads(far.check(argv, timeout_s=60))
                    assert told["end"]["sum_received"]["bytes"] > 2_000_000
            finally:
                server.run(_flows.SILENCE, timeout_s=20)
    assert len(seconds) == 2


def test_a_frozen_cluster_uses_no_cpu_and_thaws_as_it_was(pair: dict[str, Deployment]) -> None:
    with thawed(pair["flannel"]) as targets:
        before = pod_states(targets)
    frozen = time.monotonic()
    used = [cpu_s(node) for node in own_nodes("flannel")]
    time.sleep(2)
    spent = [cpu_s(node) - first for node, first in zip(own_nodes("flannel"), used, strict=True)]
    assert max(spent) < 0.001
    time.sleep(max(0.0, frozen + FROZEN_S - time.monotonic()))
    begin = time.monotonic()
    with thawed(pair["flannel"]) as targets:
        assert time.monotonic() - begin < THAW_S
        assert api(targets, "get", "nodes", READY).split() == ["True", "True"]
        # The controllers have had their turn: had they taken a node for dead, they would be evicting now.
        time.sleep(3)
        assert pod_states(targets) == before
        assert {phase for _, _, phase in before.values()} == {"Running"}
        taints = api(targets, "get", "nodes", "--output=jsonpath={.items[*].spec.taints}")
        assert "NoExecute" not in taints


def test_systemd_reads_a_unit_as_it_was_written(pair: dict[str, Deployment]) -> None:
    with thawed(pair["flannel"]) as targets:
        host = targets["worker1"].host
        text = 'printf "%s|" "$VALUE" "$@"'
        environment = {"VALUE": "a %h $HOME 'b' \"c\""}
        hosts.push(host, hosts.unit("probe", ("/bin/sh", "-c", text, "sh", *NASTY), environment))
        hosts.start(host, "probe")
        deadline = time.monotonic() + 10
        log = ("cat", f"{hosts.LOGS}/probe.log")
        while not (said := host.run(log, timeout_s=10).stdout.decode()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert said.split("|") == [environment["VALUE"], *NASTY, ""]
