"""Asking a Ceph cluster: monitor and manager through librados, a daemon through its admin socket."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .config import Config, StoreError

ANSWER_S = 90  # a monitor commits to its disk first, and other work may have much to write there


class CephConnection:
    """A connection to the cluster as its administrator."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def mon(self, prefix: str, stdin: str = "", **words: Any) -> Any:
        """Return the answer of the monitor to a command, parsed (None when it is empty)."""
        return self._send(self._handle.mon_command, prefix, stdin, words)

    def mgr(self, prefix: str, **words: Any) -> Any:
        """Return the answer of the manager."""
        return self._send(self._handle.mgr_command, prefix, "", words)

    def _send(self, send: Any, prefix: str, stdin: str, words: dict[str, Any]) -> Any:
        command = json.dumps({"prefix": prefix, "format": "json", **words})
        status, answer, why = send(command, stdin.encode(), timeout=ANSWER_S)
        if status:
            raise StoreError(f"ceph {prefix}: {why or 'no reason given'} ({status})")
        return json.loads(answer) if answer.strip() else None


@contextmanager
def connect(config: Config) -> Iterator[CephConnection]:
    """Yield the cluster; `StoreError` when it does not answer."""
    try:
        import rados  # of the package python3-rados; only a store of Ceph has it
    except ImportError as error:
        raise StoreError("python3-rados is not installed") from error
    try:
        handle = rados.Rados(
            conffile=str(config.home / "ceph.conf"), rados_id="admin",
            conf={"client_mount_timeout": str(ANSWER_S), "rados_mon_op_timeout": str(ANSWER_S)},
        )  # fmt: skip
        handle.connect()
    except (rados.Error, OSError) as error:
        raise StoreError(f"the cluster does not answer: {error}") from error
    try:
        yield CephConnection(handle)
    except rados.Error as error:
        raise StoreError(f"the cluster does not answer: {error}") from error
    finally:
        handle.shutdown()


def daemon(path: Path, prefix: str, timeout_s: float = 60.0, **words: Any) -> Any:
    """Return what a daemon answers on its admin socket (bytes that are no JSON as text)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(timeout_s)
        try:
            link.connect(str(path))
            link.sendall(json.dumps({"prefix": prefix, "format": "json", **words}).encode() + b"\0")
            told = bytearray()
            while chunk := link.recv(1 << 16):
                told += chunk
        except OSError as error:
            raise StoreError(f"{path.name} does not answer {prefix!r}: {error}") from error
    if len(told) < 4 or struct.unpack(">I", told[:4])[0] != len(told) - 4:
        raise StoreError(f"{path.name} answers {prefix!r} with something else than its length says")
    text = told[4:].decode("utf-8", "replace").strip()
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
