"""startup: how long a fresh instance of a system takes to come and to go.

A probe on the system's host (`_startup_probe.py`, standard library only, sent as it is) creates a throw-away
instance, runs `true` in it until that succeeds, starts the web server in it and asks for its page until it comes.
Metrics, all from the same instant before creation: ``create_s`` (the creating command has returned),
``first_command_s`` (the first command in the instance has returned) and ``service_s`` (the page was there). The cost
of one exec is part of them; tries follow each other after 2 ms. ``remove_s`` is the time of the command that stops the
instance by force and removes all of it, as seen from the controlling machine: the way to the host is part of it.
Native creates and removes nothing: its numbers are those of starting a process, and the floor of the others.

With ``image=imported`` the engine does not have the image: it is imported first, from a tar on the host's disk, and
all times begin before that; ``import_s`` is when the import has returned. Engines differ in what they put off: one
unpacks the image when it imports it, another when it creates an instance. Compare where both are done. The tar is a
copy that no engine knows (one file more than the image of the other instances), and both go after the trial. Native
unpacks it with tar.
"""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.core import (
    Capture,
    Deployment,
    DesignError,
    Measurements,
    NotRunnable,
    Param,
    Params,
    Roles,
    Step,
    find_missing,
)
from infrabench.core.workloads import script_command
from infrabench.workloads import web
from infrabench.workloads._parse import equal, in_order, json_object, lower, positive, text, value, whole

PARAMS = {
    "image": Param("kept", choices=("kept", "imported"), meaning="whether it is there already, or imported first"),
    "port": Param(web.PARAMS["port"].default, least=1, most=65535, meaning="port of the web server"),
    "limit_s": Param(60.0, least=1, unit="s", meaning="time within which the page has to come"),
}
PROGRAMS = {"server": {"apache2": "apache2", "ib-service": ""}}
VERSION = ("apache2", "-v"), r"^Server version: Apache/(\S+)"
TOOL = "startup probe"
PROBE = Path(__file__).with_name("_startup_probe.py")
KEYS = ("create", "exec", "remove", "address")
IMPORT = ("copy-image", "import-image", "create-imported", "remove-image")
START = ("create_s", "first_command_s", "service_s")
METRICS = dict.fromkeys(("import_s", *START, "remove_s"), "time")


def plan(params: Params, roles: Roles) -> tuple[Step, ...]:
    """Return the probe's run and the removal of the instance, on the host, and the end of what both have written."""
    lifecycle = roles["server"].lifecycle
    if absent := [key for key in KEYS if key not in lifecycle]:
        raise DesignError(f"startup needs a life cycle, and this system gives no {', '.join(absent)}")
    imported = params["image"] == "imported"
    if imported and (absent := [key for key in IMPORT if key not in lifecycle]):
        raise NotRunnable(f"there is no image to import: its life cycle gives no {', '.join(absent)}")
    order = {
        "create": lifecycle["create-imported" if imported else "create"], "exec": lifecycle["exec"],
        "address": lifecycle["address"][0], "port": params["port"], "path": web.PAGE, "bytes": web.PAGE_BYTES,
        "limit_s": params["limit_s"], "start": ("ib-service", "start", "web"), "stop": ("ib-service", "stop", "web"),
    }  # fmt: skip
    if imported:
        order["import"] = lifecycle["import-image"]
    argv = (*script_command(PROBE), json.dumps(order))
    timed = (
        Step("probe", "server", argv, timeout_s=params["limit_s"] + 60.0, host=True),
        Step("remove", "server", lifecycle["remove"], host=True),
        Step("gone", "server", lifecycle["remove"], phase="rescue", host=True),
    )
    # Hundreds of megabytes that were unpacked and deleted would be written while the next trial is measured.
    settle = Step("settle", "server", ("sync",), timeout_s=120.0, phase="cleanup", host=True)
    if not imported:
        return (*timed, settle)
    return (
        Step("no-image", "server", lifecycle["remove-image"], phase="prepare", host=True),  # nor that of a killed trial
        Step("copy", "server", lifecycle["copy-image"], timeout_s=120.0, phase="prepare", host=True),
        Step("copied", "server", ("sync",), timeout_s=120.0, phase="prepare", host=True),
        *timed,
        Step("forget", "server", lifecycle["remove-image"], phase="cleanup", host=True),
        settle,
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
    # Older sessions could import none.
    names = ("import_s", *START) if capture.params.get("image", "kept") == "imported" else START
    equal(TOOL, "an import", "import_s" in report, "import_s" in names)
    times = [positive(TOOL, name, value(TOOL, report, name)) for name in names]
    in_order(TOOL, ", ".join(names), times, text(capture["probe"]))
    whole(TOOL, capture, "remove")
    return lower("s", **dict(zip(names, times, strict=True)), remove_s=capture["remove"].duration_s)
