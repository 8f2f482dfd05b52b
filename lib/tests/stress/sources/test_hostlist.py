"""Slurm's lists of hosts: what is none is refused before any program is handed it, and in no time."""

from __future__ import annotations

import time

import pytest

from infrabench.core import SiteError
from infrabench.machines.sites import import_hosts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no list of hosts"),
        ("n,,m", "no name of a host"),
        (",n", "no name of a host"),
        ("n1,n1", "twice: n1"),
        ("n]", "no name of a host"),
        ("-n", "no list of hosts"),
        ("-n[1-2]", "no list of hosts"),
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
        ("a,b" * 20_000, "are the most|twice"),
    ],
    ids=lambda value: value[:20] if len(value) < 1000 else f"{value[:5]}... of {len(value)}",
)
def test_what_is_no_list_is_refused_in_no_time(text: str, told: str) -> None:
    begin = time.process_time()
    with pytest.raises(SiteError, match=told) as error:
        import_hosts.expand_list(text, {"PATH": "/nonexistent"})
    assert time.process_time() - begin < 1
    assert len(str(error.value)) < 500
