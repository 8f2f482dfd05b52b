"""``scripts/system-packages`` keeps services from starting while it installs, and never a moment longer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.places import ROOT

SCRIPT = ROOT / "scripts/system-packages"
POLICY, LOCK = "/usr/sbin/policy-rc.d", "/run/infrabench-packages.lock"
TOOLS = ("bash", "sh", "chmod", "flock", "grep", "mv", "rm", "cat", "kill")
# Stands for apt-get: says what a package's script would be told, and does with `install` what the test wants.
APT = """#!/bin/sh
[ "$1" = install ] || exit 0
"$POLICY" nginx start; echo "$?" >>"$LOG"
"""


class Machine:
    """The script, with files of its own in the place of this machine's, root, and an apt-get that installs nothing."""

    def __init__(self, folder: Path) -> None:
        self.policy, self.lock, self.log = folder / "policy-rc.d", folder / "lock", folder / "log"
        self._bin, self._script = folder / "bin", folder / "system-packages"
        text = SCRIPT.read_text()
        assert text.count(POLICY) == text.count(LOCK) == 1
        self._script.write_text(text.replace(POLICY, str(self.policy)).replace(LOCK, str(self.lock)))
        self._bin.mkdir()
        for tool in TOOLS:
            (self._bin / tool).symlink_to(shutil.which(tool) or "")
        self.add("id", "#!/bin/sh\necho 0\n")
        self.apt_get(APT)

    def add(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def apt_get(self, text: str) -> None:
        self.add("apt-get", text)

    def start(self, what: str = "paper") -> subprocess.Popen[bytes]:
        env = {"PATH": str(self._bin), "POLICY": str(self.policy), "LOG": str(self.log), "BIN": str(self._bin)}
        return subprocess.Popen(["bash", self._script, what], env=env, stderr=subprocess.PIPE)

    def run(self, what: str = "paper") -> str:
        child = self.start(what)
        said = child.communicate(timeout=20)[1].decode()
        assert child.returncode == 0, said
        return said

    def starts_services(self) -> bool:
        env = {"PATH": os.environ["PATH"]}
        return not self.policy.exists() or subprocess.run([self.policy, "nginx", "start"], env=env).returncode == 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_service_starts_while_packages_are_installed_and_nothing_stays(machine: Machine) -> None:
    machine.run()
    assert machine.log.read_text() == "101\n"
    assert not machine.policy.exists()
    assert machine.lock.stat().st_mode & 0o777 == 0o600  # what others may open, they may lock


def test_lists_that_cannot_be_brought_up_to_date_keep_nothing_from_being_installed(machine: Machine) -> None:
    machine.apt_get(APT.replace("exit 0", "exit 100"))
    assert "apt-get update failed" in machine.run()
    assert machine.log.read_text() == "101\n"


@pytest.mark.parametrize("there", [(), ("pdflatex", "pdffonts")], ids=["install", "nothing to install"])
def test_what_a_killed_run_leaves_stops_nothing_and_goes_with_the_next(machine: Machine, there: Sequence[str]) -> None:
    """It is killed with its apt-get, while it installs."""
    machine.apt_get('#!/bin/sh\n[ "$1" = install ] || exit 0\nkill -9 $PPID $$\n')
    child = machine.start()
    child.communicate(timeout=20)
    assert child.returncode == -signal.SIGKILL
    assert machine.policy.exists()
    assert machine.starts_services()
    machine.apt_get(APT)
    for program in there:
        machine.add(program, "#!/bin/sh\n")
    machine.run()
    assert machine.log.exists() == (not there)
    assert not machine.policy.exists()


def test_apt_get_that_outlives_a_killed_run_still_starts_nothing(machine: Machine) -> None:
    machine.apt_get(f'#!/bin/sh\n[ "$1" = install ] || exit 0\nkill -9 $PPID\n{APT.partition(chr(10))[2]}')
    child = machine.start()
    child.communicate(timeout=20)  # until the last that has its stderr has ended
    assert child.returncode == -signal.SIGKILL
    assert machine.log.read_text() == "101\n"
    assert machine.starts_services()


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 101\n", "#!/bin/sh\n# an administrator's\nexit 104\n"])
def test_a_policy_of_somebody_else_is_not_touched(machine: Machine, text: str) -> None:
    machine.policy.write_text(text)
    machine.policy.chmod(0o755)
    machine.run()
    assert machine.policy.read_text() == text
    assert machine.log.read_text() == f"{text.split()[-1]}\n"


# What installs LXC, as `make run` does on a machine that has none.
BRINGS_LXC = f'{APT}printf "#!/bin/sh\\n" >"$BIN/lxc-start"; chmod 755 "$BIN/lxc-start"\n'


def test_the_bridge_of_lxc_does_not_come_with_the_next_boot(machine: Machine) -> None:
    machine.add("systemctl", '#!/bin/sh\necho "$*" >>"$LOG"\n')
    machine.apt_get(BRINGS_LXC)
    assert "systemctl unmask lxc-net" in machine.run("containers")
    assert machine.log.read_text() == "mask --quiet lxc-net.service\n101\n"
    assert "lxc-net" not in machine.run(
        "containers"
    )  # more is still missing, but LXC's service is somebody's own by now
    assert machine.log.read_text().splitlines()[2:] == ["101"]


@pytest.mark.parametrize("systemctl", ["#!/bin/sh\nexit 1\n", None])
def test_that_it_comes_is_told_where_it_cannot_be_helped(machine: Machine, systemctl: str | None) -> None:
    if systemctl:
        machine.add("systemctl", systemctl)
    machine.apt_get(BRINGS_LXC)
    assert ("systemctl mask lxc-net keeps it off" in machine.run("containers")) == bool(systemctl)
