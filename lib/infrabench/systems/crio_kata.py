"""CRI-O above Kata Containers."""

from infrabench.systems import _container_runtimes

supported, deploy = _container_runtimes.system("crio", "kata")
NEEDS = _container_runtimes.needs("crio", "kata")
