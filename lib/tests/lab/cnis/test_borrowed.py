"""Machines named in an inventory become a cluster for as long as a study takes, and are given back as they were.

The machines are nodes of the lab, reached as any host is: by address, user and key.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from infrabench.experiment.execution import runs, session
from infrabench.ledger import catalogue, records
from infrabench.registry import study, system
from infrabench_platforms import lab
from infrabench_platforms.containers import run_script
from tests.support.machine_noise import is_carried_out

FLANNEL = system("flannel")
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


def test_a_study_runs_on_them_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    ssh, file = lab.lab_dir() / "ssh", tmp_path / "hosts.yml"
    key = {"user": "root", "key": str(ssh / "id_ed25519")}
    try:
        with lab.keep_cluster("borrowed", FLANNEL.CNI.parts) as machines:  # three nodes of the lab with nothing on them
            team = {role: {"address": host.address, **key} for role, host in machines.hosts.items()}
            hosts = {"server": {"address": "198.18.0.11", **key}}
            data = {"name": "ours", "known_hosts": str(ssh / "known_hosts"), "hosts": hosts}
            file.write_text(yaml.safe_dump({**data, "clusters": {"flannel": team}}))
            before = {role: run_script(host, STATE, timeout_s=60) for role, host in machines.hosts.items()}
            wanted = session.request(study("cnis"), profile="smoke", systems=["flannel"], runs=1, site=str(file))
            folder = runs.carry_out(wanted).path
            found = {(record.trial.workload, record.trial.scenario): record for record in records.read_trials(folder)}
            assert [record.reason for record in found.values() if not is_carried_out(record)] == []
            assert {("iperf3", "tcp second two-nodes"), ("pod-network", "multus")} <= found.keys()
            assert {role: run_script(host, STATE, timeout_s=60) for role, host in machines.hosts.items()} == before
    finally:
        lab.down()
