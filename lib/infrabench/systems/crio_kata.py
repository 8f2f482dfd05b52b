"""CRI-O above Kata Containers."""

from infrabench.systems import _runtimes

supported, deploy = _runtimes.system("crio", "kata")
NEEDS = _runtimes.needs("crio", "kata")
