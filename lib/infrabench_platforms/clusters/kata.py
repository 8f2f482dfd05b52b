"""Kata Containers, which are in no package registry: found where they are installed, never brought.

Looked for are the folder that `VARIABLE` names (a release's ``opt/kata``, or what it was unpacked to), ``/opt/kata``,
and the places of distributions' packages. Of a release, the shim in Go comes before the one in Rust. Which files there
are, what takes precedence and what a configuration's keys mean is told in Kata's own documentation (README of its
runtime, comments of its configurations).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrabench.core import Host, NotRunnable
from infrabench_platforms.clusters.hosts import script

VARIABLE = "INFRABENCH_KATA"
PART = "kata"  # what a set of machines is asked for by
RELEASE = "/opt/kata"  # where the static release expects itself
DEVICES = ("/dev/kvm", "/dev/vhost-vsock", "/dev/vhost-net", "/dev/net/tun")
STEP_S = 30.0
_TEXTS = ("path", "kernel", "image", "initrd", "firmware")  # keys that name files

# $1: the folder that is named, or nothing. Prints, each ended by NUL: the folder of a release (nothing: a package's
# files), shim, configuration, what the shim says of its version, the configuration's text, texts of its drop-ins.
_FIND = """
look() {
  root=$1 shim=$2; shift 2
  [ -x "$shim" ] || return 0
  for home in "$@"; do
    for file in "$home/configuration.toml" "$home/configuration-qemu.toml" "$home/configuration-qemu-runtime-rs.toml" \\
        "$home"/configuration-*.toml; do
      [ -r "$file" ] || continue
      printf '%s\\0' "$root" "$shim" "$file" "$("$shim" --version 2>&1 | head -n 1)" "$(cat "$file")"
      for part in "$home"/config.d/*; do [ ! -r "$part" ] || printf '%s\\0' "$(cat "$part")"; done
      exit 0
    done
  done
}
release() {
  share=$1/share/defaults/kata-containers
  look "$1" "$1/bin/containerd-shim-kata-v2" ${2:+"$2"} "$share"
  look "$1" "$1/runtime-rs/bin/containerd-shim-kata-v2" ${2:+"$2/runtime-rs"} "$share/runtime-rs"
  look "$1" "$1/bin/containerd-shim-kata-v2" "$share/runtime-rs"
}
if [ -n "$1" ]; then
  release "$1"
  release "$1/opt/kata"
else
  release /opt/kata /etc/kata-containers
  look "" /usr/bin/containerd-shim-kata-v2 /etc/kata-containers /usr/share/defaults/kata-containers \\
    /usr/share/kata-containers/defaults
fi
"""
# $1: the hypervisor. Then paths. Prints those that are not there, /dev/kvm also if it cannot be opened, and "script" if
# the hypervisor is one.
_CHECK = """
[ ! -f "$1" ] || [ "$(head -c 2 "$1" | tr '\\0' .)" != '#!' ] || echo script
for path in "$@"; do
  case $path in
    /dev/kvm) [ -e "$path" ] && (: <>"$path") 2>/dev/null ;; # a redirection alone would make the file
    *) [ -z "$path" ] || [ -e "$path" ] ;;
  esac || echo "$path"
done
"""
# $1: the hypervisor's file name. Prints processes in which guests run: whether the kernel's virtual machine is one of
# their files, and what they are.
_GUESTS = """
for process in /proc/[0-9]*; do
  words=$(tr '\\0' ' ' <"$process/cmdline" 2>/dev/null)
  case $words in
    *"/${1:-containerd-shim-kata-v2} "*|*"/qemu-system-"*" -name sandbox-"*) ;;
    *) continue ;;
  esac
  if ls -l "$process/fd" 2>/dev/null | grep -q 'anon_inode:kvm-vm$'; then found=kvm; else found=none; fi
  printf '%s\\t%s\\n' "$found" "$words"
done
"""


@dataclass(frozen=True, slots=True)
class Kata:
    """An installed Kata, as one of its configurations has it."""

    root: str  # the folder of its release; empty: a distribution's package, in the system's own folders
    shim: str  # path of the program that containerd and CRI-O start
    configuration: str  # path of what the shim is given
    version: str  # its number, or all that the shim says where that has none
    hypervisor: str  # qemu, clh, firecracker, dragonball, ...
    program: str  # path of the hypervisor; empty: it is part of the shim
    accelerators: str  # machine accelerators that the configuration asks the hypervisor for
    rust: bool  # whether the shim is the one in Rust
    vhost_net: bool  # whether guests' network devices are to be handled by the kernel's vhost-net
    files: tuple[str, ...]  # what the configuration names: hypervisor, guest kernel, image, and so on

    @property
    def place(self) -> str:
        """Where its release has to be found: a static release names itself by `RELEASE`, wherever it was unpacked."""
        return RELEASE if any(file.startswith(f"{RELEASE}/") for file in self.files) else self.root


def named_folder() -> str:
    """Return the folder that the user names, or nothing."""
    return os.environ.get(VARIABLE, "")


def find(host: Host, folder: str | None = None) -> Kata | None:
    """Return the Kata that is installed on `host`, or None; `folder` comes in the place of what the user names.

    `NotRunnable` when its configuration cannot be understood.
    """
    found = script(host, _FIND, named_folder() if folder is None else folder, timeout_s=STEP_S).split("\0")[:-1]
    return parse_configuration(*found[:4], found[4:]) if found else None


def not_installed(host: Host) -> str:
    """Return what is said where there is none."""
    searched = named_folder() or f"{RELEASE} and the places of packages"
    return f"Kata is not installed: searched {searched} on {host.name}; {VARIABLE}=DIR names another folder"


def parse_configuration(root: str, shim: str, configuration: str, version: str, texts: Sequence[str]) -> Kata:
    """Return the Kata whose configuration, and the drop-ins that change it, read `texts`.

    `version` is what its shim says of it. `NotRunnable` when the texts are not a configuration of Kata.
    """
    merged: dict[str, Any] = {}
    try:
        for text in texts:
            for name, table in tomllib.loads(text).get("hypervisor", {}).items():
                merged.setdefault(name, {}).update(table)
        if len(merged) != 1:
            raise ValueError(f"it has {len(merged)} tables of a hypervisor, not one")
        ((hypervisor, section),) = merged.items()
        files = [str(section[key]) for key in _TEXTS if section.get(key)]
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError) as error:
        raise NotRunnable(f"Kata's configuration {configuration} cannot be understood: {error}") from error
    if section.get("virtio_fs_daemon") and section.get("shared_fs", "virtio-fs") == "virtio-fs":
        files.append(str(section["virtio_fs_daemon"]))
    number = re.search(r"version:? *v?(\d[^\s,]*)", version)
    return Kata(
        root, shim, configuration, number[1] if number else version.strip(), hypervisor, str(section.get("path", "")),
        str(section.get("machine_accelerators", "")), "(Rust)" in version,
        not section.get("disable_vhost_net", False), tuple(files),
    )  # fmt: skip


def lacks(host: Host, kata: Kata) -> str | None:
    """Return why this Kata cannot make guests on `host`, with what to do, or None."""
    elsewhere = f" is not there: Kata's static release works at {RELEASE} only, and lies in {kata.root}"
    named = f", which {kata.configuration} names, is not there"
    moved = kata.root not in ("", RELEASE)
    needed = {
        file: f"{file}{elsewhere if moved and file.startswith(f'{RELEASE}/') else named}" for file in kata.files
    } | _needed_devices(kata)
    absent = script(host, _CHECK, kata.program, *needed, timeout_s=STEP_S).splitlines()
    emulates = "script" in absent or "tcg" in kata.accelerators
    reasons = [reason for path, reason in needed.items() if path in absent and not (path == "/dev/kvm" and emulates)]
    return f"Kata cannot run on {host.name}: {'; '.join(reasons)}" if reasons else None


def is_accelerated(host: Host, kata: Kata) -> bool | None:
    """Return whether the guests that run on `host` now are run by KVM, not emulated; None when there is none.

    What tells is the kernel's own virtual machine among the files of a hypervisor's process (of the shim, for a
    hypervisor that is part of it).
    """
    lines = script(host, _GUESTS, os.path.basename(kata.program), timeout_s=STEP_S).splitlines()
    found = [line.split("\t")[0] for line in lines]
    return set(found) == {"kvm"} if found else None


def folders_for_node(kata: Kata) -> dict[str, str]:
    """Return the folders that a lab node has to be shown for this Kata of this machine: where -> which.

    `NotRunnable` for a distribution's package, whose programs need more of their own machine than a few folders.
    """
    if not kata.root:
        raise NotRunnable(
            f"Kata's package ({kata.shim}) runs with this machine's own libraries, which the lab's nodes do not have: "
            f"unpack Kata's static release, and name it by {VARIABLE}=DIR"
        )
    folders = {kata.place: kata.root}
    if not kata.configuration.startswith(f"{kata.root}/"):
        own = os.path.dirname(kata.configuration)
        folders[own] = own
    return folders


def _needed_devices(kata: Kata) -> Mapping[str, str]:
    """Return the devices that guests need, each with what to do where it is not there."""
    needed = {
        "/dev/kvm": f"/dev/kvm cannot be opened (the processor's virtualisation, or the module kvm), and "
        f"{kata.configuration} does not say how to do without it",
        "/dev/net/tun": "there is no /dev/net/tun for guests' network devices: modprobe tun",
    }
    if kata.hypervisor == "qemu":  # the others speak with their guests by sockets of their own
        needed["/dev/vhost-vsock"] = "there is no /dev/vhost-vsock to speak with guests by: modprobe vhost_vsock"
        absent = "there is no /dev/vhost-net for guests' network devices: modprobe vhost_net"
        if kata.rust:
            needed["/dev/vhost-net"] = f"{absent} (the shim in Rust opens it whatever its configuration says)"
        elif kata.vhost_net:
            needed["/dev/vhost-net"] = f"{absent}, or set disable_vhost_net"
    return needed
