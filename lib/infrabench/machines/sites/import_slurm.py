"""Inventories from a Slurm allocation: inside ``sbatch`` or ``salloc``, its nodes take the roles in their order.

Slurm has a short form of many host names: ``node[01-03,7],gpu5`` is node01, node02, node03, node7 and gpu5. Its own
`scontrol show hostnames` writes it out.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.import_write import OF_A_CLUSTER, PlacedHost

LONGEST = 65536  # characters of a list
MOST = 4096  # hosts; Slurm's own default of names in one list is 64 000, and no study has so many
_LIST = re.compile(r"[A-Za-z0-9_.,\[][A-Za-z0-9_.,\[\]-]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
LIST, JOB, PARTS = "SLURM_JOB_NODELIST", "SLURM_JOB_ID", "SLURM_HET_SIZE"
SCONTROL_S = 20.0
USUAL = ("server", "client")


def expand_list(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the host names of a list, in its order; `SiteError` for what is no list, or names a host twice.

    `environment`: where Slurm's program is found, where names are in the short form.
    """
    if len(text) > LONGEST:
        raise SiteError(f"a list of {len(text)} characters is no list of hosts: {LONGEST} are the most")
    if not _LIST.fullmatch(text):
        raise SiteError(f"{text[:60]!r} is no list of hosts such as node[01-03,7],gpu5")
    names = text.split(",")
    if "[" in text:
        host = LocalHost(environment=environment)
        told = host.run(("scontrol", "show", "hostnames", text), timeout_s=SCONTROL_S)
        if not told.ok:
            why = told.stderr.decode("utf-8", "replace").strip()[-200:] or told.ending
            raise SiteError(f"{text[:60]!r} is written out by Slurm's scontrol, which fails here: {why}")
        names = told.stdout.decode("utf-8", "replace").split()
    if not 0 < len(names) <= MOST:
        raise SiteError(f"{text[:60]!r} names {len(names)} hosts; {MOST} are the most")
    for name in names:
        if not _NAME.fullmatch(name):
            raise SiteError(f"{name[:60]!r} is no name of a host")
    if twice := [name for name, count in Counter(names).items() if count > 1][:5]:
        raise SiteError(f"the list names a host twice: {', '.join(twice)}")
    return tuple(names)


def nodes(environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the job's number and the names of its nodes; `SiteError` where there is no allocation."""
    text, job = environment.get(LIST, ""), environment.get(JOB, "")
    if not text or not job:
        absent = ", ".join(name for name in (LIST, JOB) if not environment.get(name))
        raise SiteError(f"no Slurm allocation here: {absent} is not set. Use it inside sbatch or salloc")
    if not re.fullmatch(r"[0-9]{1,20}", job):
        raise SiteError(f"{JOB}={job[:40]!r} is no number of a job")
    if PARTS in environment:
        raise SiteError("a heterogeneous job has a list of nodes for each part: allocate nodes of one kind, a job each")
    return job, expand_list(text, environment)


def assign_roles(
    job: str, names: Sequence[str], roles: Sequence[str], reached: Mapping[str, object], *, site: str = ""
) -> tuple[list[PlacedHost], tuple[str, ...]]:
    """Return the nodes in their places, and the names of those that are left over.

    As many nodes as there are roles make a site, the next ones another. `site` is the name, followed by a number where
    there are several; ``slurm-JOB`` where it is empty. A cluster's machines need addresses: their names are resolved.
    """
    wanted = tuple(roles) or USUAL[: len(names)]
    if len(set(wanted)) < len(wanted):
        raise SiteError(f"a role is there twice: {', '.join(wanted)[:200]}")
    count = len(names) // len(wanted)
    if not count:
        told = ", ".join(wanted)[:200]
        raise SiteError(f"the job has {len(names)} nodes, and {len(wanted)} roles are asked for: {told}")
    title = site or f"slurm-{job}"
    found = [
        PlacedHost(name, title if count == 1 else f"{title}-{number // len(wanted) + 1}", role, {
            "address": _address(name) if OF_A_CLUSTER.fullmatch(role) else name, **reached,
        })
        for number, name in enumerate(names[: count * len(wanted)])
        for role in (wanted[number % len(wanted)],)
    ]  # fmt: skip
    return found, tuple(names[count * len(wanted) :])


def _address(name: str) -> str:
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SiteError(f"{name}: a cluster's machine needs an address; it has none: {error.strerror}") from error
