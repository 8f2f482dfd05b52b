"""containerd above gVisor's runsc."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("containerd", "runsc")
NEEDS = _runtimes.needs("containerd", "runsc")
