"""Real systems on the embedded lab, a folder a study. Reported as not run where it cannot be; nothing is built here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import Site
from infrabench.machines.sites.site import open_site
from tests.support.leftovers import end_children, nothing_left, nothing_left_of_module
from tests.support.tiers import give_lab

__all__ = ["nothing_left", "nothing_left_of_module"]
HERE = Path(__file__).parent
pytest_runtest_call = end_children


def pytest_report_header() -> str:
    return "lab: needs root, `make build` before, and nothing beside; about 25 minutes"


@pytest.hookimpl(trylast=True)  # after the choice of `-k`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_lab(items, HERE)


@pytest.fixture(scope="module")
def lab_site() -> Iterator[Site]:
    """A lab of this test module: up before its first test, down after its last."""
    with open_site("lab") as site:
        yield site
