"""Shared fixtures. Tests marked `lab` or `browser` need the real lab, or chromium, or say why they do not run."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from infrabench.core import NotRunnable, Site
from infrabench.machines.hosts import marks
from infrabench.machines.lab.shell import require
from infrabench.machines.sites.site import open_site
from tests.torture.storm import size

BROWSER = ("chromium", "sysbench")  # programs, and Debian's packages of the same names

# Without bytecode files, every process, command and kernel of the tests compiles pandas, scipy and matplotlib: 25 s of
# processor for the imports of the whole suite.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Hosts run their scripts by `python3`: by the interpreter itself, where that would be a version manager's shell script,
# which takes ten times as long to start.
os.environ["PATH"] = os.pathsep.join((f"{sys.base_prefix}/bin", os.environ["PATH"]))

# Each worker is one of as many as there are processors: threads of a matrix product would wait for those of the others,
# which takes up to twenty times as long. numpy is loaded after this.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Sessions of this process claim its own lock, and so run beside those of others on this machine, who end nothing of it.
LOCKS = TemporaryDirectory(prefix="infrabench-locks-")
os.chmod(LOCKS.name, 0o755)
os.environ[marks.LOCKS] = LOCKS.name

# The same examples every time; INFRABENCH_TORTURE=long with -m hypothesis draws many more.
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=size(30, 1000))
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report lab tests as not run, with the reason, where there can be no lab; run them last elsewhere.

    Slow ones come first, so that no processor waits at the end for one that another began last.
    """
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
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("lab"):
        return 2
    # Those of a browser stay in order: the tests of a module share what is started for it.
    return 0 if item.get_closest_marker("slow") and not item.get_closest_marker("browser") else 1


def pytest_collection_finish() -> None:
    """Take the 8000 tests and 4000 modules out of every later garbage collection: a fifth of the processor's time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def lab_site() -> Iterator[Site]:
    """A lab of this test module: up before its first test, down after its last."""
    with open_site("lab") as site:
        yield site


@pytest.fixture(scope="module")
def sketches() -> Iterator[None]:
    """Figures of this test module are drawn, but not written in print quality."""
    from tests.sketches import sketched  # matplotlib is loaded where figures are drawn

    with sketched():
        yield
