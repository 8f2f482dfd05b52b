"""Runs on a node by its own python3: CPU time and resident memory of some systemd units' main processes over a while.

argv[1]: a JSON object with ``units``, ``settle_s`` (to wait before) and ``seconds`` (to wait between both readings).
How often systemd restarted a unit, and the age of its process, say whether it may still be starting.

The CPU clock of a process counts nanoseconds, those of threads that have ended too; its number follows from that of the
process (see clock_getcpuclockid(3) and the kernel's MAKE_PROCESS_CPUCLOCK). Ticks of 10 ms would show nothing of a
process that works for a millisecond each second. Of programs that it ran and waited for (iptables, say) there is
nothing finer than these ticks, see proc_pid_stat(5).
"""

import json
import os
import re
import subprocess
import sys
import time

PROCESS_CPU = 2  # CPUCLOCK_SCHED


def read(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        resident = re.search(r"^VmRSS:\s+(\d+) kB$", file.read(), re.MULTILINE)
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    ended_ns = (int(fields[13]) + int(fields[14])) * 10**9 // os.sysconf("SC_CLK_TCK")
    return time.clock_gettime_ns((~pid << 3) | PROCESS_CPU) + ended_ns, 1024 * int(resident[1]), age_s


def main():
    asked = json.loads(sys.argv[1])
    ask = ["systemctl", "show", "--property=MainPID,NRestarts"]
    shown = {
        unit: dict(line.split("=") for line in subprocess.check_output([*ask, unit], text=True).split())
        for unit in asked["units"]
    }
    pids = {unit: int(facts["MainPID"]) for unit, facts in shown.items()}
    absent = [unit for unit, pid in pids.items() if pid == 0]
    if absent:
        sys.exit(f"not running: {', '.join(absent)}")
    time.sleep(asked["settle_s"])
    begin = time.monotonic_ns()
    before = {unit: read(pid) for unit, pid in pids.items()}
    time.sleep(asked["seconds"])
    after = {unit: read(pid) for unit, pid in pids.items()}
    elapsed_ns = time.monotonic_ns() - begin
    agents = {}
    for unit, pid in pids.items():
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            name = file.read().strip()
        cpu_ns = after[unit][0] - before[unit][0]
        agents[unit] = {
            "pid": pid, "name": name, "restarts": int(shown[unit]["NRestarts"]), "age_s": before[unit][2],
            "cpu_ns": cpu_ns, "resident_bytes": after[unit][1],
        }  # fmt: skip
    told = {"elapsed_ns": elapsed_ns, "processors": os.cpu_count(), "agents": agents}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
