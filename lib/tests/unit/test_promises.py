"""What the guides promise of safety, and that each promise names tests that there are."""

from __future__ import annotations

import re

import pytest

from tests.support.places import PLATFORMS, ROOT

TESTS = ROOT / "lib/tests"
LAB = PLATFORMS / "lab"
GUIDES = ("security.md", "what-the-lab-does.md")
NAMED = re.compile(r"`([\w/]*test_\w+\.py)`")
NONE = "nothing is promised"


def rows(guide: str) -> list[str]:
    """Return the rows of the tables of a guide, without those that name the columns."""
    lines = (ROOT / "docs" / guide).read_text().splitlines()
    return [line for line in lines if line.startswith("| ") and not line.endswith("| tests |")]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_promise_names_tests(guide: str) -> None:
    assert len(rows(guide)) > 10
    for row in rows(guide):
        told = row.rstrip(" |").rpartition(" | ")[2]
        names = NAMED.findall(told)
        assert names or told == NONE, row
        assert all((TESTS / name).is_file() for name in names), row


def test_tests_that_any_guide_names_are_there() -> None:
    every = {path.name: path for path in TESTS.rglob("test_*.py")}
    for guide in sorted((ROOT / "docs").glob("*.md")):
        for name in NAMED.findall(guide.read_text()):
            path = every.get(name.rpartition("/")[2])
            assert path is not None, f"{guide.name}: {name}"
            assert "def test_" in path.read_text()


def test_the_lab_loads_one_kernel_module_by_name() -> None:
    """An image may load others: the kernel of a virtual machine is its own."""
    calls = [call for path in LAB.rglob("*.py") for call in re.findall(r"(?:modprobe|insmod).*", path.read_text())]
    assert calls
    assert [call for call in calls if "br_netfilter" not in call] == []
