"""The engine `client`: no disks, but the volume of a store on another node, as a client of that store has it.

Of Ceph it has librbd, in the qemu-nbd that is on the store's own node else: what crosses the network is Ceph's own
protocol. Of others it has nothing to serve: their volume is asked for over NBD at the store's address.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import block, ceph, daemons
from .ceph_cluster import PORT
from .config import NBD_PORT, Config, StoreError

PAUSE_S, ANSWER_S, GONE_S, END_S = 1.0, 2.0, 10.0, 10.0


def create(config: Config) -> None:
    """Write what a client of the cluster has to know, where the store is one."""
    if ceph.FSID in config.options:
        ceph.write_client(config, config.options[ceph.FSID])
        secret = f"[client.admin]\n\tkey = {config.options[ceph.KEY]}\n"
        keyring = config.home / "keyring"
        keyring.touch(mode=0o600)
        keyring.write_text(secret)


def destroy(config: Config) -> None:
    """End the server, if there is one."""
    with contextlib.suppress(StoreError):
        daemons.kill(config, ceph.CLIENT)


def serve(config: Config, mode: str) -> None:
    """Serve the cluster's image on this node; of other stores nothing: they serve their volume themselves."""
    if ceph.FSID not in config.options or daemons.serves(config, ceph.CLIENT, mode):
        return
    unserve(config)
    ceph.serve_image(config, mode)
    config.mode.write_text(mode)


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the server of the cluster's image; nothing of the storage system is here."""
    return daemons.pids(config, (), (ceph.CLIENT,))


def _refuse(*_: Any) -> NoReturn:
    raise StoreError("this is a client: ask the store's own node")


used = throttle = fail = replace = state = corrupt = scrub = repair = facts = _refuse
unserve, drop = ceph.unserve, ceph.drop
evidence = daemons.log_ends


def usage(config: Config, engine: Any) -> dict[str, Any]:
    """Return what the client has used so far: CPU time of its processes and machine, and bytes of its file area."""
    found = engine.pids(config)["client"]
    if fuse := daemons.alive(config, block.FUSE):
        found[block.FUSE] = fuse
    return {"client": daemons.usage(found), **daemons.kernel(), "area": block.moved(config)}


def watch(config: Config, argv: Sequence[str]) -> int:
    """Run a command with this process's streams and return its status; end it when the store does not answer any more.

    What waits for a network that is gone would wait for minutes, and its end would not say why.
    """
    child = subprocess.Popen(argv)
    seen = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(timeout=PAUSE_S)
            return status if status >= 0 else 128 - status
        if _reaches(config):
            seen = time.monotonic()
        elif time.monotonic() - seen > GONE_S:
            # Without it what is written to files ends in an error, and nothing waits in the kernel.
            with contextlib.suppress(StoreError):
                daemons.kill(config, block.FUSE)
            for pid in _descendants(child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=END_S)
            raise StoreError(
                f"the network between client and store is gone, or the store: nothing has answered at {config.address} "
                f"for {GONE_S:.0f} s"
            )


def _descendants(pid: int) -> list[int]:
    """Return a process and all that come from it: fio's jobs are processes of their own, and outlive it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [one for one, parent in parents.items() if parent == each]
    return found


def _reaches(config: Config) -> bool:
    port = PORT if ceph.FSID in config.options else NBD_PORT
    try:
        socket.create_connection((config.address, port), timeout=ANSWER_S).close()
    except OSError:
        return False
    return True


VERBS = {"usage": usage}
