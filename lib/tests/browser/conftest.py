"""What a reader sees: a real Chromium, TeX, and poppler to look into PDFs. Reported as not run where they are not."""

from pathlib import Path

import pytest

from tests.support.tiers import give_tier, without_browser

HERE = Path(__file__).parent


def pytest_report_header() -> str:
    return "browser: needs chromium, poppler-utils, TeX (make test-browser asks for them); about 3 minutes"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_tier(items, HERE, without_browser())
