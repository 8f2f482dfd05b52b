"""containerd above runc."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("containerd", "runc")
NEEDS = _container_runtimes.needs("containerd", "runc")
