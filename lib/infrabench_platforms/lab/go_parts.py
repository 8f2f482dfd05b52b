"""The programs of a Kubernetes cluster as pinned Go modules: which, with what flags, and what goes with them.

Versions stand in `go/PART/go.mod` alone, and go.sum holds the hash of every module. A part is one Go module: its
programs share their dependencies, and each is linked on top of what the one before it compiled. An older version of a
part is a part of its own (`VERSIONS`), which takes the place of the newest one where a system is named with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from infrabench.core import NotRunnable, ProvisionError, digest

GO_DIR = Path(__file__).parent / "go"
C_FLAGS = ("-std=c99", "-Os", "-static", "-s")  # of an `Extra` in C
FORMAT = 1  # raise it when parts are made differently


@dataclass(frozen=True, slots=True)
class Program:
    """A program by its file name, built from the Go package at `path` in its part's module.

    `seconds` is what building it took on two cores, in the order of its part, with modules downloaded and nothing
    compiled: what the estimate of time left rests on. `tags` come instead of its part's.
    """

    name: str
    path: str
    seconds: float
    tags: str = ""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a part's module holds at `path` besides programs and is needed at run time, found as `name`.

    `how`: a ``folder`` is copied as it is; ``definitions`` are the CustomResourceDefinition documents of a YAML file;
    ``C`` is a static program of all C files in a folder.
    """

    name: str
    path: str
    how: Literal["folder", "definitions", "C"]


@dataclass(frozen=True, slots=True)
class GoPart:
    """The programs of one Go module, and how they are built.

    `stamped` are the variables that take the version which the programs report: with ``{number}``, ``{major}`` or
    ``{minor}`` of it.
    """

    name: str
    module: str
    programs: tuple[Program, ...]
    tags: str = ""
    cgo: bool = False
    stamped: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()  # of C libraries, by pkg-config name
    extra: tuple[Extra, ...] = ()

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum are."""
        return GO_DIR / self.name


_SKEW = "k8s.io/component-base/version.git"  # what kubeadm and checks of version skew compare
# The order is the order of building. The first program of a part compiles what the part's others share.
PARTS = {part.name: part for part in (
    GoPart("kubernetes", "k8s.io/kubernetes", (
        Program("kube-apiserver", "cmd/kube-apiserver", 200),
        Program("kubeadm", "cmd/kubeadm", 16),
        Program("kube-controller-manager", "cmd/kube-controller-manager", 47),
        Program("kube-scheduler", "cmd/kube-scheduler", 4),
        Program("kubelet", "cmd/kubelet", 15),
        Program("kube-proxy", "cmd/kube-proxy", 7),
        Program("kubectl", "cmd/kubectl", 16),
    ), stamped=(f"{_SKEW}Version={{number}}", f"{_SKEW}Major={{major}}", f"{_SKEW}Minor={{minor}}")),
    GoPart("etcd", "go.etcd.io/etcd/server/v3", (Program("etcd", "", 26),)),
    GoPart("containerd", "github.com/containerd/containerd/v2", (
        Program("containerd", "cmd/containerd", 46),
        Program("containerd-shim-runc-v2", "cmd/containerd-shim-runc-v2", 1),
        Program("ctr", "cmd/ctr", 2),
    ), tags="no_btrfs no_zfs no_devmapper no_aufs"),
    GoPart("multus", "gopkg.in/k8snetworkplumbingwg/multus-cni.v4", (Program("multus", "cmd/multus", 56),),
           extra=(Extra("multus-crd.yaml", "deployments/multus-daemonset.yml", "definitions"),)),
    GoPart("flannel-cni", "github.com/containernetworking/plugins",
           (Program("flannel-cni", "plugins/meta/flannel", 1),)),
    # C of its UDP backend.
    GoPart("flannel", "github.com/flannel-io/flannel", (Program("flanneld", "", 80),), cgo=True),
    GoPart("cilium", "github.com/cilium/cilium", (
        Program("cilium-agent", "daemon", 326),
        Program("cilium-cni", "plugins/cilium-cni", 7),
        Program("cilium-dbg", "cilium-dbg", 17),
        Program("cilium-operator-generic", "operator", 30, tags="ipam_provider_operator"),
    ), extra=(Extra("bpf", "bpf", "folder"),)),
    # Without signing by GPG and without storage drivers that need C libraries of their own.
    GoPart("crio", "github.com/cri-o/cri-o", (Program("crio", "cmd/crio", 130),), cgo=True, headers=("libseccomp",),
           tags="containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper "
                "containers_image_ostree_stub seccomp",
           extra=(Extra("pinns", "pinns/src", "C"),)),
    GoPart("gvisor", "gvisor.dev/gvisor", (
        Program("runsc", "runsc", 54), Program("containerd-shim-runsc-v1", "shim", 10),
    ), stamped=("gvisor.dev/gvisor/runsc/version.version={number}",)),
)}  # fmt: skip
# Part -> version, as it is named behind an @ -> the part that is of this version; what a plain name means is the last.
VERSIONS: Mapping[str, Mapping[str, str]] = {
    "containerd": {"2.1": "containerd-2.1", "2.4": "containerd"},
    "flannel": {"0.28.4": "flannel-0.28.4", "0.28.10": "flannel"},
    "cilium": {"1.19.0": "cilium-1.19.0", "1.19.7": "cilium"},
    "crio": {"1.36": "crio"},
}
_STANDS_FOR = {each: part for part, versions in VERSIONS.items() for each in versions.values()}
ON_DEMAND = tuple(each for each, part in _STANDS_FOR.items() if each != part)  # nobody makes them unless they are named
PARTS |= {name: replace(PARTS[_STANDS_FOR[name]], name=name) for name in ON_DEMAND}


def stands_for(part: str) -> str:
    """Return the part in whose place this one stands: itself, but for an older version.

    >>> stands_for("flannel-0.28.4"), stands_for("flannel-cni")
    ('flannel', 'flannel-cni')
    """
    return _STANDS_FOR.get(part, part)


def find_version(system: str, version: str) -> str | None:
    """Return the part that is of this version of a system; None for a system of which no part has versions.

    The part is called as the system is, or as its first word (of a pair of runtimes the upper one). `NotRunnable` for
    a version that there is none of.

    >>> find_version("containerd-runsc", "2.1"), find_version("docker", "26.1")
    ('containerd-2.1', None)
    """
    versions = VERSIONS.get(system.partition("-")[0])
    if versions is None:
        return None
    if version not in versions:
        known = ", ".join(f"{system}@{each}" for each in versions)
        raise NotRunnable(f"the lab has no {system}@{version}; it has {known}")
    return versions[version]


def package(part: GoPart, program: Program) -> str:
    """Return the Go package that a program is built from."""
    return f"{part.module}/{program.path}".rstrip("/")


def version(part: GoPart) -> str:
    """Return the version, such as ``v1.34.4``, that the part's go.mod requires of its module."""
    return _read_pin(part, rf"^\s*(?:require\s+)?{re.escape(part.module)} (v\S+)")


def needed_go(parts: Iterable[GoPart]) -> str:
    """Return the oldest Go version, such as ``1.26.8``, that all these parts can be built with."""
    return max((_read_pin(part, r"^go (\d\S*)$") for part in parts), key=numbers)


def _read_pin(part: GoPart, pattern: str) -> str:
    path = part.folder / "go.mod"
    found = re.findall(pattern, path.read_text(), re.MULTILINE)
    if len(found) != 1:
        raise ProvisionError(f"{path}: {len(found)} lines are like {pattern}, not one")
    return found[0]


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a Go version for comparing, such as (1, 26, 8)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(each or 0) for each in found.groups()) if found else ()


def build_flags(part: GoPart, program: Program) -> list[str]:
    """Return the flags of ``go build`` for a program: no path of this machine goes in, nothing is resolved anew.

    What has C in it is static: nodes have the C library of their own Debian, which may be older than this machine's.
    """
    link, tags = "-s -w", program.tags or part.tags
    if part.cgo:
        # Names of hosts and users without the C library, which would load parts of itself as it runs.
        link, tags = f"{link} -linkmode external -extldflags -static", f"{tags} netgo osusergo".lstrip()
    if part.stamped:
        number = version(part)
        major, minor = number.removeprefix("v").split(".")[:2]
        link += "".join(f" -X {each.format(number=number, major=major, minor=minor)}" for each in part.stamped)
    return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", tags, "-ldflags", link]


def content_hash(part: GoPart, toolchain: str) -> str:
    """Return the hash that names a part: its pinned modules, programs, flags and extras, and the Go version."""
    flags = {program.name: [package(part, program), *build_flags(part, program)] for program in part.programs}
    extra = [[each.name, part.module, each.path, each.how] for each in part.extra]
    pinned = [hashlib.sha256((part.folder / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")]
    return digest([FORMAT, part.name, flags, part.cgo, extra, C_FLAGS, pinned, toolchain])
