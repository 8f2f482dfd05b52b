"""pod-network: how long a container runtime's network plugin takes to add one pod to the network, and to remove it.

The numbers are the runtime's own, from the metrics it keeps for Prometheus: one pod is made on the first worker, and
the runtime's count of network set-ups must have gone up by one, so that the time it has added belongs to that pod. They
hold the whole chain of plugins (Multus and what it delegates to), and nothing of image, sandbox or orchestrator.

Metrics: ``setup_s`` and, with containerd, ``teardown_s``; CRI-O tells only the last set-up. A trial in which the
runtime served another pod as well is invalid: what it counted is not the one pod's. Parameter ``multus``: whether
Multus is the node's plugin while the pod is made.

``control`` makes the pod (``create``, or ``create-plain`` without Multus; ``remove``; ``version`` of the runtime) and
``worker1`` tells the metrics (``metrics``), by the commands of their life cycles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from infrabench.core.errors import NotAsClaimed, NotRunnable, ParseError
from infrabench.core.hosts import Result, Target
from infrabench.core.workloads import Capture, Measurements, Param, Params, Roles, Step, Steps
from infrabench.workloads._parse import lower, number, positive, text

PROGRAMS: Mapping[str, Mapping[str, str]] = {}
PARAMS = {"multus": Param(True, meaning="Multus is the plugin of the node while the pod is made")}
TOOL = "runtime metrics"
READS = (
    "containerd://v2.1.6", "containerd://2.1.6+unknown", "containerd://2.4.2+unknown",
    "cri-o://1.34.0", "cri-o://1.36.3",
)  # fmt: skip
UNREACHABLE = "the container runtime's own figures cannot be reached through a kubeconfig"
# The text format has no end of its own, and half of it would look like a runtime that has done less.
END = "# EOF\n"
# A runtime tells half a megabyte; what is about networks is kept. It is told first and sifted then, so that a runtime
# which fails half way is not taken for one that has little to say.
SCRAPE = """
all=$("$@") || exit 1
printf "%s\\n" "$all" | grep -E "network_plugin_operations|crio_operations" || :
echo "# EOF"
"""
LONGEST_S = 120.0  # a pod that is not there by then is a failure
# As registered in containerd 2.1 to 2.4 (internal/cri/server/metrics.go); its library repeats the unit.
CONTAINERD = "containerd_cri_network_plugin_operations"
OPERATIONS = {"setup_s": "set_up_pod", "teardown_s": "tear_down_pod"}
# As registered in CRI-O 1.34 to 1.36 (server/metrics/metrics.go, server/sandbox_network.go): a gauge, and the calls it
# serves.
CRIO = "container_runtime_crio_operations"
NUMBER = r"([0-9.e+-]+)"
METRICS = dict.fromkeys(OPERATIONS, "time")


def plan(params: Params, roles: Roles) -> Steps:
    """Return metrics, the making of a pod, metrics, its removal, metrics."""
    create = "create" if params["multus"] else "create-plain"
    control, worker = (roles[role].lifecycle if role in roles else {} for role in ("control", "worker1"))
    if "control" not in roles:
        raise NotRunnable("it makes no pods")
    if "metrics" not in worker:
        raise NotRunnable(UNREACHABLE)
    if "remove" not in control or create not in control:
        raise NotRunnable(f"it makes no pods {'through' if params['multus'] else 'without'} Multus")
    scrape = ("sh", "-c", SCRAPE, "sh", *worker["metrics"])
    return (
        Step("before", "worker1", scrape, timeout_s=15.0, phase="prepare", host=True),
        Step("create", "control", control[create], timeout_s=LONGEST_S),
        Step("after", "worker1", scrape, timeout_s=15.0, phase="cleanup", host=True),
        Step("remove", "control", control["remove"], timeout_s=LONGEST_S, phase="cleanup"),
        Step("end", "worker1", scrape, timeout_s=15.0, phase="cleanup", host=True),
    )


def version(target: Target) -> str:
    """Return the version of the runtime, as the life cycle of ``control`` tells it; ``unknown`` where it does not."""
    if "version" not in target.lifecycle:
        return "unknown"
    return target.check(target.lifecycle["version"], timeout_s=30).decode("utf-8", "replace").strip()


def parse(capture: Capture) -> Measurements:
    """Return the times; `NotAsClaimed` when the runtime served more than the one pod."""
    before, after, end = (_scraped(capture[name]) for name in ("before", "after", "end"))
    if f"\n# TYPE {CRIO}_" in after:
        return lower("s", setup_s=_crio(before, after))
    spans = {"setup_s": (before, after), "teardown_s": (after, end)}
    return lower("s", **{name: _containerd(OPERATIONS[name], *span) for name, span in spans.items()})


def _containerd(operation: str, first: str, last: str) -> float:
    """Return the seconds of the one `operation` between two texts of containerd's metrics."""
    then, now = (_timer(each, operation) for each in (first, last))
    _once(operation, now[1] - then[1])
    if now[2] != then[2]:
        raise ParseError(TOOL, f"{now[2] - then[2]:g} failures of {operation}", "")
    return positive(TOOL, operation, now[0] - then[0])


def _timer(found: str, operation: str) -> tuple[float, float, float]:
    """Return seconds, times and failures of `operation` so far; a runtime has no series before it first counts."""
    timer, errors = f"{CONTAINERD}_duration_seconds_seconds", f"{CONTAINERD}_errors_total_total"
    label = f'operation_type="{operation}"'
    failures = _series(found, errors, label) if f"\n{errors}{{{label}}} " in found else 0.0
    if f"{{{label}}}" not in found and f"{{{label}," not in found:
        return 0.0, 0.0, failures
    return _series(found, f"{timer}_sum", label), _series(found, f"{timer}_count", label), failures


def _crio(before: str, after: str) -> float:
    """Return the seconds of the one set-up between two texts of CRI-O's metrics."""
    calls = [_series(each, f"{CRIO}_total", 'operation="RunPodSandbox"') for each in (before, after)]
    _once("RunPodSandbox", calls[1] - calls[0])
    last = [_series(each, f"{CRIO}_latency_seconds", 'operation="network_setup_pod"') for each in (before, after)]
    if last[0] == last[1]:
        raise ParseError(TOOL, "the time of the last network set-up did not change", str(last))
    return positive(TOOL, "network_setup_pod", last[1])


def _once(operation: str, times: float) -> None:
    if times > 1:
        raise NotAsClaimed(f"the runtime counted {times:g} times {operation} while one pod was made or removed")
    if times != 1:
        raise ParseError(TOOL, f"expected {operation} once, the runtime counted it {times:g} times", "")


def _scraped(result: Result) -> str:
    found = text(result)
    if not result.ok or not found.endswith(f"\n{END}") or found.count(END) != 1:
        raise ParseError(TOOL, f"no whole text of metrics (status {result.status})", found[-300:] or result.stderr)
    return found


def _series(found: str, name: str, label: str) -> float:
    return number(TOOL, f"{name} of {label}", rf"^{re.escape(name)}\{{{re.escape(label)}\}} {NUMBER}$", found)
