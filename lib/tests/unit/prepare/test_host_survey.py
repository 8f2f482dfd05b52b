"""What a host says of itself: its answers are read strictly, shown safely, and asked without changing anything."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench.core import ParseError, SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.prepare import plan
from infrabench.machines.sites.prepare.plan import Change, HostPlan, HostSurvey
from infrabench.machines.sites.prepare.requirements import File, GuestFiles, Needs
from tests.support.cluster_fakes import Scripted
from tests.support.scripts import write_program

HASH = "0" * 64
FACTS = f"""welcome to this host
fact: login anna
fact: root sudo
fact: title Ubuntu 24.04 LTS
fact: system ubuntu debian
fact: machine x86_64
fact: kernel 6.8
fact: systemd yes
fact: lists yes
fact: architecture amd64
fact: nofile 1024
fact: nr_open 1048576
fact: absent fio
fact: absent /dev/fuse
fact: absent something else
fact: package dash amd64 0.5 installed
fact: package fio amd64 3.33 half-configured
fact: offer fio 3.33
fact: file {HASH}  /etc/x
fact: file \x20
fact: end
"""
NEEDS = Needs(programs={"fio": "fio", "sh": "dash"}, modules={"/dev/fuse": "fuse"}, folders=("/var/cache/infrabench",))
# As apt 2.6 and dpkg 1.21 of Debian 12 printed it.
POLICY = """iozone3:
  Installed: (none)
  Candidate: 3.489-1
  Version table:
     3.489-1 500
        500 file:/srv/repository ./ Packages
sysbench:
  Installed: 1.0.20+ds-5
  Candidate: 1.0.20+ds-5
  Version table:
 *** 1.0.20+ds-5 500
        100 /var/lib/dpkg/status
lxd:
  Installed: (none)
  Candidate: (none)
  Version table:
"""
LISTED = """bash amd64 5.2.15-2+b7 installed
libc6 amd64 2.36-9 installed
libc6 i386 2.36-9 installed
tzdata all 2024a installed
gone amd64 1 config-files
never amd64  not-installed
half amd64 1 half-configured
"""
SIMULATED = """NOTE: This is only a simulation!
      apt-get needs root privileges for real execution.
Reading package lists...
The following packages will be REMOVED:
  exim4
Remv exim4 [4] [apache2-utils:amd64 ]
Inst libuuid1 [2.38-5] (2.38-5+deb12u1 Debian:12.1/stable [amd64]) []
Inst apache2-utils:amd64 (2.5-1 localhost [all])
Inst iozone3 (1:3.489-1+b2 Debian:12.8/stable, Debian-Security:12/stable-security [amd64])
Conf apache2-utils (2.5-1 localhost [all])
"""


def _host(status: int = 0, said: str = "", needs: Needs = NEEDS) -> HostPlan:
    """Return the job of a host that answers everything alike."""
    return HostPlan("h", Scripted(lambda argv, stdin: (status, said.encode())), needs, GuestFiles())


def _survey(facts: str = FACTS) -> HostSurvey:
    return plan.survey_host(_host(said=facts))


def _debian(folder: Path, **other: str) -> LocalHost:
    """Return this machine as one whose package tools answer so."""
    for name, text in {"policy": POLICY, "listed": LISTED}.items():
        (folder / f"{name}.txt").write_text(text)
    answers = {
        "apt_get": "exit 1", "dpkg": "echo amd64", "apt_cache": f"cat {folder}/policy.txt",
        "dpkg_query": f"sed 's/^/fact: package /' {folder}/listed.txt", **other,
    }  # fmt: skip
    for name, text in answers.items():
        write_program(folder / name.replace("_", "-"), text)
    return LocalHost("here", environment={"PATH": f"{folder}:{os.environ['PATH']}"})


def test_facts_are_read_and_what_was_not_asked_for_is_not_believed() -> None:
    assert _survey() == HostSurvey(
        root="sudo", login="anna", title="Ubuntu 24.04 LTS", kernel="6.8", machine="x86_64", architecture="amd64",
        systemd=True, lists=True, nofile=1024, nr_open=1048576, absent=frozenset({"fio", "/dev/fuse"}),
        installed={"dash": "0.5"}, half=frozenset({"fio"}), offered={"fio": "3.33"}, hashes={"/etc/x": HASH},
    )  # fmt: skip


@pytest.mark.parametrize("facts", ["", FACTS.replace("fact: end\n", "")])
def test_half_an_answer_is_none(facts: str) -> None:
    with pytest.raises(SiteError, match="its answer is not whole"):
        _survey(facts)


def test_what_a_host_says_cannot_take_over_a_terminal_and_odd_limits_are_none() -> None:
    title = "\x1b[2Jcleared\x07\u202e\tx"
    found = _survey(FACTS.replace("Ubuntu 24.04 LTS", title).replace("nofile 1024", "nofile unlimited"))
    assert (found.title, found.nofile) == ("?[2Jcleared?? x", float("inf"))


needs_debian = pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="asks what only Debian has")


@needs_debian
def test_packages_are_whole_ones_with_foreign_architectures_named(tmp_path: Path) -> None:
    """What apt and dpkg print is read by the script itself."""
    ours = GuestFiles((File(f"{tmp_path}/policy.txt", 0o644, b""), File(f"{tmp_path}/none", 0o644, b"")))
    found = plan.survey_host(HostPlan("h", _debian(tmp_path), NEEDS, ours))
    assert found.installed == {"bash": "5.2.15-2+b7", "libc6": "2.36-9", "libc6:i386": "2.36-9", "tzdata": "2024a"}
    assert found.half == {"half"}
    assert found.offered == {"iozone3": "3.489-1", "sysbench": "1.0.20+ds-5"}
    assert [path for path in found.hashes if path.startswith(str(tmp_path))] == [f"{tmp_path}/policy.txt"]


@needs_debian
@pytest.mark.parametrize("tool", ["dpkg_query", "apt_cache"])
def test_a_host_whose_package_tools_fail_is_told(tmp_path: Path, tool: str) -> None:
    with pytest.raises(SiteError, match="it is broken"):
        plan.survey_host(replace(_host(), host=_debian(tmp_path, **{tool: "echo it is broken >&2; exit 2"})))


@pytest.mark.parametrize("system", ["fedora", "rhel centos", "", "alpine", "arch"])
def test_packages_of_other_systems_are_not_believed(system: str) -> None:
    found = _survey(FACTS.replace("system ubuntu debian", f"system {system}"))
    assert found.architecture == ""
    assert (found.installed, found.half) == ({}, frozenset())
    assert found.absent == {"fio", "/dev/fuse"}


def test_what_would_change_is_read_line_by_line() -> None:
    assert plan.parse_simulation(SIMULATED) == (
        Change("exim4", "4", ""), Change("libuuid1", "2.38-5", "2.38-5+deb12u1"),
        Change("apache2-utils:amd64", "", "2.5-1"), Change("iozone3", "", "1:3.489-1+b2"),
    )  # fmt: skip
    assert plan.parse_simulation("Reading package lists...\n") == ()


@pytest.mark.parametrize("line", ["Inst", "Inst ", "Inst Two (1 x)", "Inst iozone3", "Remv exim4", "Inst ../x (1 y)"])
def test_a_line_of_apt_that_is_not_understood_is_an_error(line: str) -> None:
    with pytest.raises(ParseError, match="a line that is not understood"):
        plan.make_plan(_host(0, f"{SIMULATED}{line} \n"), _survey())


def test_a_host_whose_dpkg_cannot_compare_is_told() -> None:
    with pytest.raises(SiteError, match="--compare-versions"):
        plan.make_plan(_host(2, "dpkg: broken\n", Needs(programs={"sh": "dash>=0.6"})), _survey())


def test_changes_are_new_gone_and_other_versions() -> None:
    before, after = ({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"})
    host = replace(
        _host(), survey=replace(_survey(), installed=before, hashes={"x": "1", "y": "1", "gone": "1"}),
        after=replace(_survey(), installed=after, hashes={"x": "2", "y": "1", "new": "1"}),
    )  # fmt: skip
    assert host.changed == (Change("b", "1", "2"), Change("c", "1", ""), Change("d", "", "1"))
    assert host.written == ("new", "x")
    assert replace(host, after=None).changed == replace(host, survey=None).written == ()
