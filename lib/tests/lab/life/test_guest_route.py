"""The client's route to the guests, with real routes in a namespace of the test; names are the test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from infrabench.core import Result, SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import open_route

NETWORK = "198.18.64.0/24"
# The client has 192.0.2.1 and 2001:db8::1; the server is 192.0.2.9 or 2001:db8::9 beside it.
NAMES = {
    "server.example": "192.0.2.9",
    "both.example": "2001:db8::9 203.0.113.5 192.0.2.9",
    "six.example": "2001:db8::9",
}
SETUP = (
    "ip link set lo up && ip link add lan type bridge && ip addr add 192.0.2.1/24 dev lan && "
    "ip addr add 2001:db8::1/64 dev lan nodad && ip link set lan up && echo ready && exec sleep 60"
)


class Client(LocalHost):
    """Runs commands in a network namespace, as root or not, with a resolver of its own."""

    def __init__(self, pid: int, programs: Path) -> None:
        super().__init__("client", "192.0.2.1")
        self._into = ("nsenter", f"--target={pid}", "--net", "env", f"PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin")

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        return super().run((*self._into, *argv), timeout_s=timeout_s, stdin=stdin)

    def ip(self, *words: str) -> str:
        return self.run(("ip", *words), timeout_s=10).stdout.decode().strip()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    cases = "".join(f"{name}) for a in {found}; do echo $a STREAM; done ;; " for name, found in NAMES.items())
    getent = tmp_path / "getent"
    getent.write_text(f'#!/bin/sh\ncase $2 in {cases}*.example) exit 2 ;; *) echo "$2 STREAM" ;; esac\n')
    getent.chmod(0o755)
    with subprocess.Popen(("unshare", "--net", "sh", "-c", SETUP), stdout=-1, stderr=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        if not child.stdout.readline():
            pytest.skip(f"not run: {child.stderr.read().strip()}")
        yield Client(child.pid, tmp_path)
        child.kill()


@pytest.mark.parametrize("address", ["192.0.2.9", "server.example", "both.example"])
def test_the_route_leads_through_the_server_while_the_site_is_open(client: Client, address: str) -> None:
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
    client: Client, address: str, why: str
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
def test_a_route_of_the_administrator_is_used_and_stays(client: Client, address: str) -> None:
    client.ip("route", "add", NETWORK, "via", "192.0.2.77")
    with open_route(client, LocalHost("server", address), NETWORK, pytest.fail):
        pass
    assert client.ip("route", "show", NETWORK).startswith(f"{NETWORK} via 192.0.2.77")


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"])
def test_a_client_that_is_the_server_needs_no_route(client: Client, address: str) -> None:
    with open_route(client, LocalHost("server", address), NETWORK, pytest.fail):
        assert client.ip("route", "show", NETWORK) == ""


def test_the_route_of_a_killed_run_is_replaced_and_removed(client: Client) -> None:
    open_route(client, LocalHost("server", "192.0.2.8"), NETWORK, pytest.fail).__enter__()
    with open_route(client, LocalHost("server", "192.0.2.9"), NETWORK, pytest.fail):
        assert client.ip("route", "show", NETWORK).startswith(f"{NETWORK} via 192.0.2.9")
    assert client.ip("route", "show", NETWORK) == ""


def test_without_root_the_user_is_told_what_an_administrator_has_to_do(client: Client, tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    said: list[str] = []
    with open_route(client, LocalHost("server", "192.0.2.9"), NETWORK, said.append):
        assert client.ip("route", "show", NETWORK) == ""
    (sentence,) = said
    assert sentence.startswith("client has no route to guests on server, and no root to make one")
