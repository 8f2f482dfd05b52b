"""Kills and races on the embedded lab: what `tests/lab` needs, needed here too."""

from pathlib import Path

import pytest

from tests.support.leftovers import end_children, nothing_left, nothing_left_of_module
from tests.support.tiers import give_lab

__all__ = ["nothing_left", "nothing_left_of_module"]
HERE = Path(__file__).parent
pytest_runtest_call = end_children


@pytest.hookimpl(trylast=True)  # after the choice of `-k`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_lab(items, HERE)
