"""The store's NBD client, against a server of a few lines that says what the protocol says, or something else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infrabench_platforms.stores.node.config import StoreError
from infrabench_platforms.stores.node.nbd import Client

SIZE = 1 << 20
FLAGS = 1 | 1 << 2 | 1 << 5  # has flags, flush, trim
Answer = Callable[[int, int, int, bytes], tuple[int, bytes]]


class Server:
    """Serves one connection after the other; `asked` holds (kind, offset, length, data) of every request."""

    def __init__(self, path: Path, answer: Answer, flags: int, greeting: bytes) -> None:
        self.asked: list[tuple[int, int, int, bytes]] = []
        self._answer, self._flags, self._greeting = answer, flags, greeting
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            with link:
                self._speak(link)

    def _speak(self, link: socket.socket) -> None:
        take = link.makefile("rb").read
        link.sendall(self._greeting)
        try:
            take(4), take(8)
            option, length = struct.unpack(">II", take(8))
            take(length)
            info = struct.pack(">HQH", 0, SIZE, self._flags)
            for kind, body in ((3, info), (1, b"")):
                link.sendall(struct.pack(">QIII", 0x3E889045565A9, option, kind, len(body)) + body)
            while header := take(28):
                _, _, kind, handle, offset, length = struct.unpack(">IHHQQI", header)
                data = take(length) if kind == 1 else b""
                self.asked.append((kind, offset, length, data))
                if kind == 2:
                    return
                error, back = self._answer(kind, offset, length, data)
                link.sendall(struct.pack(">IIQ", 0x67446698, error, handle) + (b"" if error else back))
        except (OSError, struct.error):
            return


GREETING = b"NBDMAGIC" + b"IHAVEOPT" + struct.pack(">H", 3)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., tuple[Path, Server]]]:
    made: list[Server] = []

    def serve(answer: Answer = lambda *_: (0, b""), flags: int = FLAGS, greeting: bytes = GREETING):
        made.append(Server(tmp_path / f"{len(made)}.sock", answer, flags, greeting))
        return tmp_path / f"{len(made) - 1}.sock", made[-1]

    yield serve
    for each in made:
        each.close()


def test_size_reads_and_writes(serving):
    store = bytearray(SIZE)

    def answer(kind: int, offset: int, length: int, data: bytes) -> tuple[int, bytes]:
        if kind == 1:
            store[offset : offset + length] = data
        return 0, bytes(store[offset : offset + length]) if kind == 0 else b""

    path, server = serving(answer)
    with Client(path) as client:
        assert (client.size, client.flags) == (SIZE, FLAGS)
        client.write(4096, b"abc" * 100)
        assert client.read(4090, 12) == bytes(6) + b"abcabc"
        client.flush()
    assert [each[0] for each in server.asked if each[0] != 2] == [1, 0, 3]


def test_a_long_trim_goes_in_steps_and_ends_where_it_should(serving, monkeypatch):
    monkeypatch.setattr("infrabench_platforms.stores.node.nbd.TRIM_STEP", 1000)
    path, server = serving()
    with Client(path) as client:
        client.trim(500, 2500)
    assert [each[1:3] for each in server.asked if each[0] == 4] == [(500, 1000), (1500, 1000), (2500, 500)]


def test_an_error_is_told_and_what_the_server_cannot_is_not_asked(serving):
    path, _ = serving(lambda *_: (5, b""))
    with Client(path) as client, pytest.raises(StoreError, match="request 0 at 7 with error 5"):
        client.read(7, 1)
    path, server = serving(flags=1)
    with Client(path) as client:
        client.flush()
        with pytest.raises(StoreError, match="cannot give space back"):
            client.trim(0, 4096)
    assert [each for each in server.asked if each[0] != 2] == []


def test_a_server_that_answers_no_more_is_a_fault_of_the_store(serving, monkeypatch):
    def time_out(self, length):
        raise TimeoutError("timed out")

    path, _ = serving()
    with Client(path) as client:
        monkeypatch.setattr(Client, "_take", time_out)
        with pytest.raises(StoreError, match="does not answer request 3 at 0: timed out"):
            client.flush()


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", GREETING[:10], b"NBDMAGIC" + b"x" * 10])
def test_what_is_no_nbd_server_is_refused(serving, greeting, monkeypatch):
    path, _ = serving(greeting=greeting)
    with pytest.raises(StoreError):
        Client(path, timeout_s=0.3)


def test_nobody_there(tmp_path):
    with pytest.raises(StoreError, match="no NBD server answers"):
        Client(tmp_path / "none.sock")
