"""Shared fixtures. Tests marked `lab` or `browser` need the real lab, or chromium, or say why they do not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import NotRunnable, Site
from infrabench.lab.shell import require
from infrabench.site import open_site

CHROMIUM = "/usr/bin/chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report lab tests as not run, with the reason, where there can be no lab; run them last elsewhere."""
    try:
        require()
    except NotRunnable as error:
        mark = pytest.mark.skip(reason=f"not run: {error}")
        for item in items:
            if item.get_closest_marker("lab"):
                item.add_marker(mark)
    if not Path(CHROMIUM).is_file():
        mark = pytest.mark.skip(reason=f"not run: there is no {CHROMIUM} (apt-get install chromium)")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(mark)
    items.sort(key=lambda item: item.get_closest_marker("lab") is not None)


@pytest.fixture(scope="module")
def lab_site() -> Iterator[Site]:
    """A lab of this test module: up before its first test, down after its last."""
    with open_site("lab") as site:
        yield site
