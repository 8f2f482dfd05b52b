"""Inventories from a Slurm allocation: inside ``sbatch`` or ``salloc``, its nodes take the roles in their order.

Slurm has a short form of many host names: ``node[01-03,7],gpu5`` is node01, node02, node03, node7 and gpu5. Its own
`scontrol show hostnames` is asked where it is there; `expand_list` is for where it is not (inside a container, say).
"""

from __future__ import annotations

import re
import shutil
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.import_write import OF_A_CLUSTER, PlacedHost

LONGEST = 65536  # characters of a list
MOST = 4096  # hosts; Slurm's own default of names in one list is 64 000, and no study has so many
_PART = r"(?:[A-Za-z0-9_.-]|\[[0-9,-]+\])+"
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
LIST, JOB, PARTS = "SLURM_JOB_NODELIST", "SLURM_JOB_ID", "SLURM_HET_SIZE"
SCONTROL_S = 20.0
USUAL = ("server", "client")


def expand_list(text: str) -> tuple[str, ...]:
    """Return the host names of a list, in its order; `SiteError` for what is no list, or names a host twice."""
    if len(text) > LONGEST:
        raise SiteError(f"a list of {len(text)} characters is no list of hosts: {LONGEST} are the most")
    if not re.fullmatch(f"{_PART}(?:,{_PART})*", text):
        raise SiteError(f"{text[:60]!r} is no list of hosts such as node[01-03,7],gpu5")
    names: list[str] = []
    for part in re.findall(_PART, text):
        pieces = [
            _numbers(piece[1:-1], text) if piece[0] == "[" else (piece,)
            for piece in re.findall(r"\[[^\]]*\]|[^\[\]]+", part)
        ]
        count = 1
        for piece in pieces:
            count *= len(piece)
        _check_count(len(names) + count, text)
        names += ["".join(words) for words in product(*pieces)]
    return check_names(names)


def check_names(names: list[str]) -> tuple[str, ...]:
    """Return names of hosts if that is what they are, each once and not too many; `SiteError` else."""
    _check_count(len(names), ",".join(names[:5]))
    for name in names:
        if not _NAME.fullmatch(name):
            raise SiteError(f"{name[:60]!r} is no name of a host")
    if twice := [name for name, count in Counter(names).items() if count > 1][:5]:
        raise SiteError(f"the list names a host twice: {', '.join(twice)}")
    return tuple(names)


def _numbers(ranges: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each)
        if not match:
            raise SiteError(f"{each[:40]!r} in {text[:60]!r} is neither a number nor a range of numbers")
        first, last = match[1], match[2] or match[1]
        # Leading zeros are a width that the numbers keep; without them a number is as long as it is.
        width = len(first)
        if int(last) < int(first):
            raise SiteError(f"the range {each} in {text[:60]!r} runs backwards")
        _check_count(len(found) + int(last) - int(first) + 1, text)
        found += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return tuple(found)


def _check_count(count: int, text: str) -> None:
    if count > MOST:
        raise SiteError(f"{text[:60]!r} names {count} hosts; {MOST} are the most")


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
    ours = expand_list(text)
    return job, _by_scontrol(text, environment) or ours


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


def _by_scontrol(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names as Slurm itself writes them out; nothing where it does not answer."""
    if not shutil.which("scontrol", path=environment.get("PATH")):
        return ()
    told = LocalHost(environment=environment).run(("scontrol", "show", "hostnames", text), timeout_s=SCONTROL_S)
    return check_names(told.stdout.decode("utf-8", "replace").split()) if told.ok else ()


def _address(name: str) -> str:
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SiteError(f"{name}: a cluster's machine needs an address; it has none: {error.strerror}") from error
