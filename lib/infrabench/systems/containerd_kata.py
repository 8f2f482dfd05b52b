"""containerd above Kata Containers."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("containerd", "kata")
NEEDS = _runtimes.needs("containerd", "kata")
