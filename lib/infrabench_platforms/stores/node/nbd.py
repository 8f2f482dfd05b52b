"""A small NBD client: is the server ready, how large is the volume, trim and flush. Fixed newstyle, unix socket or TCP.

Source: the NBD protocol description (NetworkBlockDevice/nbd, doc/proto.md).
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from types import TracebackType

from .config import Config, StoreError

MAGIC, OPTIONS = b"NBDMAGIC", b"IHAVEOPT"
REPLY_OPTION, REQUEST, REPLY = 0x3E889045565A9, 0x25609513, 0x67446698
GO, ACK, INFO, INFO_EXPORT = 7, 1, 3, 0
READ, WRITE, DISCONNECT, FLUSH, TRIM = 0, 1, 2, 3, 4
CAN_FLUSH, CAN_TRIM = 1 << 2, 1 << 5
TRIM_STEP = 2**30


def listen_options(config: Config, address: str, socket: str) -> tuple[str, ...]:
    """Return the options by which a server listens where the store is told to, from what it calls either kind."""
    where = config.endpoint
    return (address, where[0], "-p", str(where[1])) if isinstance(where, tuple) else (socket, str(where))


class Client:
    """One connection. `size` is that of the volume in bytes; `flags` are the server's transmission flags."""

    def __init__(self, where: Path | tuple[str, int], timeout_s: float = 60.0) -> None:
        family = socket.AF_INET if isinstance(where, tuple) else socket.AF_UNIX
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(where if isinstance(where, tuple) else str(where))
            self.size, self.flags = self._greet()
        except (OSError, struct.error) as error:
            self._socket.close()
            raise StoreError(f"{where}: no NBD server answers: {error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        try:
            self._socket.sendall(struct.pack(">IHHQQI", REQUEST, 0, DISCONNECT, 0, 0, 0))
        except OSError:
            pass
        finally:
            self._socket.close()

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the volume; `StoreError` with the server's error number when it cannot be read."""
        return self._ask(READ, offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes to the volume."""
        self._ask(WRITE, offset, len(data), data)

    def flush(self) -> None:
        """Return when all that was written is on stable storage."""
        if self.flags & CAN_FLUSH:
            self._ask(FLUSH, 0, 0)

    def trim(self, offset: int, length: int) -> None:
        """Give a range of the volume back; `StoreError` when the server cannot."""
        if not self.flags & CAN_TRIM:
            raise StoreError("the server of the volume cannot give space back")
        for start in range(offset, offset + length, TRIM_STEP):
            self._ask(TRIM, start, min(TRIM_STEP, offset + length - start))

    def _ask(self, kind: int, offset: int, length: int, data: bytes = b"") -> bytes:
        """Send a request, and return what is read; nothing of others. `StoreError` when it is not carried out."""
        try:
            self._socket.sendall(struct.pack(">IHHQQI", REQUEST, 0, kind, 1, offset, length) + data)
            magic, error, handle = struct.unpack(">IIQ", self._take(16))
            if magic != REPLY or handle != 1:
                raise StoreError("the NBD server's answer is not one")
            if error:
                raise StoreError(f"the NBD server answered request {kind} at {offset} with error {error}")
            return self._take(length) if kind == READ else b""
        except OSError as failure:  # too late, or the connection is gone
            raise StoreError(f"the NBD server does not answer request {kind} at {offset}: {failure}") from failure

    def _greet(self) -> tuple[int, int]:
        magic, options, flags = struct.unpack(">8s8sH", self._take(18))
        if magic != MAGIC or options != OPTIONS or not flags & 1:
            raise StoreError("what answers there is no NBD server of the newstyle")
        # Fixed newstyle, no zeroes at the end; the default export, nothing asked for besides.
        body = struct.pack(">IH", 0, 0)
        self._socket.sendall(struct.pack(">I", 1 | (flags & 2)) + OPTIONS + struct.pack(">II", GO, len(body)) + body)
        found = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._take(20))
            payload = self._take(length)
            if magic != REPLY_OPTION or kind & 0x80000000:
                raise StoreError(f"the NBD server refuses its volume: {payload.decode('utf-8', 'replace')[:200]}")
            if kind == INFO and struct.unpack(">H", payload[:2])[0] == INFO_EXPORT:
                found = struct.unpack(">QH", payload[2:12])
            if kind == ACK:
                break
        if found is None:
            raise StoreError("the NBD server does not tell the size of its volume")
        return found

    def _take(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            chunk = self._socket.recv(min(length - len(data), 1 << 20))
            if not chunk:
                raise StoreError("the NBD server ended the connection")
            data += chunk
        return bytes(data)
