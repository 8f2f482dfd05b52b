"""The gate: what is the same on every machine and in every run. `tests.support.gate` holds its rules."""

from tests.support.gate import keep_place, keep_rules

__all__ = ["keep_place"]
pytest_runtest_protocol = keep_rules
