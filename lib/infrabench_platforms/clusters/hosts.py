"""What making a cluster does on a host: push files, run scripts, start units, look for devices and counters."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence

from infrabench.core import Host, ProvisionError
from infrabench.machines.hosts.host import run_checked

LOGS = "/var/log/infrabench"
UNITS = "/etc/systemd/system"
PREFIX = "infrabench-"  # of every unit of ours
STEP_S = 60.0
CNI_DEVICES = "cni0 flannel.1 cilium_vxlan cilium_host"  # that CNIs make on a node, beside those of pods

_UNIT = """\
[Unit]
Description=infrabench: {name}

[Service]
{environment}ExecStart={command}
Restart=on-failure
RestartSec=1
LimitNOFILE=infinity:infinity
LimitCORE=0
Delegate=yes
KillMode={kill}
StandardOutput=append:{logs}/{name}.log
StandardError=inherit
"""

_START = """
logs=$1; shift; mkdir -p "$logs"
systemctl daemon-reload
for unit in "$@"; do
  systemctl start "infrabench-$unit" || { tail -n 5 "$logs/$unit.log" >&2; exit 1; }
done
"""
# $1: a log, $2: how many tenths of a second at most; then a command that is repeated until it succeeds.
_WAIT = """
log=$1 left=$2; shift 2
until "$@" >/dev/null 2>&1; do
  left=$((left - 1)); [ $left -gt 0 ] || { tail -n 5 "$log" >&2; exit 1; }
  sleep 0.1
done
"""
# $1: a unit, $2: a Go module. The linker notes in a program the module and version of its main package, in a line.
_MODULE = r"""
pid=$(systemctl show --property=MainPID --value "infrabench-$1")
grep -a -m 1 "^mod$(printf '\t')$2$(printf '\t')" "/proc/$pid/exe" | cut -f 3
"""
# Of a lab node: how much CPU time it has used.
COUNTERS = ("/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu.stat")
UPLINK = (
    'ip -o -4 addr show | while read -r _ device _ address _; do case $address in "$1"/*) echo "$device";; esac; done'
)


def script(host: Host, text: str, *args: str, timeout_s: float = STEP_S) -> str:
    """Return what a shell script that has to succeed printed on `host`; else `ProvisionError`."""
    return run_checked(host, ("sh", "-s", *args), timeout_s=timeout_s, stdin=text.encode())


def push(host: Host, files: Mapping[str, str]) -> None:
    """Write small text files, by absolute path, in one go; folders are made. Scripts can be run, others only read."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(text.encode()), 0o755 if text.startswith("#!") else 0o600
            tar.addfile(member, io.BytesIO(text.encode()))
    run_checked(host, ("tar", "-xf", "-", "-C", "/", "--no-overwrite-dir"), timeout_s=STEP_S, stdin=archive.getvalue())


def unit(
    name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, *, children: bool = False
) -> dict[str, str]:
    """Return the unit file of a long-running program, by its path; `children`: its children outlive it."""
    # $ is special in commands, and in nothing else.
    words = " ".join(_quoted(word.replace("$", "$$")) for word in command)
    lines = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in (environment or {}).items())
    text = _UNIT.format(
        name=name, command=words, environment=lines, kill="process" if children else "mixed", logs=LOGS
    )  # fmt: skip
    return {f"{UNITS}/{PREFIX}{name}.service": text}


def start(host: Host, *names: str) -> None:
    """Start units; `ProvisionError` shows the end of the log of the first that does not."""
    script(host, _START, LOGS, *names)


def wait_for(host: Host, name: str, *command: str, wait_s: float = 20.0) -> None:
    """Return when `command`, which asks the unit `name`, succeeds; `ProvisionError` shows the end of the unit's log."""
    script(host, _WAIT, f"{LOGS}/{name}.log", str(int(wait_s * 10)), *command, timeout_s=wait_s + STEP_S)


def module_version(host: Host, name: str, module: str) -> str:
    """Return the version, such as ``v0.28.10``, of the Go module that the program which the unit `name` runs is of.

    `ProvisionError` where that program is of another module, or does not tell.
    """
    if found := script(host, _MODULE, name, module).strip():
        return found
    raise ProvisionError(f"{host.name}: the program of {name} does not tell its version of {module}")


def last_words(host: Host, name: str) -> str:
    """Return the last complaint in the log of a unit (klog's information lines left out), for an error message."""
    argv = ("sh", "-c", 'grep -v "^I[0-9]" "$1" | tail -n 1', "sh", f"{LOGS}/{name}.log")
    return host.run(argv, timeout_s=20).stdout.decode("utf-8", "replace").strip()[-300:] or "nothing"


def uplink(host: Host) -> str:
    """Return the network device of a host that has its address."""
    found = script(host, UPLINK, host.address).split()
    if len(found) != 1:
        raise ProvisionError(f"{host.name}: {len(found)} devices have the address {host.address}")
    return found[0]


def counters(host: Host) -> tuple[str, ...]:
    """Return the file of a lab node that tells how much CPU time it has used."""
    return tuple(script(host, 'for file in "$@"; do [ ! -e "$file" ] || echo "$file"; done', *COUNTERS).split()[:1])


def _quoted(word: str) -> str:
    """Return a word as unit files have it: systemd undoes C's escapes, and puts its own facts in where it sees a %."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"' if not word or any(char in word for char in " \t\n{}'\";") else escaped
