"""startup: how long a fresh instance of a system takes to come and to go.

A probe on the system's host (`_startup_probe.py`, standard library only, sent as it is) creates a throw-away
instance, runs `true` in it until that succeeds, starts the web server in it and asks for its page until it comes.
Metrics, all from the same instant before creation: ``create_s`` (the creating command has returned),
``first_command_s`` (the first command in the instance has returned) and ``service_s`` (the page was there). The cost
of one exec is part of them; tries follow each other after 2 ms. ``remove_s`` is the time of the command that stops the
instance by force and removes all of it, as seen from the controlling machine: the way to the host is part of it.
Native creates and removes nothing: its numbers are those of starting a process, and the floor of the others.
"""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.core import Capture, Deployment, DesignError, Measurements, Param, Params, Roles, Step, find_missing
from infrabench.core.workloads import script_command
from infrabench.workloads import web
from infrabench.workloads._parse import equal, in_order, json_object, lower, positive, text, value, whole

PARAMS = {
    "port": Param(web.PARAMS["port"].default, least=1, most=65535, meaning="port of the web server"),
    "limit_s": Param(60.0, least=1, unit="s", meaning="time within which the page has to come"),
}
PROGRAMS = {"server": {"apache2": "apache2", "ib-service": ""}}
VERSION = ("apache2", "-v"), r"^Server version: Apache/(\S+)"
TOOL = "startup probe"
PROBE = Path(__file__).with_name("_startup_probe.py")
KEYS = ("create", "exec", "remove", "address")
START = ("create_s", "first_command_s", "service_s")
METRICS = dict.fromkeys((*START, "remove_s"), "time")


def plan(params: Params, roles: Roles) -> tuple[Step, ...]:
    """Return the probe's run and the removal of the instance, on the host, and the end of what both have written."""
    lifecycle = roles["server"].lifecycle
    if absent := [key for key in KEYS if key not in lifecycle]:
        raise DesignError(f"startup needs a life cycle, and this system gives no {', '.join(absent)}")
    order = {
        "create": lifecycle["create"], "exec": lifecycle["exec"], "address": lifecycle["address"][0],
        "port": params["port"], "path": web.PAGE, "bytes": web.PAGE_BYTES, "limit_s": params["limit_s"],
        "start": ("ib-service", "start", "web"), "stop": ("ib-service", "stop", "web"),
    }  # fmt: skip
    argv = (*script_command(PROBE), json.dumps(order))
    return (
        Step("probe", "server", argv, timeout_s=params["limit_s"] + 60.0, host=True),
        Step("remove", "server", lifecycle["remove"], host=True),
        Step("gone", "server", lifecycle["remove"], phase="rescue", host=True),
        # Hundreds of megabytes that were unpacked and deleted would be written while the next trial is measured.
        Step("settle", "server", ("sync",), timeout_s=120.0, phase="cleanup", host=True),
    )


def supported(deployment: Deployment) -> str | None:
    """Return None, or why no throw-away instance can be timed."""
    target = deployment.targets["server"]
    if absent := [key for key in KEYS if key not in target.lifecycle]:
        return f"its life cycle gives no {', '.join(absent)}"
    if not target.host.run(("python3", "-c", ""), timeout_s=30).ok:
        return f"{target.host.name} has no python3 for the probe"
    return find_missing(deployment, *PROGRAMS["server"])


def parse(capture: Capture) -> Measurements:
    """Return the times; `ParseError` unless those of the start follow each other and the instance could be removed."""
    report = json_object(TOOL, text(capture["probe"]))
    equal(TOOL, "status of the page", value(TOOL, report, "http_status"), 200.0)
    equal(TOOL, "bytes of the page", value(TOOL, report, "http_bytes"), float(web.PAGE_BYTES))
    times = [positive(TOOL, name, value(TOOL, report, name)) for name in START]
    in_order(TOOL, ", ".join(START), times, text(capture["probe"]))
    whole(TOOL, capture, "remove")
    return lower("s", **dict(zip(START, times, strict=True)), remove_s=capture["remove"].duration_s)
