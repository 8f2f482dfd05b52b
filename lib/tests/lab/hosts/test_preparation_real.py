"""Hosts prepared for real: a Debian root with its apt and dpkg, a repository of packages, and Fabric over SSH."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench import cli
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.prepare import plan
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs
from tests.support.debian import package, publish
from tests.support.sandbox import Sandbox, sandbox
from tests.support.ssh_server import serving

SYSTEMCTL = """#!/bin/sh
[ "$1" = mask ] || exit 1
shift
for unit; do ln -sf /dev/null "/etc/systemd/system/$unit"; done
"""
SOURCES = """
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
"""
ARGUMENTS = ("--study", "containers", "--systems", "native", "--workloads", "iozone,web")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as root has it on Debian
# An installation that lasts until the test lets it end, and at most a minute.
POSTINST = "for _ in $(seq 600); do [ ! -e /srv/go-on ] || { touch /srv/ended; exit 0; }; sleep 0.1; done; exit 1"
RUN = Callable[..., tuple[int, str, str]]


def _root(machine: Sandbox) -> Path:
    """Return the machine's files as its own processes see them."""
    return Path(f"/proc/{machine.pid}/root")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Sandbox]:
    """A Debian machine with a repository of its own and nothing of ours, whose lists were never brought up to date."""
    with sandbox("guest") as made:
        made.sh(SOURCES)
        made.run(("sh", "-c", 'cat >"$1"; chmod 755 "$1"', "sh", "/usr/local/sbin/systemctl"), timeout_s=10,
                 stdin=SYSTEMCTL.encode())  # fmt: skip
        packages = [
            package(tmp_path, "iozone3", "3.489-1", "iozone", depends="iozone-common"),
            package(tmp_path, "iozone-common", "3.489-1"),
            package(tmp_path, "apache2", "2.4-1", "apache2"),
            package(tmp_path, "apache2-utils", "2.4-1", "ab"),
        ]
        publish(packages, _root(made) / "srv/repository")
        yield made


@contextmanager
def _inventory(folder: Path, machine: Sandbox, *into: str) -> Iterator[Path]:
    """Yield an inventory whose server is the machine, over SSH."""
    inside = ("nsenter", f"--target={machine.pid}", "--mount", "--net", "--pid", "--root", "--wd", "env", PATH, *into)
    folder.mkdir(exist_ok=True)
    with serving(folder, into=inside) as login:
        data = {"name": "one", "known_hosts": str(login.known_hosts), "hosts": {"server": login.machine}}
        file = folder / "hosts.yml"
        file.write_text(yaml.safe_dump(data))
        yield file


@pytest.fixture
def run(capsys: Any) -> RUN:
    def called(*words: object) -> tuple[int, str, str]:
        status = cli.main(["hosts", "prepare", *map(str, words)])
        told = capsys.readouterr()
        return status, told.out, told.err

    return called


def _changed(machine: Sandbox) -> dict[str, str]:
    """Return everything that the machine has of its own, apt's caches aside: path -> what it is."""
    upper = machine.root.parent / "upper"
    found = {}
    for path in upper.rglob("*"):
        if path.is_file() and not path.match("var/cache/apt/*.bin"):
            found[str(path.relative_to(upper))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_a_host_is_made_ready_once_and_then_left_alone(machine: Sandbox, tmp_path: Path, run: RUN) -> None:
    with _inventory(tmp_path / "ssh", machine) as file:
        before = _changed(machine)
        status, shown, _ = run(file, *ARGUMENTS, "--dry-run")
        assert status == 0
        assert _changed(machine) == before
        commands = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
        assert [line.split()[3] for line in commands[:1]] == ["apt-get"]
        assert "apt-get -o DPkg::Lock::Timeout=120 update" in commands[0]
        assert commands[1] == "systemctl mask apache2.service apache-htcacheclean.service"
        assert commands[2].endswith("--no-remove --no-upgrade apache2 apache2-utils iozone3")
        assert [path.name for path in file.parent.glob("*.json")] == []

        status, told, log = run(file, *ARGUMENTS, "--yes")
        assert status == 0, told
        # What ran is what was shown, word for word.
        assert [line.removeprefix("server: ") for line in log.splitlines() if line.startswith("server: ")] == commands
        assert "server: 4 packages and 11 files changed" in told
        assert "  iozone-common: not there -> 3.489-1" in told
        assert machine.sh("readlink /etc/systemd/system/apache2.service") == "/dev/null\n"
        assert machine.sh("stat -c '%U %a' /usr/local/bin/ib-service /var/log/infrabench") == "root 755\nroot 755\n"
        assert machine.sh("ib-data /tmp/data 1000; wc -c </tmp/data") == "1000\n"
        (record,) = file.parent.glob("hosts.prepared-*.json")
        said = json.loads(record.read_text())["hosts"]["server"]
        assert said["packages"]["iozone3"] == {"before": None, "after": "3.489-1"}
        assert said["changed"]["iozone-common"] == [None, "3.489-1"]
        assert said["packages"]["python3"]["before"] == said["packages"]["python3"]["after"] is not None
        last = [line.split("  #")[0].split()[-1] for line in commands]
        assert [each["argv"][-1] for each in said["commands"]] == last

        after = _changed(machine)
        status, told, log = run(file, *ARGUMENTS, "--yes")
        assert status == 0
        assert told.splitlines() == ["server (Debian GNU/Linux 13 (trixie), amd64, root: yes): nothing to do",
                                     "nothing was changed"]  # fmt: skip
        assert "server: " not in log
        assert _changed(machine) == after
        assert list(file.parent.glob("hosts.prepared-*.json")) == [record]

        # Only what is ours and was changed is put right.
        machine.sh("echo more >>/etc/infrabench/web/apache2.conf; echo mine >/etc/infrabench/mine")
        status, told, _ = run(file, *ARGUMENTS, "--yes")
        assert status == 0
        assert "server: 0 packages and 1 file changed\n  /etc/infrabench/web/apache2.conf: written" in told
        assert _changed(machine) == after | {"etc/infrabench/mine": hashlib.sha256(b"mine\n").hexdigest()}


def test_nothing_is_upgraded_or_removed_on_the_way(machine: Sandbox, tmp_path: Path, run: RUN) -> None:
    repository = _root(machine) / "srv/repository"
    old = package(tmp_path, "iozone-common", "1")
    mail = package(tmp_path, "exim4", "4", "exim4")
    for path in (old, mail):
        (_root(machine) / "srv" / path.name).write_bytes(path.read_bytes())
    machine.sh(f"dpkg -i /srv/{old.name} /srv/{mail.name}")
    utils = package(tmp_path / "again", "apache2-utils", "2.5-1", "ab")
    subprocess.run(["dpkg-deb", "--raw-extract", utils, tmp_path / "tree"], check=True)
    control = tmp_path / "tree/DEBIAN/control"
    control.write_text(control.read_text().replace("Description", "Conflicts: exim4\nDescription"))
    subprocess.run(["dpkg-deb", "--build", tmp_path / "tree", utils], check=True, capture_output=True)
    kept = [path for path in repository.glob("*.deb") if "utils" not in path.name and "common" not in path.name]
    common = package(tmp_path / "again", "iozone-common", "3.489-1")
    iozone = package(tmp_path / "again", "iozone3", "3.489-1", "iozone", depends="iozone-common (>= 3)")
    publish([*(path for path in kept if "iozone3" not in path.name), utils, common, iozone], repository)
    machine.sh("apt-get -qq update")
    with _inventory(tmp_path / "ssh", machine) as file:
        status, told, _ = run(file, *ARGUMENTS, "--yes")
        assert status == 1
        assert "installing iozone3 (for iozone) would upgrade what is there: iozone-common 1 -> 3.489-1" in told
        assert "installing apache2-utils (for web) would remove exim4" in told
        assert "server: 1 package and 11 files changed" in told
        listed = machine.sh("dpkg-query -W -f='${Package} ${Version}\\n' apache2 exim4 iozone-common")
        assert listed.splitlines() == ["apache2 2.4-1", "exim4 4", "iozone-common 1"]
        status, told, _ = run(file, *ARGUMENTS, "--workloads", "iozone", "--yes", "--upgrade")
        assert status == 0, told
        assert "  iozone-common: 1 -> 3.489-1" in told


def test_a_host_that_fails_is_named_and_the_others_go_on(machine: Sandbox, tmp_path: Path, run: RUN) -> None:
    bad = package(tmp_path / "bad", "iozone3", "9-1", "iozone", postinst="echo it cannot be >&2; exit 1")
    repository = _root(machine) / "srv/repository"
    publish([*repository.glob("a*.deb"), bad], repository)
    with _inventory(tmp_path / "ssh", machine) as file:
        data = yaml.safe_load(file.read_text())
        data["hosts"]["client"] = {"address": "127.0.0.1", "port": 1}
        file.write_text(yaml.safe_dump(data))
        status, told, log = run(file, *ARGUMENTS, "--yes")
        assert status == 1
        assert "client: failed: client: cannot connect" in told
        assert "server: failed: env DEBIAN_FRONTEND=noninteractive" in told
        assert "iozone3: not there" not in told  # half installed is not installed
        assert "  apache2: not there -> 2.4-1" in told
        assert "not ready: server, client" in log
        (record,) = file.parent.glob("*.json")
        said = json.loads(record.read_text())["hosts"]
        assert "exited with 100" in said["server"]["error"]
        assert said["server"]["changed"] == {"apache2": [None, "2.4-1"]}
        assert "cannot connect" in said["client"]["error"]
        again, told, _ = run(file, *ARGUMENTS, "--yes")
        assert again == 1  # what is half installed is not ready, although its program is there
        assert "  iozone3  9-1  for iozone" in told


def test_without_root_an_administrator_is_told_what_to_run(machine: Sandbox, tmp_path: Path, run: RUN) -> None:
    machine.sh("apt-get -qq update")
    before = _changed(machine)
    with _inventory(tmp_path / "ssh", machine, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") as file:
        status, told, log = run(file, *ARGUMENTS, "--yes")
        assert status == 1
        assert "The login nobody has neither root nor sudo. An administrator has to run there:" in told
        assert "    env DEBIAN_FRONTEND=noninteractive" in told
        assert "/etc/security/limits.d/infrabench.conf" in told or "open files" not in told
        assert "not ready: server" in log
        assert list(file.parent.glob("*.json")) == []
    assert _changed(machine) == before


def test_an_interrupt_lets_the_command_end_and_is_recorded(machine: Sandbox, tmp_path: Path) -> None:
    slow = package(tmp_path / "slow", "apache2", "2.4-2", "apache2", postinst=POSTINST)
    repository = _root(machine) / "srv/repository"
    publish([*repository.glob("i*.deb"), *repository.glob("apache2-utils*"), slow], repository)
    with _inventory(tmp_path / "ssh", machine) as file:
        command = (sys.executable, "-m", "infrabench.cli", "hosts", "prepare", str(file), *ARGUMENTS, "--yes")
        argv = ("env", "--default-signal=INT", *command)  # what a shell starts with & is deaf to interruptions
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr is not None
            assert child.stdout is not None
            for line in child.stderr:
                if " install --yes " in line:
                    break
            child.send_signal(signal.SIGINT)
            for line in child.stderr:
                if line.startswith("Interrupted: "):
                    break
            machine.sh("touch /srv/go-on")
            told = child.stdout.read()
            assert child.wait(60) == 1
        assert "server: failed: interrupted; 2 of its commands have not run" in told
        assert "  apache2: not there -> 2.4-2" in told
        assert (_root(machine) / "srv/ended").exists()
        (record,) = file.parent.glob("*.json")
        assert json.loads(record.read_text())["hosts"]["server"]["changed"]["apache2"] == [None, "2.4-2"]


def test_this_machine_says_the_truth(tmp_path: Path) -> None:
    """The script itself, run here: what is there, what is not, and who we are."""
    (tmp_path / "closed").mkdir(mode=0o500)
    needs = Needs(
        programs={"sh": "dash", "no-such-program": "x", "/etc/passwd": "base-passwd", "/etc/no-such-file": "y"},
        modules={"/dev/null": "null", "/dev/no-such-device": "none"},
        folders=(str(tmp_path), str(tmp_path / "absent"), str(tmp_path / "closed"), "/etc/passwd"),
    )  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    ours = GuestFiles(tuple(File(path, 0o644, b"") for path in ("/etc/passwd", "/etc/no-such-file")))
    found = plan.survey_host(plan.HostPlan("here", LocalHost("here"), needs, ours))
    closed = set() if os.geteuid() == 0 else {str(tmp_path / "closed")}
    assert found.absent == {
        "no-such-program", "/etc/no-such-file", "/dev/no-such-device", str(tmp_path / "absent"), "/etc/passwd", *closed,
    }  # fmt: skip
    assert found.login == getpass.getuser()
    assert (found.root == "yes") == (os.geteuid() == 0)
    assert (found.machine, found.kernel) == (platform.machine(), platform.release())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert found.nofile == (float("inf") if hard == resource.RLIM_INFINITY else hard)
    assert set(found.hashes) - {plan.LIMITS} == {"/etc/passwd"}
    if found.architecture:
        assert found.installed["dpkg"]
    assert sorted(tmp_path.rglob("*")) == before
