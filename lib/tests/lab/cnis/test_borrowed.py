"""Machines named in an inventory become a cluster for as long as a study takes, and are given back as they were.

The machines are nodes of the lab, reached as any host is: by address, user and key.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infrabench.core import DeploySpec, Host, Limits, Machines, NotRunnable
from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue, records
from infrabench.machines.sites.site import open_site
from infrabench.registry import study, system
from infrabench_platforms import lab
from infrabench_platforms.clusters import remote
from infrabench_platforms.clusters.cni import make_cluster
from tests.support.machine_noise import is_carried_out

FLANNEL = system("flannel")
SPEC = DeploySpec("test", Limits(memory_bytes=256 * 2**20), "198.18.64.10")
STATE = """
ip -o link | sed -E 's/^[0-9]+: //' | sort; ip rule
ip route show table all | grep -v '^local fe80' | sort  # the kernel adds those a moment after the link came up
for table in raw mangle nat filter; do iptables-save -t $table | grep -v '^[#:]' || true; done
awk '{print $5, $9}' /proc/self/mountinfo | sort
cd /proc/sys/net
for file in ipv4/ip_forward ipv4/conf/eth0/* ipv4/conf/all/* bridge/*; do echo "$file $(cat $file)"; done
find /etc /opt /usr/libexec /root /var/lib /var/log -xdev |
  grep -vE '^/var/log/(journal|wtmp|btmp|lastlog)|/\\.kube' | sort
ls /run; find /sys/fs/cgroup -name 'kubepods*' 2>/dev/null || true
systemctl list-units --all --plain --no-legend 'infrabench-*' | awk '{print $1}'
"""


def _state(host: Host) -> str:
    result = host.run(("sh", "-s"), timeout_s=60, stdin=STATE.encode())
    assert result.ok, result.stderr
    return result.stdout.decode()


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Three nodes of the lab with nothing on them."""
    try:
        with lab.keep_cluster("borrowed", FLANNEL.CNI.parts) as made:
            yield made
    finally:
        lab.down()


@pytest.fixture(scope="module")
def inventory(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Path:
    ssh = lab.lab_dir() / "ssh"
    key = {"user": "root", "key": str(ssh / "id_ed25519")}
    data = {
        "name": "ours", "known_hosts": str(ssh / "known_hosts"), "hosts": {"server": {"address": "198.18.0.11", **key}},
        "clusters": {"flannel": {role: {"address": host.address, **key} for role, host in machines.hosts.items()}},
    }  # fmt: skip
    file = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    file.write_text(yaml.safe_dump(data))
    return file


def test_a_study_runs_on_them_and_leaves_nothing(
    machines: Machines, inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    before = {role: _state(host) for role, host in machines.hosts.items()}
    wanted = session.request(study("cnis"), profile="smoke", systems=["flannel"], runs=1, site=str(inventory))
    folder = runs.carry_out(wanted).path
    found = {(record.trial.workload, record.trial.scenario): record for record in records.read_trials(folder)}
    assert [record.reason for record in found.values() if not is_carried_out(record)] == []
    assert {("iperf3", "tcp second two-nodes"), ("pod-network", "multus")} <= found.keys()
    for role, host in machines.hosts.items():
        assert _state(host) == before[role]


def test_what_a_killed_run_left_is_given_back_by_the_next(machines: Machines, inventory: Path) -> None:
    before = {role: _state(host) for role, host in machines.hosts.items()}
    with open_site(inventory) as site, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "give_back", lambda host: [])  # as if it had been killed
        with site.machines("flannel", FLANNEL.CNI.parts) as borrowed:
            make_cluster(borrowed, FLANNEL.CNI)
    assert _state(machines.hosts["worker1"]) != before["worker1"]
    with open_site(inventory) as site, FLANNEL.deploy(site, SPEC) as deployment:
        assert deployment.targets["far"].run(("true",), timeout_s=20).ok
    for role, host in machines.hosts.items():
        assert _state(host) == before[role]


def test_a_machine_of_another_cluster_is_not_touched(machines: Machines, inventory: Path) -> None:
    host = machines.hosts["worker2"]
    host.run(("sh", "-c", "mkdir -p /etc/kubernetes && touch /etc/kubernetes/kubelet.conf"), timeout_s=20)
    before = {role: _state(host) for role, host in machines.hosts.items()}
    try:
        with (
            open_site(inventory) as site,
            pytest.raises(NotRunnable, match="use that cluster's kubeconfig"),
            FLANNEL.deploy(site, SPEC),
        ):
            pass
        for role, each in machines.hosts.items():
            assert _state(each) == before[role]
    finally:
        host.run(("rm", "-r", "/etc/kubernetes"), timeout_s=20)
