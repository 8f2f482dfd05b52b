"""containerd above crun."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("containerd", "crun")
NEEDS = _runtimes.needs("containerd", "crun")
