"""``python -m infrabench.cli`` is the command ``infrabench``."""

from __future__ import annotations

import sys

from infrabench.cli.parser import main

sys.exit(main())
