"""What tests of workloads share: steps that one plans, a captured run of its tool, and that run with another output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Capture, NotAsClaimed, ParseError, Step, Target, default_params, plan_steps
from tests.support.captures import DATA, read, with_stdout

STORE = {
    "store": ("python3", "main.py", "config.json"), "mount": ("/mount",), "uri": ("nbd+unix:///?socket=/sock",),
    "uri-rbd": ("/ceph.conf", "rbd", "volume"), "device": ("/dev/zvol",),
}  # fmt: skip
# The same where there is a client on another node, and what that one has.
LISTENS = {**STORE, "store-listens": ("python3", "main.py", "listens.json")}
CLIENT = {
    "store": ("python3", "main.py", "client.json"), "watch": ("python3", "main.py", "client.json", "watch"),
    "mount": ("/there",), "uri": ("nbd://192.0.2.1:10809",),
}  # fmt: skip
Change = Callable[[dict[str, Any]], Any]


def planned(name: str, roles: Mapping[str, Target], **params: Any) -> list[Step]:
    """Return the steps of a workload with its defaults but for `params`."""
    workload = registry.workload(name)
    return list(plan_steps(workload, {**default_params(workload), **params}, roles))


def captured(workload: str, case: str = "ok", **params: Any) -> Capture:
    """Return a captured run, as if it had been asked for `params`."""
    capture = read(DATA / workload / case)[0]
    return Capture(capture.steps, {**capture.params, **params})


def measured(workload: str, capture: Capture) -> dict[str, float]:
    return {each.metric: each.value for each in registry.workload(workload).parse(capture)}


def refused(workload: str, capture: Capture, error: type[ParseError | NotAsClaimed] = ParseError) -> str:
    """Return the words in which a workload refuses a run."""
    with pytest.raises(error) as caught:
        registry.workload(workload).parse(capture)
    return str(caught.value)


def replaced(capture: Capture, step: str, *changes: tuple[str, str]) -> Capture:
    """Return `capture` with places of one output changed; each has to be there."""
    text = capture[step].stdout.decode()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return with_stdout(capture, step, text.encode())


def changed(capture: Capture, step: str, change: Change) -> Capture:
    """Return `capture` with one step's JSON changed; what stands before it stays."""
    head, brace, tail = capture[step].stdout.partition(b"{")
    told = json.loads(brace + tail)
    change(told)
    return with_stdout(capture, step, head + json.dumps(told).encode())
