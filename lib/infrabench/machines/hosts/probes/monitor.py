"""Runs on a host, with nothing but its python3: samples it once a second and reports when asked.

Samples are kept in memory and leave the host only at the end of a window, so nothing is sent during a measurement.
Lines on stdin: ``begin NAME`` forgets what was kept and answers with one sample of now; ``end NAME`` answers with
every sample kept since and one of now. Both carry ``"mark": NAME``. After ``begin NAME`` cgroup folders may follow,
each after a tab, whose runnable tasks are counted. Arguments: cgroup folders to read in every sample. What a host does
not tell is null, with the reason under ``missing``.
"""

import collections
import json
import os
import select
import sys
import time

PERIOD_S = 1.0
KEPT = 20000  # samples: more than five hours
TICKS = os.sysconf("SC_CLK_TCK")
CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY = {
    "MemFree": "free",
    "MemAvailable": "available",
    "Cached": "cached",
    "Dirty": "dirty",
    "Writeback": "writeback",
}
CGROUP_FILES = ("cpu.stat", "memory.events", "memory.oom_control", "memory.failcnt")


def text(path):
    with open(path) as file:
        return file.read()


def cpu():
    lines = text("/proc/stat").splitlines()
    values = [int(value) / TICKS for value in lines[0].split()[1:9]]
    rest = {key: int(line.split()[1]) for line in lines for key in ("ctxt", "procs_running") if line.startswith(key)}
    count = sum(1 for line in lines if line.startswith("cpu")) - 1
    return dict(zip(CPU, values), cpus=count, tick_s=1 / TICKS, **rest)  # noqa: B905 (older pythons on hosts)


def pressure():
    found = {}
    for resource in ("cpu", "io", "memory"):
        for line in text("/proc/pressure/" + resource).splitlines():
            kind, *fields = line.split()
            total = dict(field.split("=") for field in fields)["total"]
            found[resource + "_" + kind + "_s"] = int(total) / 1e6
    return found


def load():
    one, five, fifteen, running, _ = text("/proc/loadavg").split()
    return {"1min": float(one), "5min": float(five), "15min": float(fifteen), "running": int(running.split("/")[0])}


def memory():
    rows = (line.split() for line in text("/proc/meminfo").splitlines())
    return {MEMORY[row[0][:-1]] + "_bytes": int(row[1]) * 1024 for row in rows if row[0][:-1] in MEMORY}


def disk():
    rows = [line.split() for line in text("/proc/diskstats").splitlines()]
    keys = ("reads", "read_bytes", "writes", "written_bytes", "busy_s")
    found = {}
    for row in rows:
        values = (int(row[3]), int(row[5]) * 512, int(row[7]), int(row[9]) * 512, int(row[12]) / 1000)
        if any(values):
            found[row[2]] = dict(zip(keys, values))  # noqa: B905
    return found


def net():
    keys = ("rx_bytes", "rx_packets", "rx_errors", "rx_drops", "tx_bytes", "tx_packets", "tx_errors", "tx_drops")
    found = {}
    for line in text("/proc/net/dev").splitlines()[2:]:
        name, _, rest = line.partition(":")
        row = [int(value) for value in rest.split()]
        if any(row):
            found[name.strip()] = dict(zip(keys, row[0:4] + row[8:12]))  # noqa: B905
    return found


def retransmits():
    heads, values = [line.split() for line in text("/proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(heads, values))["RetransSegs"])  # noqa: B905


def cgroup(folder):
    found = {}
    for name in CGROUP_FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            for line in text(path).splitlines():
                *key, value = line.split()
                found[":".join([name] + key)] = int(value)  # noqa: RUF005 (older pythons on hosts)
    if not found:
        raise OSError("no " + ", ".join(CGROUP_FILES) + " in " + folder)
    return found


def runnable(folder):
    """Count the tasks of a cgroup, and of those below it, that run or wait for a processor."""
    tasks = set()
    for below, _, files in os.walk(folder):
        for name in {"cgroup.threads", "tasks"}.intersection(files):
            try:
                tasks.update(text(os.path.join(below, name)).split())
            except OSError:  # a cgroup that has gone, or that keeps its tasks elsewhere
                continue
    states = []
    for task in tasks:
        try:
            states.append(text("/proc/" + task + "/stat").rpartition(")")[2].split()[0])
        except (OSError, IndexError):  # it has ended
            continue
    return states.count("R")


PARTS = {
    "cpu": cpu,
    "psi": pressure,
    "load": load,
    "memory": memory,
    "disk": disk,
    "net": net,
    "tcp_retransmits": retransmits,
}


def sample(folders, mark=None):
    found = {"mark": mark, "time_s": time.time(), "monotonic_s": time.monotonic(), "cgroups": {}, "missing": {}}
    for name, read in PARTS.items():
        try:
            found[name] = read()
        except (OSError, ValueError, IndexError, KeyError) as error:
            found[name] = None
            found["missing"][name] = str(error)
    for folder in folders:
        try:
            found["cgroups"][folder] = cgroup(folder)
        except (OSError, ValueError) as error:
            found["cgroups"][folder] = None
            found["missing"][folder] = str(error)
    return found


def main(folders):
    kept = collections.deque(maxlen=KEPT)
    due = time.monotonic() + PERIOD_S
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], max(0.0, due - time.monotonic()))
        if not ready:
            kept.append(sample(folders))
            due = max(due + PERIOD_S, time.monotonic())
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            request, *counted = line.decode().split("\t")
            verb, _, mark = request.partition(" ")
            now = sample(folders, mark)
            if counted and now["load"]:
                now["load"]["own"] = {folder: runnable(folder) for folder in counted}
            rows = [now] if verb == "begin" else [*kept, now]
            kept.clear()
            sys.stdout.write("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
