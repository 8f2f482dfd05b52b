"""What is found before the first trial: that every trial of the plan can start on this site."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infrabench.core import (
    Case,
    CommandFailed,
    Deployment,
    DesignError,
    Host,
    LedgerError,
    NotRunnable,
    ParseError,
    Site,
    SiteError,
    Step,
    Target,
    Workload,
    plan_steps,
    share_out,
)
from infrabench.experiment.design.design import Design, Treatment

SPARE = 1.1  # a disk that is filled to the last byte measures something else
MIB = 2**20
LISTENS = "0A"  # state of a socket in /proc/net/tcp
KNOCK_S = 6.0  # of three packets one arrives, or none is let through
# $1: an address, $2: a port on which nothing listens yet: to be refused is an answer.
_KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
except ConnectionRefusedError:
    pass
except OSError as error:
    sys.exit(error.strerror or "no answer")
"""


class Checked(NamedTuple):
    """What cannot run, and every tool's version."""

    refused: dict[str, str]  # workload -> reason, naming the system or host
    versions: dict[str, dict[str, str]]  # system -> workload -> what the tool says about itself
    not_applicable: dict[Treatment, str]  # (system, workload, scenario) that the system has no place for -> reason


def roles(site: Site, deployment: Deployment) -> dict[str, Target]:
    """Return the targets of a trial by role: the deployment's own, and the load-making ``client`` host.

    On a site of one host the client is that host itself: then load and system share its CPUs.
    """
    client = site.hosts.get("client", site.hosts["server"])
    return {"client": Target("client", client, address=client.address), **deployment.targets}


def watched_hosts(site: Site, deployment: Deployment) -> dict[str, Host]:
    """Return the hosts by role that are watched while a system is measured: its own machines, or else the site's.

    Where it has cgroups, the server is the host that they are on.
    """
    own = {"server": deployment.targets["server"].host} if deployment.facts.get("cgroups") else {}
    return deployment.machines or {**site.hosts, **own}


def check(
    design: Design, site: Site, deployments: Mapping[str, Deployment], workloads: Mapping[str, Workload]
) -> Checked:
    """Return the workloads that cannot run on some system, the treatments that do not apply, every tool's version.

    A workload is refused for all systems when its tool is missing on one: that can be mended. A case that a system has
    no place for is left out for that system alone. Raises `DesignError` when a workload plans steps for a role that
    this site does not have, or two steps of the same name.
    """
    refused, absent = dict[str, str](), dict[Treatment, str]()
    versions: dict[str, dict[str, str]] = {name: {} for name in deployments}
    ways: dict[str, str | None] = {}  # from the client to each system: None, or what is wrong
    for name, workload in workloads.items():
        for system, deployment in deployments.items():
            reason = workload.supported(deployment)
            reason = reason or _port_taken(design, name, deployment.targets["server"])
            if reason is None:
                targets = roles(site, deployment)
                role, placeless = _role(design, name, workload, targets)
                absent |= {(system, name, scenario): why for scenario, why in placeless.items()}
                if role is not None:
                    versions[system][name], reason = _version(workload, targets[role])
                if role == "client" and (ports := _ports(design, name)):
                    if system not in ways:  # one port tells of all: what is dropped is dropped by address
                        ways[system] = _cut_off(targets["client"], targets["server"], min(ports))
                    reason = reason or ways[system]
            if reason is not None:
                refused[name] = f"{system}: {reason}"
                break
    versions = {s: {k: v for k, v in tools.items() if k not in refused} for s, tools in versions.items()}
    return Checked(refused, versions, {key: why for key, why in absent.items() if key[1] not in refused})


def untested(versions: Mapping[str, Mapping[str, str]], workloads: Mapping[str, Workload]) -> dict[str, dict[str, str]]:
    """Return, by system and workload, the tools whose version no test of their parser has an output of: a sentence.

    No reason to refuse them: a parser reads what it knows or says what it does not.
    """
    found: dict[str, dict[str, str]] = {}
    for system, tools in versions.items():
        for name, version in tools.items():
            reads: tuple[str, ...] = getattr(workloads[name], "READS", ())
            if reads and version not in reads and not version.startswith(tuple(f"{each} " for each in reads)):
                sentence = f"no test has an output of {version}; those of {', '.join(reads)} are read"
                found.setdefault(system, {})[name] = sentence
    return found


def compare_tools(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a sentence for each workload whose tool is not of one version in all systems: as native's on own hosts.

    >>> compare_tools({"native": {"fio": "3.33"}, "docker": {"fio": "3.39"}, "lxc": {"fio": "3.39"}})
    ['fio: 3.33 in native, 3.39 in docker, lxc: what differs may be the tool, and not the system']
    """
    found = list[str]()
    for workload in dict.fromkeys(name for tools in versions.values() for name in tools):
        systems: dict[str, list[str]] = {}
        for system, tools in versions.items():
            if workload in tools:
                systems.setdefault(tools[workload], []).append(system)
        if len(systems) > 1:
            told = ", ".join(f"{version} in {', '.join(names)}" for version, names in systems.items())
            found.append(f"{workload}: {told}: what differs may be the tool, and not the system")
    return found


def compare_servers(content: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each program that is not one file on all servers: versions may be those of a client."""
    servers = {system: parts["targets"].get("server", {}) for system, parts in content["systems"].items()}
    sums = {
        system: {name: f"sha256 {each['sha256'][:12]}" for name, each in place.get("programs", {}).items()}
        for system, place in servers.items()
    }
    return compare_tools(sums)


def describe_speed(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each setting of hosts that lets the speed of their processors or memory wander.

    `hosts`: by name, what each says of itself (`collect.of_host`); what it does not say is not judged.

    >>> describe_speed({"server": {"power": {"boost": "1"}}})
    ['server: turbo is on: how fast a core is hangs on how warm it is and on what the others do']
    """
    found: dict[str, list[str]] = {}
    for name, facts in hosts.items():
        power, machine, nodes = ((facts.get(key) or {}) for key in ("power", "machine", "numa"))
        said = list[str]()
        if (governor := power.get("governor")) not in (None, "performance"):
            said.append(f"the governor is {governor}, with which a clock rate follows the load of before")
        if power.get("boost") == "1" or power.get("intel_no_turbo") == "0":
            said.append("turbo is on: how fast a core is hangs on how warm it is and on what the others do")
        if machine.get("smt") == "on":
            said.append("processors share a core (SMT): the speed of a thread hangs on its neighbour")
        if len(nodes) > 1:
            lists = ", ".join(nodes.values())
            said.append(f"there are {len(nodes)} memory nodes (processors {lists}): memory is near or far by chance")
        for sentence in said:
            found.setdefault(sentence, []).append(name)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in found.items()]


def check_ledger(folder: Path, need: int) -> None:
    """Raise `LedgerError` when `folder` cannot be written to, `SiteError` when its disk has less than `need` bytes."""
    here = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    if not here.is_dir() or not os.access(here, os.W_OK | os.X_OK):
        raise LedgerError(
            f"session folder {folder}: {here} is no folder that this user can write to; name another session, or set "
            "INFRABENCH_HOME to a folder of your own"
        )
    _compare(f"the ledger's disk ({here})", shutil.disk_usage(here).free, int(need * SPARE))


def check_disks(design: Design, deployments: Mapping[str, Deployment]) -> None:
    """Raise `SiteError` when a target has less space than the largest file of a case needs."""
    for system, deployment in deployments.items():
        for case in design.cases:
            if case.disk_bytes and (system, case.workload, case.scenario) not in design.excluded:
                path = str(case.params.get("directory", "/"))
                free = _free_bytes(deployment.targets["server"], path)
                _compare(f"{system}, {path} ({case.workload} {case.scenario})", free, int(case.disk_bytes * SPARE))


def _role(
    design: Design, name: str, workload: Workload, targets: Mapping[str, Target]
) -> tuple[str | None, dict[str, str]]:
    """Return the role that a workload measures from (None: no scenario applies), and why other scenarios do not."""
    role, absent = None, dict[str, str]()
    for case in design.cases:
        if case.workload == name:
            try:
                steps = plan_steps(workload, share_out(case.params, workload.PARAMS, case.rounds), targets)
            except NotRunnable as error:
                absent[case.scenario] = str(error)
                continue
            _check_steps(case, steps, targets)
            role = next((step.role for step in steps if step.phase == "measure" and not step.host), role or "server")
    return role, absent


def _version(workload: Workload, target: Target) -> tuple[str, str | None]:
    """Return the version of the tool that is measured with, or the reason why it gives none."""
    try:
        return workload.version(target), None
    except CommandFailed as error:
        return "", f"its tool does not run on {target.role} {target.host.name}: {error}"
    except ParseError as error:
        return "", f"the tool on {target.role} {target.host.name} does not tell its version: {error}"


def _ports(design: Design, name: str) -> set[int]:
    """Return the ports on which the server of a workload is to listen."""
    return {case.params["port"] for case in design.cases if case.workload == name and "port" in case.params}


def _cut_off(client: Target, server: Target, port: int) -> str | None:
    """Return None, or that the client gets no answer from where the server of a workload is to listen."""
    if not server.address or client.host is server.host:
        return None
    argv = ("python3", "-c", _KNOCK, server.address, str(port), str(KNOCK_S))
    result = client.run(argv, timeout_s=KNOCK_S + 10)
    if result.ok:
        return None
    why = (result.stderr or result.stdout).decode("utf-8", "replace").strip() or result.ending
    where, carrier = client.host.name, server.host.name
    return (
        f"{where} does not reach it ({why.splitlines()[-1]}). Does a packet filter on {carrier} drop what is forwarded?"
        " Let through there what goes to and comes from the guests' network (iptables -I FORWARD -d NETWORK -j ACCEPT, "
        "and -s)"
    )


def _port_taken(design: Design, name: str, target: Target) -> str | None:
    """Return None, or that something listens inside the target already on a port that the workload's server needs."""
    ports = _ports(design, name)
    if not ports:
        return None
    sockets = target.run(("sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null"), timeout_s=20).stdout.decode()
    rows = [line.split() for line in sockets.splitlines()]
    taken = ports & {int(row[1].rsplit(":", 1)[1], 16) for row in rows if len(row) > 3 and row[3] == LISTENS}
    which = ", ".join(str(port) for port in sorted(taken))
    return f"something listens on port {which} there; stop it (ss -ltnp tells what it is)" if taken else None


def _check_steps(case: Case, steps: Any, targets: Mapping[str, Target]) -> None:
    names = [step.name for step in steps if isinstance(step, Step)]
    for step in steps:
        if not isinstance(step, Step) or any(not isinstance(part, str) for part in step.argv):
            raise DesignError(f"workload {case.workload!r} must plan core.Step objects with text arguments: {step!r}")
        if step.role not in targets:
            raise DesignError(f"workload {case.workload!r} needs a host of role {step.role!r}; this site has none")
        if names.count(step.name) > 1:
            raise DesignError(f"workload {case.workload!r} plans two steps called {step.name!r}; rename one")
    if not any(step.phase == "measure" for step in steps):
        raise DesignError(f"workload {case.workload!r} at {case.scenario!r} plans nothing to measure")


def _free_bytes(target: Target, path: str) -> int:
    result = target.run(("df", "-P", "-B1", path), timeout_s=20)
    if not result.ok:
        result = target.run(("df", "-P", "-B1", "/"), timeout_s=20)  # a folder that the workload makes itself
    try:
        return int(result.stdout.decode().splitlines()[-1].split()[3])
    except (IndexError, ValueError) as error:
        raise SiteError(f"{target.role} {target.host.name}: df does not tell the free space of {path}") from error


def _compare(where: str, free: int, need: int) -> None:
    if free < need:
        raise SiteError(
            f"{where} has {free / MIB:.0f} MiB free and the plan needs {need / MIB:.0f} MiB: "
            "free some, or take a smaller profile or fewer workloads"
        )
