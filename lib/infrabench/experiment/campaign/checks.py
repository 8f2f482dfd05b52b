"""Everything that is wrong with a campaign, in one message, before anything is started.

Every site is asked, all at once and for seconds only: is it there, on which machines, and what has to be equal?
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from infrabench import registry
from infrabench.core import Host, InfrabenchError, SiteError, Target, unknown_name
from infrabench.experiment.campaign import file, plan, summary
from infrabench.experiment.campaign.file import Campaign, Executor, Refused, Site
from infrabench.experiment.campaign.plan import Job, Plan, Stand
from infrabench.experiment.execution import preflight
from infrabench.experiment.provenance import collect
from infrabench.experiment.provenance.comparability import PARITY, TOOLS, is_same_memory
from infrabench.ledger import catalogue
from infrabench.machines.hosts import claims, parallel
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites import inventory as inventories
from infrabench.machines.sites import kubeconfig
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.kubeconfig import Kubeconfig
from infrabench.machines.sites.platforms import find_platforms

ANSWER_S = 10.0


def read_plan(campaign: Campaign, executor: Executor = "local") -> Plan:
    """Return the plan of a campaign as far as its files and ledgers say; `Refused` has everything that is wrong.

    Sites and sessions that cannot be read are in it, as missing. Which sites are measured alone, the last start says.
    """
    known, jobs, wrong = _read(campaign, executor, campaign.sites)
    if wrong:
        raise Refused(campaign.path, wrong)
    planned = _plan(campaign, jobs, _stands(jobs, campaign.sites)[0], known, {})
    alone = summary.read_alone(campaign.name)
    return planned if alone is None else replace(planned, alone=alone)


def check_all(campaign: Campaign, executor: Executor = "local", without: Collection[str] = ()) -> Plan:
    """Return the plan of a campaign that can be started now: every site was asked. `Refused` has all that is wrong.

    Sites that are left out of this start are not asked, and neither are those that have nothing left to do.
    """
    known, jobs, wrong = _read(campaign, executor, without)
    wrong += [f"there is no site {name!r} to leave out" for name in sorted(set(without) - campaign.sites.keys())]
    stands, foreign = _stands(jobs, without)
    complete = {each for each, stand in stands.items() if stand.state == "complete"}
    done = {job.site.label for job in jobs} - {job.site.label for job in jobs if job.id not in complete}
    parity = tuple(name for name in campaign.parity if name in PARITY)
    unknown = (unknown_name("name in parity", name, PARITY) for name in campaign.parity if name not in PARITY)
    wrong += [f"{campaign.where('parity')}: {error}" for error in unknown]
    systems = {name for job in jobs for name in job.wanted.systems}
    workloads = {case.workload for job in jobs for case in job.wanted.cases}
    there = [site for site in known.values() if site.label not in {*without, *done}]
    answers = ask_all(there, systems, workloads, parity)
    wrong += [f"{campaign.where('sites', each.label)}: {each.wrong}" for each in answers.values() if each.wrong]
    wrong += _common(campaign, known, answers, systems)
    wrong += find_inequalities(answers, parity)
    planned = replace(_plan(campaign, jobs, stands, known, answers), without=frozenset(without))
    unasked = (summary.read_alone(campaign.name) or frozenset()) & (known.keys() - answers.keys())
    planned = replace(planned, alone=planned.alone | unasked)
    if not foreign and jobs:
        try:
            preflight.check_ledger(catalogue.home() / "data" / "runs", plan.ledger_bytes(planned))
        except InfrabenchError as error:
            foreign.append(str(error))
    if wrong or foreign:
        raise Refused(campaign.path, wrong + foreign)
    return planned


def _read(
    campaign: Campaign, executor: Executor, without: Collection[str]
) -> tuple[dict[str, Site], list[Job], list[str]]:
    known, wrong = file.read_sites(campaign, executor, without)
    found, unasked = plan.list_jobs(campaign, known)
    wrong += unasked + file.find_duplicates(known)
    for number, group in enumerate(campaign.shares):
        where = campaign.where("shares", str(number))
        unknown = sorted(group - campaign.sites.keys())
        wrong += [f"{where}: there is no site {name!r} in this campaign" for name in unknown]
        if len(group) < 2:
            wrong.append(f"{where}: a group has two sites or more")
    return known, found, wrong


def _stands(found: list[Job], without: Collection[str]) -> tuple[dict[str, Stand], list[str]]:
    """Return how far each job is, and the sessions that are there and are not those that the campaign asks for.

    At a site that is left out such a session is no fault: it counts as missing.
    """
    stands, wrong = dict[str, Stand](), list[str]()
    for job in found:
        try:
            stands[job.id] = plan.read_stand(job)
        except InfrabenchError as error:
            stands[job.id] = plan.initial_stand(job)
            wrong += [] if job.site.label in without else [f"{job.id}: {error}"]
    return stands, wrong


def _plan(
    campaign: Campaign, found: list[Job], stands: Mapping[str, Stand], known: Mapping[str, Site],
    answers: Mapping[str, Answer],
) -> Plan:  # fmt: skip
    here = claims.boot_time(LocalHost())
    alone = {site.label for site in known.values() if site.on_this_machine}
    steered = [each for each in answers.values() if known[each.label].steered_here]
    alone |= {each.label for each in steered if any(claims.is_one_kernel(here, its) for its in each.kernels.values())}
    return Plan(campaign.name, found, stands, campaign.shares, frozenset(alone))


def _common(
    campaign: Campaign, known: Mapping[str, Site], answers: Mapping[str, Answer], systems: set[str]
) -> list[str]:
    """Return the pairs of sites with a machine in common that the campaign does not say to share anything."""
    kernels, wrong = common_kernels(answers), list[str]()
    addresses = {
        label: {address: role for role, address in file.machines(site, sorted(systems)).items()}
        for label, site in known.items()
    }
    for a, b in combinations(known, 2):
        if any({a, b} <= group for group in campaign.shares) or known[a].same == known[b].same:
            continue
        if both := sorted(addresses[a].keys() & addresses[b].keys()):
            how = f"{addresses[a][both[0]]} of {a} and {addresses[b][both[0]]} of {b} have one address"
        elif (a, b) in kernels:
            one, other = kernels[a, b]
            how = f"{one} of {a} and {other} of {b} run on one kernel, and so on one machine"
        else:
            continue
        wrong.append(f"sites {a} and {b} share a machine: {how}. Write shares: [[{a}, {b}]], and they take turns")
    return wrong


@dataclass(frozen=True)
class Answer:
    """What a site said: what is wrong with it, when each machine's kernel started (role -> ns), and facts by role."""

    label: str
    wrong: str = ""
    kernels: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # what -> role -> value
    silent: Mapping[str, str] = field(default_factory=dict)  # what -> why it cannot be said


def ask_all(
    sites: Collection[Site], systems: Collection[str], workloads: Collection[str], parity: Sequence[str]
) -> dict[str, Answer]:
    """Return the answer of every site by label; they are asked at the same time, and none for longer than seconds."""
    answers = parallel.run_all(lambda site: _answer(site, systems, workloads, parity), sites)
    return {each.label: each for each in answers}


def common_kernels(answers: Mapping[str, Answer]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the pairs of sites that have a kernel, and so a machine, in common, with its role in each."""
    common = {}
    for a, b in combinations(answers.values(), 2):
        for role, kernel in a.kernels.items():
            other = next((name for name, its in b.kernels.items() if claims.is_one_kernel(its, kernel)), None)
            if other is not None:
                common[a.label, b.label] = (role, other)
                break
    return common


def find_inequalities(answers: Mapping[str, Answer], parity: Sequence[str]) -> list[str]:
    """Return, in words, what was to be equal and is not, or cannot be said, by role."""
    sentences = []
    for what in parity:
        silent = {each.label: each.silent[what] for each in answers.values() if what in each.silent}
        sentences += [f"parity: {what} of {label}: {why}" for label, why in silent.items()]
        facts = {each.label: each.facts[what] for each in answers.values() if what in each.facts}
        for role in dict.fromkeys(role for values in facts.values() for role in values):
            values = {label: by_role[role] for label, by_role in facts.items() if role in by_role}
            if not _agree(what, values.values()):
                shown = ", ".join(f"{label} {value}" for label, value in values.items())
                sentences.append(f"parity: {what} ({role}) differs: {shown}")
    return sentences


def _agree(what: str, values: Collection[str]) -> bool:
    if what == "memory" and all(map(str.isdecimal, values)):
        return is_same_memory(max(map(int, values)), min(map(int, values)))
    return len(set(values)) < 2


def _answer(site: Site, systems: Collection[str], workloads: Collection[str], parity: Sequence[str]) -> Answer:
    try:
        if isinstance(site.read, Inventory):
            return _of_hosts(site, site.read, systems, workloads, parity)
        if isinstance(site.read, Kubeconfig):
            return _of_cluster(site, site.read, parity)
        if not site.steered_here:
            why = "what a job of the engine finds itself on cannot be asked before the job"
            return Answer(site.label, silent=dict.fromkeys(parity, why))
        return _of_this_machine(site, workloads, parity)
    except InfrabenchError as error:
        return Answer(site.label, str(error))


def _of_hosts(
    site: Site, inventory: Inventory, systems: Collection[str], workloads: Collection[str], parity: Sequence[str]
) -> Answer:
    with inventories.open_hosts(inventory, inventory.machines(systems)) as hosts:
        started = {role: claims.boot_time(host) for role, host in hosts.items()}
        facts = dict[str, dict[str, str]]()
        for role, host in hosts.items():
            for what, value in _facts(host, workloads if role in inventory.hosts else (), parity).items():
                facts.setdefault(what, {})[role] = value
    return Answer(site.label, kernels=started, facts=facts)


def _of_cluster(site: Site, config: Kubeconfig, parity: Sequence[str]) -> Answer:
    here = LocalHost()
    command = kubeconfig.check_access(config, here)
    keys = {what: PARITY[what].of_a_node for what in parity if PARITY[what].of_a_node}
    silent = {what: "a cluster does not say it of its nodes" for what in parity if what not in keys}
    if len(silent) == len(parity):
        return Answer(site.label, silent=silent)
    result = here.run((*command, "get", "nodes", "-o", "json"), timeout_s=ANSWER_S)
    if not result.ok:
        tail = result.stderr.decode("utf-8", "replace").strip()[-200:]
        raise SiteError(f"{here.name}: {command[0]} {result.ending}: {tail}")
    infos = [each["status"]["nodeInfo"] for each in json.loads(result.stdout)["items"]]
    facts = {what: {"server": ", ".join(sorted({info[key] for info in infos}))} for what, key in keys.items()}
    return Answer(site.label, facts=facts, silent=silent)


def _of_this_machine(site: Site, workloads: Collection[str], parity: Sequence[str]) -> Answer:
    here = LocalHost()
    silent: dict[str, str] = {}
    if site.kind == "lab":
        find_platforms().require_lab()
        silent = {what: "its nodes can be asked when it is up" for what in parity if not PARITY[what].of_a_lab}
    known = [what for what in parity if what not in silent]
    facts = {what: {"server": value} for what, value in _facts(here, workloads, known).items()}
    return Answer(site.label, kernels={"server": claims.boot_time(here)}, facts=facts, silent=silent)


def _facts(host: Host, workloads: Collection[str], parity: Sequence[str]) -> dict[str, str]:
    """Return what a host says of each part of the parity; the tools are those of the workloads, where it has any."""
    whole: dict[str, Any] = collect.of_host(host) if parity else {}
    facts = {}
    for what in (each for each in parity if each != TOOLS):
        group, key = PARITY[what].path
        value = whole.get(group, {}).get(key)
        facts[what] = "nothing" if value is None else str(value)
    if TOOLS in parity and workloads:
        target, versions = Target(host.name, host, address=host.address), []
        for name in sorted(workloads):
            try:
                versions.append(f"{name} {registry.workload(name).version(target)}")
            except InfrabenchError:  # it is not there, or is made where it is used
                versions.append(f"{name} not there")
        facts[TOOLS] = ", ".join(versions)
    return facts
