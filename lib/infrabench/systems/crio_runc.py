"""CRI-O above runc."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("crio", "runc")
NEEDS = _container_runtimes.needs("crio", "runc")
