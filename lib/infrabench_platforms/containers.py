"""API for systems that run the guest image: one freezer, one check of the limits from inside.

A plug-in for a container engine (`systems/podman.py` is the worked example of docs/add-a-system.md) is written against
this module and `guest_bridge`. In the order of use:

* `supported`: `explain_no_image`, `explain_missing`, `explain_failure`, `is_root`;
* `deploy`: `find_guest_image`, `guest_bridge.hold_bridge`, `choose_cpus`, then start the engine's container on the
  bridge `guest_bridge.BRIDGE` with the label `LABEL` (one that boots: with `BOOT`), `find_cgroups`, `verify_limits`,
  `make_freezer`; at its end `keeps_image`;
* the life cycle of a throw-away instance: `guest_bridge.spare_address`, `guest_bridge.derive_mac`, and of an image
  that is imported for it: `import_steps`, `SPARE_TAR`;
* facts: `first_line`, `list_cgroups`, `guest_bridge.NETWORK`.

Commands on the host go through `check_output`, `read_json` and `run_script`, which raise `ProvisionError` with what
the command printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from infrabench.core import CommandFailed, Host, Limits, NotRunnable, ProvisionError, Result, Site, Target

LABEL = "infrabench"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROVISION_S = 180.0  # limit for importing an image
# Boots the guest image. systemd from 256 on starts on cgroup v1 only where it is told to; others pass over the word.
BOOT = "/sbin/init SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"

# Prints the limits that hold for this very process. The smallest memory limit on the way up to the root counts.
_LIMITS = r"""
set -u
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
least=max
consider() {
  [ -r "$1" ] || return 0
  value=$(cat "$1")
  [ "$value" = max ] && return 0
  [ "$least" = max ] && { least=$value; return 0; }
  [ "$value" -lt "$least" ] && least=$value
  return 0
}
up() { # root, path, file
  path=$2
  while :; do
    consider "$1$path/$3"
    [ -n "$path" ] && [ "$path" != / ] || break
    path=${path%/*}
  done
}
while IFS=: read -r _ controllers path; do
  case ",$controllers," in
    *,memory,*) up /sys/fs/cgroup/memory "$path" memory.limit_in_bytes ;;
    ,,) up /sys/fs/cgroup "$path" memory.max ;;
  esac
done </proc/self/cgroup
printf '{"cpus": "%s", "memory_bytes": "%s", "nofile": "%s"}\n' "$cpus" "$least" "$(ulimit -n)"
"""

SPARE_TAR = "/var/tmp/infrabench-spare-image.tar"  # a copy of the guest image that no engine has
_COPY_IMAGE = """
set -eu
tar=$1 copy=$2
cp "$tar" "$copy"
echo "$$" >"$copy.mark"
tar -C "${copy%/*}" -rf "$copy" "${copy##*/}.mark"
rm -f "$copy.mark"
"""
_REMOVE_IMAGE = 'rm -f "$1" "$1.mark"; shift; exec "$@"'
_UNPACK = """
set -eu
tar=$1 folder=$2
mkdir -p "$folder"
chmod 700 "${folder%/*}"  # it has programs with setuid root
tar -C "$folder" --numeric-owner --xattrs -xf "$tar"
"""

# For scripts that end what is in cgroups: a function that says on stderr what processes are in those given.
TELL_PROCESSES = r"""
tell_processes() {
  find "$@" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -un | while read -r pid; do
    state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) && [ -n "$state" ] || continue
    echo "process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-100)): $state"
  done >&2
}
"""

_FREEZE = """
set -eu
file=$1 word=$2
[ -e "$file" ] || { echo "no freezer at $file" >&2; exit 1; }
echo "$word" >"$file"
case $file in
  */freezer.state) check=$file want=$word ;;
  *) check=${file%/*}/cgroup.events want="frozen $word" ;;
esac
tries=0
until grep -qx "$want" "$check"; do
  tries=$((tries + 1))
  [ "$tries" -lt 2000 ] || { echo "$file did not become $word" >&2; exit 1; }
done
"""

# Whom no set confines may use every processor that is possible: of those, some may not be there.
_CPUS = r"""
own=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
cd /sys/devices/system/cpu
[ "$own" != "$(cat possible)" ] || own=$(cat online)
echo "$own"
"""

_CGROUP = """
set -eu
while IFS=: read -r _ controllers path; do
  case ",$controllers," in
    *,freezer,*) echo "freezer /sys/fs/cgroup/freezer$path" ;;
    *,cpu,*) echo "cpu /sys/fs/cgroup/cpu$path" ;;
    *,memory,*) echo "memory /sys/fs/cgroup/memory$path" ;;
    ,,) if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo "unified /sys/fs/cgroup$path"; fi ;;
  esac
done <"/proc/$1/cgroup"
"""


def check_output(host: Host, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes = b"") -> bytes:
    """Return the stdout of a command on the host that has to succeed; raises `ProvisionError`.

    ::

        pid = int(containers.check_output(host, ("podman", "inspect", "--format", "{{.State.Pid}}", NAME)))
    """
    result = host.run(argv, timeout_s=timeout_s, stdin=stdin)
    if not result.ok:
        raise ProvisionError(str(CommandFailed(result, host.name)))
    return result.stdout


def read_json(host: Host, argv: Sequence[str], *, timeout_s: float = 60) -> Any:
    """Return what a command on the host that has to succeed prints as JSON; raises `ProvisionError`.

    ::

        info = containers.read_json(host, ("podman", "info", "--format", "json"))
    """
    printed = check_output(host, argv, timeout_s=timeout_s)
    try:
        return json.loads(printed)
    except ValueError as error:
        problem = f"printed no JSON ({error}): {printed[:200]!r}"
        raise ProvisionError(f"{' '.join(argv)} on {host.name} {problem}") from error


def run_script(host: Host, text: str, *args: str, timeout_s: float = 30) -> str:
    """Return what a shell script prints on the host; raises `ProvisionError` when it fails.

    The script is a constant; values are passed as arguments, never pasted into it::

        containers.run_script(host, 'podman rm -af --filter "label=$1"', containers.LABEL)
    """
    return check_output(host, ("sh", "-c", text, "sh", *args), timeout_s=timeout_s).decode()


def is_root(host: Host) -> bool:
    """Tell whether commands on the host run as root.

    ::

        if not containers.is_root(host):
            return f"needs root on {host.name}"
    """
    return host.run(("id", "-u"), timeout_s=10).stdout.strip() == b"0"


def explain_missing(host: Host, *programs: str) -> str | None:
    """Return None, or the reason why a system that needs these programs (and root) cannot run on the host.

    ::

        def supported(site: Site) -> str | None:
            return containers.explain_missing(site.hosts["server"], *NEEDS["server"])
    """
    test = 'for p; do command -v "$p" >/dev/null || printf "%s " "$p"; done'
    missing = host.run(("sh", "-c", test, "sh", *programs), timeout_s=10).stdout.decode().strip()
    if missing:
        return f"not installed on {host.name}: {missing}"
    return None if is_root(host) else f"needs root on {host.name}"


def explain_failure(host: Host, problem: str, argv: Sequence[str]) -> str | None:
    """Return None, or `problem` with the last line that the command printed when it failed on the host.

    ::

        return containers.explain_failure(host, "Podman does not work", ("podman", "info"))
    """
    result = host.run(argv, timeout_s=20)
    lines = (result.stderr or result.stdout).decode("utf-8", "replace").strip().splitlines()
    return None if result.ok else f"{problem} on {host.name}: {lines[-1] if lines else 'no output'}"


def explain_no_image(site: Site) -> str | None:
    """Return None, or why a site has no guest image.

    ::

        return containers.explain_no_image(site) or containers.explain_missing(host, *NEEDS["server"])
    """
    try:
        site.guest_image()
    except NotRunnable as error:
        return str(error)
    return None


def find_guest_image(site: Site) -> tuple[str, str]:
    """Return path (on the server host) and hash of the guest image; `NotRunnable` when the site has none.

    ::

        tar, image = containers.find_guest_image(site)
        containers.check_output(host, ("podman", "import", tar, f"infrabench/guest:{image}"))
    """
    image = site.guest_image()
    return image["tar"], image["hash"]


def unpack_command(tar: str, folder: str) -> tuple[str, ...]:
    """Return the command that unpacks an image into a folder, which only root can enter.

    >>> unpack_command(SPARE_TAR, "/var/lib/lxc/spare/rootfs")[-2:]
    ('/var/tmp/infrabench-spare-image.tar', '/var/lib/lxc/spare/rootfs')
    """
    return ("sh", "-c", _UNPACK, "sh", tar, folder)


def import_steps(
    tar: str, imports: Sequence[str], create: Sequence[str], remove: Sequence[str]
) -> dict[str, tuple[str, ...]]:  # fmt: skip
    """Return the part of a life cycle that imports an image and creates a throw-away instance of that.

    `tar` is the guest image; `imports` imports `SPARE_TAR`, a copy of it that the engine does not have, `create` makes
    the instance, and `remove` removes the image, and succeeds where there is none::

        tag = f"{IMAGE}:spare"
        imports, remove = ("docker", "import", containers.SPARE_TAR, tag), ("docker", "image", "rm", "--force", tag)
        lifecycle |= containers.import_steps(tar, imports, _create(site, spec, SPARE, address, tag), remove)
    """
    return {
        "copy-image": ("sh", "-c", _COPY_IMAGE, "sh", tar, SPARE_TAR),
        "import-image": tuple(imports),
        "create-imported": tuple(create),
        "remove-image": ("sh", "-c", _REMOVE_IMAGE, "sh", SPARE_TAR, *remove),
    }


def keeps_image(site: Site) -> bool:
    """Tell whether the image that an engine has imported stays for the next session: in the lab, whose data are ours.

    On any other site an engine is left without it, and so is a plain copy of it::

        finally:
            _remove(host)
            if not containers.keeps_image(site):
                host.run(("podman", "rmi", "--force", tag), timeout_s=60)
    """
    return site.kind == "lab"


def find_cgroups(host: Host, pid: int, mark: str) -> dict[str, str]:
    """Return controller -> cgroup folder of the guest whose init is `pid`: the part of its path up to `mark`.

    ::

        folders = containers.find_cgroups(host, pid, container_id)
        pause, resume = containers.make_freezer(host, folders)
    """
    lines = (line.split(" ", 1) for line in run_script(host, _CGROUP, str(pid)).splitlines())
    found = ((controller, re.match(rf".*?{re.escape(mark)}[^/]*", path)) for controller, path in lines)
    return {controller: match[0] for controller, match in found if match}


def list_cgroups(folders: Mapping[str, str]) -> list[str]:
    """Return the cgroup folders whose counters are read during a trial: the fact ``cgroups`` of a deployment.

    >>> list_cgroups({"cpu": "/sys/fs/cgroup/cpu/x", "freezer": "/sys/fs/cgroup/freezer/x"})
    ['/sys/fs/cgroup/cpu/x']
    """
    return [folders[key] for key in ("cpu", "memory", "unified") if key in folders]


def make_freezer(host: Host, folders: Mapping[str, str]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return (pause, resume) through the guest's cgroup freezer: what the engines' own pause uses, in one exec.

    ::

        pause, resume = containers.make_freezer(host, folders)
        yield Deployment("podman", {"server": target}, facts, pause, resume, [(host, ("podman", "conmon", "crun"))])
    """
    if "freezer" in folders:
        file, frozen, thawed = f"{folders['freezer']}/freezer.state", "FROZEN", "THAWED"
    elif "unified" in folders:
        file, frozen, thawed = f"{folders['unified']}/cgroup.freeze", "1", "0"
    else:
        raise ProvisionError(f"{host.name}: the guest is in no cgroup with a freezer: {dict(folders)}")

    def write(word: str) -> None:
        run_script(host, _FREEZE, file, word, timeout_s=10)

    return partial(write, frozen), partial(write, thawed)


def read_limits(target: Target) -> dict[str, Any]:
    """Return the limits that a process inside the target finds for itself.

    ::

        facts = {"limits": containers.read_limits(target)}
    """
    printed = json.loads(target.check(("sh", "-c", _LIMITS), timeout_s=10))
    memory = printed["memory_bytes"]
    return {
        "cpus": printed["cpus"],
        "memory_bytes": int(memory) if memory.isdigit() else None,
        "nofile": int(printed["nofile"]) if printed["nofile"].isdigit() else None,
    }


def verify_limits(target: Target, limits: Limits, system: str) -> dict[str, Any]:
    """Return the effective limits; `ProvisionError` when one of them is not what was asked for.

    ::

        limits = containers.verify_limits(target, spec.limits, "podman")
        facts = {"limits": limits}
    """
    found = read_limits(target)
    cpus = choose_cpus(target.host, limits)
    wanted = {"cpus": cpus, "memory_bytes": limits.memory_bytes, "nofile": limits.nofile}
    wrong = {key: (value, found[key]) for key, value in wanted.items() if found[key] != value}
    if wrong:
        differences = "; ".join(f"{key}: asked for {asked}, found {is_}" for key, (asked, is_) in wrong.items())
        raise ProvisionError(f"{system}: limits inside the target differ from those set: {differences}")
    return found


def choose_cpus(host: Host, limits: Limits) -> str:
    """Return the CPU list to set: the one asked for, or all that are there and that the host itself may use.

    ::

        options = ("--cpuset-cpus", containers.choose_cpus(host, spec.limits))
    """
    if limits.cpus:
        return limits.cpus
    return run_script(host, _CPUS).strip()


def first_line(result: Result) -> str | None:
    """Return the first line that a version command printed, or None when it failed.

    ::

        facts = {"version": containers.first_line(host.run(("lxc-start", "--version"), timeout_s=10))}
    """
    lines = (result.stdout or result.stderr).decode("utf-8", "replace").strip().splitlines()
    return lines[0] if result.ok and lines else None
