"""Processes of a store: started apart from whoever calls, found again by pid file, measured, stopped.

All are put into one memory cgroup of the store, with one limit for all of them together. A pid file holds the pid and
the start time, so that a pid that another process has by now is not taken for ours.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .config import Config, StoreError

CGROUPS = Path("/sys/fs/cgroup")
# Where a memory cgroup is made (v1 before v2), and its files: limit, the most that was used, what the limit has ended.
HIERARCHIES = (
    ("memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
    ("", "memory.max", "memory.peak", "memory.events"),
)
NO_CGROUP = "no memory cgroup here: equal limits cannot be set"
PREFIX = "infrabench-store-"
BOOT = Path("/proc/sys/kernel/random/boot_id")
TRIAL = "INFRABENCH_TRIAL"  # the variable that the processes of a trial bear (machines/hosts/marks.py)
TICKS = os.sysconf("SC_CLK_TCK")
POLL_S = 0.05
STOP_S, KILL_S = 15.0, 5.0


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return stdout of a command that has to succeed; `StoreError` with the end of what it said."""
    words = [str(word) for word in argv]
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )  # fmt: skip
    except OSError as error:  # "permission denied" also where a folder of the search path may not be entered
        reason = f"cannot be started: {error.strerror}" if shutil.which(words[0], os.F_OK) else "is not installed"
        raise StoreError(f"{words[0]} {reason}") from error
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        child.kill()
        # One that waits in the kernel ends later, or never: `subprocess.run` would wait for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=KILL_S)
        raise StoreError(f"{' '.join(words[:4])} did not end within {timeout_s:.0f} s") from error
    if child.returncode:
        raise StoreError(f"{' '.join(words[:6])} failed: {(err or out).strip()[-600:]}")
    return out


def until(true: Callable[[], bool], wait_s: float, what: str) -> float:
    """Return after how many seconds `true` was so; `StoreError`, saying `what`, when it is not so within `wait_s`."""
    begin = time.monotonic()
    while not true():
        if time.monotonic() - begin > wait_s:
            raise StoreError(f"{what}: not within {wait_s:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic() - begin


def start(config: Config, name: str, argv: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> int:
    """Start a daemon (which stays in the foreground) in a session of its own, and return its pid; see `alive`.

    What it says goes to the log NAME.log. `StoreError` when one of that name runs already.
    """
    if alive(config, name):
        raise StoreError(f"{name} runs already")
    groups = [str(group / "cgroup.procs") for group in _limited(config)]

    def enter() -> None:
        for group in groups:
            with open(group, "w") as procs:
                procs.write("0")

    # A daemon is the store's, also when a step of a trial starts it: with the trial's mark the next would end it.
    inherited = {key: value for key, value in os.environ.items() if key != TRIAL}
    with open(config.log / f"{name}.log", "ab") as log:
        child = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            preexec_fn=enter, cwd="/", env={**inherited, "LC_ALL": "C", **(environment or {})},
        )  # fmt: skip
    (config.run / f"{name}.pid").write_text(f"{child.pid} {_started(child.pid)}")
    return child.pid


def log_ends(config: Config) -> str:
    """Return the last lines of every daemon's log, each under its name."""
    lines: list[str] = []
    for log in sorted(config.log.glob("*.log")):
        lines += [f"# {log.name}", *log.read_text(errors="replace").splitlines()[-40:], ""]
    return "\n".join(lines)


def count_kills(config: Config) -> int:
    """Return how many processes of the store its memory limit has ended since it was made."""
    for group, (*_, events) in zip(_groups(config), HIERARCHIES, strict=True):
        with contextlib.suppress(OSError):
            if kills := re.search(r"^oom_kill (\d+)$", (group / events).read_text(), re.MULTILINE):
                return int(kills[1])
    return 0


def alive(config: Config, name: str) -> int | None:
    """Return the pid of the daemon `name`, or None when it does not run (any more)."""
    try:
        pid, started = map(int, (config.run / f"{name}.pid").read_text().split())
    except (OSError, ValueError):
        return None
    return pid if started == _started(pid) else None


def serves(config: Config, name: str, mode: str) -> bool:
    """Tell whether the server `name` of the volume runs, in this mode of durability."""
    return alive(config, name) is not None and config.mode.exists() and config.mode.read_text() == mode


def pids(config: Config, storage: Sequence[str], client: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """Return {"storage": {name: pid}, "client": {name: pid}} of those of these daemons that run."""
    named = {"storage": storage, "client": client}
    return {kind: {name: pid for name in names if (pid := alive(config, name))} for kind, names in named.items()}


def stop(config: Config, *names: str, wait_s: float = STOP_S) -> None:
    """End daemons: SIGTERM to all, SIGKILL to those still there after `wait_s`; nothing for those that do not run."""
    if _end(config, names, signal.SIGTERM, wait_s) and (left := _end(config, names, signal.SIGKILL, KILL_S)):
        raise StoreError(f"{', '.join(left)} cannot be ended")
    for name in names:
        (config.run / f"{name}.pid").unlink(missing_ok=True)


def kill(config: Config, name: str) -> float:
    """Kill a daemon with SIGKILL, and return the Unix time of that."""
    at_s = time.time()
    if _end(config, (name,), signal.SIGKILL, KILL_S):
        raise StoreError(f"{name} cannot be killed")
    (config.run / f"{name}.pid").unlink(missing_ok=True)
    return at_s


def end_all(config: Config) -> None:
    """Kill whatever of the store still runs, with or without a pid file, and remove its cgroup."""
    for sent in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        for pid in strays(config):
            _send(pid, sent)
        deadline = time.monotonic() + (0.0 if sent == signal.SIGCONT else KILL_S)
        while strays(config) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    if left := strays(config):
        raise StoreError(f"processes {left} of {config.home} cannot be ended")
    for group in _groups(config):
        until(lambda group=group: _removed(group), KILL_S, f"{group} empty and removed")  # type: ignore[misc]


def hold(config: Config, *, held: bool) -> dict[str, bool]:
    """Stop every process of the store where it is, or let all go on."""
    for pid in strays(config):
        _send(pid, signal.SIGSTOP if held else signal.SIGCONT)
    return {"held": held}


def strays(config: Config) -> list[int]:
    """Return the pids of the processes in the store's cgroup: those that `start` started, and what these did.

    A name or a command line would also be that of somebody who looks at the store.
    """
    found: set[int] = set()
    for group in _groups(config):
        with contextlib.suppress(OSError):
            found |= set(map(int, (group / "cgroup.procs").read_text().split()))
    return sorted(pid for pid in found if pid and _started(pid))  # 0: one that cannot be seen from here


def users(folder: Path) -> list[int]:
    """Return the pids of processes that work in a folder or have a file below it open."""

    def leads_below(link: Path) -> bool:
        try:
            return f"{os.readlink(link)}/".startswith(f"{folder}/")
        except OSError:
            return False

    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if any(map(leads_below, [entry / "cwd", *(entry / "fd").iterdir()])):
                    found.append(int(entry.name))
    return found


def end_users(folder: Path) -> None:
    """Kill the processes that keep a mounted folder busy."""
    deadline = time.monotonic() + KILL_S
    while (left := users(folder)) and time.monotonic() < deadline:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def usage(pids: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Return by name CPU seconds (own, and of children that ended) and resident bytes of processes that are there."""
    found = {}
    for name, pid in pids.items():
        with contextlib.suppress(OSError):
            fields = _stat(pid)
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            found[name] = {"pid": pid, "cpu_s": sum(map(int, fields[11:15])) / TICKS, "rss_B": resident}
    return found


def machine() -> dict[str, float]:
    """Return the CPU seconds of all CPUs since boot: busy ones (not idle, waiting for a disk or stolen), and all."""
    with open("/proc/stat") as file:
        spent = [int(field) / TICKS for field in file.readline().split()[1:9]]  # guests are part of user and nice
    return {"busy_s": sum(spent) - spent[3] - spent[4] - spent[7], "total_s": sum(spent)}


def kernel() -> dict[str, Any]:
    """Return `machine`, and which one that is: two nodes of one kernel say the same."""
    return {"machine": machine(), "boot_id": BOOT.read_text().strip()}


def limit(config: Config) -> dict[str, int]:
    """Return the memory limit of the store's cgroup and its peak (-1: not told), in bytes, as the kernel has them."""
    _limited(config)
    for group, (_, most, peak, _) in zip(_groups(config), HIERARCHIES, strict=True):
        if (group / most).exists():
            used = group / peak
            return {
                "limit_B": int((group / most).read_text()), "peak_B": int(used.read_text()) if used.exists() else -1,
            }  # fmt: skip
    raise StoreError(NO_CGROUP)


def group(config: Config) -> None:
    """Make the memory cgroup of the store; `StoreError` where none can be made."""
    for cgroup, (_, most, *_) in zip(_groups(config), HIERARCHIES, strict=True):
        top = cgroup.parent
        if not (top / "cgroup.procs").exists():
            continue
        try:
            if top == CGROUPS and "memory" not in (top / "cgroup.subtree_control").read_text().split():
                (top / "cgroup.subtree_control").write_text("+memory")
            cgroup.mkdir(exist_ok=True)
            (cgroup / most).write_text(str(config.memory_bytes))
            for name, value in (("memory.memsw.limit_in_bytes", config.memory_bytes), ("memory.swap.max", 0)):
                if (cgroup / name).exists():  # what is over the limit is not to be swapped out
                    (cgroup / name).write_text(str(value))
        except OSError as error:
            raise StoreError(f"{cgroup}: no memory cgroup can be made: {error}") from error
        return
    raise StoreError(NO_CGROUP)


def _limited(config: Config) -> list[Path]:
    found = [path for path in _groups(config) if path.exists()]
    if not found:
        raise StoreError(f"the memory cgroup of {config.name} is gone")
    return found


def _removed(group: Path) -> bool:
    """Remove a cgroup, and tell whether it is gone; for a moment the kernel still holds one that is empty."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _groups(config: Config) -> list[Path]:
    return [CGROUPS / top / f"{PREFIX}{config.name}" for top, *_ in HIERARCHIES]


def _end(config: Config, names: Sequence[str], number: int, wait_s: float) -> list[str]:
    """Send daemons a signal, and return those that are still there after `wait_s`."""
    for name in names:
        if pid := alive(config, name):
            _send(pid, number)
    deadline = time.monotonic() + wait_s
    while (left := [name for name in names if alive(config, name)]) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold spaces: the first is the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _started(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; None when it is no more, or only waits to be reaped."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
