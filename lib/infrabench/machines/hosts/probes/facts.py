"""Runs on a host, with nothing but its python3: prints one JSON object of what the host says about itself.

What cannot be read is null, with the reason under ``missing``: never absent, never guessed.
"""

import ctypes
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

TOOLS = {
    "docker": ["docker", "version", "--format", "client {{.Client.Version}}, server {{.Server.Version}}"],
    "containerd": ["containerd", "--version"],
    "runc": ["runc", "--version"],
    "lxc": ["lxc-start", "--version"],
    "lxd": ["lxd", "--version"],
    "incus": ["incus", "--version"],
    "podman": ["podman", "--version"],
    "crun": ["crun", "--version"],
    "gcc": ["gcc", "--version"],
    "python3": ["python3", "--version"],
    "openssh": ["ssh", "-V"],
}
KERNEL_FILES = {
    "build": "/proc/version",
    "clock_source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "address_space_randomisation": "/proc/sys/kernel/randomize_va_space",
    "transparent_huge_pages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "numa_balancing": "/proc/sys/kernel/numa_balancing",
    "preemption": "/sys/kernel/debug/sched/preempt",
    "swappiness": "/proc/sys/vm/swappiness",
    "tcp_congestion_control": "/proc/sys/net/ipv4/tcp_congestion_control",
    "tcp_rmem": "/proc/sys/net/ipv4/tcp_rmem",
    "tcp_wmem": "/proc/sys/net/ipv4/tcp_wmem",
    "ip_forward": "/proc/sys/net/ipv4/ip_forward",
}
POWER_FILES = {
    "driver": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "least_khz": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
    "most_khz": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "intel_no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "boost": "/sys/devices/system/cpu/cpufreq/boost",
    "idle_driver": "/sys/devices/system/cpu/cpuidle/current_driver",
    "platform_profile": "/sys/firmware/acpi/platform_profile",
}
MACHINE_FILES = {
    "vendor": "/sys/class/dmi/id/sys_vendor",
    "product": "/sys/class/dmi/id/product_name",
    "chassis_type": "/sys/class/dmi/id/chassis_type",
    "firmware": "/sys/class/dmi/id/bios_version",
    "smt": "/sys/devices/system/cpu/smt/control",
}
CPU_KEYS = ("model name", "vendor_id", "cpu family", "model", "stepping", "microcode", "cpu MHz", "flags")
UNSYNCHRONISED, NANOSECONDS = 0x40, 0x2000  # status bits of adjtimex(2)
CHRONY = ["chronyc", "-c", "tracking"]
CHRONY_OFFSET, CHRONY_FIELDS = 4, 14  # chronyc(1): reference, name, stratum, time, offset of the system's clock, ...
DIMMS = ["dmidecode", "--type", "memory"]
DIMM_KEYS = ("Size", "Type", "Speed", "Configured Memory Speed")  # none that tells one module from all others
VULNERABILITIES = "/sys/devices/system/cpu/vulnerabilities/*"


# Words of the kernel's command line and options of mounts that say where something is, or how to get in: their values
# are nobody else's business.
WHERE = re.compile(
    r"\b((?:[\w.]*(?:addr|user|username|domain|pass|password|secret|token|key))|ip|nfsroot|ds|nameserver)=[^\s,]+"
)
URL = re.compile(r"\b\w+://[^\s,]+")


def text(path):
    with open(path, errors="replace") as file:
        return file.read().strip()


def said(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10)
    line = (done.stdout.decode(errors="replace").strip().splitlines() or [""])[0]
    if done.returncode:
        raise OSError(f"{argv[0]} exited with {done.returncode}: {line}")
    return line


def cpu():
    found = {}
    for line in text("/proc/cpuinfo").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        if key.strip() in CPU_KEYS:
            found[key.strip().replace(" ", "_").lower()] = value.strip()
    packages = {text(path) for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id")}
    found["logical_cpus"] = os.cpu_count()
    found["usable_cpus"] = len(os.sched_getaffinity(0))
    found["sockets"] = len(packages) or None
    return found


def caches():
    found = {}
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        name = "L" + text(folder + "/level") + " " + text(folder + "/type").lower()
        found[name] = text(folder + "/size") + ", shared by CPUs " + text(folder + "/shared_cpu_list")
    if not found:
        raise OSError("no cache is described under /sys/devices/system/cpu/cpu0/cache")
    return found


def numa():
    nodes = sorted(glob.glob("/sys/devices/system/node/node[0-9]*"))
    if not nodes:
        raise OSError("no /sys/devices/system/node/node*")
    return {os.path.basename(node): text(node + "/cpulist") for node in nodes}


def memory():
    rows = (line.split() for line in text("/proc/meminfo").splitlines())
    sizes = {row[0][:-1]: int(row[1]) * 1024 for row in rows if len(row) == 3}
    return {"total_bytes": sizes["MemTotal"], "swap_bytes": sizes["SwapTotal"]}


class Timex(ctypes.Structure):
    """The beginning of struct timex, and room for the rest: see adjtimex(2)."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 64),
    ]


def clock():
    """What the kernel says of its clock, which any user may ask; the offset is chrony's where that keeps the time."""
    told = Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    found = {
        "synchronised": not told.status & UNSYNCHRONISED,
        "offset_s": abs(told.offset) * (1e-9 if told.status & NANOSECONDS else 1e-6),
        "offset_by": "adjtimex",
        "max_error_s": told.maxerror * 1e-6,
        "estimated_error_s": told.esterror * 1e-6,
        "frequency_ppm": told.freq / 65536,
    }
    if shutil.which(CHRONY[0]):
        try:
            fields = said(CHRONY).split(",")
            if len(fields) == CHRONY_FIELDS:
                found.update(offset_s=abs(float(fields[CHRONY_OFFSET])), offset_by="chronyc")
        except (OSError, ValueError, subprocess.TimeoutExpired):  # it is installed, and does not run
            pass
    return found


def memory_modules():
    """Count the modules of memory by kind, as the firmware describes them to root."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    program = shutil.which(DIMMS[0], path=path)
    if program is None:
        raise OSError("there is no dmidecode")
    done = subprocess.run([program] + DIMMS[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10)  # noqa: RUF005
    return modules(done.stdout.decode(errors="replace"))


def modules(told):
    """Return the modules in what dmidecode has printed: each kind once, with how many there are."""
    kinds = {}
    for part in re.split(r"\n\s*\n", told):
        rows = (line.strip().partition(": ") for line in part.splitlines())
        fields = {key: value.strip() for key, _, value in rows if key in DIMM_KEYS}
        if re.search(r"^Memory Device$", part, re.M) and re.match(r"\d", fields.get("Size", "")):
            kind = tuple(fields.get(key) for key in DIMM_KEYS)
            kinds[kind] = kinds.get(kind, 0) + 1
    if not kinds:
        raise OSError("dmidecode: " + (told.strip().splitlines() or ["it printed nothing"])[-1].strip())
    names = ("size", "type", "speed", "configured_speed")
    return [dict(zip(names, kind), count=count) for kind, count in sorted(kinds.items(), key=str)]  # noqa: B905


def mitigations():
    return {os.path.basename(path): text(path) for path in sorted(glob.glob(VULNERABILITIES))}


def virtualisation():
    if shutil.which("systemd-detect-virt"):
        return {kind: detected(kind) for kind in ("vm", "container")}
    flag = re.search(r"^flags\s*:.*\bhypervisor\b", text("/proc/cpuinfo"), re.M)
    return {"vm": "a hypervisor (CPU flag)" if flag else "none seen (CPU flag)", "container": None}


def detected(kind):
    done = subprocess.run(["systemd-detect-virt", "--" + kind], stdout=subprocess.PIPE, timeout=10)
    return done.stdout.decode().strip()  # its exit status is 1 when it says "none"


def distribution():
    rows = (line.partition("=") for line in text("/etc/os-release").splitlines())
    return {key: value.strip('"') for key, _, value in rows if key in ("ID", "VERSION_ID", "PRETTY_NAME")}


def cgroup():
    unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    controllers = text("/sys/fs/cgroup/cgroup.controllers").split() if unified else os.listdir("/sys/fs/cgroup")
    return {"version": "v2" if unified else "v1 or hybrid", "controllers": sorted(controllers)}


def storage():
    found = {}
    for queue in sorted(glob.glob("/sys/block/*/queue")):
        name = queue.split("/")[3]
        if not re.match(r"(loop|ram|zram|fd|sr)\d", name):
            model = f"/sys/block/{name}/device/model"
            scheduler = queue + "/scheduler"  # what is made of other devices (LVM, LUKS, RAID) has none
            found[name] = {
                "rotational": text(queue + "/rotational"),
                "scheduler": text(scheduler) if os.path.exists(scheduler) else None,
                "bytes": int(text(f"/sys/block/{name}/size")) * 512,
                "model": text(model) if os.path.exists(model) else None,
            }
    return found


def mounts():
    wanted = ("/", "/tmp", "/var", "/var/lib", "/var/tmp", "/home", "/srv")
    rows = (line.split() for line in text("/proc/mounts").splitlines())
    return {
        row[1]: {"device": device(row[0]), "type": row[2], "options": WHERE.sub(r"\1=...", row[3])}
        for row in rows
        if row[1] in wanted
    }


def device(name):
    return "of another machine" if ":/" in name or name.startswith("//") else name


def command_line():
    return URL.sub("...", WHERE.sub(r"\1=...", text("/proc/cmdline")))


def network():
    found = {}
    for folder in sorted(glob.glob("/sys/class/net/*")):
        name = os.path.basename(folder)
        if os.path.exists(folder + "/mtu"):
            driver = folder + "/device/driver"
            found[name] = {
                "mtu": int(text(folder + "/mtu")),
                "driver": os.path.basename(os.readlink(driver)) if os.path.islink(driver) else None,
                "speed_mbit": speed(folder),
            }
    return found


def speed(folder):
    try:
        speed_mbit = int(text(folder + "/speed"))
        return speed_mbit if speed_mbit > 0 else None
    except (OSError, ValueError):  # a link that is down or has no speed of its own
        return None


def kernel():
    return {"release": platform.release(), "architecture": platform.machine(), "tick_hz": os.sysconf("SC_CLK_TCK")}


def load():
    return text("/proc/loadavg")


PARTS = {
    "kernel": kernel,
    "cpu": cpu,
    "caches": caches,
    "numa": numa,
    "memory": memory,
    "memory_modules": memory_modules,
    "clock": clock,
    "mitigations": mitigations,
    "virtualisation": virtualisation,
    "distribution": distribution,
    "cgroup": cgroup,
    "storage": storage,
    "mounts": mounts,
    "network": network,
    "load": load,
}
FILES = {"kernel_settings": KERNEL_FILES, "power": POWER_FILES, "machine": MACHINE_FILES}


def attempt(found, missing, key, read):
    try:
        found[key.split(".")[-1]] = read()
    except (OSError, ValueError, IndexError, KeyError, AttributeError, subprocess.TimeoutExpired) as error:
        found[key.split(".")[-1]] = None
        missing[key] = str(error)


def facts():
    found, missing = {"hostname": platform.node(), "time_s": time.time()}, {}
    for key, read in PARTS.items():
        attempt(found, missing, key, read)
    for group, files in FILES.items():
        found[group] = {}
        for key, path in files.items():
            attempt(found[group], missing, group + "." + key, lambda path=path: text(path))
    attempt(found["kernel_settings"], missing, "kernel_settings.command_line", command_line)
    found["versions"] = {}
    for key, argv in TOOLS.items():
        attempt(found["versions"], missing, "versions." + key, lambda argv=argv: said(argv))
    found["missing"] = missing
    return found


if __name__ == "__main__":
    json.dump(facts(), sys.stdout)
