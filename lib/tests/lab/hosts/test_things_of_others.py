"""Hosts that others use as well: what is theirs stays, what is in the way is named, a login with sudo will do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import Host
from infrabench.ledger import catalogue, records
from infrabench.machines.sites.inventory import Inventory, open_hosts
from infrabench.machines.sites.site import read_file
from infrabench_platforms import lab
from infrabench_platforms.containers import run_script
from tests.support.started_commands import end_command, start_command

# Of a host that somebody works on: containers of three engines, a network, volumes, rules, a route, a service.
THEIRS = """
set -e
cd / && tar -ch bin/sleep $(ldd /bin/sleep | grep -o '/lib[^ ]*' | cut -c2-) >/root/theirs.tar
for engine in docker podman; do $engine import /root/theirs.tar theirs:1 >/dev/null 2>&1; done
docker network create --subnet 192.0.2.0/25 theirs >/dev/null
docker run -d --name web --network theirs --volume theirs:/data theirs:1 /bin/sleep infinity >/dev/null
podman run -d --name theirs --network none theirs:1 /bin/sleep infinity >/dev/null
iptables -N THEIRS; iptables -A THEIRS -s 203.0.113.0/24 -j DROP; iptables -A FORWARD -j THEIRS
ip route add blackhole 203.0.113.0/24
mkdir -p /root/image/rootfs/sbin
printf 'architecture: x86_64\ncreation_date: 1\n' >/root/image/metadata.yaml
tar -C /root/image -cf /root/image.tar metadata.yaml rootfs
lxc storage create theirs dir >/dev/null
lxc image import /root/image.tar --alias theirs >/dev/null
lxc init theirs theirs --no-profiles --storage theirs >/dev/null 2>&1
systemd-run --quiet --unit=theirs sleep infinity
"""
STATE = """
docker inspect --format '{{.Id}} {{.State.StartedAt}} {{.State.Status}}' $(docker ps -aq)
docker network ls -q --no-trunc | sort; docker volume ls -q; docker image ls -q --no-trunc | sort
podman inspect --format '{{.Id}} {{.State.StartedAt}} {{.State.Status}}' theirs; podman image ls -q --no-trunc
lxc list -f csv -c nstS; lxc image list -f csv -c fl; lxc storage list -f csv; lxc profile show default
ip -o -4 address | awk '{print $2, $4}'; ip -4 route show table all; ip rule; iptables-save | grep -v '^[#:]'
cat /proc/sys/net/ipv4/ip_forward; awk '{print $5, $9}' /proc/self/mountinfo | sort
getent passwd; ls /run
systemctl list-units --state=running --plain --no-legend | awk '{print $1}' | grep -vE '^(session-|netavark)'
"""
# A login as clouds give one: keys, and sudo without a password.
LOGIN = """
set -e
useradd --create-home --shell /bin/bash --password '*' admin  # not locked, which sshd would refuse
mkdir /home/admin/.ssh && cp /root/.ssh/authorized_keys /home/admin/.ssh/ && chown -R admin /home/admin/.ssh
echo 'admin ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/admin
echo "127.0.1.1 $(hostname)" >>/etc/hosts  # sudo complains of a host that does not know itself
"""
ASKED = ("run", "containers", "--profile", "smoke", "--runs", "2", "--systems", "native", "docker", "lxc", "lxd")


@pytest.fixture(scope="module")
def inventory() -> Iterator[Path]:
    """Two hosts of one's own, on which others work."""
    try:
        yield lab.keep_hosts("shared")[0]
    finally:
        lab.down()


@pytest.fixture(scope="module")
def hosts(inventory: Path) -> Iterator[dict[str, Host]]:
    found = read_file(inventory)
    assert isinstance(found, Inventory)
    with open_hosts(found, found.hosts) as opened:
        for host in opened.values():
            run_script(host, LOGIN)
        run_script(opened["server"], THEIRS, timeout_s=60)
        yield dict(opened)


def test_a_login_with_sudo_measures_as_root_does_and_what_is_of_others_stays(
    inventory: Path, hosts: dict[str, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    file = tmp_path / "hosts.yml"
    file.write_text(inventory.read_text().replace("user: root", "user: admin, sudo: true"))
    before = run_script(hosts["server"], STATE, timeout_s=60).splitlines()
    workloads = ("sysbench-cpu", "web", "startup")
    status, said = end_command(
        start_command(*ASKED, "--workloads", *workloads, "--site", str(file), "--session", "sudo")
    )
    assert status == 0, said
    folder = catalogue.home() / "data/runs/containers/sudo"
    states = [records.read_trial(folder, name).state for name in records.recorded(folder)]
    assert states.count("ok") == 2 * 4 * len(workloads)
    assert run_script(hosts["server"], STATE, timeout_s=60).splitlines() == before
    assert "198.18.0." not in (folder / "session.json").read_text()


def test_ssh_sessions_that_one_connection_may_not_have_are_on_others(
    inventory: Path, hosts: dict[str, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    limit = "/etc/ssh/sshd_config.d/00-theirs.conf"
    run_script(hosts["server"], f"echo MaxSessions 2 >{limit}; systemctl reload ssh")
    try:
        status, said = end_command(
            start_command(*ASKED, "--workloads", "sysbench-cpu", "--site", str(inventory), "--session", "few")
        )
    finally:
        run_script(hosts["server"], f"rm {limit}; systemctl reload ssh")
    assert status == 0, said
    folder = catalogue.home() / "data/runs/containers/few"
    states = [records.read_trial(folder, name).state for name in records.recorded(folder)]
    assert states.count("ok") == 2 * 4


def test_a_login_that_sudo_asks_for_a_password_is_told_so(
    inventory: Path, hosts: dict[str, Host], tmp_path: Path
) -> None:
    run_script(hosts["server"], "mv /etc/sudoers.d/admin /root/")
    try:
        file = tmp_path / "hosts.yml"
        file.write_text(inventory.read_text().replace("user: root", "user: admin, sudo: true"))
        status, said = end_command(start_command(*ASKED, "--workloads", "sysbench-cpu", "--site", str(file)))
        assert status != 0
        assert (
            "server: sudo executes no command there without being asked, it says 'sudo: a password is required'" in said
        )
    finally:
        run_script(hosts["server"], "mv /root/admin /etc/sudoers.d/")


def test_a_filter_that_drops_what_is_forwarded_is_named_before_the_first_trial(
    inventory: Path, hosts: dict[str, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    run_script(hosts["server"], "iptables -I FORWARD -d 198.18.64.0/24 -j DROP")
    try:
        status, said = end_command(
            start_command(
                *ASKED, "--workloads", "sysbench-cpu", "web", "--site", str(inventory), "--session", "dropped"
            )
        )
    finally:
        run_script(hosts["server"], "iptables -D FORWARD -d 198.18.64.0/24 -j DROP")
    assert status == 1, said
    assert "web on native: client does not reach it" in said
    assert "Does a packet filter on server drop what is forwarded?" in said
    assert not list((catalogue.home() / "data/runs/containers").glob("dropped/trials/*"))
