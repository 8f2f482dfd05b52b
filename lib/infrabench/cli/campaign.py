"""The commands of `infrabench campaign`: plan or run one, say how far it is, and compare what its sites say."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from infrabench.cli.subcommands import Subparsers, add_command, add_group, add_sessions
from infrabench.core import DesignError, InfrabenchError

if TYPE_CHECKING:
    from infrabench.experiment.campaign.engine import How
    from infrabench.experiment.campaign.plan import Plan


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `campaign`."""
    text = "run studies on several sites, and compare what the sites say"
    group = add_group(subparsers, "campaign", text, "plan campaign.yml")
    for name, command, text in (
        ("run", run, "run studies on several sites, or go on with it"),
        ("plan", plan, "ask the sites and print the plan, and start nothing"),
        ("status", status, "say what is there and what is missing, and ask no site"),
    ):
        parser = add_command(group, name, command, text, "campaign.yml")
        parser.add_argument("file", metavar="FILE", help="a campaign file (YAML): which studies on which sites")
        text = "where jobs run: processes here (default), jobs of Slurm, or of a cluster of Kubernetes"
        parser.add_argument("--executor", choices=("local", "slurm", "kubernetes"), default="local", help=text)
        if name == "status":
            continue
        text = "go on without these sites, which are lost, or busy"
        parser.add_argument("--without", nargs="+", default=[], metavar="SITE", help=text)
        text = "at most N sites steered from here at a time (default: its processors)"
        parser.add_argument("--at-once", type=int, metavar="N", help=text)
        if name == "run":
            text = "a profile of Snakemake, with more options for the executor"
            parser.add_argument("--engine-profile", metavar="FOLDER", help=text)
    text = "say what several sites say together, and where they differ"
    parser = add_command(group, "compare", compare, text, "data/recorded/racks/campaign.json")
    text = "name, folder or archive of a session, one of each site; or the campaign.json of a campaign"
    add_sessions(parser, text, nargs="+")
    parser.add_argument("--labels", nargs="+", metavar="NAME", help="what to call the sites (default: the sessions)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="tables go below it (default: out)")


# pydantic, Fabric and papermill, and the statistics, are loaded for the commands that need them.


def run(arguments: Namespace) -> Iterator[str]:
    """Yield the plan of a campaign, run what is missing of it, and yield what is there then; raises as `status`."""
    from infrabench.experiment.campaign import engine, summary
    from infrabench.experiment.campaign import plan as plans
    from infrabench.notebook import headless

    planned, how = _check_sites(arguments)
    engine.require(how.executor)
    yield from plans.lines(planned, how.at_once)
    path = summary.write(planned)  # which sites are measured alone is known also where this process is killed
    try:
        engine.run(planned, how)
    finally:  # also when it was stopped: what is there is there
        summary.write(planned)
    yield from _state(planned, path, headless.analyse_campaign(path))


def plan(arguments: Namespace) -> Iterator[str]:
    """Yield the plan of a campaign, for which every site is asked; nothing is started."""
    from infrabench.experiment.campaign import plan as plans

    planned, how = _check_sites(arguments)
    yield from plans.lines(planned, how.at_once)


def status(arguments: Namespace) -> Iterator[str]:
    """Yield what is there of a campaign; no site is asked.

    `InfrabenchError` at the end when something is missing, or trials met that must not.
    """
    from infrabench.experiment.campaign import checks, file, summary

    wanted = file.read(Path(arguments.file))
    spread = any(place.slurm != file.NOWHERE for place in wanted.sites.values())
    planned = checks.read_plan(wanted, "slurm" if spread else arguments.executor)
    yield from _state(planned, summary.write(planned))


def compare(arguments: Namespace) -> Iterator[str]:
    """Yield what several sites say together: of a campaign, or of sessions that are named, one a site."""
    from infrabench.notebook import multisite

    given = list(arguments.sessions)
    campaign = given[0] if len(given) == 1 and given[0].endswith(".json") else None
    yield from multisite.lines(multisite.opened(campaign, given, arguments.labels, arguments.out))


def _check_sites(arguments: Namespace) -> tuple[Plan, How]:
    from infrabench.experiment.campaign import checks, engine, file

    if arguments.at_once is not None and arguments.at_once < 1:
        raise DesignError("--at-once is 1 or more")
    profile = getattr(arguments, "engine_profile", None)
    how = engine.How(arguments.executor, arguments.at_once or os.cpu_count() or 1, profile)
    return checks.check_all(file.read(Path(arguments.file)), arguments.executor, arguments.without), how


def _state(planned: Plan, path: Path, analysis: Iterable[str] = ()) -> Iterator[str]:
    from infrabench.experiment.campaign import summary

    yield from summary.lines(path)
    proof, is_exclusive = summary.describe_overlaps(planned)
    yield from proof
    if not is_exclusive:
        raise InfrabenchError("trials ran at the same time that must not: these numbers disturb each other")
    yield from analysis
    if not summary.complete(path):
        raise InfrabenchError("the campaign is not complete; `infrabench campaign run` goes on with what is missing")
