"""Slurm's lists of hosts: written out as Slurm does it, refused where they are none, and never large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import SiteError
from infrabench.machines.sites import import_slurm
from tests.support.places import TESTS

# What `scontrol show hostnames` of Slurm 22.05 printed.
TOLD = TESTS / "data/sources/hostnames.tsv"
LINES = [line.split("\t") for line in TOLD.read_text().splitlines()]


def test_there_are_lists_that_slurm_wrote_out() -> None:
    assert len(LINES) >= 10


@pytest.mark.parametrize(("text", "names"), LINES, ids=[line[0] for line in LINES])
def test_a_list_is_written_out_as_slurm_does_it(text: str, names: str) -> None:
    expected = names.split(" ")
    if len(set(expected)) < len(expected):  # Slurm names a host twice; a site may not
        with pytest.raises(SiteError, match="names a host twice: n2"):
            import_slurm.expand_list(text)
        return
    assert list(import_slurm.expand_list(text)) == expected


@given(st.text("n[]-,0129", max_size=40))
def test_whatever_is_written_is_written_out_or_refused(text: str) -> None:
    try:
        names = import_slurm.expand_list(text)
    except SiteError:
        return
    assert 0 < len(names) == len(set(names)) <= import_slurm.MOST
    assert import_slurm.check_names(list(names)) == names
    if "[" not in text:
        assert ",".join(names) == text
    # No name has more digits than the list has characters, and each begins as a part of the list does.
    assert all(len(name) <= len(text) and text.split(",")[0].split("[")[0] in names[0] for name in names)


@given(st.integers(0, 99_999), st.integers(0, 500), st.integers(1, 6))
def test_a_range_keeps_its_width(first: int, more: int, width: int) -> None:
    text = f"{first:0{width}d}"
    names = import_slurm.expand_list(f"n[{text}-{first + more}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert names[0] == f"n{text}"
    assert all(len(name) - 1 >= len(text) for name in names)
