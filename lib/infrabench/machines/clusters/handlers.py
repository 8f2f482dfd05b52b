"""Low-level runtimes, which pods name as the handler of their runtime class: who takes them, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from infrabench.core import NotRunnable, ProvisionError, unknown_name
from infrabench.machines.clusters import gvisor, kata
from infrabench.machines.clusters.runtimes import PLAIN_CONFIG, RuntimeSetup, Values

STEP_S = 20.0
# Low-level runtime -> program -> Debian package; the others are built here, or installed by whoever wants them.
PROGRAMS = {"runc": {"runc": "runc"}, "crun": {"crun": "crun"}}
RUNC_SHIM = "io.containerd.runc.v2"
# $1: a low-level runtime. $2: version of the specification. Prints its version, and what it says of a container that it
# cannot make, since there is nothing in it; one that does not know the specification says that instead.
_PROBE = """
"$1" --version | head -n 1
home=$(mktemp -d) || exit
spec='{"ociVersion": "%s", "root": {"path": "none"}, "process": {"cwd": "/", "args": ["none"]}}'
printf "$spec" "$2" >"$home/config.json"
"$1" --root "$home/run" create --bundle "$home" infrabench-probe 2>&1
"$1" --root "$home/run" delete --force infrabench-probe >/dev/null 2>&1
rm -rf "$home"
"""


@dataclass(frozen=True, slots=True)
class Handler:
    """A low-level runtime.

    Attributes
    ----------
    parts
        What a set of machines has to have for it (see `Site.machines`).
    containerd
        Returns its table in containerd's configuration, and the table of its shim's options.
    crio
        Returns its table in CRI-O's configuration.
    lacks
        Returns why the worker cannot run it, or None.
    version
        Returns the command that prints its version on a worker.
    files
        Returns what has to lie on the worker for it: path -> text. What begins with ``#!`` is a program.
    refused
        High-level runtime -> why it does not take this handler.
    """

    name: str
    parts: tuple[str, ...]
    containerd: Callable[[RuntimeSetup], tuple[Values, Values]]
    crio: Callable[[RuntimeSetup], Values]
    lacks: Callable[[RuntimeSetup], str | None]
    version: Callable[[RuntimeSetup], tuple[str, ...]]
    files: Callable[[RuntimeSetup], Mapping[str, str]] = lambda place: {}
    refused: Mapping[str, str] = field(default_factory=dict)


def check(runtime: str, names: Sequence[str]) -> None:
    """Raise `NotRunnable` when a high-level runtime does not take a handler, `DesignError` for an unknown one."""
    for name in names:
        if name not in HANDLERS:
            raise unknown_name("low-level runtime", name, HANDLERS)
        if reason := HANDLERS[name].refused.get(runtime):
            raise NotRunnable(reason)


def require(place: RuntimeSetup) -> None:
    """Raise `NotRunnable` with the reason when the worker lacks what one of its handlers needs."""
    for name in place.handlers:
        if reason := HANDLERS[name].lacks(place):
            raise NotRunnable(reason)


def files(place: RuntimeSetup) -> dict[str, str]:
    """Return all that has to lie on the worker for its handlers: path -> text."""
    return {path: text for name in place.handlers for path, text in HANDLERS[name].files(place).items()}


def versions(place: RuntimeSetup) -> dict[str, str]:
    """Return what each handler's program says of its version, by handler: the first line."""
    found = {}
    for name in place.handlers:
        argv = HANDLERS[name].version(place)
        result = place.host.run(argv, timeout_s=STEP_S)
        if not result.ok:
            told = result.stderr.decode("utf-8", "replace").strip()[-300:]
            raise ProvisionError(f"{place.host.name}: {' '.join(argv)} does not tell its version: {told}")
        found[name] = result.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    return found


def _program(name: str, package: str) -> Callable[[RuntimeSetup], str | None]:
    """Return a check that a program is on the worker's search path."""

    def lacks(place: RuntimeSetup) -> str | None:
        there = place.host.run(("sh", "-c", 'command -v "$1"', "sh", name), timeout_s=STEP_S).ok
        return None if there else f"{name} is not installed on {place.host.name}: apt-get install {package}"

    return lacks


def _crun(place: RuntimeSetup) -> str | None:
    """Return why crun is not there, or refuses what the high-level runtime writes: older ones know fewer versions."""
    if reason := _program("crun", PROGRAMS["crun"]["crun"])(place):
        return reason
    result = place.host.run(("sh", "-s", "crun", place.runtime.spec), timeout_s=STEP_S, stdin=_PROBE.encode())
    version, _, told = result.stdout.decode("utf-8", "replace").strip().partition("\n")
    refuses = (
        f"{version} refuses containers of specification {place.runtime.spec}, which {place.runtime.name} writes: {told}"
    )
    return refuses if "unknown version" in told else None


def _kata(place: RuntimeSetup) -> kata.Kata:
    if place.kata is None:
        raise NotRunnable(kata.not_installed(place.host))
    return place.kata


def _kata_containerd(place: RuntimeSetup) -> tuple[Values, Values]:
    # Without the last, a privileged pod would get the devices of the host into its guest.
    table = {
        "runtime_type": "io.containerd.kata.v2", "runtime_path": _kata(place).shim,
        "privileged_without_host_devices": True,
    }  # fmt: skip
    return table, {"ConfigPath": _kata(place).configuration}


def _kata_crio(place: RuntimeSetup) -> Values:
    return {
        "runtime_type": "vm", "runtime_path": _kata(place).shim, "runtime_root": "/run/vc",
        "runtime_config_path": _kata(place).configuration, "privileged_without_host_devices": True,
    }  # fmt: skip


RUNC = Handler(
    "runc", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM}, {}),
    crio=lambda place: {"runtime_root": "/run/runc"},
    lacks=_program("runc", PROGRAMS["runc"]["runc"]), version=lambda place: ("runc", "--version"),
)  # fmt: skip
# runc again, for pods whose network the cluster's CNI makes without Multus.
PLAIN = Handler(
    "plain", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM, "cni_conf_dir": PLAIN_CONFIG}, {}),
    crio=RUNC.crio, lacks=RUNC.lacks, version=RUNC.version,
    refused={"crio": "CRI-O gives the pods of all handlers the same network"},
)  # fmt: skip
CRUN = Handler(
    "crun", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM}, {"BinaryName": "crun"}),
    crio=lambda place: {"runtime_root": "/run/crun"},
    lacks=_crun, version=lambda place: ("crun", "--version"),
)  # fmt: skip
RUNSC = Handler(
    "runsc", (gvisor.PART,), containerd=gvisor.containerd, crio=gvisor.crio, lacks=gvisor.lacks, version=gvisor.version,
    files=gvisor.files,
)  # fmt: skip
KATA = Handler(
    "kata", (kata.PART,), containerd=_kata_containerd, crio=_kata_crio,
    lacks=lambda place: kata.lacks(place.host, place.kata) if place.kata else kata.not_installed(place.host),
    version=lambda place: (_kata(place).shim, "--version"),
)  # fmt: skip
HANDLERS = {each.name: each for each in (RUNC, PLAIN, CRUN, RUNSC, KATA)}
