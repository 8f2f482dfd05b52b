"""CRI-O above crun."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("crio", "crun")
NEEDS = _container_runtimes.needs("crio", "crun")
