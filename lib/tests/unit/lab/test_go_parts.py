"""How the programs of a cluster are built, seen from where they run: a node of another Debian than this machine's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench.core import DesignError, NotRunnable
from infrabench_platforms.lab import go_parts, go_tools
from infrabench_platforms.lab.go_parts import PARTS, Extra, GoPart, Program, build_flags, version
from tests.support.checks import check_each

PART = GoPart("tiny", "example/tiny", (Program("x", "p", 1), Program("y", "p", 1, tags="own")))


def test_every_part_is_pinned_and_its_programs_need_no_library_of_the_node() -> None:
    def check(name: str) -> None:
        part = PARTS[name]
        assert (part.folder / "go.sum").stat().st_size > 0
        assert re.fullmatch(r"v\d\S+", version(part))
        assert go_parts.numbers(go_parts.needed_go([part])) >= (1, 25, 0)
        assert part.cgo or not (part.headers or any(each.how == "C" for each in part.extra))  # a compiler is asked for
        for program in part.programs:
            named = go_parts.package(part, program)
            assert named in (part.folder / "go.mod").read_text(), "a tool directive names every program that is built"
            flags = build_flags(part, program)
            assert "-trimpath" in flags
            link, tags = flags[flags.index("-ldflags") + 1], flags[flags.index("-tags") + 1].split()
            assert ("-linkmode external -extldflags -static" in link) == part.cgo, link
            assert ({"netgo", "osusergo"} <= set(tags)) == part.cgo, tags

    check_each(check, sorted(PARTS))


def test_each_version_of_a_program_is_a_part_that_pins_it_and_is_built_alike() -> None:
    for name, versions in go_parts.VERSIONS.items():
        assert list(versions.values())[-1] == name, "a plain name is the newest"
        assert list(versions) == sorted(versions, key=lambda each: [int(number) for number in each.split(".")])
        for number, part in versions.items():
            assert re.match(rf"v{re.escape(number)}(?!\d)", version(PARTS[part]))
            assert replace(PARTS[part], name=name) == PARTS[name]
            assert (go_parts.stands_for(part), part in go_parts.ON_DEMAND) == (name, part != name)
            assert f"module infrabench/{name}\n" in (PARTS[part].folder / "go.mod").read_text()
        assert len({go_parts.content_hash(PARTS[part], "go1.26.8") for part in versions.values()}) == len(versions)
    assert {folder.name for folder in go_parts.GO_DIR.iterdir()} == {*PARTS}


def test_a_version_is_found_by_the_program_of_a_system() -> None:
    assert [go_parts.find_version(f"containerd-{low}", "2.1") for low in ("runc", "runsc")] == ["containerd-2.1"] * 2
    assert (go_parts.find_version("flannel", "0.28.10"), go_parts.find_version("host", "1")) == ("flannel", None)
    with pytest.raises(NotRunnable, match=r"^the lab has no flannel@0.28; it has flannel@0.28.4, flannel@0.28.10$"):
        go_parts.find_version("flannel", "0.28")
    with pytest.raises(NotRunnable, match=r"^the lab has no crio-kata@debian13; it has crio-kata@1.36$"):
        go_parts.find_version("crio-kata", "debian13")


def test_tags_of_a_part_or_program_stay() -> None:
    def tags(part: GoPart) -> list[str]:
        return [build_flags(part, program)[4] for program in part.programs]

    assert tags(PART) == ["", "own"]
    assert tags(replace(PART, cgo=True)) == ["netgo osusergo", "own netgo osusergo"]
    assert tags(replace(PART, cgo=True, tags="one two")) == ["one two netgo osusergo", "own netgo osusergo"]


def test_kubernetes_reports_the_version_that_is_pinned() -> None:
    part = PARTS["kubernetes"]
    number = version(part)
    major, minor = number[1:].split(".")[:2]
    link = build_flags(part, part.programs[0])[-1]
    assert link.startswith("-s -w -X k8s.io/component-base/version.gitVersion=v")
    assert f"gitVersion={number} " in link
    assert link.endswith(f"gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}")


def test_the_hash_follows_everything_that_goes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_parts, "GO_DIR", tmp_path)
    PART.folder.mkdir()
    for name in ("go.mod", "go.sum"):
        (PART.folder / name).write_text("")
    first, second = PART.programs
    others = [
        replace(PART, **change)
        for change in (
            {}, {"tags": "x"}, {"cgo": True}, {"module": "example/other"}, {"extra": (Extra("x", "p", "folder"),)},
            {"programs": (replace(first, path="other"), second)}, {"programs": (replace(first, tags="y"), second)},
        )
    ]  # fmt: skip
    hashes = [go_parts.content_hash(each, "go1.26.8") for each in others] + [go_parts.content_hash(PART, "go1.26.9")]
    for name in ("go.sum", "go.mod"):
        (PART.folder / name).write_text("\n")
        hashes.append(go_parts.content_hash(PART, "go1.26.8"))
    assert len(set(hashes)) == len(hashes)
    slower = replace(PART, programs=(replace(first, seconds=99), second))
    assert go_parts.content_hash(slower, "go1.26.8") == hashes[-1]  # an estimate is no content


def test_the_time_left_follows_the_pace_of_this_machine() -> None:
    times = (600.0, 100.0)
    assert go_tools.time_left(times, 0, passed_s=0, now_s=0) == 700
    assert go_tools.time_left(times, 0, passed_s=200, now_s=200) == 500
    assert go_tools.time_left(times, 1, passed_s=600, now_s=0) == 100
    assert go_tools.time_left(times, 1, passed_s=1320, now_s=0) == 200  # twice as slow as the table
    assert go_tools.time_left(times, 1, passed_s=1620, now_s=300) == 0  # late, not less than nothing
    assert [go_tools.duration(each) for each in (99.4, 1500)] == ["99 s", "25 min"]


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(DesignError, match="did you mean kubernetes"):
        go_tools.cached("kubernets")
