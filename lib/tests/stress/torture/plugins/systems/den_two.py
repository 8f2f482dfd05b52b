"""A system of the storm, see `dens`."""

from tests.stress.torture.dens import den


def supported(site):
    return None


def deploy(site, spec):
    return den("den-two", site, spec)
