"""What the processes of a trial bear in their environment, so that they can be told from all others on a host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

TRIAL = "INFRABENCH_TRIAL"
LOCKS = "INFRABENCH_HOST_LOCKS"  # names a folder that is locked for a host's claim instead, where hosts have it

_environment: ContextVar[Mapping[str, str]] = ContextVar("environment", default=MappingProxyType({}))


def lock_folder() -> str:
    """Return the folder that `LOCKS` names, or nothing."""
    return os.environ.get(LOCKS, "")


def prefix() -> str:
    """Return what every mark begins with: whoever has claimed a host by this lock may end what bears it."""
    return f"{TRIAL}={lock_folder()}:"


@contextmanager
def mark_commands(trial: str) -> Iterator[None]:
    """Let every command that is run on a host inside bear the mark of `trial`."""
    token = _environment.set({TRIAL: f"{lock_folder()}:{trial}"})
    try:
        yield
    finally:
        _environment.reset(token)


def environment() -> Mapping[str, str]:
    """Return the variables of the mark that commands bear now; nothing between trials."""
    return _environment.get()
