"""Everything that is wrong with a campaign, in one message, before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations

from infrabench.core import DesignError, InfrabenchError
from infrabench.experiment.campaign import jobs, plan, site_checks, sites
from infrabench.experiment.campaign.file import Campaign, Executor, Refused
from infrabench.experiment.campaign.jobs import Job, Stand
from infrabench.experiment.campaign.plan import Plan
from infrabench.experiment.campaign.site_checks import Answer
from infrabench.experiment.campaign.sites import Site
from infrabench.experiment.execution import preflight
from infrabench.ledger import catalogue
from infrabench.machines.hosts import kernels


def read_plan(campaign: Campaign, executor: Executor = "local") -> Plan:
    """Return the plan of a campaign as far as its files and ledgers say: no site is asked.

    Raises `Refused` with everything that is wrong.
    """
    known, found, wrong = _read(campaign, executor)
    stands, foreign = _stands(found)
    if wrong or foreign:
        raise Refused(campaign.path, wrong + foreign)
    return _plan(campaign, found, stands, known, {})


def check_all(campaign: Campaign, executor: Executor = "local", without: Collection[str] = ()) -> Plan:
    """Return the plan of a campaign that can be started now: every site was asked. `Refused` has all that is wrong.

    Sites that are left out of this start are not asked, and neither are those that have nothing left to do.
    """
    known, found, wrong = _read(campaign, executor)
    wrong += [f"there is no site {name!r} to leave out" for name in sorted(set(without) - campaign.sites.keys())]
    stands, foreign = _stands(found)
    done = {label for label in known if _is_done(label, found, stands)}
    try:
        site_checks.check_parity(campaign.parity)
        parity = campaign.parity
    except DesignError as error:
        wrong.append(f"{campaign.where('parity')}: {error}")
        parity = ()
    systems = {name for job in found for name in job.wanted.systems}
    workloads = {case.workload for job in found for case in job.wanted.cases}
    there = [site for site in known.values() if site.label not in {*without, *done}]
    answers = site_checks.ask_all(there, systems, workloads, parity)
    wrong += [f"{campaign.where('sites', each.label)}: {each.wrong}" for each in answers.values() if each.wrong]
    wrong += _common(campaign, known, answers, systems)
    wrong += site_checks.find_inequalities(answers, parity)
    planned = replace(_plan(campaign, found, stands, known, answers), without=frozenset(without))
    if not foreign and found:
        try:
            preflight.check_ledger(catalogue.home() / "data" / "runs", plan.ledger_bytes(planned))
        except InfrabenchError as error:
            foreign.append(str(error))
    if wrong or foreign:
        raise Refused(campaign.path, wrong + foreign)
    return planned


def _read(campaign: Campaign, executor: Executor) -> tuple[dict[str, Site], list[Job], list[str]]:
    known, wrong = sites.read_sites(campaign, executor)
    found, unasked = jobs.of(campaign, known)
    wrong += unasked + sites.find_duplicates(known)
    for number, group in enumerate(campaign.shares):
        where = campaign.where("shares", str(number))
        unknown = sorted(group - campaign.sites.keys())
        wrong += [f"{where}: there is no site {name!r} in this campaign" for name in unknown]
        if len(group) < 2:
            wrong.append(f"{where}: a group has two sites or more")
    return known, found, wrong


def _stands(found: list[Job]) -> tuple[dict[str, Stand], list[str]]:
    """Return how far each job is, and the sessions that are there and are not those that the campaign asks for."""
    stands, wrong = dict[str, Stand](), list[str]()
    for job in found:
        try:
            stands[job.id] = jobs.stand(job)
        except InfrabenchError as error:
            wrong.append(f"{job.id}: {error}")
    return stands, wrong


def _is_done(label: str, found: list[Job], stands: Mapping[str, Stand]) -> bool:
    mine = [job.id for job in found if job.site.label == label]
    return bool(mine) and all(each in stands and stands[each].state == "complete" for each in mine)


def _plan(
    campaign: Campaign, found: list[Job], stands: Mapping[str, Stand], known: Mapping[str, Site],
    answers: Mapping[str, Answer],
) -> Plan:  # fmt: skip
    here = kernels.this_kernel()
    alone = {site.label for site in known.values() if site.on_this_machine}
    steered = [each for each in answers.values() if known[each.label].steered_here]
    alone |= {each.label for each in steered if any(kernels.is_one_kernel(here, its) for its in each.kernels.values())}
    return Plan(campaign.name, found, stands, campaign.shares, frozenset(alone))


def _common(
    campaign: Campaign, known: Mapping[str, Site], answers: Mapping[str, Answer], systems: set[str]
) -> list[str]:
    """Return the pairs of sites with a machine in common that the campaign does not say to share anything."""
    kernels, wrong = site_checks.common_kernels(answers), list[str]()
    addresses = {
        label: {address: role for role, address in sites.machines(site, sorted(systems)).items()}
        for label, site in known.items()
    }
    for a, b in combinations(known, 2):
        if sites.is_declared(campaign, a, b) or known[a].same == known[b].same:
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
