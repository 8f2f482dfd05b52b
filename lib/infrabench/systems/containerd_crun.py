"""containerd above crun."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("containerd", "crun")
NEEDS = _container_runtimes.needs("containerd", "crun")
