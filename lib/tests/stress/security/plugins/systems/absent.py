"""A system for tests that says where it cannot run."""

from contextlib import contextmanager


def supported(site):
    return f"nothing answers at https://me:hunter2-in-url@{site.hosts['server'].address}:6443"


@contextmanager
def deploy(site, spec):
    raise AssertionError("it is not supported")
    yield
