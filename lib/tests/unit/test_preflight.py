"""What is said before the first trial: settings that let a host's speed wander, a client that reaches no guest."""

from __future__ import annotations

from typing import Any

import pytest

from infrabench.core import Target
from infrabench.experiment.execution import preflight
from infrabench.experiment.execution.preflight import describe_speed
from infrabench.machines.hosts.host import LocalHost
from tests.support.cluster_fakes import Scripted

STEADY: dict[str, Any] = {
    "power": {"governor": "performance", "boost": "0", "intel_no_turbo": None},
    "machine": {"smt": "off"},
    "numa": {"node0": "0-63"},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"power": {"governor": "powersave"}}, "the governor is powersave"),
        ({"power": {"governor": "performance", "boost": "1"}}, "turbo is on"),
        ({"power": {"intel_no_turbo": "0"}}, "turbo is on"),
        ({"machine": {"smt": "on"}}, "share a core"),
        ({"numa": {"node0": "0-31", "node1": "32-63"}}, "2 memory nodes (processors 0-31, 32-63)"),
    ],
)
def test_what_lets_the_speed_of_a_host_wander_is_named(changes: dict[str, Any], said: str) -> None:
    (sentence,) = describe_speed({"client": STEADY, "server": STEADY | changes})
    assert sentence.startswith("server: ")
    assert said in sentence


def test_what_a_host_does_not_say_is_not_judged() -> None:
    assert (
        describe_speed({"server": STEADY, "client": {}, "other": {"power": None, "machine": None, "numa": None}}) == []
    )


def test_hosts_of_which_the_same_is_said_share_a_sentence() -> None:
    turbo = STEADY | {"power": {"boost": "1"}}
    (sentence,) = describe_speed({"server": turbo, "client": turbo})
    assert sentence.startswith("server, client: turbo is on")


def test_a_client_that_gets_no_answer_from_a_guest_is_told_where_to_look() -> None:
    server = Target("server", LocalHost("carrier"), ("docker", "exec", "x"), "198.18.64.10")
    silent = Scripted(lambda argv, stdin: (1, b"timed out\n"), name="load")
    told = preflight._cut_off(Target("client", silent), server, 18000)
    assert told is not None
    assert told.startswith(
        "load does not reach it (timed out). Does a packet filter on carrier drop what is forwarded?"
    )
    assert silent.asked[0][-3:] == ("198.18.64.10", "18000", str(preflight.KNOCK_S))


def test_to_be_refused_is_an_answer_and_a_host_reaches_itself() -> None:
    client, server = Target("client", LocalHost("load")), Target("server", LocalHost("carrier"), address="127.0.0.1")
    assert preflight._cut_off(client, server, 1) is None  # nothing listens there
    assert preflight._cut_off(Target("client", server.host), Target("server", server.host, (), "192.0.2.1"), 1) is None


def test_programs_of_servers_that_are_not_one_file_are_named() -> None:
    def place(apache2: str) -> dict[str, Any]:
        sums = {"apache2": apache2, "vsftpd": "5" * 64}
        return {"targets": {"server": {"programs": {name: {"sha256": each} for name, each in sums.items()}}}}

    systems = {"native": place("a" * 64), "docker": place("b" * 64), "lxc": place("b" * 64), "host": {"targets": {}}}
    (sentence,) = preflight.compare_servers({"systems": systems})
    assert sentence.startswith(f"apache2: sha256 {'a' * 12} in native, sha256 {'b' * 12} in docker, lxc: what differs")
