"""The client's route to the guests, with real routes in a namespace of the test; names are the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import open_route
from tests.support.namespaces import Apart, open_apart
from tests.support.scripts import write_program

NETWORK = "198.18.64.0/24"
# The client has 192.0.2.1 and 2001:db8::1; the server is 192.0.2.9 or 2001:db8::9 beside it.
NAMES = {
    "server.example": "192.0.2.9",
    "both.example": "2001:db8::9 203.0.113.5 192.0.2.9",
    "six.example": "2001:db8::9",
}
SETUP = """
ip link set lo up; ip link add lan type bridge; ip addr add 192.0.2.1/24 dev lan
ip addr add 2001:db8::1/64 dev lan nodad; ip link set lan up
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Apart]:
    """A client with a resolver of its own, and with what else a test writes to the folder."""
    cases = "".join(f"{name}) for a in {found}; do echo $a STREAM; done ;; " for name, found in NAMES.items())
    write_program(tmp_path / "getent", f'case $2 in {cases}*.example) exit 2 ;; *) echo "$2 STREAM" ;; esac')
    path = ("env", f"PATH={tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with open_apart(SETUP, "net", name="client", address="192.0.2.1", within=path) as host:
        yield host


@pytest.mark.parametrize("address", ["192.0.2.9", "server.example", "both.example"])
def test_the_route_leads_through_the_server_while_the_site_is_open(client: Apart, address: str) -> None:
    with open_route(client, LocalHost("server", address), NETWORK, pytest.fail):
        assert client.ip("route", "get", "198.18.64.5").startswith("198.18.64.5 via 192.0.2.9 dev lan")
    assert client.ip("route", "show", NETWORK) == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("2001:db8::9", "it knows no IPv4 address of the server"),
        ("six.example", "it knows no IPv4 address of the server"),
        ("unknown.example", "it knows no IPv4 address of the server"),
        ("203.0.113.5", "Nexthop has invalid gateway"),  # an address behind which a router translates, say
    ],
)
def test_a_client_that_cannot_reach_the_guests_is_told_why_and_what_to_do(
    client: Apart, address: str, why: str
) -> None:
    told = rf"client cannot reach the guests \({NETWORK}\) through server: {why}. Give the server's IPv4 address"
    with (
        pytest.raises(SiteError, match=told) as error,
        open_route(client, LocalHost("server", address), NETWORK, print),
    ):
        pass
    assert address not in str(error.value)
    assert f"ip route add {NETWORK} via ADDRESS" in str(error.value)


@pytest.mark.parametrize("address", ["192.0.2.9", "2001:db8::9", "unknown.example"])
def test_a_route_of_the_administrator_is_used_and_stays(client: Apart, address: str) -> None:
    client.ip("route", "add", NETWORK, "via", "192.0.2.77")
    with open_route(client, LocalHost("server", address), NETWORK, pytest.fail):
        pass
    assert client.ip("route", "show", NETWORK).startswith(f"{NETWORK} via 192.0.2.77")


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"])
def test_a_client_that_is_the_server_needs_no_route(client: Apart, address: str) -> None:
    with open_route(client, LocalHost("server", address), NETWORK, pytest.fail):
        assert client.ip("route", "show", NETWORK) == ""


def test_the_route_of_a_killed_run_is_replaced_and_removed(client: Apart) -> None:
    open_route(client, LocalHost("server", "192.0.2.8"), NETWORK, pytest.fail).__enter__()
    with open_route(client, LocalHost("server", "192.0.2.9"), NETWORK, pytest.fail):
        assert client.ip("route", "show", NETWORK).startswith(f"{NETWORK} via 192.0.2.9")
    assert client.ip("route", "show", NETWORK) == ""


def test_without_root_the_user_is_told_what_an_administrator_has_to_do(client: Apart, tmp_path: Path) -> None:
    write_program(tmp_path / "id", "echo 1000")
    said: list[str] = []
    with open_route(client, LocalHost("server", "192.0.2.9"), NETWORK, said.append):
        assert client.ip("route", "show", NETWORK) == ""
    (sentence,) = said
    assert sentence.startswith("client has no route to guests on server, and no root to make one")
