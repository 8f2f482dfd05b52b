"""What a store is told: one JSON file, the same for every verb; and where on the node its things are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

HOMES = Path("/var/lib/infrabench-store")
LABEL = "label.json"
SHOWN = "infrabench-volume-"
GIB = 2**30
NBD_PORT = 10809
MODES = ("default", "strict")
THROTTLES = ("default", "open")


class StoreError(Exception):
    """A verb that did not do what it should; the message goes to stderr and the exit status is 1."""


@dataclass(frozen=True)
class Config:
    """One store. Sizes in bytes.

    `disk_bytes` is the size of each of the `copies` backing files, 0 where there are none; `memory_bytes` the limit of
    the memory cgroup of all daemons; `cache_bytes` what the engine may cache in all; `options` what only one engine
    knows. `address` is where a client on another node reaches the store, empty where there is none; `listens`: the
    volume is served over NBD at that address, and not on a unix socket.
    """

    engine: str
    name: str
    disk_bytes: int
    memory_bytes: int
    cache_bytes: int = GIB
    volume_bytes: int = 128 * GIB
    raw_bytes: int = 64 * GIB  # the raw area; the file area begins behind it
    copies: int = 2
    options: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    listens: bool = False
    homes: str = str(HOMES)

    @property
    def home(self) -> Path:
        """Everything of the store lies below this folder."""
        return Path(self.homes) / self.name

    @property
    def run(self) -> Path:
        """Pid files and sockets."""
        return self.home / "run"

    @property
    def log(self) -> Path:
        """One log a daemon: NAME.log."""
        return self.home / "log"

    @property
    def socket(self) -> Path:
        """The unix socket on which the volume is served over NBD."""
        return self.run / "volume.sock"

    @property
    def mode(self) -> Path:
        """Names the mode of durability that the server of the volume was started in."""
        return self.run / "mode"

    @property
    def endpoint(self) -> Path | tuple[str, int]:
        """Where the volume is served over NBD: the unix socket, or address and port."""
        return (self.address, NBD_PORT) if self.listens else self.socket

    @property
    def uri(self) -> str:
        """The NBD address of the volume."""
        return f"nbd://{self.address}:{NBD_PORT}" if self.listens else f"nbd+unix:///?socket={self.socket}"

    @property
    def mount(self) -> Path:
        """Where the file area is mounted."""
        return self.home / "mount"

    @property
    def fuse(self) -> Path:
        """Where nbdfuse is mounted."""
        return self.home / "fuse"

    @property
    def shown(self) -> Path:
        """The volume as a file. Its name alone tells whose it is: that of its folder goes with nbdfuse."""
        return self.fuse / f"{SHOWN}{self.name}"


def client_name(name: str) -> str:
    """Return what the client on another node is called; short: of a loop device's file the kernel keeps 63 letters."""
    return f"{name}-c"


def load(path: str) -> Config:
    """Return the configuration in a JSON file; `StoreError` for missing or unknown keys, or values without sense."""
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: no configuration: {error}") from error
    if unknown := set(data) - {each.name for each in fields(Config)}:
        raise StoreError(f"{path}: unknown keys: {', '.join(sorted(unknown))}")
    try:
        config = Config(**data)
    except TypeError as error:
        raise StoreError(f"{path}: {error}") from error
    if not config.name.replace("-", "").isalnum() or not config.engine.isidentifier():
        raise StoreError(f"{path}: name {config.name!r} and engine {config.engine!r} must be plain words")
    if not 0 < config.raw_bytes < config.volume_bytes or config.copies != 2:
        raise StoreError(f"{path}: the raw area must be a part of the volume, and copies must be 2")
    if config.listens and not config.address:
        raise StoreError(f"{path}: what listens needs an address")
    return config


def is_ours(config: Config) -> bool:
    """Tell whether the store's home is there and ours; `StoreError` when it is there and does not carry our label."""
    if not config.home.exists():
        return False
    try:
        label = json.loads((config.home / LABEL).read_text())
    except (OSError, ValueError):
        label = {}
    if label.get("infrabench-store") != config.name:
        raise StoreError(
            f"{config.home} does not carry our label: it is not touched. Remove it yourself, or name another"
        )
    return True


def claim(config: Config) -> None:
    """Make the home with its label, before anything else is made in it."""
    if config.home.resolve() != config.home or config.home.parent != Path(config.homes):
        raise StoreError(f"{config.home} is not a folder of {config.homes}: refused")
    config.home.mkdir(parents=True)
    (config.home / LABEL).write_text(json.dumps({"infrabench-store": config.name, "engine": config.engine}))
    for folder in (config.run, config.log):
        folder.mkdir()
