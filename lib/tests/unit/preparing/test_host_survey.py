"""What a host says of itself: its answers are read strictly, shown safely, and asked without changing anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infrabench.core import ParseError, SiteError
from infrabench.machines.sites.prepare import survey
from infrabench.machines.sites.prepare.requirements import Needs
from tests.support.cluster_fakes import Scripted

FACTS = """welcome to this host
fact: uid 1000
fact: login anna
fact: root sudo
fact: system ubuntu debian
fact: title Ubuntu 24.04 LTS
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
fact: end
"""
NEEDS = Needs(programs={"fio": "fio", "sh": "dash"}, modules={"/dev/fuse": "fuse"}, folders=("/var/cache/infrabench",))
HASH = "0" * 64


def _host(facts: str = FACTS, **others: bytes) -> Scripted:
    told = {
        "sh": facts.encode(), "dpkg-query": b"dash amd64 0.5 installed\nfio amd64 3.33 half-configured\n",
        "apt-cache": b"fio:\n  Installed: (none)\n  Candidate: 3.33\n", "sha256sum": f"{HASH}  /etc/x\n".encode(),
        **others,
    }  # fmt: skip
    answer: Callable = lambda argv, stdin: (1 if argv[0] == "sha256sum" else 0, told[argv[0]])  # noqa: E731
    return Scripted(answer)


def test_facts_are_read_and_what_was_not_asked_for_is_not_believed() -> None:
    found = survey.survey_host(_host(), NEEDS, ["/etc/x", "/etc/y"])
    assert (found.root, found.login, found.title) == ("sudo", "anna", "Ubuntu 24.04 LTS")
    assert found.is_debian
    assert found.absent == {"fio", "/dev/fuse"}
    assert (found.nofile, found.nr_open) == (1024, 1048576)
    assert found.installed == {"dash": "0.5"}
    assert found.half == {"fio"}
    assert found.candidates == {"fio": "3.33"}
    assert found.hashes == {"/etc/x": HASH}


def test_half_an_answer_is_none() -> None:
    with pytest.raises(SiteError, match="its answer is not whole"):
        survey.survey_host(_host(FACTS.replace("fact: end\n", "")), NEEDS)
    with pytest.raises(SiteError, match="its answer is not whole"):
        survey.survey_host(_host(""), NEEDS)


def test_what_a_host_says_cannot_take_over_a_terminal() -> None:
    found = survey.survey_host(_host(FACTS.replace("Ubuntu 24.04 LTS", "\x1b[2Jcleared\x07\u202e")), NEEDS)
    assert found.title == "?[2Jcleared??"
    assert survey.printable("a\n\tb\x1b") == "a b?"


@pytest.mark.parametrize("system", ["fedora", "rhel centos", "", "alpine", "arch"])
def test_other_systems_are_not_asked_for_packages(system: str) -> None:
    found = survey.survey_host(_host(FACTS.replace("ubuntu debian", system), **{"dpkg-query": b"never"}), NEEDS)
    assert not found.is_debian
    assert found.installed == {}
    assert found.absent == {"fio", "/dev/fuse"}


def test_limits_that_are_not_numbers_are_no_limits() -> None:
    assert survey.survey_host(_host(FACTS.replace("nofile 1024", "nofile unlimited")), NEEDS).nofile == float("inf")


def test_an_answer_of_apt_that_is_not_understood_is_an_error() -> None:
    host = Scripted(lambda argv, stdin: (0, b"Inst what is this\n"))
    with pytest.raises(ParseError, match="a line that is not understood"):
        survey.simulate_install(host, ("apt-get", "install", "x"))
    refusing = Scripted(lambda argv, stdin: (100, b"E: Unable\x1b to locate package x\n"))
    assert survey.simulate_install(refusing, ("apt-get", "install", "x")) == "E: Unable? to locate package x"


def test_a_host_whose_dpkg_does_not_answer_is_told() -> None:
    host = Scripted(lambda argv, stdin: (2, b"dpkg: broken\n") if argv[0] == "dpkg" else (0, b""))
    with pytest.raises(SiteError, match="--compare-versions"):
        survey.is_older(host, "1", "2")
