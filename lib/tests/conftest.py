"""Shared fixtures, the environment of all tests, and which of them are not in the gate (`tests/tiers.py`)."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# Before numpy, matplotlib, IPython or the library are imported, here and in the processes that tests start: nothing of
# this user's home, shell or batch job. Workers of pytest-xdist inherit it, and the folder, from whoever starts them.
RUN = "INFRABENCH_TEST_RUN"
KEPT = ("INFRABENCH_STATE", "INFRABENCH_TORTURE", RUN)  # the lab's images lie in the first
for name in [*os.environ]:
    if name.startswith(("INFRABENCH_", "SLURM_")) and not name.startswith(KEPT):
        del os.environ[name]
for name in ("KUBECONFIG", "SSH_AUTH_SOCK", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
if RUN not in os.environ:
    FOLDER = TemporaryDirectory(prefix="infrabench-tests-")
    os.environ[RUN] = FOLDER.name
HOME = Path(os.environ[RUN])
# Each worker is one of as many as there are processors: threads of a matrix product would wait for those of the others,
# which takes up to twenty times as long.
os.environ |= {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "TZ": "UTC", "LC_ALL": "C.UTF-8", "MPLBACKEND": "Agg", "GIT_CONFIG_GLOBAL": "/dev/null",
    "XDG_CACHE_HOME": f"{HOME}/cache", "XDG_CONFIG_HOME": f"{HOME}/config", "XDG_DATA_HOME": f"{HOME}/data",
    "IPYTHONDIR": f"{HOME}/ipython", "MPLCONFIGDIR": f"{HOME}/matplotlib",
    "JUPYTER_CONFIG_DIR": f"{HOME}/jupyter", "JUPYTER_DATA_DIR": f"{HOME}/jupyter",
    "JUPYTER_RUNTIME_DIR": f"{HOME}/runtime",
}  # fmt: skip
time.tzset()
os.umask(0o022)

# Without bytecode files, every process, command and kernel of the tests compiles pandas, scipy and matplotlib: 25 s of
# processor for the imports of the whole suite.
sys.dont_write_bytecode = False

# Hosts run their scripts by `python3`: by the interpreter itself, where that would be a version manager's shell script,
# which takes ten times as long to start.
os.environ["PATH"] = os.pathsep.join((f"{sys.base_prefix}/bin", os.environ["PATH"]))

from hypothesis import settings  # noqa: E402

from infrabench.core import NotRunnable, Site  # noqa: E402
from infrabench.ledger import catalogue  # noqa: E402
from infrabench.machines.hosts import marks  # noqa: E402
from infrabench.machines.lab.shell import require  # noqa: E402
from infrabench.machines.sites.site import open_site  # noqa: E402
from tests.tiers import TIERS, tiers_of  # noqa: E402
from tests.torture.storm import size  # noqa: E402

BROWSER = ("chromium", "sysbench")  # programs, and Debian's packages of the same names

# Sessions of this process claim its own lock, and so run beside those of others on this machine, who end nothing of it.
LOCKS = TemporaryDirectory(prefix="infrabench-locks-")
os.chmod(LOCKS.name, 0o755)
os.environ[marks.LOCKS] = LOCKS.name

# The same examples every time; INFRABENCH_TORTURE=long with -m hypothesis draws many more.
settings.register_profile(
    "gate", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=size(30, 1000)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its tiers, and report those that this machine cannot run as not run, with the reason."""
    missing = [name for name in BROWSER if not shutil.which(name)]
    reasons = {"browser": f"not installed here: apt-get install {' '.join(missing)}"} if missing else {}
    try:
        require()
    except NotRunnable as error:
        reasons["lab"] = str(error)
    for item in items:
        for tier in tiers_of(item.nodeid):
            item.add_marker(tier)
            if tier in reasons:
                item.add_marker(pytest.mark.skip(reason=f"not run: {reasons[tier]}"))
        if any(item.get_closest_marker(tier) for tier in TIERS) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
    # The file that takes longest comes first: a worker takes a file whole, and the others would wait for it at the end.
    items.sort(key=lambda item: "/test_notebooks.py::" not in item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take the 8000 tests and 4000 modules out of every later garbage collection: a fifth of the processor's time.

    The gate has a state folder and a home of its own; the other tiers have this machine's, with the lab's images.
    """
    gc.collect()
    gc.freeze()
    if not any(item.get_closest_marker(tier) for item in session.items for tier in TIERS):
        os.environ |= {"HOME": f"{HOME}/home", "INFRABENCH_STATE": f"{HOME}/state"}
        (HOME / "home").mkdir(exist_ok=True)


@pytest.fixture(scope="session", autouse=True)
def _recorded_sessions() -> Iterator[None]:
    """The recorded sessions of this checkout are unpacked and checked once a process: no test may change them."""
    recorded = Path(__file__).parents[2] / "data/recorded"
    unpack, once = catalogue.unpack, lru_cache(maxsize=None)(catalogue.unpack)

    def unpack_once(archive: Path, destination: Path) -> Path:
        is_ours = archive.resolve().is_relative_to(recorded) and destination.is_relative_to(recorded.parent)
        folder = (once if is_ours else unpack)(archive, destination)
        return folder if folder.exists() else unpack(archive, destination)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "unpack", unpack_once)
        yield


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
