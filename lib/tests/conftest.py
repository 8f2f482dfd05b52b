"""The environment of all tests, and the fixtures that those of more than one folder share.

A folder is a tier: unit/ and notebooks/ are the gate, and lab/, browser/ and stress/ need more than every machine has.
Each has a conftest.py that holds its rules.
"""

from __future__ import annotations

import gc
import os
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
KEPT = ("INFRABENCH_STATE", "INFRABENCH_TORTURE", "INFRABENCH_EMULATED", RUN)  # the lab's images lie in the first
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

from infrabench import registry  # noqa: E402
from infrabench.core import Study  # noqa: E402
from infrabench.ledger import catalogue  # noqa: E402
from infrabench.machines.hosts import marks  # noqa: E402
from tests.support.places import ROOT, TESTS  # noqa: E402
from tests.support.storm import size  # noqa: E402

# Sessions of this process claim its own lock, and so run beside those of others on this machine, who end nothing of it.
LOCKS = TemporaryDirectory(prefix="infrabench-locks-")
os.chmod(LOCKS.name, 0o755)
os.environ[marks.LOCKS] = LOCKS.name

# The same examples every time; INFRABENCH_TORTURE=long draws many more.
settings.register_profile(
    "gate", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=size(30, 1000)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put notebooks first: a worker takes a file whole, and the others would wait for the longest at the end."""
    items.sort(key=lambda item: not item.path.is_relative_to(TESTS / "notebooks"))


def pytest_collection_finish() -> None:
    """Take thousands of tests and modules out of every later garbage collection: a fifth of the processor's time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _recorded_sessions() -> Iterator[None]:
    """The recorded sessions of this checkout are unpacked and checked once a process: no test may change them."""
    recorded = ROOT / "data/recorded"
    unpack, once = catalogue.unpack, lru_cache(maxsize=None)(catalogue.unpack)

    def unpack_once(archive: Path, destination: Path) -> Path:
        place = Path(os.path.realpath(archive))
        is_ours = place.is_relative_to(recorded) and destination.is_relative_to(recorded.parent)
        folder = (once if is_ours else unpack)(archive, destination)
        return folder if folder.exists() else unpack(archive, destination)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "unpack", unpack_once)
        yield


@pytest.fixture
def fake_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study, systems and workloads of `tests/support/plugins` are there."""
    monkeypatch.setenv(registry.VARIABLE, str(TESTS / "support/plugins"))


@pytest.fixture
def study(fake_plugins: None) -> Study:
    """The study of those plug-ins."""
    return registry.study("fakes")


@pytest.fixture(scope="module")
def sketches() -> Iterator[None]:
    """Figures of this test module are drawn, but not written in print quality."""
    from tests.support.sketches import sketched  # matplotlib is loaded where figures are drawn

    with sketched():
        yield
