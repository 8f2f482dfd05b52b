"""Slurm's lists of hosts: written out as Slurm does it, refused where they are none, and never large."""

from __future__ import annotations

import time

import pytest

from infrabench.core import SiteError
from infrabench.machines.sites import import_slurm


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
        import_slurm.expand_list(text)
    assert time.process_time() - begin < 1
    assert len(str(error.value)) < 500
