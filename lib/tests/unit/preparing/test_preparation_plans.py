"""From what a host needs and has to its commands: which ones, in which order, and what is left to people."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infrabench.machines.sites.prepare import apply, plan
from infrabench.machines.sites.prepare.apply import PreparedHost
from infrabench.machines.sites.prepare.plan import Change, HostJob, HostPlan, HostSurvey
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs
from tests.support.cluster_fakes import Scripted
from tests.support.places import TESTS

GOLDEN = TESTS / "data/preparing/dry-run.txt"
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
    installed={"python3": "3.11", "apache2": "2.4", "apache2-utils": "2.4", "clang": "1:19-1"},
    offered={"python3": "3.11", "apache2": "2.4", "apache2-utils": "2.4", "clang": "1:19-1"},
    hashes={each.path: each.sha256 for each in FILES},
)  # fmt: skip
BARE = {"absent": frozenset(NEEDS.programs) | {"/dev/fuse", "/var/cache/infrabench"}, "installed": {}, "hashes": {}}


@pytest.fixture(autouse=True)
def _steered_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def _has(**other: object) -> HostSurvey:
    return HostSurvey(**({name: getattr(HAS, name) for name in HostSurvey.__slots__} | other))  # type: ignore[arg-type]


def _nothing_else(argv: Sequence[str]) -> tuple[Change, ...]:
    return tuple(Change(name, "", "1") for name in (*_named(argv), "libmore"))


def _named(argv: Sequence[str]) -> list[str]:
    return [word for word in argv[list(argv).index("install") + 1 :] if not word.startswith("--")]


def _older(version: str, floor: str) -> bool:
    """Compare versions such as 1:14-1 by their first number; others are of one age."""
    first, second = (int(text[2:].split("-")[0].rstrip("~")) if text[:2] == "1:" else 0 for text in (version, floor))
    return first < second


def _plan(
    survey: HostSurvey, needs: Needs = NEEDS, files: Sequence[File] = FILES, *, simulate: Callable = _nothing_else,
    no_files: str = "", updated: bool = False, **how: Any,
) -> HostPlan:  # fmt: skip
    """Return the plan for a host whose apt would do what `simulate` says."""

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if argv[0] == "dpkg":
            return 0 if _older(argv[2], argv[4]) else 1, b""
        told = simulate([word for word in argv if word != "--simulate"])
        if isinstance(told, str):
            return 100, told.encode()
        old = [f" [{each.old}]" if each.old else "" for each in told]
        lines = [
            f"Inst {each.package}{had} ({each.new} x)" if each.new else f"Remv {each.package}{had}"
            for each, had in zip(told, old, strict=True)
        ]
        return 0, "\n".join(lines).encode()

    job = HostJob("server", Scripted(answer), needs, GuestFiles(tuple(files), (), no_files), **how)
    return plan.make_plan(job, survey, updated=updated)


def _words(made: HostPlan) -> list[str]:
    return [str(command) for command in made.commands]


def test_a_host_that_has_everything_is_left_alone() -> None:
    made = _plan(HAS)
    assert (made.commands, made.packages, made.unmet) == ((), (), ())
    assert list(apply.render_plans([PreparedHost("server", made)], ())) == [
        "server (Debian GNU/Linux 12 (bookworm), amd64, root: yes): nothing to do"
    ]
    made = _plan(_has(title="Fedora 41", architecture=""))
    assert (made.commands, made.unmet) == ((), ())


def test_the_dry_run_of_a_bare_host_is_this_text() -> None:
    """Every command on every host, in order: one bare, one half ready behind sudo, one that needs people."""
    bare = _plan(_has(**BARE))
    sudo = _plan(_has(
        root="sudo", login="admin", nofile=1024, absent=frozenset({"ab", "/var/cache/infrabench"}),
        installed={"python3": "3.11", "apache2": "2.4", "clang": "1:19-1"}, systemd=False,
    ))  # fmt: skip
    people = _plan(_has(root="no", login="guest", absent=frozenset({"ab"}), installed={"clang": "1:14-1"}))
    other = _plan(_has(title="Fedora 41", architecture="", **BARE))
    told = apply.render_plans(
        [
            PreparedHost("server", bare), PreparedHost("client", sudo), PreparedHost("flannel-control", people),
            PreparedHost("flannel-worker1", other), PreparedHost("flannel-worker2", None, error="login refused"),
        ],
        ["the inventory names no machines for cilium"],
    )  # fmt: skip
    assert "\n".join(told) + "\n" == GOLDEN.read_text()


def test_lists_are_brought_up_to_date_first_where_there_are_none() -> None:
    made = _plan(_has(**{**BARE, "lists": False, "offered": {}}), simulate=_never)
    assert made.updates
    assert _words(made)[0].endswith("apt-get -o DPkg::Lock::Timeout=120 update")
    assert _words(made)[1].startswith("systemctl mask apache2.service")
    assert {each.new for each in made.packages} == {""}
    after = _plan(_has(**{**BARE, "offered": {}}), updated=True)
    assert not after.packages
    assert any("apache2: apt knows no such package (for web, startup)" in each for each in after.problems)


def _never(argv: Sequence[str]) -> tuple[Change, ...]:
    raise AssertionError(argv)


def test_lists_that_are_there_are_believed_unless_asked_otherwise() -> None:
    without = _has(**{**BARE, "offered": {}})
    assert not any("update" in each.split() for each in _words(_plan(without)))
    assert len(_plan(without).problems) == 4
    asked = _plan(_has(absent=frozenset({"ab"})), update=True, simulate=_never)
    assert [command.argv[-1] for command in asked.commands] == ["update"]
    unknown = _plan(without, update=True, simulate=_never)
    assert [each.package for each in unknown.packages] == ["apache2", "apache2-utils", "clang", "python3"]
    assert _plan(_has(**BARE), update=True, simulate=_never).updates


def test_what_is_there_is_upgraded_only_when_asked() -> None:
    old = _has(offered={**HAS.offered, "apache2": "2.5"})
    assert _plan(old).commands == ()
    made = _plan(old, upgrade=True)
    assert [(each.package, each.old, each.new) for each in made.packages] == [("apache2", "2.4", "2.5")]
    assert "--no-upgrade" not in _words(made)[0]
    assert "systemctl mask" not in "".join(_words(made))  # a server that is the host's own


def test_a_package_that_is_too_old_is_told_or_upgraded() -> None:
    old = _has(installed={**HAS.installed, "clang": "1:14-1"})
    assert _plan(old).problems == (
        "clang 1:14-1 is older than the 1:17~ that cilium needs: --upgrade allows a newer one",
    )
    assert [each.package for each in _plan(old, upgrade=True).packages] == ["clang"]
    none = _has(installed={}, offered={**HAS.offered, "clang": "1:14-1"}, absent=frozenset({"clang"}))
    assert _plan(none).problems == ("clang: apt offers 1:14-1, and cilium needs 1:17~ or later",)


def test_a_package_that_was_not_installed_to_the_end_is_lacking() -> None:
    half = _has(half=frozenset({"apache2"}), installed={"python3": "3.11", "apache2-utils": "2.4", "clang": "1:19-1"})
    assert [each.package for each in _plan(half).packages] == ["apache2"]


def test_packages_that_would_take_more_are_told_one_by_one() -> None:
    def simulate(argv: Sequence[str]) -> tuple[Change, ...] | str:
        names = _named(argv)
        found = [Change(name, "", "1") for name in names]
        found += [Change("libc6", "2.36-1", "2.36-2")] if "apache2" in names else []
        found += [Change("exim4", "4", "")] if "clang" in names else []
        return tuple(found)

    made = _plan(_has(**BARE), simulate=simulate)
    assert [each.package for each in made.packages] == ["apache2-utils", "python3"]
    (install,) = (each for each in _words(made) if "install --yes" in each)
    assert install.endswith("--no-upgrade apache2-utils python3")
    assert made.problems == (
        "installing apache2 (for web, startup) would upgrade what is there: libc6 2.36-1 -> 2.36-2. --upgrade allows "
        "it",
        "installing clang (for cilium) would remove exim4: take other systems or workloads, or remove it yourself",
    )
    removing = _plan(_has(**BARE), simulate=simulate, upgrade=True)
    assert [each.package for each in removing.packages] == ["apache2", "apache2-utils", "python3"]


def test_packages_that_only_together_are_impossible_are_told_together() -> None:
    def simulate(argv: Sequence[str]) -> tuple[Change, ...] | str:
        return "E: held broken packages" if len(_named(argv)) > 1 else (Change(_named(argv)[0], "", "1"),)

    made = _plan(_has(**BARE), simulate=simulate)
    assert made.packages == ()
    (problem,) = made.problems
    assert problem == "installing apache2 apache2-utils clang python3 is refused by apt: E: held broken packages"


def test_clusters_are_made_as_root() -> None:
    needs = Needs(programs={"python3": "python3"}, root=True)
    assert _plan(_has(root="sudo", login="me"), needs, ()).problems == (
        "clusters and storage are made as root, and the login is me: log in as root",
    )


def test_limits_are_raised_for_logins_and_told_where_that_has_not_helped() -> None:
    low = {"root": "sudo", "login": "me", "nofile": 1024}
    (command,) = _plan(_has(**low)).commands
    assert command.argv[:3] == ("sudo", "-n", "tar")
    with tarfile.open(fileobj=io.BytesIO(command.stdin)) as tar:
        assert tar.getnames() == [plan.LIMITS.lstrip("/")]
        assert tar.extractfile(tar.getmembers()[0]).read() == b"me - nofile 16384\n"  # type: ignore[union-attr]
    there = File(plan.LIMITS, 0o644, b"me - nofile 16384\n")
    again = _plan(_has(**low, hashes={**HAS.hashes, plan.LIMITS: there.sha256}))
    assert again.commands == ()
    assert "does its SSH server use PAM?" in again.problems[0]
    assert "raise fs.nr_open" in _plan(_has(nr_open=4096)).problems[0]
    assert _plan(_has(nofile=1024)).commands == ()  # root raises its own


def test_programs_of_the_image_are_for_machines_of_its_kind() -> None:
    arm = _plan(_has(**BARE, machine="aarch64"))
    assert not any("tar" in command.argv for command in arm.commands)
    assert any("its programs are for x86_64, not for aarch64" in each for each in arm.problems)
    none = _plan(_has(**BARE), files=(), no_files="it cannot be made here: no mmdebstrap")
    assert "ib-x come with the guest image, and it cannot be made here: no mmdebstrap" in none.problems


def test_an_archive_of_files_is_the_same_for_the_same_files() -> None:
    first, second = (
        [each.stdin for each in _plan(_has(**BARE)).commands if "tar" in each.argv] for _ in range(2)
    )  # fmt: skip
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first[0])) as tar:
        assert [(each.name, each.mode, each.uid, each.isfile()) for each in tar] == [
            ("etc/infrabench/x.conf", 0o644, 0, True), ("usr/local/bin/ib-x", 0o755, 0, True),
        ]  # fmt: skip


@pytest.mark.parametrize("root", ["yes", "sudo"])
def test_no_command_is_a_shells_text(root: str) -> None:
    made = _plan(_has(**BARE, root=root, login="me", nofile=1))
    assert made.commands
    for command in made.commands:
        assert all(isinstance(word, str) and "\n" not in word for word in command.argv)
        assert not {"sh", "bash", "-c", "eval"} & set(command.argv)
        assert 0 < command.timeout_s <= 900
