"""Slurm's lists of hosts: written out as Slurm does it, refused where they are none, and never large."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.core import SiteError
from infrabench.machines.sites import import_hostlist

# What `scontrol show hostnames` of Slurm 22.05 printed.
TOLD = Path(__file__).parents[1] / "data/sources/hostnames.tsv"
LINES = [line.split("\t") for line in TOLD.read_text().splitlines()]


def test_there_are_lists_that_slurm_wrote_out() -> None:
    assert len(LINES) >= 10


@pytest.mark.parametrize(("text", "names"), LINES, ids=[line[0] for line in LINES])
def test_a_list_is_written_out_as_slurm_does_it(text: str, names: str) -> None:
    expected = names.split(" ")
    if len(set(expected)) < len(expected):  # Slurm names a host twice; a site may not
        with pytest.raises(SiteError, match="names a host twice: n2"):
            import_hostlist.expand_list(text)
        return
    assert list(import_hostlist.expand_list(text)) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no list of hosts"),
        ("node[3-1]", "runs backwards"),
        ("node[", "no list of hosts"),
        ("node[1-2", "no list of hosts"),
        ("n[1-2]]", "no list of hosts"),
        ("n[[1]]", "no list of hosts"),
        ("n,,m", "no list of hosts"),
        (",n", "no list of hosts"),
        ("n[a-b]", "no list of hosts"),
        ("n[1-]", "neither a number nor a range"),
        ("n[-1]", "neither a number nor a range"),
        ("n[1,,2]", "neither a number nor a range"),
        ("n[1-2-3]", "neither a number nor a range"),
        ("n[]", "no list of hosts"),
        ("n[1-5000]", "names 5000 hosts; 4096 are the most"),
        ("n[1-999999999999999999]", "are the most"),
        ("n[99999999999999999999]", "neither a number nor a range"),
        ("n[0-63]m[0-63]k[0-63]", "names 262144 hosts"),
        ("[0-9]" * 200, "are the most"),
        ("n[1-4000],m[1-4000]", "names 8000 hosts"),
        ("n1,n1", "twice: n1"),
        ("n[1-3,2]", "twice: n2"),
        ("-n", "no name of a host"),
        ("--output=/etc/passwd", "no list of hosts"),
        (".n", "no name of a host"),
        ("../../etc", "no list of hosts"),
        ("n;touch x", "no list of hosts"),
        ("$(id)", "no list of hosts"),
        ("n\n", "no list of hosts"),
        ("n m", "no list of hosts"),
        ("n\x00", "no list of hosts"),
        ("n\u0661", "no list of hosts"),
        ("n[\u0661-\u0663]", "no list of hosts"),
        ("n" * 300, "no name of a host"),
        ("x" * 10_000_000, "of 10000000 characters"),
        ("[" * 60_000, "no list of hosts"),
        ("n[" + "1," * 30_000 + "1]", "are the most"),
        ("a,b" * 20_000, "are the most|twice"),
    ],
    ids=lambda value: value[:20] if len(value) < 1000 else f"{value[:5]}... of {len(value)}",
)
def test_what_is_no_list_is_refused_in_no_time(text: str, told: str) -> None:
    begin = time.process_time()
    with pytest.raises(SiteError, match=told) as error:
        import_hostlist.expand_list(text)
    assert time.process_time() - begin < 1
    assert len(str(error.value)) < 500


@given(st.text("n[]-,0129", max_size=40))
def test_whatever_is_written_is_written_out_or_refused(text: str) -> None:
    try:
        names = import_hostlist.expand_list(text)
    except SiteError:
        return
    assert 0 < len(names) == len(set(names)) <= import_hostlist.MOST
    assert import_hostlist.check_names(list(names)) == names
    if "[" not in text:
        assert ",".join(names) == text
    # No name has more digits than the list has characters, and each begins as a part of the list does.
    assert all(len(name) <= len(text) and text.split(",")[0].split("[")[0] in names[0] for name in names)


@given(st.integers(0, 99_999), st.integers(0, 500), st.integers(1, 6))
def test_a_range_keeps_its_width(first: int, more: int, width: int) -> None:
    text = f"{first:0{width}d}"
    names = import_hostlist.expand_list(f"n[{text}-{first + more}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert names[0] == f"n{text}"
    assert all(len(name) - 1 >= len(text) for name in names)
