"""Which of their own parameters the outputs of a workload tell, and which values else a parameter may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Parameters of which the outputs of a workload say nothing, and why; those of the path are proved by counters.
PATH = dict.fromkeys(("placement", "interface", "multus", "policy"), "counters of devices prove it, or not")
SILENT: Mapping[str, Mapping[str, str]] = {
    "cni-agents": {"settle_s": "a pause"},
    "file-copy": {"mode": "the store's"},
    "fio-4k": {"mode": "the store's"},
    "ftp": {"port": "the client prints no address"},
    "integrity": {"mode": "the store's", "disk": "each store has its own name for it"},
    "iperf3": {**PATH, "cpus": "iperf3 prints none"},
    "mail": {"port": "postal prints none", "threads": "postal prints none"},
    "netperf": {**PATH, "port": "of the control connection: the banner has that of the data"},
    "oltp": {"mode": "the store's"},
    "pod-network": {"multus": "the runtime counts both alike"},
    "pods-netperf": {"port": "of the control connection: the banner has that of the data"},
    "pods-startup": {"settle_s": "a pause"},
    "rebuild": {"mode": "the store's", "throttle": "the store's", "lead_s": "a pause", "tail_s": "a pause"},
    "redis": {"port": "redis-benchmark prints none", "pipeline": "redis-benchmark prints none"},
    "startup": {"port": "the page is the same", "limit_s": "a limit that was not reached"},
}
# Those that are not used beside another one, or of which only some versions tell.
UNUSED: Mapping[str, Callable[[Mapping[str, Any], str, str], bool]] = {
    "iperf3": lambda params, name, tool: (
        (name == "length_bytes" and params["protocol"] == "tcp")
        or (name == "rate_bit_per_s" and tool in ("3.9", "3.12"))
        or (name == "rate_bit_per_s" and params["protocol"] == "tcp")
    ),
    "mail": lambda params, name, tool: name == "min_kib",
    "netperf": lambda params, name, tool: params["test"] == "TCP_STREAM" and name.endswith("_bytes"),
    "pods-netperf": lambda params, name, tool: params["test"] == "TCP_STREAM" and name.endswith("_bytes"),
    "stream": lambda params, name, tool: name == "llc_multiple" and params["array_bytes"] > 0,
    "sysbench-cpu": lambda params, name, tool: name == "seconds" and params["events"] > 0,
}
OTHERS: Mapping[tuple[str, Any], Any] = {
    ("test", "TCP_RR"): "UDP_RR", ("test", "UDP_RR"): "TCP_RR", ("test", "TCP_STREAM"): "TCP_RR",
    ("test", "TCP_CRR"): "TCP_RR",
    ("test", "oltp_read_write"): "oltp_read_only", ("test", "oltp_read_only"): "oltp_read_write",
    ("path", "nbd"): "rbd", ("path", "rbd"): "nbd", ("path", "kernel"): "nbd",
    ("load", "pairs"): "first", ("load", "first"): "pairs", ("cpus", "free"): "one", ("cpus", "apart"): "free",
    ("cpus", "one"): "free",
    ("damage", "one"): "both", ("damage", "both"): "one", ("damage", "none"): "one",
    ("disk", "drawn"): "0", ("disk", "0"): "1", ("disk", "1"): "0", ("program", "auto"): "y-cruncher",
    ("protocol", "tcp"): "udp", ("protocol", "udp"): "tcp",
    ("image", "kept"): "imported", ("image", "imported"): "kept",
    ("placement", "same-node"): "two-nodes", ("placement", "two-nodes"): "same-node",
}  # fmt: skip


def other(name: str, value: Any) -> Any:
    """Return another value than `value` that the parameter `name` may have."""
    if (name, value) in OTHERS:
        return OTHERS[name, value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}-other"
    if name == "max_kib":  # a bound of what was sent: more would not be noticed
        return value // 100
    return value * 3 + {"foreground_iops": 2, "rate_bit_per_s": 1000}.get(name, 1)


def told(workload: str, params: Mapping[str, Any], tool: str) -> Sequence[str]:
    """Return the parameters that an output of a `tool` of this version tells when it was run with `params`."""
    unused = UNUSED.get(workload, lambda params, name, tool: False)
    return [name for name in params if name not in SILENT.get(workload, {}) and not unused(params, name, tool)]
