"""The programs of a Kubernetes cluster as pinned Go modules: which, with what flags, and what goes with them.

Versions stand in `go/PART/go.mod` alone, and go.sum holds the hash of every module. A part is one Go module: its
programs share their dependencies, and each is linked on top of what the one before it compiled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infrabench.core import ProvisionError, digest

GO_DIR = Path(__file__).parent / "go"
C_FLAGS = ("-std=c99", "-Os", "-static", "-s")  # of an `Extra` in C
FORMAT = 1  # raise it when parts are made differently


@dataclass(frozen=True, slots=True)
class Program:
    """A program by its file name and the Go package that it is built from.

    `seconds` is what building it took on two cores, in the order of its part, with modules downloaded and nothing
    compiled: what the estimate of time left rests on. `tags` come instead of its part's.
    """

    name: str
    package: str
    seconds: float
    tags: str = ""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a module holds besides programs and is needed at run time: `path` in `module`, found as `name`.

    `how`: a ``folder`` is copied as it is; ``definitions`` are the CustomResourceDefinition documents of a YAML file;
    ``C`` is a static program of all C files in a folder.
    """

    name: str
    module: str
    path: str
    how: Literal["folder", "definitions", "C"]


@dataclass(frozen=True, slots=True)
class GoPart:
    """One Go module: its programs, and how they are built.

    `stamp` is a module whose version they are to report, `stamped` the variables that take it: with ``{number}``,
    ``{major}`` or ``{minor}`` of it.
    """

    name: str
    programs: tuple[Program, ...]
    tags: str = ""
    cgo: bool = False
    stamp: str = ""
    stamped: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()  # of C libraries, by pkg-config name
    extra: tuple[Extra, ...] = ()

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum are."""
        return GO_DIR / self.name


def _programs(folder: str, seconds: Mapping[str, float]) -> tuple[Program, ...]:
    """Return programs that are called as their packages are, which are all in one folder."""
    return tuple(Program(name, f"{folder}/{name}", each) for name, each in seconds.items())


_SKEW = "k8s.io/component-base/version.git"  # what kubeadm and checks of version skew compare
_CILIUM = "github.com/cilium/cilium"
_CRIO = "github.com/cri-o/cri-o"
_GVISOR = "gvisor.dev/gvisor"
_MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
_CRIO_TAGS = (  # without signing by GPG and without storage drivers that need C libraries of their own
    "containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper containers_image_ostree_stub "
    "seccomp"
)
_STATIC = "-linkmode external -extldflags -static"
_PURE = "netgo osusergo"  # names of hosts and users without the C library, which would load parts of itself as it runs
_PARTS = (
    GoPart(
        "kubernetes",
        _programs(
            "k8s.io/kubernetes/cmd",
            {
                "kube-apiserver": 200,
                "kubeadm": 16,
                "kube-controller-manager": 47,
                "kube-scheduler": 4,
                "kubelet": 15,
                "kube-proxy": 7,
                "kubectl": 16,
            },
        ),
        stamp="k8s.io/kubernetes",
        stamped=(f"{_SKEW}Version={{number}}", f"{_SKEW}Major={{major}}", f"{_SKEW}Minor={{minor}}"),
    ),
    GoPart("etcd", (Program("etcd", "go.etcd.io/etcd/server/v3", 26),)),
    GoPart(
        "containerd",
        _programs(
            "github.com/containerd/containerd/v2/cmd", {"containerd": 46, "containerd-shim-runc-v2": 1, "ctr": 2}
        ),
        tags="no_btrfs no_zfs no_devmapper no_aufs",
    ),
    GoPart(
        "multus",
        _programs(f"{_MULTUS}/cmd", {"multus": 56}),
        extra=(Extra("multus-crd.yaml", _MULTUS, "deployments/multus-daemonset.yml", "definitions"),),
    ),
    GoPart(
        "flannel-cni",
        (Program("flannel-cni", "github.com/containernetworking/plugins/plugins/meta/flannel", 1),),
    ),
    # C of its UDP backend
    GoPart("flannel", (Program("flanneld", "github.com/flannel-io/flannel", 80),), cgo=True),
    GoPart(
        "cilium",
        (
            Program("cilium-agent", f"{_CILIUM}/daemon", 326),
            Program("cilium-cni", f"{_CILIUM}/plugins/cilium-cni", 7),
            Program("cilium-dbg", f"{_CILIUM}/cilium-dbg", 17),
            Program("cilium-operator-generic", f"{_CILIUM}/operator", 30, tags="ipam_provider_operator"),
        ),
        extra=(Extra("bpf", _CILIUM, "bpf", "folder"),),
    ),
    GoPart(
        "crio",
        _programs(f"{_CRIO}/cmd", {"crio": 130}),
        tags=_CRIO_TAGS,
        cgo=True,
        headers=("libseccomp",),
        extra=(Extra("pinns", _CRIO, "pinns/src", "C"),),
    ),
    GoPart(
        "gvisor",
        (Program("runsc", f"{_GVISOR}/runsc", 54), Program("containerd-shim-runsc-v1", f"{_GVISOR}/shim", 10)),
        stamp=_GVISOR,
        stamped=(f"{_GVISOR}/runsc/version.version={{number}}",),
    ),
)
# The order is the order of building. The first program of a part compiles what the part's others share.
PARTS = {part.name: part for part in _PARTS}


def version(part: GoPart, package: str = "") -> str:
    """Return the version, such as ``v1.34.4``, that the part's go.mod requires of the module that `package` is in.

    Without `package` it is that of the part's first program.
    """
    path, package = part.folder / "go.mod", package or part.programs[0].package
    required = re.findall(r"^\s*(?:require\s+)?(\S+) (v\S+)", path.read_text(), re.MULTILINE)
    found = {number for module, number in required if f"{package}/".startswith(f"{module}/")}
    if len(found) != 1:
        raise ProvisionError(f"{path}: {package} is required {len(found)} times, not once")
    return found.pop()


def go_version(path: Path) -> str:
    """Return the oldest Go version that a go.mod allows, such as ``1.26.8``."""
    found = re.findall(r"^go (\d\S*)$", path.read_text(), re.MULTILINE)
    if len(found) != 1:
        raise ProvisionError(f"{path}: {len(found)} lines say which Go version is needed, not one")
    return found[0]


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a Go version for comparing, such as (1, 26, 8)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(each or 0) for each in found.groups()) if found else ()


def needed_go(parts: Iterable[GoPart] | None = None) -> str:
    """Return the oldest Go version that these parts, or all, can be built with."""
    files = GO_DIR.glob("*/go.mod") if parts is None else (part.folder / "go.mod" for part in parts)
    return max(map(go_version, files), key=numbers, default="1.26")


def build_flags(part: GoPart, program: Program) -> list[str]:
    """Return the flags of ``go build`` for a program: no path of this machine goes in, nothing is resolved anew.

    What has C in it is static: nodes have the C library of their own Debian, which may be older than this machine's.
    """
    link, tags = "-s -w", program.tags or part.tags
    if part.cgo:
        link, tags = f"{link} {_STATIC}", f"{tags} {_PURE}".lstrip()
    if part.stamp:
        number = version(part, part.stamp)
        major, minor = number.removeprefix("v").split(".")[:2]
        link += "".join(f" -X {each.format(number=number, major=major, minor=minor)}" for each in part.stamped)
    return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", tags, "-ldflags", link]


def content_hash(part: GoPart, toolchain: str) -> str:
    """Return the hash that names a part: its pinned modules, programs, flags and extras, and the Go version."""
    flags = {program.name: [program.package, *build_flags(part, program)] for program in part.programs}
    extra = [[each.name, each.module, each.path, each.how] for each in part.extra]
    pinned = [hashlib.sha256((part.folder / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return digest([FORMAT, part.name, flags, part.cgo, extra, C_FLAGS, pinned, toolchain])
