"""Inventories made of hosts that something else knows: the outputs of Terraform, or the nodes of a Slurm allocation.

Each host says its site and its role there, and each site becomes one inventory. A gateway that names no site serves all
of them. ``docs/many-hosts.md`` lists the fields of a host in ``terraform output -json``: `port` and `gateway` are taken
as they are in an inventory, what is null is as good as absent, and other outputs are not looked at.

Inside ``sbatch`` or ``salloc`` the nodes of the job take the roles in their order. Slurm has a short form of names:
``node[01-03,7],gpu5`` is node01, node02, node03, node7 and gpu5; its own `scontrol show hostnames` writes it out.
"""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites import inventory

FIELDS = tuple(inventory.Machine.model_fields)  # how a host is reached
OF_A_CLUSTER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.+-]{0,59})-(control|worker1|worker2)")
ROLES = "server, client, gateway, or SYSTEM-control, SYSTEM-worker1, SYSTEM-worker2 such as flannel-control"

OUTPUT = "infrabench_hosts"
LARGEST = 2**24  # bytes of outputs: those of other things may be many
LONGEST_VALUE = 4096  # characters
MOST_HOSTS = 1000
SHAPE = (
    f"An inventory is made of an output {OUTPUT}: a list of objects with address, role and, where needed, user, sudo, "
    "key, port, site, gateway, name."
)
KNOWN = ("name", "role", "roles", "site", *FIELDS)

LIST, JOB = "SLURM_JOB_NODELIST", "SLURM_JOB_ID"
LONGEST_LIST = 65536  # characters
MOST_NODES = 4096  # Slurm's own default of names in one list is 64 000, and no study has so many
SCONTROL_S = 20.0
_LIST = re.compile(r"[A-Za-z0-9_.,\[][A-Za-z0-9_.,\[\]-]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


@dataclass(frozen=True, slots=True)
class PlacedHost:
    """A host in its place. `site` is empty for a gateway of all sites; `called` is how errors name the host."""

    called: str
    site: str
    role: str
    reached: Mapping[str, Any]  # `FIELDS` that are known


def inventories(hosts: Sequence[PlacedHost], origin: str, known_hosts: str = "") -> dict[str, str]:
    """Return the YAML of one inventory for each site, by the site's name; `SiteError` says what is wrong and where.

    `origin` is what the hosts were read from, for errors. One machine has one name and one site; of one site, clusters
    may share it.
    """
    names = list(dict.fromkeys(host.site for host in hosts if host.site))
    if not names:
        raise SiteError(f"{origin}: no host, so no site")
    known: dict[tuple[str, ...], PlacedHost] = {}
    for host in hosts:
        key = tuple(str(host.reached.get(part, "")) for part in ("address", "port", "gateway"))
        first = known.setdefault(key, host)
        if first.called != host.called or first.site != host.site:
            where = "" if first.site == host.site else f", in the sites {first.site[:60]} and {host.site[:60]}"
            raise SiteError(f"{origin}: {first.called} and {host.called} have the same address{where}")
    return {name: _render_inventory(name, [each for each in hosts if each.site in (name, "")], origin, known_hosts)
            for name in names}  # fmt: skip


def _render_inventory(name: str, hosts: Sequence[PlacedHost], origin: str, known_hosts: str) -> str:
    data: dict[str, Any] = {"name": name, "hosts": {}, "gateways": {}, "clusters": {}}
    for host in hosts:
        if host.role in ("server", "client"):
            table, key = data["hosts"], host.role
        elif host.role == "gateway":
            table, key = data["gateways"], host.called
        elif match := OF_A_CLUSTER.fullmatch(host.role):
            table, key = data["clusters"].setdefault(match[1], {}), match[2]
        else:
            raise SiteError(f"{origin}: {host.called} has the unknown role {host.role[:60]!r}. Known are {ROLES}")
        if key in table:
            raise SiteError(f"{origin}: site {name[:60]} has {host.role} twice; {host.called} is the second")
        table[key] = dict(host.reached)
    data = {key: value for key, value in data.items() if value or key == "hosts"}
    if known_hosts:
        data["known_hosts"] = known_hosts
    inventory.parse_inventory(Path(f"{origin}, site {name[:60]}"), data)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=False, default_flow_style=None, width=1000)
    return f"# What its hosts lack: `infrabench hosts prepare FILE --dry-run`\n{text}"


def read_terraform(
    text: bytes, output: str = OUTPUT, default_site: str = "terraform", *, sensitive: bool = False
) -> list[PlacedHost]:  # fmt: skip
    """Return the hosts in Terraform's outputs, once for each role.

    Raises `SiteError` when it is no such JSON, the output or a field is absent, a field is unknown, or Terraform holds
    the output to be sensitive and `sensitive` is not given. No message has an address.
    """
    if len(text) > LARGEST:
        raise SiteError(f"more than {LARGEST} bytes: is it what terraform output -json printed?")
    found = _find_output(text, output)
    if found.get("sensitive") is not False and not sensitive:
        raise SiteError(
            f"Terraform holds the output {output} to be sensitive, and an inventory has its addresses in the clear. "
            "--sensitive writes it all the same, readable by you alone"
        )
    value = found["value"]
    if isinstance(value, Mapping):
        value = [{"name": key, **each} if isinstance(each, Mapping) else each for key, each in value.items()]
    if not isinstance(value, list) or not value:
        raise SiteError(f"the output {output} is no list of hosts. {SHAPE}")
    if len(value) > MOST_HOSTS:
        raise SiteError(f"the output {output} has {len(value)} hosts; {MOST_HOSTS} are the most")
    return [host for number, each in enumerate(value, 1) for host in _placed(each, number, output, default_site)]


def _find_output(text: bytes, output: str) -> Mapping[str, Any]:
    """Return what Terraform says of an output."""
    try:
        data = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:  # ValueError: also bytes that are no text
        raise SiteError(f"not JSON: {str(error)[:200]}. Run: terraform output -json") from error
    if not isinstance(data, Mapping):
        raise SiteError("these are not Terraform's outputs but a value. Run: terraform output -json (and no name)")
    if output not in data:
        there = ", ".join(sorted(str(name)[:60] for name in data)[:20]) or "none"
        raise SiteError(f"there is no output {output[:60]}; there are: {there}. {SHAPE} --output takes another name")
    found = data[output]
    if not isinstance(found, Mapping) or "value" not in found:
        raise SiteError(f"{output} is no output of Terraform: it has no value. Run: terraform output -json")
    return found


def _placed(each: Any, number: int, output: str, default_site: str) -> Iterator[PlacedHost]:
    where = f"{output}, host {number}"
    if not isinstance(each, Mapping):
        raise SiteError(f"{where} is no object. {SHAPE}")
    given = {key: value for key, value in each.items() if value is not None}
    if unknown := sorted(str(key)[:60] for key in given.keys() - set(KNOWN))[:10]:
        raise SiteError(f"{where} has unknown fields: {', '.join(unknown)}. Known are {', '.join(KNOWN)}")
    for key, value in given.items():
        if isinstance(value, str) and (len(value) > LONGEST_VALUE or not value.isprintable()):
            raise SiteError(f"{where}: {key} is too long, or has characters that cannot be printed")
    if not given.get("address"):
        raise SiteError(f"{where} has no address: does it have a public one? address may also be its name")
    roles = given.get("roles", [given["role"]] if "role" in given else [])
    if not isinstance(roles, list) or not roles or not all(isinstance(role, str) for role in roles):
        raise SiteError(f"{where} has no role. Give it role = one of {ROLES}; or roles, a list of them")
    if "role" in given and "roles" in given:
        raise SiteError(f"{where} has role and roles: give one of the two")
    name, site = given.get("name", f"host-{number}"), given.get("site", "" if roles == ["gateway"] else default_site)
    if not isinstance(name, str) or not isinstance(site, str):
        raise SiteError(f"{where}: name and site are text")
    for role in roles:
        yield PlacedHost(name[:60], site, role, {key: given[key] for key in FIELDS if key in given})


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def read_allocation(environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the job's number and the names of its nodes, in their order; `SiteError` where there is no allocation.

    `environment` is also where Slurm's program is found, where names are in the short form.
    """
    text, job = environment.get(LIST, ""), environment.get(JOB, "")
    if not text or not job:
        absent = ", ".join(name for name in (LIST, JOB) if not environment.get(name))
        raise SiteError(f"no Slurm allocation here: {absent} is not set. Use it inside sbatch or salloc")
    if not re.fullmatch(r"[0-9]{1,20}", job):
        raise SiteError(f"{JOB}={job[:40]!r} is no number of a job")
    if "SLURM_HET_SIZE" in environment:
        raise SiteError("a heterogeneous job has a list of nodes for each part: allocate nodes of one kind, a job each")
    if len(text) > LONGEST_LIST:
        raise SiteError(f"a list of {len(text)} characters is no list of hosts: {LONGEST_LIST} are the most")
    if not _LIST.fullmatch(text):
        raise SiteError(f"{text[:60]!r} is no list of hosts such as node[01-03,7],gpu5")
    names = text.split(",")
    if "[" in text:
        host = LocalHost(environment=environment)
        listed = host.run(("scontrol", "show", "hostnames", text), timeout_s=SCONTROL_S)
        if not listed.ok:
            why = listed.stderr.decode("utf-8", "replace").strip()[-200:] or listed.ending
            raise SiteError(f"{text[:60]!r} is written out by Slurm's scontrol, which fails here: {why}")
        names = listed.stdout.decode("utf-8", "replace").split()
    if not 0 < len(names) <= MOST_NODES:
        raise SiteError(f"{text[:60]!r} names {len(names)} hosts; {MOST_NODES} are the most")
    for name in names:
        if not _NAME.fullmatch(name):
            raise SiteError(f"{name[:60]!r} is no name of a host")
    if twice := [name for name, count in Counter(names).items() if count > 1][:5]:
        raise SiteError(f"the list names a host twice: {', '.join(twice)}")
    return job, tuple(names)


def assign_roles(
    job: str, names: Sequence[str], roles: Sequence[str], reached: Mapping[str, object], *, site: str = ""
) -> tuple[list[PlacedHost], tuple[str, ...]]:
    """Return the nodes in their places, and the names of those that are left over.

    As many nodes as there are roles make a site, the next ones another. `site` is the name, followed by a number where
    there are several; ``slurm-JOB`` where it is empty. A cluster's machines need addresses: their names are resolved.
    """
    wanted = tuple(roles) or ("server", "client")[: len(names)]
    if len(set(wanted)) < len(wanted):
        raise SiteError(f"a role is there twice: {', '.join(wanted)[:200]}")
    count = len(names) // len(wanted)
    if not count:
        told = ", ".join(wanted)[:200]
        raise SiteError(f"the job has {len(names)} nodes, and {len(wanted)} roles are asked for: {told}")
    title = site or f"slurm-{job}"
    found = [
        PlacedHost(name, title if count == 1 else f"{title}-{number // len(wanted) + 1}", role, {
            "address": _resolve(name) if OF_A_CLUSTER.fullmatch(role) else name, **reached,
        })
        for number, name in enumerate(names[: count * len(wanted)])
        for role in (wanted[number % len(wanted)],)
    ]  # fmt: skip
    return found, tuple(names[count * len(wanted) :])


def _resolve(name: str) -> str:
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SiteError(f"{name}: a cluster's machine needs an address; it has none: {error.strerror}") from error
