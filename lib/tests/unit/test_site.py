"""Sites: files are strict, keys and hosts are checked before anything starts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import yaml

from infrabench.core import CommandFailed, Host, NotRunnable, SiteError
from infrabench.machines.sites.inventory import Inventory, Teams, open_hosts, private
from infrabench.machines.sites.site import check_range, name_and_kind, open_site, read_file
from infrabench_platforms import containers
from tests.support.cluster_fakes import Scripted
from tests.support.scripts import write_program
from tests.support.ssh_server import Login, serving

GOOD = """
name: two-servers
hosts:
  server: {address: 192.0.2.10, user: root}
  client: {address: 192.0.2.11, gateway: bastion}
gateways:
  bastion: {address: 198.51.100.7, user: me}
"""
CLUSTERS = """
clusters:
  flannel:
    control: {address: 192.0.2.20}
    worker1: {address: 192.0.2.21, gateway: bastion}
    worker2: {address: 192.0.2.22}
  cilium:
    control: {address: 192.0.2.30}
    worker1: {address: 192.0.2.21}
    worker2: {address: 192.0.2.32}
"""


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    return path


def _inventory(tmp_path: Path, text: str) -> Inventory:
    found = read_file(_written(tmp_path, text))
    assert isinstance(found, Inventory)
    return found


def _of_one(login: Login, **more: object) -> str:
    """Return the inventory of a server that is there."""
    server = {**login.machine, **more}
    return yaml.safe_dump({"name": "one", "known_hosts": str(login.known_hosts), "hosts": {"server": server}})


def test_inventory_is_read_with_defaults(tmp_path: Path) -> None:
    inventory = _inventory(tmp_path, GOOD)
    assert inventory.hosts["client"].gateway == "bastion"
    assert inventory.hosts["server"].port == 22
    assert str(inventory.guest_network) == "198.18.64.0/24"
    assert inventory.clusters == {}
    assert name_and_kind(tmp_path / "hosts.yml") == ("two-servers", "inventory")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("user: root", "password: secret", "password"),
        ("server:", "servr:", "servr"),
        ("gateway: bastion", "gateway: bastian", "bastian"),
        ("gateway: bastion", "sudo: root", r"hosts\.client\.sudo"),
        ("user: me", "user: me, sudo: true", r"gateways\.bastion\.sudo"),
        ("name: two-servers", "", "name"),
        ("{address: 192.0.2.10, user: root}", "{user: root}", "address"),
        ("user: root", "port: 70000", "port"),
        ("name: two-servers", "name: [", "not YAML"),
        ("192.0.2.21, gateway: bastion", "192.0.2.21, gateway: bastian", "bastian"),
        ("worker1: {address: 192.0.2.21, gateway: bastion}", "", r"clusters\.flannel\.worker1"),
        ("worker2: {address: 192.0.2.22}", "worker2: {address: w2.example}", r"worker2\.address"),
        ("192.0.2.22", "192.0.2.20", "clusters.flannel needs different machines"),
        ("192.0.2.22", "192.0.2.999", r"worker2\.address"),
        ("192.0.2.10", "'192.0.2.10:22'", r"hosts\.server\.address"),
        ("  server: {address: 192.0.2.10, user: root}\n", "", "no host has the role server"),
    ],
)
def test_a_faulty_inventory_is_refused_by_name(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = _written(tmp_path, (GOOD + CLUSTERS).replace(old, new))
    with pytest.raises(SiteError, match=told) as error:
        read_file(path)
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n"])
def test_what_is_no_inventory_at_all_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(SiteError, match=r"neither an inventory .* nor a kubeconfig"):
        read_file(_written(tmp_path, text))


def test_a_gateway_that_is_called_as_a_host_is_private_too(tmp_path: Path) -> None:
    text = GOOD.replace("bastion", "server")
    assert private(_inventory(tmp_path, text)) == {
        "198.51.100.7": "server", "192.0.2.10": "server", "192.0.2.11": "client",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"key": "~nobody-here/id"}, "the key file ~nobody-here/id cannot be read"),
        ({}, "the known-hosts file ~nobody-here/known cannot be read"),
    ],
)
def test_a_file_in_nobodys_home_is_not_there(tmp_path: Path, more: dict[str, str], told: str) -> None:
    hosts = {"server": {"address": "127.0.0.1", "port": 1, **more}}
    path = _written(tmp_path, yaml.safe_dump({"name": "x", "known_hosts": "~nobody-here/known", "hosts": hosts}))
    with pytest.raises(SiteError, match=told), open_site(path):
        pass


def test_a_server_that_is_no_url_is_refused(tmp_path: Path) -> None:
    config = {
        "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "east"}}],
        "clusters": [{"name": "east", "cluster": {"server": "https://me:secret@[2001:db8::1:6443"}}],
    }  # fmt: skip
    path = _written(tmp_path, yaml.safe_dump(config))
    with pytest.raises(SiteError, match=f"{path}: the server of cluster 'east' is no URL") as error:
        read_file(path)
    assert "secret" not in str(error.value)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Machines are borrowed without anything being brought to them; return which first workers were."""
    found: list[str] = []

    @contextmanager
    def machines(hosts: dict[str, Host], _tools: object, _say: object) -> Iterator[dict[str, Host]]:
        found.append(hosts["worker1"].name)
        yield hosts

    monkeypatch.setattr("infrabench_platforms.provider.open_cluster", machines)
    return found


def test_machines_serve_one_cluster_at_a_time(tmp_path: Path, made: list[str]) -> None:
    teams = Teams(_inventory(tmp_path, GOOD + CLUSTERS), print)
    with pytest.raises(NotRunnable, match="names no machines for it: write them under clusters: bridge"):
        teams.machines("bridge", ()).__enter__()
    with teams.machines("flannel", ("flannel",)) as hosts:
        assert {role: host.address for role, host in hosts.items()} == {
            "control": "192.0.2.20", "worker1": "192.0.2.21", "worker2": "192.0.2.22",
        }  # fmt: skip
        told = "flannel has a cluster on worker1 now"
        with pytest.raises(NotRunnable, match=told), teams.machines("cilium", ()):
            pass
    with teams.machines("cilium", ()):
        pass
    assert made == ["flannel-worker1", "cilium-worker1"]


@pytest.mark.usefixtures("made")
def test_a_system_of_one_worker_takes_no_second_machine(tmp_path: Path) -> None:
    one = CLUSTERS.replace("    worker2: {address: 192.0.2.32}\n", "")
    teams = Teams(_inventory(tmp_path, GOOD + one), print)
    with teams.machines("flannel", ("crio",), 1) as hosts:
        assert list(hosts) == ["control", "worker1"]
    with teams.machines("cilium", (), 1) as hosts:
        assert list(hosts) == ["control", "worker1"]
    with pytest.raises(NotRunnable, match="write worker2 under clusters: cilium"), teams.machines("cilium", ()):
        pass


def test_a_key_that_cannot_be_read_is_found_on_opening(tmp_path: Path) -> None:
    path = _written(tmp_path, "name: x\nhosts:\n  server: {address: 127.0.0.1, key: /no/such/key}\n")
    with pytest.raises(SiteError, match="/no/such/key cannot be read"), open_site(path):
        pass


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "Host 127.0.0.*\n  HostName 192.0.2.10\n  ProxyJump bastion.example\n",
            "~/.ssh/config has hostname, proxyjump for it, and is not read: write address, gateway into the inventory.",
        ),
        ("Host other\n  User me\n", ""),
        ("Host *\n  ServerAliveInterval 5\n", ""),
        ("Match exec true\n  User me\n", ""),
    ],
)
def test_what_openssh_is_told_of_a_host_is_no_part_of_the_inventory_and_said(
    config: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(config)
    path = _written(tmp_path, "name: x\nhosts:\n  server: {address: 127.0.0.1, port: 1}\n")
    refused = "server: cannot connect: Unable to connect to port 1 on server"
    with pytest.raises(SiteError, match=refused) as caught, open_site(path):
        pass
    said = str(caught.value)
    assert said.endswith(told)
    assert ("~/.ssh/config" in said) == bool(told)
    assert "192.0.2.10" not in said


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="not run: this kernel has no IPv6")
@pytest.mark.parametrize("address", ["::1", "0:0:0:0:0:0:0:1", "0::0001"])
def test_a_host_is_reached_by_ipv6_in_every_form(address: str, tmp_path: Path) -> None:
    with (
        serving(tmp_path, address="::1") as login,
        open_site(_written(tmp_path, _of_one(login, address=address))) as site,
    ):
        assert site.hosts["server"].run(("echo", "here"), timeout_s=10).stdout == b"here\n"
        assert site.private["::1"] == "server"


@pytest.mark.parametrize("reason", ["", "it cannot be made by this user here: no mmdebstrap"])
def test_the_guest_image_is_made_and_brought_when_somebody_asks_and_once(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods and stores have none: a study of theirs does not wait for it."""
    made, tar = list[str](), tmp_path / "rootfs.tar"
    tar.write_bytes(b"an image")
    monkeypatch.setattr("infrabench.machines.host_cache.FOLDER", str(tmp_path / "cache"))

    def make_image(*_: object) -> dict[str, object]:
        made.append("image")
        if reason:
            return {"guest_image": None, "guest_image_reason": reason}
        return {"guest_image": {"hash": "0123", "tar": str(tar)}}

    monkeypatch.setattr("infrabench_platforms.provider.guest_image", make_image)
    with serving(tmp_path) as login:
        for spec in ("local", str(_written(tmp_path, _of_one(login)))):
            said = list[str]()
            with open_site(spec, said.append) as site:
                assert (made, said) == ([], [])
                for _ in range(2):
                    told = containers.explain_no_image(site)
                    assert told == (f"no guest image: {reason}" if reason else None)
                if not reason:
                    path, digest = containers.find_guest_image(site)
                    assert (Path(path).read_bytes(), digest) == (b"an image", "0123")
                    assert said == ([] if spec == "local" else ["Copying the guest image to server"])
            assert made.pop() == "image"


def test_where_no_lab_can_be_other_sites_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NotRunnable("the lab needs root")

    monkeypatch.setattr("infrabench_platforms.provider.require_lab", refuse)
    told = r"the lab needs root\. Site local runs what this user can run"
    with pytest.raises(NotRunnable, match=told), open_site("lab"):
        pass


# Stands for sudo: it says by a variable that it was there, and takes no word that ours do not give it.
SUDO = """\
[ "$1 $2 $3" = "-n -H --" ] || { echo "sudo: usage" >&2; exit 1; }
shift 3; BECAME=root exec "$@"
"""


def test_a_login_with_sudo_has_everything_done_as_root(tmp_path: Path) -> None:
    write_program(tmp_path / "sudo", SUDO)
    large, there = tmp_path / "large", tmp_path / "there/large"
    large.write_bytes(os.urandom(300_000))
    with serving(tmp_path, into=("env", f"PATH={tmp_path}:/usr/bin:/bin")) as login:
        for sudo in (True, False):
            inventory = _inventory(tmp_path, _of_one(login, sudo=sudo))
            with open_hosts(inventory, inventory.hosts) as opened:
                host = opened["server"]
                became = host.run(("sh", "-c", 'echo "$BECAME"'), timeout_s=10).stdout.decode().strip()
                assert became == ("root" if sudo else "")
                host.put_file(large, str(there))
                assert host.get(str(there)) == large.read_bytes()
                assert [path.name for path in there.parent.iterdir()] == ["large"]
                there.unlink()
                with pytest.raises(CommandFailed, match="mkdir"):
                    host.put_file(large, f"{large}/below-a-file")


@pytest.mark.parametrize(
    ("said", "then", "told"),
    [
        ("a password is required", "exit 1", "sudo executes no command .*: let the login do so"),
        ("a terminal is required to read the password", "exit 1", "sudo executes no command .*: let the login do so"),
        ("unable to resolve host x", 'shift 3; exec "$@"', "sudo prints .*: mend what it complains of"),
    ],
)
def test_a_sudo_that_asks_or_complains_is_named(tmp_path: Path, said: str, then: str, told: str) -> None:
    write_program(tmp_path / "sudo", f"echo 'sudo: {said}' >&2; {then}")
    with serving(tmp_path, into=("env", f"PATH={tmp_path}:/usr/bin:/bin")) as login:
        inventory = _inventory(tmp_path, _of_one(login, sudo=True))
        with (
            open_hosts(inventory, inventory.hosts) as opened,
            pytest.raises(SiteError, match=f"server: {told}") as error,
        ):
            opened["server"].run(("true",), timeout_s=10)
        assert f"'sudo: {said}'" in str(error.value)


@pytest.mark.parametrize(
    ("address", "length", "device", "refused"),
    [
        ("198.18.64.77", 32, "theirs0", True), ("198.18.64.129", 25, "docker0", True), ("198.18.64.1", 16, "lan", True),
        ("198.18.0.11", 16, "eth0", False), ("198.18.64.1", 24, "infrabench1", False), ("192.0.2.1", 24, "eth0", False),
    ],
)  # fmt: skip
def test_anothers_address_in_the_guests_network_is_named(address: str, length: int, device: str, refused: bool) -> None:
    shown = [
        {"ifname": device, "addr_info": [{"family": "inet", "local": address, "prefixlen": length}]},
        {"ifname": "x"},
    ]
    host = Scripted(lambda argv, stdin: (0, json.dumps(shown).encode()), name="server")
    expected = pytest.raises(SiteError, match=f"server: its device {device} has an address in the guests' network")
    with expected if refused else nullcontext():
        check_range(host, IPv4Network("198.18.64.0/24"))
    check_range(Scripted(lambda argv, stdin: (127, b"not found")), IPv4Network("198.18.64.0/24"))
