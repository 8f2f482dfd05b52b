"""`ib-rate` against servers of known behaviour: one that answers, one that is slow, one that breaks, none at all."""

from __future__ import annotations

import http.server
import json
import shutil
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import PLATFORMS

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
PAGE = b"x" * 11264


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with the warnings that the image's build does not ask for."""
    made = tmp_path_factory.mktemp("bin") / "ib-rate"
    source = PLATFORMS / "lab/guest/src/rate.c"
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-o", made, source, "-lm"], check=True)
    return made


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 512
    wait_s = 0.0
    length = len(PAGE)  # what it says that it sends
    status = 200
    asked: int = 0

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that gave up."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        time.sleep(self.server.wait_s)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(self.server.length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(program: Path, server: Server) -> Ask:
    def run(rate: float, seconds: float, timeout_s: float = 1.0, *more: str) -> dict[str, Any]:
        argv = [program, "127.0.0.1", str(server.server_port), "/page"]
        options = ["--rate", str(rate), "--seconds", str(seconds), "--timeout", str(timeout_s), *more]
        done = subprocess.run([*argv, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_every_request_is_begun_and_answered(ask: Ask, server: Server) -> None:
    found = ask(100, 1)
    assert (found["requests"], found["whole"], found["late"], found["broken"]) == (100, 100, 0, 0)
    assert server.asked == 100
    assert 0 < found["p50_s"] <= found["p95_s"] <= found["p99_s"] <= found["p100_s"] < 1
    assert found["rate"] == 100
    assert found["arrivals"] == "poisson"


def test_even_gaps_take_the_time_that_was_asked_for_and_a_seed_gives_the_same_again(ask: Ask) -> None:
    assert ask(50, 1, 1.0, "--even")["elapsed_s"] == pytest.approx(0.98, abs=0.2)
    one, two, other = (ask(50, 1, 1.0, "--seed", seed)["elapsed_s"] for seed in ("7", "7", "8"))
    assert one == pytest.approx(two, abs=0.1)
    assert one != pytest.approx(other, abs=0.005)


def test_a_slow_server_is_asked_as_often_and_its_time_counts_from_the_instant(ask: Ask, server: Server) -> None:
    server.wait_s = 0.2
    found = ask(100, 1)
    assert server.asked == found["whole"] == 100  # a closed loop with one user would have asked five times
    assert found["p50_s"] >= 0.2
    assert found["mean_s"] < 0.6


def test_what_takes_too_long_is_given_up_and_counts_with_its_limit(ask: Ask, server: Server) -> None:
    server.wait_s = 0.5
    found = ask(50, 0.5, 0.1)
    assert (found["whole"], found["late"], found["broken"]) == (0, 25, 0)
    assert found["mean_s"] == found["p50_s"] == found["p100_s"] == pytest.approx(0.1)


@pytest.mark.parametrize(("name", "value"), [("length", 20000), ("length", 100), ("status", 503)])
def test_an_answer_that_is_no_whole_page_is_broken(name: str, value: int, ask: Ask, server: Server) -> None:
    setattr(server, name, value)
    found = ask(50, 0.4, 0.5)
    assert (found["whole"], found["late"], found["broken"]) == (0, 0, 20)
    assert found["mean_s"] == pytest.approx(0.5)


def test_where_nothing_listens_all_are_broken(program: Path, server: Server) -> None:
    argv = [program, "127.0.0.1", "1", "/page", "--rate", "20", "--seconds", "0.5", "--timeout", "0.5"]
    found = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert (found["requests"], found["broken"]) == (10, 10)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["127.0.0.1", "1"], "usage"),
        (["127.0.0.1", "0", "/", "--rate", "1", "--seconds", "1", "--timeout", "1"], "PORT must be"),
        (["nowhere", "1", "/", "--rate", "1", "--seconds", "1", "--timeout", "1"], "nowhere is no address"),
        (["127.0.0.1", "1", "/", "--rate", "1e6", "--seconds", "1000", "--timeout", "1"], "requests: from 1"),
        (["127.0.0.1", "1", "/", "--rate", "x", "--seconds", "1", "--timeout", "1"], "--rate must be"),
        (["127.0.0.1", "1", "/", "--rate", "1", "--seconds", "1"], "are needed"),
        (["127.0.0.1", "1", "/", "--speed", "1"], "unknown option"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str, program: Path) -> None:
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert said in done.stderr
