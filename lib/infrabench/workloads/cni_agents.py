"""cni-agents: what a CNI's programs take while nobody asks anything of the network: processor time and memory.

A probe on a node (`_agents_probe.py`, standard library only, sent as it is) reads the CPU clock and the resident memory
of each program's process, waits, and reads both again. Agents are those of the first worker that join its pods and lead
to services, kube-proxy among them where one runs: a CNI that does its work has to be charged for it too. An operator,
which a cluster has once, is read on the control node after them.

Metrics: ``agents_cpu_percent`` (of one processor) and ``agents_memory_B``, sums over the agents of one worker;
``operator_cpu_percent`` and ``operator_memory_B`` where the CNI has an operator. A program may do nothing at all for
seconds: a time of 0 is one. Memory is what is resident, the program's own text included; CPU time of the kernel's part
(programs in the path of packets) is nobody's process and not in it. A cluster that was frozen while another was
measured catches up first: `settle_s` is for that. A program that systemd restarted less than a minute before (as after
a lease that was lost in the frost) is not at rest: that trial is invalid. What a program does so many seconds after it
last did it, and more than `settle_s` and `seconds` together, is not seen then, however many blocks there are.

``worker1`` and ``control`` name the units in their life cycles (``agents``).
"""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.core.errors import NotAsClaimed, NotRunnable, ParseError
from infrabench.core.workloads import Capture, Measurements, Param, Params, Roles, Step, Steps, add_up, script_command
from infrabench.workloads._parse import at, json_object, lower, positive, value, whole, within

PARAMS = {
    "seconds": Param(10.0, least=1, unit="s", meaning="time between both readings"),
    "settle_s": Param(5.0, least=0, unit="s", meaning="time before the first reading"),
}
PROGRAMS = {"worker1": {"python3": "python3"}, "control": {"python3": "python3"}}
VERSION = ("python3", "--version"), r"^Python (\S+)$"
TOOL = "agents probe"
PROBE = Path(__file__).with_name("_agents_probe.py")
AROUND_S = 30.0
YOUNG_S = 60.0  # how long a program that was restarted may take to start
OF = {"worker1": "agents", "control": "operator"}  # role -> what its metrics are called by
METRICS = {f"{who}_{what}": "quantity" for who in OF.values() for what in ("cpu_percent", "memory_B")}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the probe on the first worker, and on the control node where the CNI has a program there."""
    units = {role: roles[role].lifecycle.get("agents", ()) for role in OF if role in roles}
    if not units.get("worker1"):
        raise NotRunnable("it has no programs on a node that can be read here")
    return tuple(_probe(role, params, of) for role, of in units.items() if of)


def _probe(role: str, params: Params, units: tuple[str, ...]) -> Step:
    order = {"units": units, "settle_s": params["settle_s"], "seconds": params["seconds"]}
    argv = (*script_command(PROBE), json.dumps(order))
    return Step(OF[role], role, argv, timeout_s=params["settle_s"] + params["seconds"] + AROUND_S)


def parse(capture: Capture) -> Measurements:
    """Return the sums; `ParseError` unless every unit that was asked for was read over the time that was asked for."""
    every = ["agents", *(["operator"] if "operator" in capture.steps else [])]
    return tuple(measurement for who in every for measurement in _read(capture, who))


def _read(capture: Capture, who: str) -> Measurements:
    report, asked = json_object(TOOL, whole(TOOL, capture, who)), json_object(TOOL, capture[who].argv[-1])
    agents = at(TOOL, report, "agents")
    if not isinstance(agents, dict) or list(agents) != asked["units"]:
        raise ParseError(TOOL, f"expected {', '.join(asked['units'])}", str(agents))
    elapsed_ns = positive(TOOL, "elapsed_ns", value(TOOL, report, "elapsed_ns"))
    seconds = float(capture.params["seconds"])
    within(TOOL, "time between both readings, s", elapsed_ns / 1e9, seconds, seconds + AROUND_S)
    most = elapsed_ns * positive(TOOL, "processors", value(TOOL, report, "processors"))
    for name in agents:
        age_s = value(TOOL, agents, name, "age_s")
        if value(TOOL, agents, name, "restarts") and age_s < YOUNG_S:
            raise NotAsClaimed(f"said that {name} is at rest, but it was restarted {age_s:.0f} s before")
    used = [within(TOOL, f"CPU time of {name}", value(TOOL, agents, name, "cpu_ns"), 0, most) for name in agents]
    resident = [positive(TOOL, f"memory of {name}", value(TOOL, agents, name, "resident_bytes")) for name in agents]
    return (
        *lower("%", **{f"{who}_cpu_percent": 100 * add_up(used) / elapsed_ns}),
        *lower("B", **{f"{who}_memory_B": add_up(resident)}),
    )
