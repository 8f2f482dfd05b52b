"""CRI-O above gVisor's runsc."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("crio", "runsc")
NEEDS = _runtimes.needs("crio", "runsc")
