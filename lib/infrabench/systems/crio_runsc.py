"""CRI-O above gVisor's runsc."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("crio", "runsc")
NEEDS = _container_runtimes.needs("crio", "runsc")
