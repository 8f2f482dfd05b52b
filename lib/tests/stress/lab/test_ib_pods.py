"""ib-pods: serving processes on addresses of the loopback, a conductor, and what becomes of everything that fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import wait
from infrabench_platforms.lab import pod_images
from tests.support.started_commands import processes_with, unused_port

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="not run: no gcc here")
SECRET = "a secret of thirty-two characters"
ENVIRONMENT = {**os.environ, "INFRABENCH_TOKEN": SECRET}
KNOWN = struct.pack(">cI", b"A", len(SECRET)) + SECRET.encode()  # what a conductor says first
LISTENER = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep({seconds})"
ASKER = "import socket, sys; socket.create_connection((sys.argv[1], {port}), 5).close(); print(sys.argv[1])"


def ask(argv: Sequence[str | Path], secret: str = SECRET) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "INFRABENCH_TOKEN": secret}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bin") / "ib-pods"
    path.write_bytes(pod_images.pods().data or b"")
    path.chmod(0o755)
    return path


class Pods:
    """Serving processes, as pods of one population."""

    def __init__(self, program: Path, folder: Path, count: int) -> None:
        self.program, self.list = program, folder / "list"
        self.port = unused_port()
        self.addresses = [f"127.0.0.{index + 2}" for index in range(count)]
        self.list.write_text("".join(f"pod-{i + 1:03d} {a}\n" for i, a in enumerate(self.addresses)))
        self.begun_s = time.time()
        self.processes = [self.serve("--address", address) for address in self.addresses]
        for address in self.addresses:
            self.until(lambda address=address: self.answers(address))

    def serve(self, *options: str) -> subprocess.Popen[bytes]:
        argv = [self.program, "serve", "--port", str(self.port), *options]
        return subprocess.Popen(argv, env=ENVIRONMENT, stderr=subprocess.PIPE)

    def answers(self, address: str) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex((address, self.port)) == 0

    @staticmethod
    def until(true: Callable[[], bool]) -> None:
        assert wait.until(true, 10, 0.01)

    def argv(self, verb: str, count: int, *options: str) -> list[str]:
        place = ("--list", str(self.list), "--port", str(self.port))
        return [str(self.program), verb, "-n", str(count), *place, *options]

    def ask(self, verb: str, count: int, *options: str, secret: str = SECRET) -> tuple[int, list[dict[str, Any]]]:
        """Return the conductor's status and the objects that it printed before the last line, which has to be there."""
        done = ask(self.argv(verb, count, *options), secret)
        *rows, last = [json.loads(line) for line in done.stdout.splitlines()]
        assert last == {"end": count}, done.stderr
        return done.returncode, rows

    def run(self, count: int, *command: str, limit_s: float = 10, options: tuple[str, ...] = ()) -> Any:
        """Return the conductor's status, what it said of the run, and of each pod."""
        status, (first, *rows) = self.ask("run", count, "-t", str(limit_s), *options, "--", *command)
        assert (first["count"], len(rows), first["command"]) == (count, count, list(command))
        return status, first, rows

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=10)


@pytest.fixture
def pods(program: Path, tmp_path: Path) -> Iterator[Pods]:
    found = Pods(program, tmp_path, 4)
    yield found
    found.end()


@pytest.fixture
def port() -> int:
    return unused_port()


def serving(pairs: str, port: int, seconds: float = 60) -> tuple[str, ...]:
    """Return the options that make a server listen for so long."""
    words = (sys.executable, "-c", LISTENER.format(port=port, seconds=seconds))
    return ("--pairs", pairs, "--server-port", str(port), *(part for word in words for part in ("--server", word)))


def running(word: str) -> list[int]:
    return processes_with(f"\0{word}\0")


# ----------------------------------------------------------------------------------------------------- what is right


def test_hello_tells_each_ones_start_and_compares_clocks(pods: Pods) -> None:
    status, rows = pods.ask("hello", 4)
    assert status == 0
    assert [row["name"] for row in rows] == ["pod-001", "pod-002", "pod-003", "pod-004"]
    for row in rows:
        assert pods.begun_s < row["started_s"] < time.time()
        assert abs(row["offset_s"]) <= row["round_trip_s"] < 0.1
        assert row["error"] is None


def test_all_start_at_the_instant_and_tell_everything(pods: Pods) -> None:
    script = r"""printf 'a"\\\n\377\001'; echo b >&2; sleep 0.2"""
    status, first, rows = pods.run(4, "sh", "-c", script)
    assert status == 0
    assert first["begun_s"] < first["sent_s"] < first["go_s"]
    for row in rows:
        assert row["stdout"].encode("latin-1") == b'a"\\\n\xff\x01'
        assert (row["stderr"], row["status"], row["signal"], row["timed_out"]) == ("b\n", 0, None, False)
        assert row["role"] == "tool"
        assert -1e-3 < row["start_s"] - row["offset_s"] - first["go_s"] < 0.1
        assert row["ready_s"] < row["start_s"] < row["end_s"] - 0.2


def test_processor_times_are_told_from_the_instant_until_the_last_end(pods: Pods) -> None:
    argv = pods.argv("run", 4, "-t", "10", "--stat", "/proc/stat", "--", "sleep", "0.5")
    done = ask(argv)
    assert done.returncode == 0
    before, after = ([int(word) for word in line.split()[1:]] for line in done.stderr.splitlines())
    ticks = (sum(after[:8]) - sum(before[:8])) / os.cpu_count()  # of 10 ms
    assert 45 < ticks < 75  # the barrier before and the servers' end after it are not in it
    argv[argv.index("/proc/stat")] = "/nowhere/stat"
    lacking = ask(argv)
    assert lacking.stderr == 2 * "ib-pods: /nowhere/stat: No such file or directory\n"


def test_cpu_time_is_that_of_the_job_and_of_what_it_waited_for(pods: Pods) -> None:
    burn = "import os, time; t = time.process_time\nwhile t() < 0.3: pass"
    status, _, (busy, *_) = pods.run(1, "sh", "-c", f'"{sys.executable}" -c "{burn}"; true')
    assert status == 0
    assert 0.3 <= busy["user_s"] + busy["system_s"] < 2
    _, _, (idle,) = pods.run(1, "sleep", "0.3")
    assert idle["user_s"] + idle["system_s"] < 0.1
    assert idle["end_s"] - idle["start_s"] >= 0.3


def test_a_tool_that_waits_is_given_the_instant(pods: Pods) -> None:
    script = 'echo ready; read line; echo "$line"'
    status, first, rows = pods.run(3, "sh", "-c", script, options=("--gate", "stdin"))
    assert status == 0
    for row in rows:
        assert float(row["stdout"]) - row["offset_s"] == pytest.approx(first["go_s"], abs=1e-5)
        assert row["start_s"] < first["go_s"]  # the line is there before its instant


def test_the_first_pair_talks_and_the_others_idle(pods: Pods, port: int) -> None:
    source = ASKER.format(port=port).replace("sys.argv[1], ", "'127.0.0.1', ")
    status, first, rows = pods.run(4, sys.executable, "-c", source, "{peer}", options=serving("first", port))
    assert status == 0
    assert first["pairs"] == "first"
    assert [row["role"] for row in rows] == ["server", "client", "idle", "idle"]
    assert rows[1]["stdout"] == "127.0.0.2\n"
    assert rows[0]["signal"] == signal.SIGTERM
    assert rows[0]["ready_s"] < rows[1]["start_s"] < rows[1]["end_s"] < rows[0]["end_s"]
    assert rows[2]["start_s"] is rows[2]["stdout"] is rows[3]["end_s"] is None


def test_pairs_are_of_odd_and_even_pods(pods: Pods, port: int) -> None:
    status, _, rows = pods.run(2, "echo", "{peer}", "x{peer}", options=serving("all", port))
    assert (status, [row["role"] for row in rows]) == (0, ["server", "client"])
    assert rows[1]["stdout"] == "127.0.0.2 x{peer}\n"


def test_a_server_that_cannot_listen_starts_no_client(pods: Pods, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        status, first, rows = pods.run(2, "true", options=serving("all", port))
    assert (status, first["go_s"]) == (1, None)
    assert rows[0]["error"] == "the server's port is taken"
    options = ("--pairs", "all", "--server-port", str(port), "--server", "false")
    status, first, rows = pods.run(2, "true", options=options)
    assert (status, first["go_s"], rows[0]["error"], rows[0]["status"]) == (1, None, "it ended before it was ready", 1)
    options = ("--pairs", "all", "--server-port", str(port), "--server", "sleep", "--server", "9")
    status, first, rows = pods.run(2, "true", limit_s=0.3, options=options)
    assert (status, first["go_s"], rows[0]["error"]) == (1, None, "it was not ready within 0.3 s")


def test_a_server_that_ends_in_the_middle_is_an_error(pods: Pods, port: int) -> None:
    status, _, rows = pods.run(2, "sleep", "0.8", options=serving("all", port, seconds=0.4))
    assert (status, rows[0]["error"], rows[1]["status"]) == (1, "it ended before it was told to", 0)


# ----------------------------------------------------------------------------------------------------- what fails


def test_status_and_signal_are_told(pods: Pods) -> None:
    status, _, rows = pods.run(2, "sh", "-c", "echo some; exit 3")
    assert status == 1
    assert {(row["status"], row["signal"], row["stdout"], row["error"]) for row in rows} == {(3, None, "some\n", None)}
    status, _, rows = pods.run(1, "sh", "-c", "kill -SEGV $$")
    assert (status, rows[0]["status"], rows[0]["signal"]) == (1, None, signal.SIGSEGV)


def test_a_job_that_takes_too_long_is_killed_with_its_children(pods: Pods) -> None:
    status, _, rows = pods.run(2, "sh", "-c", "sleep 54321 & sleep 54321; true", limit_s=0.4)
    assert status == 1
    assert all(row["timed_out"] and row["signal"] == signal.SIGKILL for row in rows)
    assert all(0.39 < row["end_s"] - row["start_s"] < 3 for row in rows)
    pods.until(lambda: not running("54321"))


def test_what_a_job_leaves_behind_is_killed(pods: Pods) -> None:
    status, _, rows = pods.run(1, "sh", "-c", "sleep 54322 >/dev/null 2>&1 & echo done")
    assert (status, rows[0]["stdout"]) == (0, "done\n")
    pods.until(lambda: not running("54322"))


def test_a_job_dies_with_its_conductor(pods: Pods) -> None:
    argv = pods.argv("run", 2, "-t", "60", "--", "sh", "-c", "sleep 54323; true")
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as conductor:
        pods.until(lambda: len(running("54323")) >= 2)
        conductor.kill()
    pods.until(lambda: not running("54323"))
    assert pods.run(2, "true")[0] == 0


def test_a_pod_that_dies_in_the_middle_is_told_of_and_the_others_are_whole(pods: Pods) -> None:
    argv = pods.argv("run", 3, "-t", "20", "--", "sh", "-c", "sleep 1; echo whole")
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE) as conductor:
        time.sleep(0.7)
        pods.processes[1].kill()
        told, _ = conductor.communicate(timeout=20)
    rows = [json.loads(line) for line in told.splitlines()][1:-1]
    assert conductor.returncode == 1
    assert rows[1]["error"] == "lost: it closed the connection"
    assert rows[1]["stdout"] is None
    assert [rows[0]["stdout"], rows[2]["stdout"]] == ["whole\n", "whole\n"]
    assert pods.ask("hello", 4)[1][1]["error"] == "not reached: Connection refused"


def test_nobody_starts_where_one_never_gets_ready(pods: Pods, tmp_path: Path) -> None:
    once = tmp_path / "once"
    script = f'if mkdir "{once}" 2>/dev/null; then sleep 9; fi; echo ready; read line; echo started >"{once}/$$"'
    status, first, rows = pods.run(3, "sh", "-c", script, limit_s=1, options=("--gate", "stdin"))
    assert (status, first["go_s"]) == (1, None)
    told = sorted(row["error"] for row in rows)
    assert told == ["it was not ready within 1 s", *2 * ["not started, since another pod was not ready"]]
    assert not list(once.iterdir())


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        (("no-such-tool",), (), "cannot run no-such-tool: No such file or directory"),
        (("head", "-c", "1048577", "/dev/zero"), (), "its stdout is larger than 1048576 bytes"),
        (("sh", "-c", "head -c 2000000 /dev/zero >&2"), (), "its stderr is larger than 1048576 bytes"),
        (("sh", "-c", "echo hello; sleep 3"), ("--gate", "stdin"), "it did not say that it is ready, but hello"),
        (("true",), ("--gate", "stdin"), "it ended before it was ready"),
        (("sh", "-c", "setsid sleep 3 & sleep 0.5; echo gone"), (), "a process that it left keeps its output open"),
    ],
)
def test_what_goes_wrong_has_words(pods: Pods, command: tuple[str, ...], options: tuple[str, ...], said: str) -> None:
    status, _, rows = pods.run(2, *command, limit_s=5, options=options)
    assert status == 1
    told = [row["error"] for row in rows]
    assert all(each.startswith((said, "not started, since another pod")) for each in told)
    assert any(each.startswith(said) for each in told)


def test_another_secret_gets_nothing(pods: Pods) -> None:
    for wrong in (SECRET[:-1] + "?", SECRET + "?", SECRET[:-1], SECRET.upper()):
        status, rows = pods.ask("hello", 2, secret=wrong)
        assert status == 1
        assert {(row["error"], row["started_s"]) for row in rows} == {("it has another secret", None)}
    assert pods.ask("hello", 4)[0] == 0


def test_jobs_do_not_see_the_secret(pods: Pods) -> None:
    _, _, rows = pods.run(1, "env")
    assert "PATH=" in rows[0]["stdout"]
    assert SECRET not in rows[0]["stdout"]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">cI", b"A", 2**32 - 1),
        struct.pack(">cI", b"A", len(SECRET)) + SECRET[:5].encode(),
        struct.pack(">cI", b"J", 30) + b"x" * 30,
        KNOWN + struct.pack(">cI", b"J", 3) + b"abc",
        KNOWN + struct.pack(">cI", b"J", 70000),
        KNOWN + struct.pack(">cI", b"?", 0),
        KNOWN + struct.pack(">cI", b"J", 28) + struct.pack(">qqq", ord("e"), 0, -1) + b"abc\0",
        KNOWN + struct.pack(">cI", b"J", 27) + struct.pack(">qqq", ord("e"), 0, 10**9) + b"abc",
    ],
)  # fmt: skip
def test_nonsense_starts_nothing_and_harms_nothing(pods: Pods, said: bytes) -> None:
    with socket.create_connection((pods.addresses[0], pods.port)) as stranger:
        stranger.sendall(said)
        stranger.settimeout(5)
        answer = b""
        try:
            stranger.shutdown(socket.SHUT_WR)
            while piece := stranger.recv(4096):
                answer += piece
        except TimeoutError:
            raise  # it hangs
        except OSError:
            pass  # it went away without reading all of it, perhaps before we had ended
    assert answer[:1] in (b"", b"f")
    assert pods.processes[0].poll() is None
    assert pods.ask("hello", 1)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say serve, hello, run, facts"),
        (["serve", "--port", "70000"], "--port must be a number"),
        (["serve", "--address", "here"], "here is no address"),
        (["serve", "--what"], "does not know --what"),
        (["hello"], "-n says how many pods"),
        (["hello", "-n", "2", "--gate", "exec"], "--gate is not known here"),
        (["hello", "-n", "2", "--stat", "/proc/stat"], "--stat is not known here"),
        (["hello", "-n", "2", "--list", "/nowhere/list"], "/nowhere/list: No such file"),
        (["hello", "-n", "9", "--list", "LIST"], "has 2 pods, 9 are asked for"),
        (["hello", "-n", "2", "--list", "BAD"], "line 2 is no name and address"),
        (["hello", "-n", "0"], "-n must be a number from 1"),
        (["run", "-n", "2", "--", "true"], "-t says how many seconds"),
        (["run", "-n", "2", "-t", "1"], "after -- come 1 to 256 words"),
        (["run", "-n", "2", "-t", "1", "--"], "after -- come 1 to 256 words"),
        (["run", "-n", "2", "-t", "1", "--gate", "open", "--", "true"], "--gate is exec or stdin, not open"),
        (["run", "-n", "2", "-t", "1", "--pairs", "some", "--", "true"], "--pairs is all or first"),
        (["run", "-n", "2", "-t", "1", "--pairs", "all", "--", "true"], "belong together"),
        (["run", "-n", "2", "-t", "1", "--server", "x", "--", "true"], "belong together"),
        (["run", "-n", "1", "-t", "1", "--pairs", "first", "--", "true"], "1 pods are no pairs"),
        (["run", "-n", "3", "-t", "1", "--pairs", "all", "--", "true"], "3 pods are no pairs"),
    ],
)
def test_bad_arguments_are_told(program: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "list").write_text("pod-001 127.0.0.2\npod-002 127.0.0.3\n")
    (tmp_path / "bad").write_text("pod-001 127.0.0.2\npod-002 there\n")
    places = {"LIST": str(tmp_path / "list"), "BAD": str(tmp_path / "bad")}
    argv = [program, *(places.get(word, word) for word in arguments)]
    done = ask(argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("secret", ["", "too short", "x" * 257])
def test_no_secret_no_service(program: Path, tmp_path: Path, secret: str) -> None:
    (tmp_path / "list").write_text("pod-001 127.0.0.2\n")
    for arguments in (["serve"], ["hello", "-n", "1", "--list", str(tmp_path / "list")]):
        done = ask([program, *arguments], secret)
        assert done.returncode == 2
        assert "INFRABENCH_TOKEN must have 16 to 256 bytes" in done.stderr


def test_a_port_that_is_taken_is_told(pods: Pods) -> None:
    second = pods.serve("--address", pods.addresses[0])
    _, said = second.communicate(timeout=10)
    assert second.returncode == 1
    assert b"Address already in use" in said


# ----------------------------------------------------------------------------------------------- a pod's main process


def test_it_is_small_when_idle(pods: Pods) -> None:
    pods.run(4, "head", "-c", "1000000", "/dev/zero")
    for process in pods.processes:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        dirty_kib = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty:"))
        assert dirty_kib <= 128


def test_it_ends_at_once_and_takes_its_job_along(pods: Pods) -> None:
    argv = pods.argv("run", 1, "-t", "60", "--", "sh", "-c", "sleep 54324; true")
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as conductor:
        pods.until(lambda: bool(running("54324")))
        pods.processes[0].terminate()
        assert pods.processes[0].wait(2) == 0
        assert conductor.wait(10) == 1
    pods.until(lambda: not running("54324"))


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: a namespace of processes takes root")
def test_as_the_first_process_it_takes_in_orphans(program: Path, port: int) -> None:
    inner = f"sleep 0.2 & sleep 0.2 & exec {program} serve --address 127.0.0.9 --port {port}"
    argv = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", inner]
    with subprocess.Popen(argv, env=ENVIRONMENT) as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        Pods.until(lambda: bool(children.read_text()))
        first = int(children.read_text())
        comm, inside = Path(f"/proc/{first}/comm"), Path(f"/proc/{first}/task/{first}/children")
        Pods.until(lambda: comm.read_text() == "ib-pods\n")
        Pods.until(lambda: not inside.read_text())
        os.kill(first, signal.SIGTERM)
        assert outer.wait(5) == 0


def test_facts_are_those_of_this_machine(program: Path) -> None:
    found = json.loads(subprocess.run([program, "facts"], check=True, capture_output=True).stdout)
    assert set(found) == {
        "hypervisor", "kernel", "kernel_version", "machine", "cpus", "memory_limit_B", "memory_total_B",
    }  # fmt: skip
    assert (found["kernel"], found["machine"]) == (os.uname().release, os.uname().machine)
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert found["memory_total_B"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    flags = Path("/proc/cpuinfo").read_text()
    assert (found["hypervisor"] is not None) == (" hypervisor" in flags and found["machine"] == "x86_64")
