"""no-aslr: the host itself, with the randomisation of addresses off for every program of a trial."""

from collections.abc import Iterator
from contextlib import contextmanager

from infrabench.core import Deployment, DeploySpec, Site, Target

PREFIX = ("setarch", "--addr-no-randomize")


def supported(site: Site) -> str | None:
    """Return None, or why the system cannot run there."""
    if site.hosts["server"].run((*PREFIX, "true"), timeout_s=10).ok:
        return None
    return f"setarch cannot switch the randomisation off on {site.hosts['server'].name}"


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield the host with a prefix before every command; there is nothing to take down again."""
    host = site.hosts["server"]
    facts = {"version": "1", "image": "none", "limits": {}, "cgroups": []}
    yield Deployment(
        "no-aslr", {"server": Target("server", host, PREFIX, host.address)}, facts
    )
