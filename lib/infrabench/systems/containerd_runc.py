"""containerd above runc."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("containerd", "runc")
NEEDS = _runtimes.needs("containerd", "runc")
