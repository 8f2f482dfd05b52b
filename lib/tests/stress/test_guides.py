"""Commands of the guides that take seconds run as they stand on their page, and show what the page says they show."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.campaigns import link_programs
from tests.support.guides import EVERY
from tests.support.places import PACKAGES, ROOT


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh clone with what is not committed yet, and this environment in it; one at a time on this machine."""
    folder = tmp_path_factory.mktemp("guides") / "infrabench"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, folder], check=True, timeout=120)
    for part in (ROOT / "docs", *PACKAGES):
        shutil.copytree(part, folder / part.relative_to(ROOT), dirs_exist_ok=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    with open(tmp_path_factory.getbasetemp().parent / "guides.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


APART = """
mount -t tmpfs tmpfs /run
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
ip link set lo up
exec "$@"
"""


def _apart() -> list[str]:
    """Return a prefix for a network and mounts of one's own: what root makes on this machine must not meet a lab."""
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--net", "--mount", "sh", "-ec", APART, "sh"]
    return prefix if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0 else []


@pytest.mark.parametrize("page", sorted({command.page for command in EVERY if command.runs}))
def test_commands_run_as_they_stand_on_the_page(page: str, checkout: Path, tmp_path: Path) -> None:
    programs = link_programs(tmp_path / "bin", "mmdebstrap")  # no image is made for it
    env = {
        key: value for key, value in os.environ.items() if not key.startswith("INFRABENCH_") or key == "INFRABENCH_KATA"
    } | {"PATH": str(programs), "INFRABENCH_STATE": str(tmp_path / "state")}  # fmt: skip
    printed: list[str] = []
    for command in (each for each in EVERY if each.runs and each.page == page):
        argv = [*_apart(), "bash", "-euc", command.line]
        done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{command.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.stdout.strip(), command.line
        printed += done.stdout.splitlines()
    text = (ROOT / "docs" / page).read_text()
    assert set(re.findall(r"^> (.+)$", text, re.MULTILINE)) <= set(printed)
    drawn = [checkout / line for line in printed if line.endswith(".svg")]
    for picture in re.findall(r"^!\[.+\]\(([\w-]+\.svg)\)$", text, re.MULTILINE):
        # else: copy what the command has drawn to docs/, and look at it
        assert any(_are_alike(each.read_text(), (ROOT / "docs" / picture).read_text()) for each in drawn), picture


NUMBER = re.compile(r"-?\d+\.\d+")


def _are_alike(one: str, two: str) -> bool:
    """Return whether two SVG files draw the same; two machines may round a last digit differently."""
    one, two = (re.sub(r'(id="|#)\w+', "", each) for each in (one, two))
    numbers = [[*map(float, NUMBER.findall(each))] for each in (one, two)]
    return NUMBER.sub("", one) == NUMBER.sub("", two) and numbers[0] == pytest.approx(numbers[1], abs=1e-3)


def test_pictures_differ_by_more_than_a_last_digit() -> None:
    picture = '<use xlink:href="#m1a" x="1.25" y="3.000001"/>'
    assert _are_alike(picture, picture.replace("1a", "2b").replace("3.000001", "3.000002"))
    assert not _are_alike(picture, picture.replace("1.25", "1.27"))
    assert not _are_alike(picture, picture.replace("use", "text"))
