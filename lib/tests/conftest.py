"""Shared fixtures. Tests marked `lab` or `browser` need the real lab, or chromium, or say why they do not run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from infrabench.core import NotRunnable, Site
from infrabench.lab.shell import require
from infrabench.site import open_site

BROWSER = ("chromium", "sysbench")  # programs, and Debian's packages of the same names


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report lab tests as not run, with the reason, where there can be no lab; run them last elsewhere."""
    try:
        require()
    except NotRunnable as error:
        mark = pytest.mark.skip(reason=f"not run: {error}")
        for item in items:
            if item.get_closest_marker("lab"):
                item.add_marker(mark)
    missing = [name for name in BROWSER if not shutil.which(name)]
    if missing:
        mark = pytest.mark.skip(reason=f"not run: not installed here: apt-get install {' '.join(missing)}")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(mark)
    items.sort(key=lambda item: item.get_closest_marker("lab") is not None)


@pytest.fixture(scope="module")
def lab_site() -> Iterator[Site]:
    """A lab of this test module: up before its first test, down after its last."""
    with open_site("lab") as site:
        yield site
