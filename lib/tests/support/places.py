"""Where a test finds what it reads: the checkout, and the folder of all tests."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parents[1]
