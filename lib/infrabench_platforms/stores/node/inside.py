"""Run a command in the guest of a store instead of on its node, as it is: argv, streams, exit status.

python3 inside.py FOLDER COMMAND [WORD...], with the FOLDER of the guest's settings (see `guest.home`).
"""

from __future__ import annotations

import os
import shlex
import sys

if __name__ == "__main__":
    os.execvp("ssh", ["ssh", "-F", f"{sys.argv[1]}/ssh.conf", "guest", shlex.join(sys.argv[2:])])
