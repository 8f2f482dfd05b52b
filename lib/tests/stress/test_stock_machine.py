"""A stock machine as the suite's own: a fresh clone, the lab under its systemd and cgroup v2, every test of the gate.

It is emulated, and so ten to twenty times slower than others: two to three hours, in the long form alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infrabench.core import Host, Result
from infrabench.machines.sites.inventory import open_hosts
from infrabench_platforms.lab import images
from tests.support import stock_guests
from tests.support.gate import EMULATED
from tests.support.places import LIB, ROOT
from tests.support.storm import in_long_form
from tests.support.tiers import without_lab

LACKING = without_lab() or stock_guests.without_emulator()
pytestmark = [
    pytest.mark.timeout(6 * 3600),
    in_long_form,
    pytest.mark.skipif(LACKING is not None, reason=f"not run: {LACKING}"),
]
PYTHON = "3.13"  # of the stock machine
SETUPTOOLS = "setuptools==84.2.1"  # builds the two packages that have no wheel
CARGO = "/srv/cargo"  # what the machine would have from a network
INDEX = f'no-index = true\nfind-links = ["{CARGO}/wheels"]\n'
SUITE = "/root/infrabench"
CLONE = f"""
set -eu
mkdir -p /var/lib/infrabench
cd {CARGO}
for part in *.tar; do
  tar --numeric-owner -xf $part
  rm $part
done
cd /root
mkdir -p .config/uv .config/pip
printf '%s' '{INDEX}' >.config/uv/uv.toml
printf '[global]\\nno-index = true\\nfind-links = {CARGO}/wheels\\n' >.config/pip/pip.conf
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends {" ".join(stock_guests.README)}
git clone -q {CARGO}/suite.bundle {SUITE}
cd {SUITE}
make env
scripts/system-packages containers
mv {CARGO}/images /var/lib/infrabench/
"""
LONGEST_S = 4 * 3600.0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A stock machine with a clone of the checkout's last commit and its environment; the lab's images are there."""
    with stock_guests.open_project(tmp_path_factory.mktemp("project"), 1) as path:
        inventory = stock_guests.read_hosts(path)
        with open_hosts(inventory, inventory.hosts) as opened:
            host = opened["server"]
            for part in _pack_cargo(path.parent):
                host.put_file(part, f"{CARGO}/{part.name}")
                part.unlink()
            _run(host, CLONE)
            yield host


def _pack_cargo(folder: Path) -> Iterator[Path]:
    """Yield tar files with a clone's bundle, the packages of the environment and the images of the lab."""
    bundle, wheels = folder / "suite.bundle", folder / "wheels"
    subprocess.run(["git", "-C", ROOT, "bundle", "create", "-q", bundle, "HEAD"], check=True, timeout=60)
    download = [Path(sys.prefix) / "tools/bin/python", "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
    locks = [word for name in ("requirements", "tools") for word in ("-r", LIB / f"{name}.lock")]
    subprocess.run([*download, "--python-version", PYTHON, *locks], check=True, timeout=600)
    subprocess.run([*download, SETUPTOOLS], check=True, timeout=60)
    parts = {"clone": {bundle: "suite.bundle", wheels: "wheels"}}
    for image in map(images.make, ("guest", "node")):
        parts[image.kind] = {image.folder: f"images/{image.folder.name}"}
    for name, content in parts.items():
        # A file of 1.7 GB once lost the connection to an emulated sshd; those of 0.4 GB never did.
        with tarfile.open(folder / f"{name}.tar", "w:gz", compresslevel=1) as tar:
            for path, there in content.items():
                tar.add(path, there)
        yield folder / f"{name}.tar"


def _run(host: Host, script: str) -> Result:
    """Run a shell script there, and fail with the end of what it prints where it does."""
    result = host.run(("sh", "-c", script), timeout_s=LONGEST_S)
    assert result.ok, b"\n".join((result.stdout[-4000:], result.stderr[-4000:])).decode(errors="replace")
    return result


def test_the_lab_is_made_on_a_stock_machine_and_leaves_it_as_it_was(
    machine: Host, record_property: Callable[[str, object], None]
) -> None:
    before, begun_s = _run(machine, stock_guests.STATE), time.monotonic()
    chosen = "PROFILE=smoke SYSTEMS=native,lxc WORKLOADS=sysbench-cpu,startup RUNS=2 SESSION=stock"
    _run(machine, f"cd {SUITE} && make run {chosen}")
    record_property("seconds", round(time.monotonic() - begun_s))
    _run(machine, f"cd {SUITE} && .venv/bin/infrabench session verify data/runs/containers/stock")
    _run(machine, f"test -s {SUITE}/out/report/index.html")
    after = _run(machine, stock_guests.STATE)
    lines = ({"server": each.stdout.decode().splitlines()} for each in (before, after))
    changed = stock_guests.list_changes(*lines)
    assert not changed, changed


def test_the_gate_is_green_on_a_stock_machine(machine: Host, record_property: Callable[[str, object], None]) -> None:
    begun_s = time.monotonic()
    options = f"{EMULATED}=1 TESTS='-v --timeout {LONGEST_S:.0f} -o faulthandler_timeout=0'"
    said = _run(machine, f"cd {SUITE} && {options} make test 2>&1 | tee /root/gate.log").stdout.decode()
    record_property("seconds", round(time.monotonic() - begun_s))
    assert re.fullmatch(r"=+ \d+ passed.* =+", said.splitlines()[-1]), said[-8000:]
