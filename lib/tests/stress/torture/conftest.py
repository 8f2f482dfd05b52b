"""The storm's own study, systems and workload."""

from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import Study


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> Study:
    """The study of the plug-ins beside this file, which are there."""
    monkeypatch.setenv(registry.VARIABLE, str(Path(__file__).parent / "plugins"))
    return registry.study("storm")
