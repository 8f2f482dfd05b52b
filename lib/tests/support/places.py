"""Where a test finds what it reads: the checkout, the folder of all tests, and the packages beside it."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parents[1]
LIB = TESTS.parent
LIBRARY, PLATFORMS, SELFCHECK = (LIB / name for name in ("infrabench", "infrabench_platforms", "infrabench_selfcheck"))
PACKAGES = (LIBRARY, PLATFORMS, SELFCHECK)


def files_of_packages(pattern: str = "*.py") -> list[Path]:
    """Return the files of all packages, sorted."""
    return sorted(path for package in PACKAGES for path in package.rglob(pattern))
