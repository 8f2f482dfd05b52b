"""CRI-O above runc."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("crio", "runc")
NEEDS = _runtimes.needs("crio", "runc")
