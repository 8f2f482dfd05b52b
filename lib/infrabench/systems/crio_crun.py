"""CRI-O above crun."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("crio", "crun")
NEEDS = _runtimes.needs("crio", "crun")
