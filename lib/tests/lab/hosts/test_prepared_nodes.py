"""Nodes of the lab prepared as hosts of one's own are: over SSH, with their own apt and systemd, and twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.core import Host
from infrabench.machines.sites.site import open_site
from infrabench_platforms import lab
from tests.support.debian import package, publish

REPOSITORY = "/srv/repository"
# The nodes have no way out: what they install lies on them.
BARE = """
dpkg --purge iperf3 >/dev/null
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/* /etc/systemd/system/iperf3.service
echo "deb [trusted=yes] file:$1 ./" >/etc/apt/sources.list
systemctl daemon-reload
"""
UNIT = "[Service]\nExecStart=/bin/sleep 600\n[Install]\nWantedBy=multi-user.target\n"
STARTS = "systemctl enable --now iperf3.service 2>&1 || true"
ASKED = ("--study", "cnis", "--systems", "host", "--workloads", "iperf3")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """Both nodes without iperf3, and with a repository that has it; its package would start a server."""
    folder = tmp_path_factory.mktemp("packages")
    made = package(
        folder, "iperf3", "99-1", "iperf3", postinst=STARTS, files={"lib/systemd/system/iperf3.service": UNIT}
    )  # fmt: skip
    publish([made], folder / "repository")
    lab.down()  # nodes as their image is, that go with the test
    with open_site("lab") as site:
        for host in site.hosts.values():
            for path in (folder / "repository").iterdir():
                host.put(path.read_bytes(), f"{REPOSITORY}/{path.name}")
            done = host.run(("sh", "-ec", BARE, "sh", REPOSITORY), timeout_s=60)
            assert done.ok, done.stderr
        yield dict(site.hosts)


@pytest.fixture
def inventory(nodes: dict[str, Host], tmp_path: Path) -> Path:
    ssh = lab.lab_dir() / "ssh"
    hosts = {
        role: {"address": host.address, "user": "root", "key": str(ssh / "id_ed25519")} for role, host in nodes.items()
    }
    file = tmp_path / "hosts.yml"
    file.write_text(yaml.safe_dump({"name": "ours", "known_hosts": str(ssh / "known_hosts"), "hosts": hosts}))
    return file


def _says(host: Host, *argv: str) -> str:
    return host.run(argv, timeout_s=20).stdout.decode().strip()


def test_both_nodes_are_prepared_at_once_and_then_left_alone(
    nodes: dict[str, Host], inventory: Path, capsys: Any
) -> None:
    assert cli.main(["hosts", "prepare", str(inventory), *ASKED, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("systemctl mask iperf3.service") == 2
    assert all(not host.run(("which", "iperf3"), timeout_s=10).ok for host in nodes.values())

    assert cli.main(["hosts", "prepare", str(inventory), *ASKED, "--yes"]) == 0
    assert capsys.readouterr().out.count("  iperf3: not there -> 99-1") == 2
    for host in nodes.values():
        assert _says(host, "systemctl", "is-enabled", "iperf3.service") == "masked"
        assert _says(host, "systemctl", "is-active", "iperf3.service") == "inactive"
    (record,) = inventory.parent.glob("hosts.prepared-*.json")
    said = json.loads(record.read_text())["hosts"]
    assert {name: each["packages"]["iperf3"]["after"] for name, each in said.items()} == dict.fromkeys(nodes, "99-1")

    assert cli.main(["hosts", "prepare", str(inventory), *ASKED, "--yes"]) == 0
    told = capsys.readouterr()
    assert told.out.count("nothing to do") == 2
    assert "install --yes" not in told.err
    assert list(inventory.parent.glob("hosts.prepared-*.json")) == [record]
