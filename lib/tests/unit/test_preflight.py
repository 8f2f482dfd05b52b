"""What is said before the first trial: settings of a host that let its speed wander."""

from __future__ import annotations

from typing import Any

import pytest

from infrabench.experiment.execution.preflight import describe_speed

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
