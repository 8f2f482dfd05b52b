"""What lies in every guest image: its services' configuration and helpers, and the C programs where a compiler is."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from infrabench.workloads import ftp, mail, stream, web
from tests.support.places import PLATFORMS
from tests.support.scripts import load_script

GUEST = PLATFORMS / "lab/guest"
BIN = GUEST / "overlay/usr/local/bin"
ETC = GUEST / "overlay/etc/infrabench"
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
MAIL_LOG = """\
Nov 21 13:00:00 mail postfix/smtpd[9]: connect from unknown[198.18.0.3]
Nov 21 13:00:00 mail postfix/smtpd[9]: A1: client=unknown[198.18.0.3]
Nov 21 13:00:00 mail postfix/qmgr[7]: A1: from=<user1@infrabench.test>, size=1000, nrcpt=1 (queue active)
Nov 21 13:00:00 mail postfix/discard[8]: A1: to=<user2@infrabench.test>, relay=none, delay=0, dsn=2.0.0, status=sent (x)
Nov 21 13:00:01 mail postfix/smtpd[9]: connect from unknown[198.18.0.3]
Nov 21 13:00:01 mail postfix/qmgr[7]: A2: from=<user1@infrabench.test>, size=234, nrcpt=1 (queue active)
Nov 21 13:00:01 mail postfix/smtpd[9]: lost connection after DATA from unknown[198.18.0.3]
Nov 21 13:00:02 mail postfix/smtpd[9]: NOQUEUE: reject: RCPT from unknown[198.18.0.3]: 554 5.7.1 Relay access denied
"""


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    return load_script(BIN / "ib-mail")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two C programs, with the warnings that the image's build does not ask for."""
    folder = tmp_path_factory.mktemp("bin")
    strict = ("gcc", "-Wall", "-Wextra", "-Werror")
    options = ("-O2", "-fopenmp", "-fno-tree-loop-distribute-patterns", "-ffp-contract=off")
    subprocess.run([*strict, *options, "-o", folder / "ib-stream", GUEST / "src/stream.c", "-lm"], check=True)
    subprocess.run([*strict, "-O2", "-o", folder / "ib-data", GUEST / "src/data.c"], check=True)
    return folder


def test_ports_and_pages_agree_with_the_workloads() -> None:
    assert f"Listen 0.0.0.0:{web.PARAMS['port'].default}\n" in (ETC / "web/apache2.conf").read_text()
    assert f"listen_port={ftp.PARAMS['port'].default}\n" in (ETC / "ftp/vsftpd.conf").read_text()
    assert f"anon_root={ftp.FOLDER}\n" in (ETC / "ftp/vsftpd.conf").read_text()
    assert f"0.0.0.0:{mail.PARAMS['port'].default} inet" in (ETC / "mail/master.cf").read_text()
    assert f"maillog_file = {mail.LOG}\n" in (ETC / "mail/main.cf").read_text()
    setup = (GUEST / "setup.sh").read_text()
    assert f"head -c {web.PAGE_BYTES} >/srv/infrabench/web{web.PAGE}\n" in setup


def test_mail_never_leaves() -> None:
    settings = (ETC / "mail/main.cf").read_text()
    assert "\ndefault_transport = error:" in settings
    assert "\nrelay_transport = error:" in settings
    assert "\nsmtpd_relay_restrictions = reject_unauth_destination\n" in settings
    assert (
        int(re.findall(r"^message_size_limit = (\d+)$", settings, re.MULTILINE)[0])
        > 1.1 * 1024 * mail.PARAMS["max_kib"].default
    )
    agents = {line.split()[-1] for line in (ETC / "mail/master.cf").read_text().splitlines() if line[:1] not in "#"}
    assert not agents & {"smtp", "lmtp", "pipe", "local", "virtual"}
    users = (ETC / "mail/users.txt").read_text().split()
    assert all(user.endswith("@infrabench.test") for user in users)


def test_service_helper_refuses_other_words() -> None:
    for arguments in ([], ["start"], ["start", "ssh"], ["jump", "web"]):
        done = subprocess.run(["sh", BIN / "ib-service", *arguments], capture_output=True)
        assert done.returncode == 2


def test_what_the_mail_log_says(helper: ModuleType) -> None:
    assert helper.counted(MAIL_LOG) == {
        "connections": 2, "accepted": 2, "bytes": 1234, "delivered": 1, "problems": 2,
        "said": MAIL_LOG.splitlines()[-2:],
    }  # fmt: skip
    many = helper.counted(MAIL_LOG * 9)
    assert (many["problems"], len(many["said"])) == (18, 5)


FAKE_POSTAL = """
import signal, socket, sys, time
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
peer = socket.socketpair()
log = open("postal.log", "w")
while not ended:
    print("hash", "from", "to", file=log, flush=True)
    time.sleep(0.02)
time.sleep({finish})
print("hash", "from", "to", file=log, flush=True)
for end in peer:
    end.close()
time.sleep(60)
"""


def run_load(tmp_path: Path, finish: float, grace: float) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "postal.py"
    script.write_text(FAKE_POSTAL.format(finish=finish))
    argv = [shutil.which("python3"), BIN / "ib-mail", "load", "--seconds", "0.5", "--grace", str(grace), "--"]
    return subprocess.run([*argv, "python3", script], capture_output=True, text=True, timeout=30)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_load_waits_for_the_last_message(tmp_path: Path) -> None:
    done = run_load(tmp_path, finish=0.3, grace=10)
    found = json.loads(done.stdout)
    assert 0.8 <= found["elapsed_s"] < 3
    assert found["sent"] >= 2


def test_a_load_ends_when_no_connection_is_seen_any_more(helper: ModuleType) -> None:
    """A preemption of half a second between two looks is in the time: messages may have been sent in it."""
    now_s = [0.0]
    looks = iter([(1.0, 1), (1.5, 0), (1.6, 0), (1.7, 0), (1.8, 0), (1.9, 0)])  # until when each takes, what it sees

    def look(pid: int) -> int:
        now_s[0], seen = next(looks)
        return seen

    helper.time = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda seconds: None)
    helper.open_sockets = look
    assert helper.drained(1, 60.0) == 1.5


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_load_that_does_not_finish_is_no_result(tmp_path: Path) -> None:
    done = run_load(tmp_path, finish=30, grace=0.2)
    assert done.returncode == 1
    assert "did not finish within 0.2 s" in done.stderr
    assert done.stdout == ""


def test_load_whose_tool_dies_is_no_result() -> None:
    argv = [BIN / "ib-mail", "load", "--seconds", "5", "--grace", "1", "--", "sh", "-c", "echo bad; exit 3"]
    done = subprocess.run([shutil.which("python3"), *argv], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "postal ended with 3: bad" in done.stderr


@NEEDS_COMPILER
def test_stream_counts_and_validates(built: Path) -> None:
    argv = [built / "ib-stream", "--threads", "2", "--array-bytes", "65536", "--repetitions", "5"]
    report = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert report["valid"] is True
    assert report["threads"] == 2
    assert report["largest_relative_error"] < 1e-11
    for kernel, arrays in stream.ARRAYS_MOVED.items():
        assert report["kernels"][kernel]["bytes"] == arrays * 65536
        assert len(report["kernels"][kernel]["times_s"]) == 5


@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--array-bytes", "1e14"], 3, "do not fit"),
        (["--threads", "0"], 2, "--threads must be a number"),
        (["--repetitions"], 2, "not nothing"),
        (["--seconds", "0"], 2, "--seconds must be a number"),
        (["--seconds", "60", "--array-bytes", "4096", "--threads", "1"], 3, "give a larger --array-bytes"),
        (["--speed", "1"], 2, "unknown argument"),
    ],
)
def test_stream_refuses(built: Path, arguments: list[str], status: int, said: str) -> None:
    done = subprocess.run([built / "ib-stream", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr


@NEEDS_COMPILER
@pytest.mark.parametrize(("seconds", "array_bytes", "thrice"), [(0.2, 800_000, False), (0.001, 16_000_000, True)])
def test_stream_runs_for_a_time_and_thrice_at_least(
    built: Path, seconds: float, array_bytes: int, thrice: bool
) -> None:
    argv = [built / "ib-stream", "--threads", "1", "--array-bytes", str(array_bytes), "--seconds", str(seconds)]
    report = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    times = [report["kernels"][kernel]["times_s"] for kernel in stream.ARRAYS_MOVED]
    assert {len(each) for each in times} == {report["repetitions"]}
    assert (report["repetitions"] == 3) == thrice
    # Between two kernels it only looks at the clock.
    assert sum(map(sum, times)) >= 0.9 * seconds
    assert thrice or sum(sum(each[:-1]) for each in times) < seconds
    assert "started_s" not in report


def waited(built: Path, line: str) -> tuple[float, list[str]]:
    """Return when `line` was written to an ib-stream that waits for one, and the lines that it said."""
    argv = [built / "ib-stream", "--wait", "--threads", "1", "--array-bytes", "80000", "--repetitions", "2"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdin is not None
        assert tool.stdout is not None
        first = tool.stdout.readline()
        written_s = time.time()
        rest, _ = tool.communicate(line, timeout=20)
    return written_s, [first, rest]


@NEEDS_COMPILER
def test_stream_waits_for_a_line_and_for_the_instant_in_it(built: Path) -> None:
    written_s, (ready, rest) = waited(built, "\n")
    assert ready == "ready\n"
    report = json.loads(rest)
    assert written_s < report["awake_s"] == report["started_s"] <= report["begun_s"] < report["ended_s"] < time.time()
    instant_s = time.time() + 0.3
    _, (_, rest) = waited(built, f"{instant_s:.9f}\n")
    report = json.loads(rest)
    assert -0.021 < report["awake_s"] - instant_s < 1
    assert max(report["awake_s"], instant_s) == pytest.approx(report["started_s"], abs=1e-6)
    assert report["started_s"] <= report["begun_s"] + 1e-6
    _, (_, rest) = waited(built, f"{time.time() - 5:.9f}\n")
    report = json.loads(rest)
    assert report["awake_s"] == report["started_s"]  # late, and said so
    _, (_, rest) = waited(built, "")
    assert rest == ""


PREEMPTED = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int readings;
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC && readings++ == 0)
        usleep(100000);
    return status;
}
"""


@NEEDS_COMPILER
def test_a_preemption_at_the_beginning_does_not_shorten_a_run(built: Path, tmp_path: Path) -> None:
    """It is preempted for 0.1 s after it has read the monotonic clock for the first time."""
    (tmp_path / "preempted.c").write_text(PREEMPTED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "preempted.so", tmp_path / "preempted.c"], check=True)
    argv = [built / "ib-stream", "--wait", "--threads", "1", "--array-bytes", "800000", "--seconds", "0.3"]
    environment = {"LD_PRELOAD": str(tmp_path / "preempted.so")}
    done = subprocess.run(argv, input="\n", env=environment, check=True, capture_output=True, text=True, timeout=30)
    report = json.loads(done.stdout.partition("\n")[2])
    assert report["ended_s"] - report["started_s"] >= 0.3


@NEEDS_COMPILER
def test_data_is_the_same_everywhere(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    subprocess.run([built / "ib-data", file, "100001"], check=True)
    data = file.read_bytes()
    assert len(data) == 100001
    assert hashlib.sha256(data).hexdigest() == "14c884234acc3197f70c2653acbcd0e2d8cd982c3575933608ec034c7e95dade"
    before = file.stat().st_mtime_ns
    subprocess.run([built / "ib-data", file, "100001"], check=True)
    assert file.stat().st_mtime_ns == before
    subprocess.run([built / "ib-data", file, "8"], check=True)
    assert file.read_bytes() == data[:8]
    assert not list(tmp_path.glob("*.part"))
