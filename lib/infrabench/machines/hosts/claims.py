"""One session at a time on a host, whoever starts it and from where, by a lock on the host itself: `probes/claim.py`.

The lock is the kernel's, of a process that lives as long as this one and its connection do. A container has a lock of
its own: where a host turns out to be a container of this machine, such as a node of the lab (its kernel started at the
same time), this machine is claimed too. Containers of another machine cannot be told from machines.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import platform
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from infrabench.core import Host, SiteError
from infrabench.machines.hosts import marks
from infrabench.machines.hosts.host import LocalHost, run_checked
from infrabench.machines.hosts.remote_shell import probe

log = logging.getLogger(__name__)

WAIT_S = 5.0
# A host sends again ever more seldom to one that it lost, in the end every two minutes, and only then hears that the
# connection is gone.
RELEASE_S = 150.0
ANSWER_S = 15.0  # beyond the wait
LONGEST = 100  # characters of what another session says of itself
BOOT_S = 10.0
# Readings on one machine agree to a microsecond; of two that are switched on in the same minute, one pair in half a
# million is so near.
ONE_KERNEL_NS = 50_000
Holder = Mapping[str, Any]


def make_holder(session: str) -> Holder:
    """Return what a claim says of itself to others; hosts that one holder claims twice are claimed once."""
    return {
        "claim": secrets.token_hex(8), "session": session, "user": _user(), "controller": platform.node(),
        "pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


@contextmanager
def claim_hosts(hosts: Iterable[Host], holder: Holder) -> Iterator[None]:
    """Hold every one of `hosts` for `holder` inside.

    Raises `SiteError` when another holder still has one after `WAIT_S` (it says who, and since when; `RELEASE_S` where
    that was a process of this machine that is gone), or when one cannot be claimed at all.
    """
    every = sorted(hosts, key=lambda host: host.address)  # two that claim the same ones begin with the same one
    remote = [host for host in every if not isinstance(host, LocalHost)]
    if remote:
        here = boot_time(LocalHost())
        if any(is_one_kernel(boot_time(host), here) for host in remote):
            every = [LocalHost("this machine"), *every]
    with ExitStack() as stack:
        for host in every:
            stack.enter_context(_claim(host, holder))
        yield


def boot_time(host: Host) -> int:
    """Return when the kernel of a host started, in Unix nanoseconds; `SiteError` where python3 does not run."""
    return int(run_checked(host, probe("machines/hosts/probes/boot_time.py"), timeout_s=BOOT_S, error=SiteError))


def is_one_kernel(a: int, b: int) -> bool:
    """Tell whether kernels that started at these times, in nanoseconds, are one."""
    return abs(a - b) <= ONE_KERNEL_NS


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return str(os.getuid())


@contextmanager
def _claim(host: Host, holder: Holder) -> Iterator[None]:
    with ExitStack() as stack:
        answer = _ask(host, holder, WAIT_S, stack)
        if answer["state"] == "busy" and _is_gone(answer["holder"] or {}):
            log.info(
                "%s is still held for %s, which has ended; waiting until it hears of that", host.name,
                describe_holder(answer["holder"]),
            )  # fmt: skip
            answer = _ask(host, holder, RELEASE_S, stack)
        if answer["state"] == "error":
            raise SiteError(f"{host.name}: it cannot be claimed for this session: {answer['reason']}")
        if answer["state"] == "busy":
            unnamed = f"a process that does not say who it is (as root, `fuser {answer['place']}` there names it)"
            who = unnamed if answer["holder"] is None else describe_holder(answer["holder"])
            raise SiteError(
                f"{host.name} is in use by {who}. Two sessions on one host would disturb each other: wait until that "
                "one has ended, or stop it"
            )
        yield


def _ask(host: Host, holder: Holder, wait_s: float, stack: ExitStack) -> dict[str, Any]:
    """Return what the host answers to a claim, which is held until `stack` ends."""
    argv = (*probe("machines/hosts/probes/claim.py"), marks.lock_folder(), f"{wait_s:g}", json.dumps(holder))
    try:
        stream = stack.enter_context(host.stream(argv))
        answer: dict[str, Any] = json.loads(stream.read_line(wait_s + ANSWER_S))
    except (OSError, EOFError, ValueError) as error:
        raise SiteError(
            f"{host.name}: it cannot be claimed for this session ({error}). Is the host up, and has it python3?"
        ) from error
    return answer


def _is_gone(holder: Holder) -> bool:
    """Tell whether a holder says that it is a process of this machine, and there is none."""
    if holder.get("controller") != platform.node():
        return False
    try:
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return True
    except (LookupError, TypeError, ValueError, OverflowError, OSError):  # nonsense, or the process of another user
        pass
    return False


def describe_holder(holder: Holder) -> str:
    """Return who holds a claim, and since when, whatever that one says of itself."""
    given = {key: str(holder.get(key, "?")) for key in ("session", "user", "pid", "controller", "since")}
    said = {key: "".join(each if each.isprintable() else "?" for each in text[:LONGEST]) for key, text in given.items()}
    return "session {session} of user {user} (process {pid} on {controller}) since {since}".format(**said)
