"""Kills, storms, races, speed, servers and shells under time limits: what a machine's load may change."""

from pathlib import Path

import pytest

from tests.support.tiers import give_tier

HERE = Path(__file__).parent


def pytest_report_header() -> str:
    return "stress: nothing else should run; those of stress/lab need root and `make build`; about 35 minutes"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_tier(items, HERE, None)
