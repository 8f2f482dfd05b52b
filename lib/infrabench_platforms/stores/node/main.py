"""The command of a store node: one verb, one JSON object on stdout; if it failed, status 1 and the reason on stderr.

python3 /opt/infrabench/store/main.py CONFIG VERB [WORD...]

One verb is no question: ``watch COMMAND [WORD...]`` runs a command of a client on another node, see `client.watch`.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

from . import block, client, daemons, disks
from .config import MODES, THROTTLES, Config, StoreError, claim, is_ours, load

WATCH = "watch"


class StoreEngine(Protocol):
    """What a module of an engine has. All return plain dicts, or nothing; `StoreError` when it cannot be done.

    `create` finds home, cgroup and both disks made (`disks.device`), and `destroy` everything above them ended.
    """

    def create(self, config: Config) -> None:
        """Make the pool and its volume on the two disks; return when it is clean."""

    def destroy(self, config: Config) -> None:
        """End the engine's daemons and what it holds outside the home; also of what a kill -9 left. Idempotent."""

    def serve(self, config: Config, mode: str) -> None:
        """Begin to serve the volume at `config.endpoint` in this mode; a server of another mode is ended first."""

    def unserve(self, config: Config) -> None:
        """End serving (nothing when it does not); the pool stays."""

    def pids(self, config: Config) -> dict[str, dict[str, int]]:
        """Return {"storage": {name: pid}, "client": {name: pid}} of what runs now."""

    def used(self, config: Config) -> int:
        """Return the bytes of data that the pool holds, counted once and not by copy."""

    def drop(self, config: Config) -> None:
        """Empty the engine's own caches."""

    def throttle(self, config: Config, level: str) -> None:
        """Let a rebuild run as the engine does by itself (``default``), or as fast as it can (``open``)."""

    def fail(self, config: Config, disk: int) -> dict[str, Any]:
        """Lose disk 0 or 1 with what is on it; return {"noticed_s": ...} once the pool says that it is degraded."""

    def replace(self, config: Config, disk: int) -> dict[str, Any]:
        """Give the pool a new, empty disk in its place; return when the rebuild has begun."""

    def state(self, config: Config) -> dict[str, Any]:
        """Return {"clean", "copied_B", "left_B", "detail"}: cheap, it is polled twice a second.

        And ``since_s``, since when it is clean (Unix time), where the system knows that itself.
        """

    def corrupt(self, config: Config, copies: str) -> dict[str, Any]:
        """Damage data of the file area on one disk or, the same data, on both: {"bytes", "places", "disks"}."""

    def scrub(self, config: Config, kind: str) -> dict[str, Any]:
        """Scrub until it ends: {"kind", "examined_B", "errors", "repaired", "unrecoverable", "raw"}.

        {"supported": False} where there is no scrub of that kind.
        """

    def repair(self, config: Config) -> dict[str, Any]:
        """Repair what a scrub has found, until that ends; same answer as `scrub`."""

    def facts(self, config: Config) -> dict[str, Any]:
        """Return {"engine", "version", "pool": {...}}."""

    def evidence(self, config: Config) -> str:
        """Return what tells why something failed: state and ends of logs. Never raises."""


def main(argv: Sequence[str]) -> int:
    """Run one verb; return the exit status."""
    begun_s = time.time()
    try:
        if argv[1:2] == [WATCH] and argv[2:]:
            return client.watch(load(argv[0]), argv[2:])
        if len(argv) < 2 or argv[1] not in VERBS:
            raise StoreError(f"usage: main.py CONFIG VERB [WORD...]; verbs are {', '.join(VERBS)}")
        config = load(argv[0])
        if argv[1] not in ("create", "remake", "destroy") and not is_ours(config):
            raise StoreError(f"there is no store at {config.home}: create it first")
        checks, words = WORDS.get(argv[1], ()), argv[2:]
        checked = [check(word) for check, word in zip(checks, words)]  # noqa: B905 - how many words, the verb tells
        engine = load_engine(config)
        own: dict[str, Callable[..., dict[str, Any]]] = getattr(engine, "VERBS", {})  # what an engine does its own way
        result = {**VERBS, **own}[argv[1]](config, engine, *checked, *words[len(checks) :])
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except TypeError as error:
        sys.stderr.write(f"{argv[1]}: wrong words: {error}\n")
        return 1
    answer = {"verb": argv[1], "begun_s": begun_s, "done_s": time.time(), **result}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def load_engine(config: Config) -> StoreEngine:
    """Return the module of the store's engine."""
    try:
        return cast(StoreEngine, importlib.import_module(f".{config.engine}", __package__))
    except ModuleNotFoundError as error:
        raise StoreError(f"unknown engine {config.engine!r}") from error


def create(config: Config, engine: StoreEngine) -> dict[str, Any]:
    """Make the store from nothing; what an earlier one of that name left is removed first."""
    destroy(config, engine)
    claim(config)
    daemons.group(config)
    for disk in range(config.copies if config.disk_bytes else 0):
        disks.make(config, disk)
    engine.create(config)
    return {}


def destroy(config: Config, engine: StoreEngine) -> dict[str, Any]:
    """Remove everything of the store; nothing that does not carry our label."""
    there = is_ours(config)
    block.end(config)
    engine.destroy(config)
    daemons.end_all(config)
    for device in disks.attached_devices(config.home):
        disks.detach(device)
    if there:
        shutil.rmtree(config.home)
    return {}


def usage(config: Config, engine: StoreEngine) -> dict[str, Any]:
    """Return what was used so far: CPU and memory by process and machine, space of the pool and of the disks.

    CPU time is read first and, as ``done``, once more at the end: what the question itself takes is in between. The
    pool's own figures may be a second or two old: waiting for new ones would be part of what is measured.
    """
    pids = engine.pids(config)
    if fuse := daemons.alive(config, block.FUSE):
        pids["client"][block.FUSE] = fuse

    def read_cpu() -> dict[str, Any]:
        return {**{kind: daemons.usage(each) for kind, each in pids.items()}, **daemons.kernel()}

    begun = read_cpu()
    pool = {"used_B": engine.used(config), "disk_B": disks.allocated_bytes(config)}
    return {**begun, "memory": daemons.limit(config), "pool": pool, "done": read_cpu()}


def facts(config: Config, engine: StoreEngine) -> dict[str, Any]:
    """Return what the store is, with what is alike for all engines."""
    shared = {"memory": daemons.limit(config), "disk_bytes": config.disk_bytes, "cache_bytes": config.cache_bytes}
    return {**shared, **engine.facts(config)}


def evidence(config: Config, engine: StoreEngine) -> dict[str, Any]:
    """Return what tells why something failed; what the memory limit has ended is a reason, and goes to stderr too."""
    text = engine.evidence(config)
    if kills := daemons.count_kills(config):
        cause = f"the store's memory limit of {config.memory_bytes} bytes has ended {kills} of its processes"
        sys.stderr.write(f"{cause}\n")
        text = f"# {cause}\n{text}"
    return {"evidence": text}


def _one_of(known: Sequence[str], word: str) -> str:
    if word not in known:
        raise StoreError(f"{word!r}: take one of {', '.join(known)}")
    return word


def _bytes(word: str) -> int:
    if not word.isdecimal():
        raise StoreError(f"{word!r} is no number of bytes")
    return int(word)


def _throttle(config: Config, engine: StoreEngine, level: str) -> dict[str, Any]:
    engine.throttle(config, level)
    return {"throttle": level}


_mode, _disk = partial(_one_of, MODES), partial(_one_of, ("0", "1"))
# What the words after a verb have to be, whatever the engine does; other verbs take none.
WORDS: dict[str, tuple[Callable[[str], Any], ...]] = {
    "serve": (_mode,), "fill": (_bytes,), "mount": (_mode, _bytes), "throttle": (partial(_one_of, THROTTLES),),
    "fail": (_disk,), "replace": (_disk,), "corrupt": (partial(_one_of, ("one", "both")),),
    "scrub": (partial(_one_of, ("light", "deep")),),
}  # fmt: skip
VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    "create": create,
    "remake": create,
    "destroy": destroy,
    "facts": facts,
    "usage": usage,
    "serve": block.serve,
    "fill": block.fill,
    "empty": block.empty,
    "mount": block.mount,
    "unmount": block.unmount,
    "drop": block.drop,
    "pause": lambda config, engine: daemons.hold(config, held=True),
    "resume": lambda config, engine: daemons.hold(config, held=False),
    "throttle": _throttle,
    "fail": lambda config, engine, disk: engine.fail(config, int(disk)),
    "replace": lambda config, engine, disk: engine.replace(config, int(disk)),
    "state": lambda config, engine: engine.state(config),
    "corrupt": lambda config, engine, copies: engine.corrupt(config, copies),
    "scrub": lambda config, engine, kind: engine.scrub(config, kind),
    "repair": lambda config, engine: engine.repair(config),
    "evidence": evidence,
}
