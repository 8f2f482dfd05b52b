"""What `iperf3` and `netperf` share: who talks with whom, which path is claimed, and the proof that it was taken.

Parameters of both: ``placement`` (``same-node`` or ``two-nodes``), ``interface`` of the server that the client asks
(``primary``, ``second`` of Multus, ``service``), ``multus`` (pods made through Multus or not), ``policy`` (a server
that a NetworkPolicy selects), ``cpus`` (``free``: the scheduler places both ends; ``apart``: each on a processor of its
own; ``one``: both on the same). Where two nodes share the processors of one machine, a scheduler that is free changes
between the last two as the rest of the machine is busy or not, and a round trip takes a third of the time on one: two
quantities that a mean would mix.

The server runs for one trial only. Counters of the nodes and of the server's devices are read before and after the
tool, innermost the server's node; what they have to show is stored with the commands that read them, in the variable
``INFRABENCH_CLAIM``. A device that a system does not name is not checked, a node that it does not give not read.

CPU time is counted between the readings around the tool, its start and its end included. Nodes that count their own (as
the lab's do, in the cgroup of each) are taken at their word: in nanoseconds, and without what the rest of the machine
does, such as the client that starts the tool in a pod and the API server between. What the kernel does with a packet
between two such nodes counts for the process that sends or receives, and so for its node, but for what the kernel's own
threads take up when there is too much of it (docs/threats.md). Of other nodes the busy time of the machine is taken,
which the kernel samples by its ticks: work that a timer starts, as a paced sender's, may escape them. Where both ends
are on one kernel, what a packet costs its receiver is done in the sender's time: the ends are not told apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrabench.core import Capture, Measurements, NotRunnable, Param, Params, ParseError, Result, Roles, Step, Target
from infrabench.workloads import _counters
from infrabench.workloads._parse import lower, positive, whole

CPUS = {"free": None, "apart": "1,0", "one": "0,0"}  # processors of client and server, as iperf3 and netperf take them
PLACEMENTS = {"same-node": "near", "two-nodes": "far"}
INTERFACES = ("primary", "second", "service")
PATH = {
    "placement": Param("two-nodes", choices=tuple(PLACEMENTS), meaning="where both ends are"),
    "interface": Param("primary", choices=INTERFACES, meaning="interface of the server that the client asks"),
    "multus": Param(True, meaning="pods are made through Multus"),
    "policy": Param(False, meaning="a NetworkPolicy selects the server"),
    "cpus": Param("free", choices=tuple(CPUS), meaning="processors of both ends", words={"one": "one-cpu"}),
}
NODES = ("server-node", "client-node")
READY_S = 20.0
# Arguments: file for the process id, name of the program, port in hexadecimal, then the program and its arguments. A
# server that an interrupted trial left behind is stopped first; one that is not ours keeps the port, and we fail.
# A process that has ended and that nobody has waited for is gone, although it still has its name.
STOPPED = """
runs() { [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] && ! grep -q "^State:.[ZX]" "/proc/$pid/status"; }
if [ -s "$file" ] && pid=$(cat "$file") && runs; then
  kill "$pid"; tries=0
  while runs && [ $tries -lt 40 ]; do sleep 0.05; tries=$((tries + 1)); done
  if runs; then kill -9 "$pid"; fi
fi
"""
START = f"""
file=$1 name=$2 port=$3; shift 3
{STOPPED}
listens() {{ cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$port 0*:0000 0A "; }}
if listens; then echo "port 0x$port is taken" >&2; exit 1; fi
"$@" </dev/null >"$file.log" 2>&1 &
echo $! >"$file"; tries=0
until listens; do
  tries=$((tries + 1))
  if [ $tries -gt 100 ] || ! kill -0 $! 2>/dev/null; then
    cat "$file.log" >&2; echo "$name does not listen" >&2; exit 1
  fi
  sleep 0.05
done
exec cat /proc/net/dev
"""
STOP = f"""
file=$1 name=$2
{STOPPED}
tail -c 2000 "$file.log" >&2; rm -f "$file" "$file.log"
exec cat /proc/net/dev
"""


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a path: targets, the address that the client asks, and the nodes that can be read."""

    server: Target
    client: Target
    address: str
    nodes: Mapping[str, Target]  # by `NODES`; the server's alone where both ends are on one


def ends(params: Params, roles: Roles) -> Ends:
    """Return the ends of the path that `params` ask for; `NotRunnable` when the system has no such path."""
    placement, interface = params["placement"], params["interface"]
    plain = "" if params["multus"] else "-plain"
    server_role = "server" + ("-guarded" if params["policy"] else "") + plain
    client_role = PLACEMENTS[placement] + plain
    if f"server{plain}" not in roles:
        raise NotRunnable("it has no pods that were made without Multus")
    if server_role not in roles:
        raise NotRunnable("it has no server behind a network policy here")
    if client_role not in roles:
        raise NotRunnable("it joins no two nodes" if placement == "two-nodes" else "it has no second pod on a node")
    server = roles[server_role]
    address = server.address if interface == "primary" else server.addresses.get(interface)
    if address is None:
        what = {"second": "second interface", "service": "service that leads to the server"}[interface]
        raise NotRunnable(f"it has no {what} here")
    workers = ("worker1", "worker2") if placement == "two-nodes" else ("worker1",)
    known = all(name in roles for name in workers)
    nodes = {name: roles[worker] for name, worker in zip(NODES, workers, strict=False)} if known else {}
    return Ends(server, roles[client_role], address, nodes)


def pinned(params: Params, option: str) -> tuple[str, ...]:
    """Return the `option` that puts both ends on the processors that `params` ask for; empty where they are free."""
    pair = CPUS[params["cpus"]]
    return () if pair is None else (option, pair)


def around(found: Ends, params: Params, server: Sequence[str], tool: Step) -> tuple[Step, ...]:
    """Return the steps of a trial: server, readings, `tool`, readings, end of the server.

    The readings around the tool are its neighbours: the server's node last before it and first after it.
    """
    claim = _counters.CLAIM + json.dumps(_claim(found, params), sort_keys=True)
    name = server[0]
    mark = ("sh", f"/tmp/infrabench-{name}-{params['port']}.pid", name)
    start = ("env", claim, "sh", "-c", START, *mark, f"{params['port']:04X}", *server)

    def read(when: str, phase: Any) -> list[Step]:
        argv = {key: _counters.reading(node, node.counters, "/proc/stat") for key, node in found.nodes.items()}
        return [Step(f"{key}-{when}", found.nodes[key].role, argv[key], timeout_s=15.0, phase=phase) for key in argv]

    return (
        Step("start", found.server.role, start, timeout_s=15.0, phase="prepare", until_ok_s=READY_S),
        *reversed(read("before", "prepare")),
        tool,
        *read("after", "cleanup"),
        Step("stop", found.server.role, ("sh", "-c", STOP, *mark), timeout_s=15.0, phase="cleanup"),
    )


def check_path(capture: Capture, amount: _counters.Amount) -> None:
    """Raise `NotAsClaimed` when a counter contradicts the path of a trial that moved `amount` from client to server."""
    claim = _counters.claimed(capture, "start")
    said, interface = claim["placement"].replace("-", " "), claim["interface"]
    _counters.check_enough(amount)
    for device, carries in claim["devices"].items():
        passed = _counters.moved(*(whole(_counters.TOOL, capture, step) for step in ("start", "stop")), device)
        way = f"{said} over the server's {claim['device']}"
        _counters.check_passed(way, f"its device {device}", amount, passed, "in" if carries else None)
    for key in NODES[: claim["nodes"]]:
        node = _counters.claimed(capture, f"{key}-before")
        before, after = (whole(_counters.TOOL, capture, f"{key}-{when}") for when in ("before", "after"))
        for use, device in node["devices"].items():
            carries = said == "two nodes" and (use == "uplink" or interface != "second")
            way = f"{said} over {device}" if carries else f"{said}, not over {device}"
            where = f"that device of {node['node']}"
            passed = _counters.moved(before, after, device)
            _counters.check_passed(
                way, where, amount, passed, ("in" if key == NODES[0] else "out") if carries else None
            )


def read_option(result: Result, tool: str, option: str) -> str:
    """Return what `tool` was given for `option`; what stands before it enters a target and may have such options."""
    own = result.argv[len(result.argv) - result.argv[::-1].index(tool) :] if tool in result.argv else ()
    if own.count(option) != 1 or own[-1] == option:
        raise ParseError(tool, f"its command has no {option}", " ".join(own))
    return own[own.index(option) + 1]


def cpu_measurements(capture: Capture, payload_bytes: float) -> Measurements:
    """Return CPU seconds per byte of payload, of both ends together and of each, and the share of the CPUs in percent.

    `payload_bytes`: all that was delivered between the readings, also what the tool leaves out of its result. Nothing
    when no node could be read; of an end alone nothing where both are on one machine.
    """
    keys = NODES[: _counters.claimed(capture, "start")["nodes"]]
    if not keys:
        return ()
    read = {key: [whole(_counters.TOOL, capture, f"{key}-{when}") for when in ("before", "after")] for key in keys}
    machines = {key: tuple(_counters.machine(each) for each in texts) for key, texts in read.items()}
    spent = {key: _counters.between(*pair) for key, pair in machines.items()}
    one = len(keys) == 1 or _counters.same_machine(machines[NODES[1]], machines[NODES[0]])
    counters = {key: _counters.claimed(capture, f"{key}-before")["counters"] for key in keys}
    if all(counters.values()):
        used_s = {key: _counters.counted_s(*read[key], counters[key]) for key in keys}
    else:
        used_s = {key: spent[key][0] for key in keys[: 1 if one else None]}
    size = positive(_counters.TOOL, "payload", payload_bytes)
    share = sum(used_s.values()) if one else used_s[NODES[0]]
    ends = () if one else zip(("receiver", "sender"), used_s.values(), strict=True)
    return (
        *lower("s/B", cpu_s_per_B=sum(used_s.values()) / size),
        *lower("s/B", **{f"{end}_cpu_s_per_B": each / size for end, each in ends}),
        *lower("%", cpu_percent=100 * share / spent[NODES[0]][1]),
    )


def _claim(found: Ends, params: Params) -> Mapping[str, Any]:
    """Return what the devices of the server have to show: each one's name, and whether it carries the traffic."""
    known = dict(found.server.devices)
    used = known.get("second" if params["interface"] == "second" else "primary")
    if found.client.devices.get("primary") == "lo":  # one network namespace talks with itself
        used = "lo"
    names = sorted({*known.values(), used} - {None}) if used else []
    return {
        "placement": params["placement"], "interface": params["interface"], "nodes": len(found.nodes),
        "device": used, "devices": {name: name == used for name in names},
    }  # fmt: skip
