"""The host itself; it cannot be made ready on a site whose file ``broken-NAME`` is in the project's home."""

from contextlib import contextmanager

from infrabench.core import Deployment, ProvisionError, Target
from infrabench.ledger import catalogue


def supported(site):
    return None


@contextmanager
def deploy(site, spec):
    if (catalogue.home() / f"broken-{site.name}").exists():
        raise ProvisionError(f"{site.name} is broken: mend it")
    yield Deployment("plain", {"server": Target("server", site.hosts["server"])}, {"version": "1", "cgroups": []})
