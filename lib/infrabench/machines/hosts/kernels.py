"""Which hosts are one machine: those whose kernels started at the same time, whatever they are called."""

from __future__ import annotations

from infrabench.core import Host, SiteError
from infrabench.machines.hosts.host import LocalHost, run_checked
from infrabench.machines.hosts.remote_shell import probe

ANSWER_S = 10.0
# Readings on one machine agree to a microsecond; of two that are switched on in the same minute, one pair in half a
# million is so near.
ONE_KERNEL_NS = 50_000


def boot_time(host: Host) -> int:
    """Return when the kernel of a host started, in Unix nanoseconds; `SiteError` where python3 does not run."""
    return int(run_checked(host, probe("machines/hosts/probes/boot_time.py"), timeout_s=ANSWER_S, error=SiteError))


def this_kernel() -> int:
    """Return when the kernel of this machine started, in Unix nanoseconds."""
    return boot_time(LocalHost())


def is_one_kernel(a: int, b: int) -> bool:
    """Tell whether kernels that started at these times, in nanoseconds, are one."""
    return abs(a - b) <= ONE_KERNEL_NS
