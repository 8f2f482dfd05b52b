"""A machine to borrow, for tests: a root file system, network and processes of its own on this kernel, and no init."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from infrabench.core import NotRunnable, Result
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.lab import images
from infrabench_platforms.lab.shell import locked, require
from tests.support.scripts import write_program

# systemd cannot run here. Stopping a unit kills the process whose id is in its file; the rest is only asked for.
SYSTEMCTL = """verb=$1; shift
for unit in "$@"; do
  file=/run/units/$unit
  case $verb-$unit in stop-*.service) [ ! -e "$file" ] || { kill -9 "$(cat "$file")"; rm "$file"; } ;; esac
done
exit 0
"""
SETUP = """
set -eu
home=$1
mount --make-rprivate /
mkdir -p "$home/upper/usr/local/sbin" "$home/work" "$home/root"
cp "$home/systemctl" "$home/upper/usr/local/sbin/systemctl"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$home/upper,workdir=$home/work" "$home/root"
mount -t proc proc "$home/root/proc"
mount -t sysfs sysfs "$home/root/sys"
mount -t tmpfs tmpfs "$home/root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$home/root/run"
mkdir -p "$home/root/run/systemd/system" "$home/root/run/units" "$home/root/run/mount"
ip link set lo up
ip link add eth0 type veth peer name far0
ip addr add 198.18.0.99/24 dev eth0
ip link set eth0 up
exec chroot "$home/root" sleep 600
"""


class Sandbox(LocalHost):
    """Runs commands in the namespaces of a process."""

    def __init__(self, pid: int, root: Path) -> None:
        super().__init__("borrowed", "198.18.0.99")
        self.pid, self.root = pid, root

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        into = ("nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--root", "--wd")
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return super().run((*into, "env", path, *argv), timeout_s=timeout_s, stdin=stdin)

    def put_file(self, source: Path, path: str) -> None:
        self.run(("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat >"$1"', "sh", path), timeout_s=60,
                 stdin=source.read_bytes())  # fmt: skip

    def sh(self, text: str) -> str:
        """Return what a script that has to succeed printed."""
        result = self.run(("sh", "-seu"), timeout_s=60, stdin=text.encode())
        assert result.ok, (result.status, result.stdout, result.stderr)
        return result.stdout.decode()


@contextmanager
def sandbox(*kinds: str) -> Iterator[Sandbox]:
    """Yield a machine whose root is the lab's image for clusters, which stays as it is; nothing of it stays.

    The test is skipped where there can be no lab. `kinds`: further images of the lab that the test needs.
    """
    try:
        require()
    except NotRunnable as error:
        pytest.skip(f"not run: {error}")
    with locked():
        for kind in kinds:
            images.make(kind)
        rootfs = images.make("cluster").rootfs
    home = Path(tempfile.mkdtemp(prefix="infrabench-test-"))
    write_program(home / "systemctl", SYSTEMCTL)
    child = subprocess.Popen(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SETUP, "sh", home, rootfs],
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 20
        while (inner := _changed_root(child.pid)) is None:
            assert child.poll() is None, child.stderr and child.stderr.read()
            assert time.monotonic() < deadline, "the machine is not ready after 20 s"
            time.sleep(0.02)
        yield Sandbox(inner, home / "root")
    finally:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.wait()
        shutil.rmtree(home, ignore_errors=True)


def _changed_root(parent: int) -> int | None:
    """Return the id of the process inside once its root is its own: before, commands would meet this machine's."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    if children and Path(f"/proc/{children[0]}/root/run/units").is_dir():
        return int(children[0])
    return None
