"""Versions of tools: those that a parser says it reads are those whose outputs its tests have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import Target
from infrabench.experiment.execution import preflight
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import oltp
from tests.support.captures import GOOD, WORKLOADS, case_folders, read
from tests.support.checks import check_each

# What they read is printed by programs of the suite itself, or by none.
OWN = {"cni-agents", "ftp", "integrity", "null", "pods-startup", "pods-stream", "spin", "startup", "stream", "web-rate"}
# Their tools are no packages: the runtime below pods.
NOT_OF_DEBIAN = {"pod-network"}
READERS = sorted(set(WORKLOADS) - OWN)


def reads(name: str) -> tuple[str, ...]:
    return registry.workload(name).READS  # type: ignore[attr-defined]


def untested(name: str, version: str) -> dict[str, dict[str, str]]:
    return preflight.untested({"native": {name: version}}, {name: registry.workload(name)})


def versions(name: str) -> set[str]:
    """Return the versions whose outputs are parsed in tests."""
    return {read(folder)[1]["tool"] for folder in GOOD if folder.parent.name == name}


def test_a_workload_says_which_versions_it_reads_unless_it_reads_its_own_programs() -> None:
    assert {name for name in WORKLOADS if not hasattr(registry.workload(name), "READS")} == OWN


def test_the_versions_that_are_read_are_those_of_the_captured_outputs() -> None:
    def check(name: str) -> list[str]:
        outputs = [f"{version} " for version in versions(name)]
        twice = [f"{each} stands twice" for each, count in Counter(reads(name)).items() if count > 1]
        absent = [each for each in reads(name) if not any(output.startswith(f"{each} ") for output in outputs)]
        more = [f"{version} is missing in READS" for version in sorted(versions(name)) if untested(name, version) != {}]
        return [*twice, *(f"no output of {each}" for each in absent), *more]

    check_each(check, READERS)


def test_every_tool_that_debian_packages_has_an_output_of_debian_13() -> None:
    def check(name: str) -> list[str]:
        made = [read(folder)[1].get("made_by", "") for folder in case_folders() if folder.parent.name == name]
        return [] if any(each.startswith("Debian 13") for each in made) else ["no output of Debian 13"]

    check_each(check, sorted(set(READERS) - NOT_OF_DEBIAN))


def test_a_version_without_an_output_is_named_with_those_that_have_one() -> None:
    said = "no test has an output of 3.36; those of 3.33, 3.39 are read"
    assert untested("fio", "3.36") == {"native": {"fio": said}}
    assert untested("fio", "3.3")  # no beginning of a number is that number
    assert untested("oltp", "1.0.20 with MariaDB 10.11.99") == {}  # what it reads is sysbench's
    assert untested("oltp", "1.0.21 with MariaDB 10.11.99")
    assert untested("spin", "9.9") == {}


def test_tools_that_are_not_of_one_version_in_all_systems_are_named() -> None:
    versions = {
        "native": {"stream": "1.1 (compiler 12.2.0)", "web": "2.3"},
        "docker": {"stream": "1.1 (compiler 14.2.0)", "web": "2.3", "startup": "2.4"},
    }
    (said,) = preflight.compare_tools(versions)
    assert said.startswith("stream: 1.1 (compiler 12.2.0) in native, 1.1 (compiler 14.2.0) in docker: ")
    assert preflight.compare_tools({"docker": versions["docker"]}) == []


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("10.11.14-MariaDB-0+deb12u2", "for debian-linux-gnu on x86_64 (Debian 12)"),
        ("11.8.9-MariaDB-0+deb13u1", "from Debian for debian-linux-gnu on x86_64 (-- Please help)"),
    ],
)
def test_mariadb_tells_its_version_in_debian_12_and_13(tmp_path: Path, version: str, more: str) -> None:
    for name, words in (("sysbench", "sysbench 1.0.20"), ("mariadbd", f"mariadbd  Ver {version} {more}")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{words}'\n")
        program.chmod(0o755)
    target = Target("server", LocalHost("here"), prefix=("env", f"PATH={tmp_path}:/usr/bin:/bin"))
    assert oltp.version(target) == f"1.0.20 with MariaDB {version}"
