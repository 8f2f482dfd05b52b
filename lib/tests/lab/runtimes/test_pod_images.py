"""Images of pods hold what a pod needs, run without anything else, and are the same bytes when made again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import ProvisionError
from infrabench_platforms.lab import pod_images
from tests.unit.lab.test_pod_images import unpacked

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="not run: no gcc here")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("usr/bin/none", "no usr/bin/none"), ("usr/none/", "nothing in"), ("none.so", "no library none")],
)
def test_what_the_packages_do_not_hold_is_an_error(tmp_path: Path, wanted: str, said: str) -> None:
    with pytest.raises(ProvisionError, match=said):
        pod_images.closure(tmp_path, [wanted])


@pytest.fixture
def pause(tmp_path: Path) -> Path:
    """The program of the pause image."""
    entries, _ = pod_images._pause()
    program = tmp_path / "pause"
    program.write_bytes(entries["pause"].data or b"")
    program.chmod(0o755)
    return program


@needs_gcc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pause_waits_takes_in_children_and_ends_when_told(pause: Path, number: signal.Signals) -> None:
    child = subprocess.Popen(["sh", "-c", f"sleep 0.3 & sleep 0.3 & exec {pause}"])
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    deadline = time.monotonic() + 10
    while len(children.read_text().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(children.read_text().split()) == 2
    while children.read_text() and time.monotonic() < deadline:  # a zombie would stay
        time.sleep(0.05)
    assert children.read_text() == ""
    assert child.poll() is None
    child.send_signal(number)
    assert child.wait(5) == 0


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root file system of a pod."""
    root = tmp_path_factory.mktemp("pod")
    _, _, layer = unpacked(pod_images.make("tools").tar.read_bytes())
    layer.extractall(root)
    yield root
    shutil.rmtree(root)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo $0; cat /etc/passwd | grep -c root"], "sh\n1"),
        (["iperf3", "--version"], "iperf 3.12"),
        (["netperf", "-V"], "Netperf version 2.7.0"),
        (["netserver", "-V"], "Netperf version 2.7.0"),
        (["sysbench", "--version"], "sysbench 1.0"),
        (["sysbench", "cpu", "--time=1", "--events=1", "run"], "total number of events:              1"),
        (["ib-stream", "--version"], "1."),
        (["ib-pods", "--version"], "ib-pods 1."),
        (["pi", "20"], "3.1415926535897932384"),
        (["awk", "BEGIN { print 6 * 7 }"], "42"),
        (["timeout", "-k", "1", "5", "cat", "/etc/group"], "root:x:0:"),
        (["sh", "-c", "timeout -s KILL 1 sleep 9; echo $?"], "137"),
        (["sh", "-c", "command -v nc kill sleep grep ip wget"], "nc"),
        (["sh", "-c", "stat -c '%a %u' /tmp /var/tmp /root"], "1777 0\n1777 0\n700 0"),
        (["sh", "-c", "id -un; getent passwd nobody || true"], "root"),
    ],
)  # fmt: skip
def test_a_pod_runs_its_tools(pod: Path, command: list[str], said: str) -> None:
    done = subprocess.run(
        ["chroot", pod, *command], capture_output=True, text=True, timeout=20, env={"PATH": pod_images.PATH}
    )
    assert said in done.stdout + done.stderr, done


def test_a_pod_is_small(pod: Path) -> None:
    files = [path for path in pod.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < 40 * 2**20
    assert not [path for path in files if path.stat().st_mode & 0o6000]
