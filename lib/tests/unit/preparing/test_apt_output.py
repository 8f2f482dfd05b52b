"""What apt and dpkg print is read to the letter, and what is not understood is an error."""

from __future__ import annotations

import pytest

from infrabench.core import ParseError
from infrabench.machines.sites.prepare import survey
from infrabench.machines.sites.prepare.survey import Change

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


def test_candidates_are_those_that_apt_has() -> None:
    assert survey.parse_candidates(POLICY) == {"iozone3": "3.489-1", "sysbench": "1.0.20+ds-5"}
    assert survey.parse_candidates("") == {}


def test_what_would_change_is_read_line_by_line() -> None:
    assert survey.parse_simulation(SIMULATED) == (
        Change("exim4", "4", ""), Change("libuuid1", "2.38-5", "2.38-5+deb12u1"),
        Change("apache2-utils:amd64", "", "2.5-1"), Change("iozone3", "", "1:3.489-1+b2"),
    )  # fmt: skip
    assert survey.parse_simulation("Reading package lists...\n") == ()


@pytest.mark.parametrize("line", ["Inst", "Inst ", "Inst Two (1 x)", "Inst iozone3", "Remv exim4", "Inst ../x (1 y)"])
def test_a_line_that_is_not_understood_is_an_error(line: str) -> None:
    with pytest.raises(ParseError, match="a line that is not understood"):
        survey.parse_simulation(SIMULATED + line + " \n")


def test_installed_packages_are_whole_ones_with_foreign_architectures_named() -> None:
    told = (
        "bash amd64 5.2.15-2+b7 installed\nlibc6 amd64 2.36-9 installed\nlibc6 i386 2.36-9 installed\n"
        "tzdata all 2024a installed\ngone amd64 1 config-files\nhalf amd64 1 half-configured\n\nnoise\n"
    )
    assert survey.parse_installed(told, "amd64") == {
        "bash": "5.2.15-2+b7", "libc6": "2.36-9", "libc6:i386": "2.36-9", "tzdata": "2024a",
    }  # fmt: skip
    assert survey.parse_installed(told, "amd64", half=True) == {"half": "1"}


def test_changes_are_new_gone_and_other_versions() -> None:
    assert survey.compare_versions({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == (
        Change("b", "1", "2"), Change("c", "1", ""), Change("d", "", "1"),
    )  # fmt: skip
