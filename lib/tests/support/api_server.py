"""An HTTP server that stands for an API: a function of verb, path and body answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERBS = {"GET": "get", "POST": "create", "PUT": "replace", "DELETE": "delete"}  # as kubectl calls them
Answer = Callable[[str, str, bytes], tuple[int, object]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _answer(self) -> None:
        status, found = self.server.answer(VERBS[self.command], self.path.split("?")[0], self._body())
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 (as the base class wants them)

    def _body(self) -> bytes:
        if not self.headers.get("Transfer-Encoding"):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while length := int(self.rfile.readline(), 16):
            found += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    answer: Answer


@contextmanager
def serving_api(answer: Answer) -> Iterator[str]:
    """Yield the URL of an API whose status and JSON are what `answer` returns."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.answer = answer
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
