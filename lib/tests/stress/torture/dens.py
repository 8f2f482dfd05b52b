"""Two systems for the storm, each a folder and a process of this machine: what is killed leaves both behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import Deployment, DeploySpec, Site, Target
from tests.support.storm import marked_processes

KEEPER = 'echo $$ >"$0.part" && mv "$0.part" "$0" && exec sleep 600'
MARK = "INFRABENCH_STORM"  # in the environment of all that a storm starts


@dataclass(frozen=True)
class Den:
    """A system of this name."""

    name: str

    def supported(self, site: Site) -> None:
        return None

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        """Yield the system: what an earlier one left is removed first, as every system has to."""
        home = Path(site.facts["home"]) / self.name
        clear(home)
        home.mkdir(parents=True)
        # It says itself who it is: a kill just after its birth must not leave a nameless one.
        keeper = subprocess.Popen(("sh", "-c", KEEPER, str(home / "pid")), start_new_session=True)
        while not (home / "pid").exists():
            time.sleep(0.001)
        try:
            target = Target("server", site.hosts["server"], address=spec.address)
            yield Deployment(self.name, {"server": target}, {"version": "1", "cgroups": []})
        finally:
            clear(home)
            keeper.wait(5)


def clear(home: Path) -> None:
    """Remove a den, with its process."""
    with suppress(OSError, ValueError):
        os.kill(int((home / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def alive(mark: str) -> list[str]:
    """Return the commands of processes that carry `mark`."""
    return [*marked_processes(MARK, mark).values()]
