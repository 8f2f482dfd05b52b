"""From what a host needs and has to its commands: which ones, in which order, and what is left to people."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from infrabench.machines.sites.prepare import apply, plan
from infrabench.machines.sites.prepare.plan import Change, HostPlan, HostSurvey
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs
from tests.support.cluster_fakes import Scripted
from tests.support.places import TESTS

GOLDEN = TESTS / "data/prepare/dry-run.txt"
FILES = (File("/etc/infrabench/x.conf", 0o644, b"x\n"), File("/usr/local/bin/ib-x", 0o755, b"#!/bin/sh\n"))
NEEDS = Needs(
    programs={"python3": "python3", "apache2": "apache2", "ab": "apache2-utils", "ib-x": "", "clang": "clang>=1:17~"},
    modules={"/dev/fuse": "fuse"}, folders=("/var/cache/infrabench",), nofile=16384,
    wanted={
        "python3": ("every study",), "apache2": ("web", "startup"), "ab": ("web",), "ib-x": ("web",),
        "clang": ("cilium",),
    },
)  # fmt: skip
HAS = HostSurvey(
    root="yes", login="root", title="Debian GNU/Linux 12 (bookworm)", kernel="6.1", machine="x86_64",
    architecture="amd64", systemd=True, lists=True, nofile=1048576, nr_open=1048576, absent=frozenset(),
    half=frozenset(),
    installed={"python3": "3.11", "apache2": "2.4", "apache2-utils": "2.4", "clang": "1:19-1"},
    offered={"python3": "3.11", "apache2": "2.4", "apache2-utils": "2.4", "clang": "1:19-1"},
    hashes={each.path: each.sha256 for each in FILES},
)  # fmt: skip
BARE: dict[str, Any] = {
    "absent": frozenset(NEEDS.programs) | {"/dev/fuse", "/var/cache/infrabench"}, "installed": {}, "hashes": {},
}  # fmt: skip


Answer = Callable[[Sequence[str]], Sequence[Change] | str]


@pytest.fixture(autouse=True)
def _steered_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def _nothing_else(names: Sequence[str]) -> Sequence[Change]:
    return [Change(name, "", "1") for name in (*names, "libmore")]


def _never(names: Sequence[str]) -> Sequence[Change]:
    raise AssertionError(names)


def _older(version: str, floor: str) -> bool:
    """Compare versions such as 1:14-1 by their first number; others are of one age."""
    first, second = (int(text[2:].split("-")[0].rstrip("~")) if text[:2] == "1:" else 0 for text in (version, floor))
    return first < second


def _plan(
    needs: Needs = NEEDS, files: Sequence[File] = FILES, *, simulate: Answer = _nothing_else, no_files: str = "",
    updated: bool = False, upgrade: bool = False, update: bool = False, **has: object,
) -> HostPlan:  # fmt: skip
    """Return the plan for a host that has this besides what `HAS` says; its apt would do what `simulate` says."""

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if argv[0] == "dpkg":
            return 0 if _older(argv[2], argv[4]) else 1, b""
        told = simulate([word for word in argv[argv.index("install") + 1 :] if not word.startswith("--")])
        if isinstance(told, str):
            return 100, told.encode()
        lines = [
            (f"Inst {each.package}" if each.new else f"Remv {each.package}")
            + (f" [{each.old}]" if each.old else "") + (f" ({each.new} x)" if each.new else "")
            for each in told
        ]  # fmt: skip
        return 0, "\n".join(lines).encode()

    host = HostPlan("server", Scripted(answer), needs, GuestFiles(tuple(files), (), no_files), upgrade, update)
    return plan.make_plan(host, replace(HAS, **has), updated=updated)  # type: ignore[arg-type]


def _words(made: HostPlan) -> list[str]:
    return [str(command) for command in made.commands]


def _packages(made: HostPlan) -> list[str]:
    return [each.package for each in made.packages]


@pytest.mark.parametrize(
    ("has", "offered", "installs"),
    [
        ({}, {"docker.io": "20.10"}, ["docker.io"]),
        ({}, {"docker.io": "26.1", "docker-cli": "26.1"}, ["docker-cli", "docker.io"]),
        ({"docker.io": "26.1"}, {"docker.io": "26.1", "docker-cli": "26.1"}, ["docker-cli"]),
    ],
)
def test_a_program_that_a_newer_release_has_in_a_package_of_its_own_comes_too(
    has: dict[str, str], offered: dict[str, str], installs: list[str]
) -> None:
    needs = Needs(programs={"docker": "docker.io"}, wanted={"docker": ("docker",)})
    made = _plan(needs, absent=frozenset({"docker"}), installed=has, offered=offered)
    assert (sorted(_packages(made)), made.left) == (installs, ())


def test_a_host_that_has_everything_is_left_alone() -> None:
    made = _plan()
    assert (made.commands, made.packages, made.left) == ((), (), ())
    assert list(apply.render_plans([made], ())) == [
        "server (Debian GNU/Linux 12 (bookworm), amd64, root: yes): nothing to do"
    ]
    made = _plan(title="Fedora 41", architecture="")
    assert (made.commands, made.left) == ((), ())


def test_the_dry_run_of_a_bare_host_is_this_text() -> None:
    """Every command on every host, in order: one bare, one half ready behind sudo, one that needs people."""
    hosts = {
        "server": _plan(**BARE),
        "client": _plan(
            root="sudo", login="admin", nofile=1024, absent=frozenset({"ab", "/var/cache/infrabench"}),
            installed={"python3": "3.11", "apache2": "2.4", "clang": "1:19-1"}, systemd=False,
        ),
        "flannel-control": _plan(root="no", login="guest", absent=frozenset({"ab"}), installed={"clang": "1:14-1"}),
        "flannel-worker1": _plan(title="Fedora 41", architecture="", **BARE),
        "flannel-worker2": replace(_plan(), survey=None, error="login refused"),
    }  # fmt: skip
    named = [replace(each, name=name) for name, each in hosts.items()]
    told = apply.render_plans(named, ["the inventory names no machines for cilium"])
    assert "\n".join(told) + "\n" == GOLDEN.read_text()


def _only_alone(names: Sequence[str]) -> Sequence[Change] | str:
    return "E: held broken\x1b packages" if len(names) > 1 else [Change(names[0], "", "1")]


OLD = {**HAS.installed, "clang": "1:14-1"}


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"installed": OLD}, "clang 1:14-1 is older than the 1:17~ that cilium needs: --upgrade allows a newer one"),
        ({"installed": {}, "offered": OLD, "absent": frozenset({"clang"})},
         "clang: apt offers 1:14-1, and cilium needs 1:17~ or later"),
        ({**BARE, "files": (), "simulate": _only_alone},
         "installing apache2 apache2-utils clang python3 is refused by apt: E: held broken? packages"),
        ({"needs": Needs({"python3": "python3"}, root=True), "files": (), "root": "sudo", "login": "me"},
         "clusters and storage are made as root, and the login is me: log in as root, or with sudo: true"),
        ({"nr_open": 4096}, "its kernel allows 4096 open files, 16384 are needed: raise fs.nr_open"),
        ({**BARE, "machine": "aarch64"}, "ib-x come with the guest image, and its programs are for x86_64, not for "
         "aarch64: steer from such a machine"),
        ({**BARE, "files": (), "no_files": "it cannot be made here: no mmdebstrap"},
         "ib-x come with the guest image, and it cannot be made here: no mmdebstrap"),
    ],
)  # fmt: skip
def test_what_stays_unmet_is_told(how: dict[str, Any], problem: str) -> None:
    made = _plan(**how)
    assert made.problems == (problem,)
    assert not any("tar" in command.argv for command in made.commands)


def test_lists_are_brought_up_to_date_first_where_there_are_none() -> None:
    made = _plan(simulate=_never, **{**BARE, "lists": False, "offered": {}})
    assert made.updates
    assert _words(made)[0].endswith("apt-get -o DPkg::Lock::Timeout=120 update")
    assert _words(made)[1].startswith("systemctl mask apache2.service")
    assert {each.new for each in made.packages} == {""}
    after = _plan(updated=True, **{**BARE, "offered": {}})
    assert not after.packages
    assert any("apache2: apt knows no such package (for web, startup)" in each for each in after.problems)


def test_lists_that_are_there_are_believed_unless_asked_otherwise() -> None:
    without = {**BARE, "offered": {}}
    assert not any("update" in each.split() for each in _words(_plan(**without)))
    assert len(_plan(**without).problems) == 4
    asked = _plan(update=True, simulate=_never, absent=frozenset({"ab"}))
    assert [command.argv[-1] for command in asked.commands] == ["update"]
    unknown = _plan(update=True, simulate=_never, **without)
    assert _packages(unknown) == ["apache2", "apache2-utils", "clang", "python3"]
    assert _plan(update=True, simulate=_never, **BARE).updates


def test_what_is_there_is_upgraded_only_when_asked() -> None:
    newer = {**HAS.offered, "apache2": "2.5"}
    assert _plan(offered=newer).commands == ()
    made = _plan(upgrade=True, offered=newer)
    assert [(each.package, each.old, each.new) for each in made.packages] == [("apache2", "2.4", "2.5")]
    assert "--no-upgrade" not in _words(made)[0]
    assert "systemctl mask" not in "".join(_words(made))  # a server that is the host's own
    assert not made.is_incomplete
    less = {name: version for name, version in HAS.installed.items() if name != "apache2-utils"}
    assert _plan(upgrade=True, offered=newer, installed=less, absent=frozenset({"ab"})).is_incomplete
    assert _plan(upgrade=True, offered=newer, absent=frozenset({"/dev/fuse"})).is_incomplete
    assert _plan(upgrade=True, installed=OLD).is_incomplete  # older than what is needed
    assert _plan(upgrade=True, offered=newer, root="no").ok  # nobody has to come for it
    assert not _plan(upgrade=True, installed=OLD, root="no").ok
    assert _packages(_plan(upgrade=True, installed=OLD)) == ["clang"]


def test_an_upgrade_that_nothing_needs_and_that_cannot_be_leaves_no_need_unmet() -> None:
    def simulate(names: Sequence[str]) -> Sequence[Change]:
        return [Change("exim4", "4", "")] if "apache2" in names else [Change(name, "", "1") for name in names]

    newer = {**HAS.offered, "apache2": "2.5"}
    made = _plan(upgrade=True, offered=newer, simulate=simulate)
    assert (made.ok, made.commands, made.problems) == (True, (), ())
    told = "installing apache2 (for web, startup) would remove exim4: take other systems or workloads, or remove it "
    assert f"  stays as it is: {told}yourself" in apply.render_plans([made], [])
    absent = _plan(upgrade=True, offered=newer, simulate=simulate, absent=frozenset({"apache2"}))
    assert (absent.ok, absent.problems, absent.refusals) == (False, (f"{told}yourself",), ())


def test_a_package_that_was_not_installed_to_the_end_is_lacking() -> None:
    rest = {name: version for name, version in HAS.installed.items() if name != "apache2"}
    assert _packages(_plan(half=frozenset({"apache2"}), installed=rest)) == ["apache2"]


def test_packages_that_would_take_more_are_told_one_by_one() -> None:
    def simulate(names: Sequence[str]) -> Sequence[Change]:
        return [
            *(Change(name, "", "1") for name in names),
            *([Change("libc6", "2.36-1", "2.36-2")] if "apache2" in names else []),
            *([Change("exim4", "4", "")] if "clang" in names else []),
        ]

    made = _plan(simulate=simulate, **BARE)
    assert _packages(made) == ["apache2-utils", "python3"]
    (install,) = (each for each in _words(made) if "install --yes" in each)
    assert install.endswith("--no-remove --no-upgrade apache2-utils python3")
    assert made.problems == (
        "installing apache2 (for web, startup) would upgrade what is there: libc6 2.36-1 -> 2.36-2. --upgrade allows "
        "it",
        "installing clang (for cilium) would remove exim4: take other systems or workloads, or remove it yourself",
    )
    assert _packages(_plan(simulate=simulate, upgrade=True, **BARE)) == ["apache2", "apache2-utils", "python3"]


def test_limits_are_raised_for_logins_and_told_where_that_has_not_helped() -> None:
    low = {"root": "sudo", "login": "me", "nofile": 1024}
    (command,) = _plan(**low).commands
    assert command.argv[:3] == ("sudo", "-n", "tar")
    with tarfile.open(fileobj=io.BytesIO(command.stdin)) as tar:
        assert tar.getnames() == [plan.LIMITS.lstrip("/")]
        assert tar.extractfile(tar.getmembers()[0]).read() == b"me - nofile 16384\n"  # type: ignore[union-attr]
    there = File(plan.LIMITS, 0o644, b"me - nofile 16384\n")
    again = _plan(**low, hashes={**HAS.hashes, plan.LIMITS: there.sha256})
    assert again.commands == ()
    assert "does its SSH server use PAM?" in again.problems[0]
    assert _plan(nofile=1024).commands == ()  # root raises its own


@pytest.mark.parametrize("root", ["yes", "sudo"])
def test_commands_are_words_and_no_shells_text_and_read_an_archive_of_files_alone(root: str) -> None:
    commands, same = (_plan(**BARE, root=root, login="me").commands for _ in range(2))
    assert [each.stdin for each in commands] == [each.stdin for each in same]
    for command in commands:
        assert all(isinstance(word, str) and "\n" not in word for word in command.argv)
        assert not {"sh", "bash", "-c", "eval"} & set(command.argv)
    (unpack,) = (each for each in commands if each.stdin)
    with tarfile.open(fileobj=io.BytesIO(unpack.stdin)) as tar:
        assert [(each.name, each.mode, each.uid, each.isfile()) for each in tar] == [
            ("etc/infrabench/x.conf", 0o644, 0, True), ("usr/local/bin/ib-x", 0o755, 0, True),
        ]  # fmt: skip
