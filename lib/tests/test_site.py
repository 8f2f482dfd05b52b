"""Sites: inventories are strict, keys and hosts are checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import NotRunnable, SiteError
from infrabench.site import check_site, open_site, read_inventory

GOOD = """
name: two-servers
hosts:
  server: {address: 192.0.2.10, user: root}
  client: {address: 192.0.2.11, gateway: bastion}
gateways:
  bastion: {address: 198.51.100.7, user: me}
"""


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    return path


def test_inventory_is_read_with_defaults(tmp_path: Path) -> None:
    inventory = read_inventory(_written(tmp_path, GOOD))
    assert inventory.hosts["client"].gateway == "bastion"
    assert inventory.hosts["server"].port == 22
    assert str(inventory.guest_network) == "198.18.64.0/24"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("user: root", "password: secret", "password"),
        ("server:", "servr:", "servr"),
        ("gateway: bastion", "gateway: bastian", "bastian"),
        ("name: two-servers", "", "name"),
        ("{address: 192.0.2.10, user: root}", "{user: root}", "address"),
        ("user: root", "port: 70000", "port"),
        ("name: two-servers", "name: [", "not YAML"),
    ],
)
def test_a_faulty_inventory_is_refused_by_name(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = _written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(SiteError, match=told) as error:
        read_inventory(path)
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


def test_an_inventory_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="no host has the role server"):
        read_inventory(_written(tmp_path, "name: x\nhosts:\n  client: {address: 192.0.2.1}\n"))


def test_an_unknown_site_says_what_there_is() -> None:
    with pytest.raises(SiteError, match="use auto, lab, local, or the path"):
        check_site("labb")


def test_a_dead_host_is_found_on_opening(tmp_path: Path) -> None:
    path = _written(tmp_path, "name: x\nhosts:\n  server: {address: 127.0.0.1, port: 1}\n")
    told = r"server \(127.0.0.1\): cannot connect: Unable to connect to port 1"
    with pytest.raises(SiteError, match=told), open_site(path):
        pass


def test_where_no_lab_can_be_other_sites_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NotRunnable("the lab needs root")

    monkeypatch.setattr("infrabench.lab.shell.require", refuse)
    told = r"the lab needs root\. Site local runs what this user can run"
    with pytest.raises(NotRunnable, match=told), open_site("lab"):
        pass


def test_a_key_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path, "name: x\nhosts:\n  server: {address: 127.0.0.1, key: /no/such/key}\n")
    with pytest.raises(SiteError, match="/no/such/key cannot be read"), open_site(path):
        pass
