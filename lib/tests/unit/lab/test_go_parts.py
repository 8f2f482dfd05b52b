"""How the programs of a cluster are built, seen from where they run: a node of another Debian than this machine's."""

from __future__ import annotations

import re

from infrabench.machines.lab.go_parts import PARTS, GoPart, Program, build_flags, version
from tests.support.checks import check_each


def test_a_program_with_c_in_it_needs_no_library_of_the_node() -> None:
    def check(name: str) -> None:
        part = PARTS[name]
        assert re.fullmatch(r"v\d\S+", version(part))  # which names exactly one module of its go.mod
        for program in part.programs:
            flags = build_flags(part, program)
            link, tags = flags[flags.index("-ldflags") + 1], flags[flags.index("-tags") + 1].split()
            assert ("-linkmode external -extldflags -static" in link) == part.cgo, link
            assert ({"netgo", "osusergo"} <= set(tags)) == part.cgo, tags

    check_each(check, sorted(PARTS))


def test_tags_of_a_part_or_program_stay() -> None:
    part = GoPart("a", (Program("x", "p", 1), Program("y", "p", 1, tags="own")), tags="one two", cgo=True)
    tags = [build_flags(part, program)[4] for program in part.programs]
    assert tags == ["one two netgo osusergo", "own netgo osusergo"]
    assert build_flags(GoPart("b", (), cgo=True), Program("x", "p", 1))[4] == "netgo osusergo"
    assert build_flags(GoPart("b", ()), Program("x", "p", 1))[4] == ""
