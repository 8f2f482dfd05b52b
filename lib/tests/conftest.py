"""Shared fixtures. Tests marked `lab` run on the real embedded lab, or say why they do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infrabench.core import NotRunnable, Site
from infrabench.lab.shell import require
from infrabench.site import open_site


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report lab tests as not run, with the reason, where there can be no lab; run them last elsewhere."""
    try:
        require()
    except NotRunnable as error:
        mark = pytest.mark.skip(reason=f"not run: {error}")
        for item in items:
            if item.get_closest_marker("lab"):
                item.add_marker(mark)
    items.sort(key=lambda item: item.get_closest_marker("lab") is not None)


@pytest.fixture(scope="module")
def lab_site() -> Iterator[Site]:
    """A lab of this test module: up before its first test, down after its last."""
    with open_site("lab") as site:
        yield site
