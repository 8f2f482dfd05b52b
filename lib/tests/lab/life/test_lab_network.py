"""The lab's network beside routes of an administrator, with the kernel's own routes in a namespace of the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infrabench.core import ProvisionError, Result
from infrabench_platforms.lab import network
from tests.support.cluster_fakes import Scripted
from tests.support.namespaces import open_apart

Ip = Callable[..., str]


@pytest.fixture
def ip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ip]:
    """``ip`` in a network namespace of its own, which has a bridge ``lan``; the lab's network is made there too."""
    setup = "ip link set lo up; ip link add lan type bridge; ip addr add 192.0.2.1/24 dev lan; ip link set lan up"
    with open_apart(setup, "net") as host:

        def run(*argv: str, ok: tuple[int, ...] = (0,)) -> Result:
            result = host.run(argv, timeout_s=10)
            if result.status not in ok:
                raise ProvisionError(result.stderr.decode())
            return result

        monkeypatch.setattr(network, "sh", run)
        monkeypatch.setattr(network, "check_owner", lambda: None)
        monkeypatch.setattr(network, "Path", lambda *parts: tmp_path / "none")  # not this machine's own settings
        monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path))
        yield host.ip


def test_nodes_that_a_packet_filter_keeps_apart_are_told_with_what_to_do() -> None:
    network.check_path(Scripted(answer=lambda argv, _: (0, b""), name="client"), "198.18.0.11")
    with pytest.raises(ProvisionError, match=r"client of the lab cannot reach .* iptables -I FORWARD -i infrabench0"):
        network.check_path(Scripted(answer=lambda argv, _: (1, b""), name="client"), "198.18.0.11")


def _routes(ip: Ip) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in json.loads(ip("-j", "-4", "route", "show")))


@pytest.mark.parametrize(
    "route",
    [
        ("unreachable", "198.18.0.0/15"), ("unreachable", "198.18.0.0/15", "metric", "7"),
        ("blackhole", "198.18.0.0/15"), ("prohibit", "198.18.0.0/15", "metric", "5000"),
        ("unreachable", "198.18.0.0/15", "metric", network.METRIC),
        ("blackhole", "198.18.0.0/15", "metric", network.METRIC),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_lab_stands_beside_a_route_that_refuses_the_range_and_leaves_it(ip: Ip, route: tuple[str, ...]) -> None:
    ip("route", "add", *route)
    before = _routes(ip)
    network.up()
    assert len(_routes(ip)) == len(before) + 2
    network.down()
    assert _routes(ip) == before
    network.down()
    assert _routes(ip) == before


@pytest.mark.parametrize(
    "route",
    [
        ("198.18.0.0/15", "via", "192.0.2.9"), ("198.19.7.0/24", "dev", "lan"), ("blackhole", "198.18.64.0/24"),
        ("198.18.0.11", "via", "192.0.2.9", "metric", network.METRIC),
        ("198.18.0.0/15", "dev", "lan", "metric", network.METRIC),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_route_that_uses_the_range_is_named_and_neither_up_nor_down_touches_it(
    ip: Ip, route: tuple[str, ...]
) -> None:
    ip("route", "add", *route)
    before = _routes(ip)
    with pytest.raises(ProvisionError, match=r"198.18.0.0/15 is in use on this machine: .*198\.1"):
        network.up()
    network.down()
    assert _routes(ip) == before
