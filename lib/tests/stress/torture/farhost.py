"""A host far away, on loopback: an SSH server in a process of its own, which can be stopped and killed.

Arguments: the folder of its keys, and a port (0: any). Prints the port when it serves.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.support.ssh_server import serving


def main(folder: str, port: str) -> None:
    with serving(Path(folder), port=int(port)) as login:
        print(login.port, flush=True)  # noqa: T201 (who started it reads this)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
