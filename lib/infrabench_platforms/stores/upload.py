"""What is brought to a store node: the program that works there, and what it is told; and how it is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from typing import Any

from infrabench.core import Host, ProvisionError
from infrabench.machines.hosts.host import run_checked
from infrabench_platforms.clusters.hosts import push
from infrabench_platforms.stores.node.config import GIB, Config

FOLDER = "/opt/infrabench/store"
PROGRAM = f"{FOLDER}/main.py"
_LAUNCHER = """#!/usr/bin/python3
import sys
from node.main import main
sys.exit(main(sys.argv[1:]))
"""
SPARE = 1.5  # space on the host's disk for each byte that a trial needs, times the copies: what was freed comes late
LEAST_BYTES = 6 * GIB  # of a disk: both systems keep some of it back, and databases of their own on it
# A listener shares the store of the configuration that it is named after; of a client on another node it is alone.
_REMOVE = """
cd "$1" 2>/dev/null || exit 0
failed=
for each in *.json; do
  case $each in *-listens.json) [ ! -e "${each%-listens.json}.json" ] || continue ;; esac
  [ -e "$each" ] || continue
  python3 main.py "$1/$each" destroy >/dev/null && rm -f "$each" "${each%.json}-listens.json" || failed=1
done
[ -z "$failed" ] || exit 1
cd / && rm -rf "$1"
"""
REMOVE_S = 240.0
_GO = 'folder=$1; shift; rm -f "$@"; ls "$folder"/*.json >/dev/null 2>&1 || rm -rf "$folder"'


def config(name: str, engine: str, disk_bytes: int, memory_bytes: int, options: Mapping[str, str]) -> Config:
    """Return what a store is told: disks with room for twice what one trial needs, whatever else is equal for all."""
    size = max(LEAST_BYTES, 2 * disk_bytes + LEAST_BYTES // 2)
    return Config(engine, name, -(-size // GIB) * GIB, memory_bytes, options=dict(options))


def need_bytes(disk_bytes: int, copies: int, stores: int) -> int:
    """Return how much free space the disk below has to have for `stores` stores that are still to be made."""
    return int(SPARE * copies * max(disk_bytes, GIB) * stores)


def path(of: Config) -> str:
    """Return where a store's configuration lies on its node."""
    return f"{FOLDER}/{of.name}{'-listens' if of.listens else ''}.json"


def command(of: Config) -> tuple[str, ...]:
    """Return the beginning of every command on the store; a verb follows."""
    return ("python3", PROGRAM, path(of))


def bring(host: Host, *configs: Config) -> None:
    """Write the program and a store's configurations to its node."""
    files = {PROGRAM: _LAUNCHER, **{path(of): json.dumps(asdict(of), indent=1) for of in configs}}
    for each in resources.files("infrabench_platforms.stores.node").iterdir():
        if each.name.endswith(".py"):
            files[f"{FOLDER}/node/{each.name}"] = each.read_text(encoding="utf-8")
    push(host, files)


def take_away(host: Host, *configs: Config) -> None:
    """Remove what `bring` has written; the program only when no other store is on that host."""
    run_checked(host, ("sh", "-c", _GO, "sh", FOLDER, *map(path, configs)), timeout_s=30)


def remove(host: Host) -> None:
    """Remove the stores that a killed session has left on a host of its own, daemons and disks included."""
    run_checked(host, ("sh", "-c", _REMOVE, "sh", FOLDER), timeout_s=REMOVE_S)


def ask(host: Host, of: Config, *words: str, timeout_s: float = 120.0) -> dict[str, Any]:
    """Return the answer of a verb that has to succeed; `ProvisionError` with the reason on the node."""
    result = host.run((*command(of), *words), timeout_s=timeout_s)
    if not result.ok:
        reason = result.stderr.decode("utf-8", "replace").strip()[-800:]
        raise ProvisionError(f"{host.name}: store {of.name}: {words[0]} failed: {reason or 'no reason given'}")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer
