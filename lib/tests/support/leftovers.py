"""What a lab could leave on this machine, and fixtures that show that nothing is left, nor a process that holds it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infrabench_platforms import lab
from infrabench_platforms.lab import nodes
from infrabench_platforms.lab.shell import sh, state_dir

# Settings that are counters, or that the kernel itself changes; all others have to be as they were.
VOLATILE = re.compile(
    r"fs/(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota/.*)|kernel/(random/.*|ns_last_pid|pty/nr|sched_.*)"
    r"|kernel/(perf_event_max_sample_rate|perf_cpu_time_max_percent|hung_task_detect_count|tainted)"
    r"|net/netfilter/nf_conntrack_(count|buckets)|net/ipv4/tcp_fastopen_key|dev/cdrom/.*|vm/stat_refresh"
)
CGROUPS = re.compile(r"lxc|kubepods|infrabench|cilium")
PROCESSES = re.compile(
    r"infrabench-[0-9a-z]{4}-(server|client|\S+-(control|worker[12]|store|queue|node[123]|server|client))|/opt/infrabench/|infrabench-store/"
)
BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
BPF_PROG_GET_NEXT_ID = 11
Traces = dict[str, set[str]]


@pytest.hookimpl(wrapper=True)
def end_children() -> Iterator[None]:
    """End what a test started and, because it failed, did not end: it would hold the lab against every later test."""
    before = _children()
    try:
        yield
    finally:
        for pid in _children() - before:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> set[int]:
    return {int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def traces() -> Traces:
    """What a lab could leave on this machine, by kind: of its nodes, and of what a cluster does to a machine."""
    controllers = Path("/sys/fs/cgroup/cgroup.subtree_control")
    routes = sh("ip", "route", "show", "table", "all").stdout.decode()
    return {
        "links": {line.split()[0].split("@")[0] for line in sh("ip", "-br", "link").stdout.decode().splitlines()},
        "addresses": set(sh("ip", "-br", "address").stdout.decode().split()),
        "routes": {line.split(" expires ")[0] for line in routes.splitlines()},
        "rules": set(sh("ip", "rule").stdout.decode().splitlines()),
        "filters": _filters(),
        "namespaces": _listed(Path("/run/netns")),
        "controllers": set(controllers.read_text().split()) if controllers.exists() else set(),
        "mounts": {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()},
        "cgroups": {path for path, *_ in os.walk("/sys/fs/cgroup") if CGROUPS.search(path)},
        "processes": _processes(),
        "settings": _settings(),
        "BPF": {f"program {number}" for number in _bpf_programs()} | _listed(Path("/sys/fs/bpf")),
        "loops": set(map(str, nodes.find_loops())),
        "files": _listed(Path("/run/infrabench")) | _listed(state_dir() / "lab"),
    }


def quiet_traces(wait_s: float = 20.0) -> Traces:
    """Return `traces` once they stand still for a second: what another lab left dying does not count."""
    deadline = time.monotonic() + wait_s
    found = traces()
    while True:
        time.sleep(1)
        earlier, found = found, traces()
        if found == earlier or time.monotonic() > deadline:
            return found


def changed(before: Traces, after: Traces) -> dict[str, tuple[list[str], list[str]]]:
    """Return what is gone and what is new, by kind; empty: nothing. BPF programs of services that stop may be gone."""
    gone = {kind: sorted(before[kind] - after[kind]) if kind != "BPF" else [] for kind in before}
    new = {kind: sorted(after[kind] - before[kind]) for kind in before}
    return {kind: (gone[kind], new[kind]) for kind in before if gone[kind] or new[kind]}


def left_since(before: Traces, wait_s: float = 5.0) -> dict[str, tuple[list[str], list[str]]]:
    """Return `changed` since `before`; the kernel removes a container's veth and its programs a moment later."""
    deadline = time.monotonic() + wait_s
    while (found := changed(before, traces())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def init_of(node: nodes.Node) -> int:
    """Return the id of a node's first process."""
    return int(sh("lxc-info", "-P", nodes.nodes_dir(), "-n", node.container, "-pH").stdout)


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """Take the lab down before and after, and check that what was done between has left nothing."""
    lab.down()
    before = quiet_traces()
    yield
    lab.down()
    left = left_since(before)
    assert left == {}, left  # pytest shows no values of a module that is no test


@pytest.fixture
def nothing_left() -> Iterator[None]:
    with leaving_nothing():
        yield


@pytest.fixture(scope="module")
def nothing_left_of_module() -> Iterator[None]:
    """The same for what the tests of a module share."""
    with leaving_nothing():
        yield


def _listed(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")} if folder.is_dir() else set()


def _processes() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:  # it ended while we looked
            continue
        if PROCESSES.search(words):
            found.add(words)
    return found


def _settings() -> set[str]:
    found = set()
    root = Path("/proc/sys")
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            short = str(path.relative_to(root))
            if VOLATILE.fullmatch(short):
                continue
            try:
                found.add(f"{short} = {path.read_text('utf-8', 'replace').strip()}")
            except OSError:  # write-only, or gone with its device
                continue
    return found


def _filters() -> set[str]:
    """Return the rules of the packet filters, without their counters; of tools that are not here, none."""
    found = set()
    if shutil.which("nft"):
        found |= set(sh("nft", "--stateless", "list", "ruleset").stdout.decode().splitlines())
    for tool in ("iptables-legacy-save", "ip6tables-legacy-save"):
        if shutil.which(tool):
            rules = re.sub(r"\[\d+:\d+\]", "", sh(tool).stdout.decode())
            found |= {f"{tool} {line}" for line in rules.splitlines() if not line.startswith("#")}
    return found


def _bpf_programs() -> Iterator[int]:
    """Yield the number of every BPF program in this kernel, pinned or not; none where it does not tell."""
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        return
    attributes = (ctypes.c_uint32 * 32)()  # start_id, next_id, open_flags
    system = ctypes.CDLL(None, use_errno=True).syscall
    while system(number, BPF_PROG_GET_NEXT_ID, ctypes.byref(attributes), ctypes.sizeof(attributes)) == 0:
        attributes[0] = attributes[1]
        yield attributes[1]
