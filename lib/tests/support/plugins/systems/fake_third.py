"""A system for tests: the host itself."""

from contextlib import contextmanager

from infrabench.core import Deployment, Target

NAME = "fake-third"


def supported(site):
    return site.facts.get("refuse", {}).get(NAME)


@contextmanager
def deploy(site, spec):
    log = site.facts["log"]
    log.append(f"deploy {NAME}")
    more = site.facts.get("addresses", {}).get(NAME, {})
    target = Target("server", site.hosts["server"], address=spec.address, addresses=more)
    facts = {"version": "1", "image": "none", "cgroups": []}
    try:
        yield Deployment(
            NAME, {"server": target}, facts, lambda: log.append(f"pause {NAME}"), lambda: log.append(f"resume {NAME}")
        )
    finally:
        log.append(f"remove {NAME}")
