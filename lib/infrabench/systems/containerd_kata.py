"""containerd above Kata Containers."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("containerd", "kata")
NEEDS = _container_runtimes.needs("containerd", "kata")
