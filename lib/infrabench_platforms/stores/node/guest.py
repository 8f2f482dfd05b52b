"""A virtual machine on the store's node: QEMU, emulating, with drives that the engine names.

It is reached over SSH through the emulator's own network, which has two addresses and no way out. Its root disk is the
image that the harness shows the node; what it writes there goes with it. It runs in the store's memory cgroup.

Engines whose volume is used inside it have it as a disk there, filled and measured by fio. They do the verbs that
single requests need, and refuse the others.
"""

from __future__ import annotations

import json
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import block, daemons
from .config import Config, StoreError

NAME = "guest"
LINE = "guest-line"  # the daemon that holds the connection to it
EMULATOR = "qemu-system-x86_64"
IMAGE = Path("/opt/infrabench/guest")  # where the harness shows the node disk, kernel and initial disk
CPUS, MEMORY_MIB = 2, 2048
UP_S, STOP_S, COMMAND_S = 180.0, 60.0, 120.0
GREETING_S, PAUSE_S = 5.0, 0.3
GIVEN = "opt/infrabench"  # names in fw_cfg, which the guest's own start reads
_PUT = """
import json, os, sys
for path, text in json.load(sys.stdin).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
"""
MIB = 2**20
REFUSED = ("mount", "empty", "throttle", "fail", "replace", "corrupt", "scrub", "repair")
# A flush is what turns write-back caches of a disk on where they wait for one.
_FLUSH = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDWR))"


@dataclass(frozen=True)
class Drive:
    """A disk of the guest: what the guest finds it by, and what it is for the emulator (the value of ``-drive``)."""

    serial: str
    what: str

    @property
    def device(self) -> str:
        """The device file in the guest."""
        return f"/dev/disk/by-id/virtio-{self.serial}"


def start(config: Config, drives: Sequence[Drive]) -> float:
    """Boot the guest with these drives; return after how many seconds it answered."""
    folder = home(config)
    folder.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    _keys(config, port)
    daemons.start(config, NAME, command(config, drives, port), {"TMPDIR": str(folder)})
    took_s = daemons.until(lambda: _answers(config, port), UP_S, "the guest")
    # A connection costs an emulated processor a second of arithmetic: this one is there for all commands.
    daemons.start(config, LINE, ("ssh", "-F", folder / "ssh.conf", "-M", "-N", NAME))
    daemons.until(_control(config).exists, UP_S, "the connection to the guest")
    return took_s


def stop(config: Config) -> None:
    """End the guest; what its drives hold back is written first. Nothing when it does not run."""
    daemons.stop(config, LINE)
    daemons.stop(config, NAME, wait_s=STOP_S)
    _control(config).unlink(missing_ok=True)


def alive(config: Config) -> bool:
    """Tell whether the emulator runs."""
    return daemons.alive(config, NAME) is not None


def run(config: Config, argv: Sequence[str], *, timeout_s: float = COMMAND_S, stdin: str = "") -> str:
    """Return stdout of a command in the guest that has to succeed; `StoreError` with the end of what it said."""
    if not alive(config):
        raise StoreError(f"the guest does not run: {_console(config)}")
    ssh = ("ssh", "-F", home(config) / "ssh.conf", NAME)
    return daemons.run((*ssh, shlex.join(argv)), timeout_s=timeout_s, stdin=stdin)


def bring(config: Config, files: Mapping[str, str]) -> None:
    """Write files (path -> content) in the guest."""
    run(config, ("python3", "-c", _PUT), stdin=json.dumps(dict(files)))


def home(config: Config) -> Path:
    """Return where keys and settings of the guest lie; `inside` is given this folder."""
    return config.home / NAME


def facts(config: Config) -> dict[str, Any]:
    """Return what the guest is, as it says itself, and what runs it."""
    return {
        "emulator": daemons.run((EMULATOR, "--version")).splitlines()[0],
        "accelerator": "tcg (emulation)",
        "cpus": int(run(config, ("nproc",))),
        "memory_bytes": MEMORY_MIB * 2**20,
        "kernel": run(config, ("uname", "-rv")).strip(),
        "fio": run(config, ("fio", "--version")).strip(),
    }


def evidence(config: Config) -> str:
    """Return the end of the guest's console."""
    return f"# console of the guest\n{_console(config)}"


def command(config: Config, drives: Sequence[Drive], port: int) -> list[str]:
    """Return the emulator's command line."""
    image, folder = Path(config.options.get("image", IMAGE)), home(config)
    words = [
        EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-accel", "tcg,thread=multi",
        "-cpu", "max", "-smp", str(CPUS), "-m", f"{MEMORY_MIB}M",
        "-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img"),
        "-append", "root=LABEL=guest rw console=ttyS0 net.ifnames=0 mitigations=off quiet",
        "-serial", f"file:{config.log / 'guest.console.log'}", "-object", "rng-random,id=rng,filename=/dev/urandom",
        "-device", "virtio-rng-pci,rng=rng", "-object", "iothread,id=io",
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=",
        "-fw_cfg", f"name={GIVEN}/authorized,file={folder / 'login.pub'}",
        "-fw_cfg", f"name={GIVEN}/host-key,file={folder / 'host'}",
        "-drive", f"file={image / 'root.img'},format=raw,if=none,id=root,snapshot=on,cache=unsafe",
        "-device", "virtio-blk-pci,drive=root",
    ]  # fmt: skip
    for drive in drives:
        words += ["-drive", f"{drive.what},if=none,id={drive.serial}"]
        words += ["-device", f"virtio-blk-pci,drive={drive.serial},serial={drive.serial},iothread=io"]
    return words


def _keys(config: Config, port: int) -> None:
    folder = home(config)
    for name in ("login", "host"):
        if not (folder / name).exists():
            daemons.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", NAME, "-f", folder / name))
    kind, key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known").write_text(f"{NAME} {kind} {key}\n")
    settings = {
        "HostName": "127.0.0.1", "Port": port, "User": "root", "IdentityFile": folder / "login",
        "IdentitiesOnly": "yes", "HostKeyAlias": NAME, "UserKnownHostsFile": folder / "known",
        "StrictHostKeyChecking": "yes", "BatchMode": "yes", "LogLevel": "ERROR", "ConnectTimeout": 10,
        "ControlPath": _control(config),
    }  # fmt: skip
    lines = (f"  {key} {value}\n" for key, value in settings.items())
    (folder / "ssh.conf").write_text(f"Host {NAME}\n{''.join(lines)}")


def _answers(config: Config, port: int) -> bool:
    """Tell whether somebody can log in; until sshd is there, asking costs next to nothing: the guest needs the time."""
    if not alive(config):
        raise StoreError(f"the guest ended: {_console(config)}")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=GREETING_S) as probe:
            if probe.recv(4) != b"SSH-":
                raise OSError("something else answers")
        run(config, ("true",), timeout_s=COMMAND_S)
    except (StoreError, OSError):
        time.sleep(PAUSE_S)
        return False
    return True


def _control(config: Config) -> Path:
    return config.run / "guest.ctl"


def _console(config: Config) -> str:
    said = [
        path.read_text(errors="replace")[-1500:]
        for path in (config.log / "guest.console.log", config.log / f"{NAME}.log")
        if path.exists()
    ]
    return "\n".join(said).strip()


def verbs(serve: Callable[[Config, str], None], device: Callable[[Config], str]) -> dict[str, Callable[..., Any]]:
    """Return the verbs that an engine of this kind does its own way, from how it serves and what the disk is called."""

    def served(config: Config, _engine: Any, mode: str) -> dict[str, Any]:
        serve(config, mode)
        run(config, ("python3", "-c", _FLUSH, device(config)))
        return {"device": device(config), "mode": mode}

    def filled(config: Config, _engine: Any, size: int) -> dict[str, Any]:
        way = ("--ioengine=libaio", "--direct=1", f"--filename={device(config)}")
        most_s = 120 + size / MIB
        return block.fill_area(config, size, way, lambda argv: run(config, argv, timeout_s=most_s))

    def unmounted(_config: Config, _engine: Any) -> dict[str, Any]:
        return {"given_back_B": 0}

    def refused(_config: Config, _engine: Any, *_words: str) -> dict[str, Any]:
        raise StoreError("this is not done with a volume that a virtual machine has")

    return {"serve": served, "fill": filled, "unmount": unmounted, **dict.fromkeys(REFUSED, refused)}
