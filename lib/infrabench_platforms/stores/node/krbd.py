"""The RBD image as a block device of this kernel (krbd), where it has one; it caches nothing, whatever the mode.

Source: the kernel's description of /sys/bus/rbd (Documentation/ABI/testing/sysfs-bus-rbd).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from . import daemons
from .ceph_cluster import IMAGE, LOOPBACK, POOL, PORT
from .config import Config, StoreError

BUS = Path("/sys/bus/rbd")
OPTION = "krbd"  # of the store: "yes" where its kernel has it
WAIT_S = 30.0
USER = "client.admin"


def device(config: Config) -> Path:
    """Return the name that the device has for as long as the volume is served; it points to the kernel's own."""
    return config.run / "krbd"


def attach(config: Config) -> None:
    """Make the store's image a block device, if the store is told to have that; nothing when it is one already."""
    if config.options.get(OPTION) != "yes" or device(config).exists():
        return
    # The kernel speaks the messenger of before version 2, at the monitor's second port.
    number = add(f"{config.address or LOOPBACK}:{PORT + 1}", secret((config.home / "keyring").read_text()), POOL, IMAGE)
    node = Path(f"/dev/rbd{number}")
    daemons.until(node.exists, WAIT_S, "the image's device")
    device(config).unlink(missing_ok=True)
    device(config).symlink_to(node)


def detach(config: Config) -> None:
    """Undo `attach`; nothing when there is no device of the store: after a boot its number may be somebody else's."""
    link = device(config)
    if link.is_symlink():
        number = int(os.readlink(link).removeprefix("/dev/rbd"))
        cluster, conf = BUS / "devices" / str(number) / "cluster_fsid", config.home / "ceph.conf"
        if cluster.exists() and conf.exists() and cluster.read_text().strip() in conf.read_text():
            try:
                remove(number)
            except OSError:  # a program that was ended, or will be, still has it open
                _way("remove").write_text(f"{number} force")
        link.unlink()


def add(monitor: str, key: str, pool: str, image: str) -> int:
    """Make an image a block device and return its number; `StoreError` where the kernel has no RBD, or refuses."""
    if not BUS.exists():
        with contextlib.suppress(StoreError):
            daemons.run(("modprobe", "rbd"))
    if not BUS.exists():
        raise StoreError("the kernel has no RBD module, or it cannot be loaded here")
    before = numbers()
    try:
        _way("add").write_text(f"{monitor} name=admin,secret={key} {pool} {image} -")
    except OSError as error:
        raise StoreError(f"the kernel does not take {pool}/{image} at {monitor}: {error}") from error
    for number in sorted(numbers() - before):
        about = BUS / "devices" / str(number)
        if ((about / "pool").read_text().strip(), (about / "name").read_text().strip()) == (pool, image):
            return number
    raise StoreError(f"the kernel took {pool}/{image}, and has no device of it")


def remove(number: int) -> None:
    """Remove a block device that `add` made; `OSError` when it is in use, or gone."""
    _way("remove").write_text(str(number))


def numbers() -> set[int]:
    """Return the numbers of all RBD devices of this kernel."""
    return {int(entry.name) for entry in (BUS / "devices").iterdir() if entry.name.isdigit()}


def secret(keyring: str) -> str:
    """Return the key of the administrator in a keyring's text; `StoreError` when there is none, or not one."""
    section, found = "", []
    for line in map(str.strip, keyring.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == USER and line.partition("=")[0].strip() == "key":
            found.append(line.partition("=")[2].strip())
    if len(found) != 1 or not found[0]:
        raise StoreError(f"the keyring has {len(found)} keys of {USER}, not one")
    return found[0]


def _way(verb: str) -> Path:
    """Return the file that does `verb`: that for kernels with one major number for all devices, where they have it."""
    single = BUS / f"{verb}_single_major"
    return single if single.exists() else BUS / verb
