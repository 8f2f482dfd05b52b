"""The probe of start-up: its times follow each other, it waits for what is not there yet, and says what failed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from infrabench.workloads import _startup_probe, startup, web


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"x" * (web.PAGE_BYTES if self.path == web.PAGE else 3)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def page_port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def probed(port: int, **changes: Any) -> subprocess.CompletedProcess[str]:
    asked = {
        "create": ["true"], "exec": ["env"], "address": "127.0.0.1", "port": port, "path": web.PAGE,
        "bytes": web.PAGE_BYTES, "limit_s": 5.0, "start": ["true"], "stop": ["true"], **changes,
    }  # fmt: skip
    argv = [sys.executable, "-c", startup.PROBE.read_text(), json.dumps(asked)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


def test_probe_times_follow_each_other(page_port: int) -> None:
    done = probed(page_port, create=["sleep", "0.05"], start=["sleep", "0.03"])
    found = json.loads(done.stdout)
    assert found["create_s"] >= 0.05
    assert found["create_s"] < found["first_command_s"] < found["service_s"]
    assert found["service_s"] - found["first_command_s"] >= 0.03
    assert (found["http_status"], found["http_bytes"], found["exec_tries"]) == (200, web.PAGE_BYTES, 1)


def test_probe_polls_until_the_first_command_succeeds(page_port: int, tmp_path: Any) -> None:
    flag = tmp_path / "booted"
    script = f'sleep 0.1; touch "{flag}"'
    done = probed(
        page_port,
        create=["sh", "-c", f"({script}) >/dev/null 2>&1 &"],
        exec=["sh", "-c", f'test -e "{flag}" && exec "$@"', "sh"],
    )
    found = json.loads(done.stdout)
    assert found["exec_tries"] > 1
    assert found["first_command_s"] >= 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"create": ["sh", "-c", "echo no image >&2; exit 3"]}, "create ended with 3: no image"),
        ({"exec": ["false"], "limit_s": 0.2}, "did not succeed"),
        ({"path": "/other", "limit_s": 0.2}, "no page from 127.0.0.1"),
    ],
)
def test_probe_says_what_failed(page_port: int, changes: dict[str, Any], said: str) -> None:
    done = probed(page_port, **changes)
    assert done.returncode != 0
    assert said in done.stderr
    assert done.stdout == ""


def test_probe_stops_the_service_when_no_page_comes(page_port: int, tmp_path: Any) -> None:
    stopped = tmp_path / "stopped"
    probed(page_port, path="/other", limit_s=0.2, stop=["touch", str(stopped)])
    assert stopped.exists()


def test_a_hanging_command_ends_at_the_limit() -> None:
    assert _startup_probe.command(["sleep", "5"], 0.1) == (None, "no end")
