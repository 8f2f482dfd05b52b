"""The command of campaigns: plan, run, or say how far one is."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench.core import InfrabenchError


def campaign(arguments: Namespace) -> Iterator[str]:
    """Yield the plan of a campaign, run what is missing of it, and yield what is there then.

    With ``dry_run`` the plan alone, with ``status`` what is there alone, which asks no site. `InfrabenchError` at the
    end when something is missing, or trials met that must not.
    """
    # pydantic, Fabric and papermill are loaded for this command alone
    from infrabench.campaign import checks, engine, exclusive, file, plan, summary

    wanted = file.read(Path(arguments.file))
    if arguments.status:
        spread = any(place.slurm.nodes for place in wanted.sites.values())
        planned = checks.read_only(wanted, "slurm" if spread else arguments.executor)
        path = summary.write(planned)
        yield from summary.lines(path)
    else:
        how = engine.How(arguments.executor, arguments.at_once or os.cpu_count() or 1, arguments.engine_profile)
        engine.require(how.executor)
        planned = checks.asked_too(wanted, how.executor, arguments.without)
        yield from plan.lines(planned, how.at_once)
        if arguments.dry_run:
            return
        try:
            engine.run(planned, how)
        finally:  # also when it was stopped: what is there is there
            path = summary.write(planned)
        yield from summary.lines(path)
    told, alone = exclusive.told(planned)
    yield from told
    if not alone:
        raise InfrabenchError("trials ran at the same time that must not: these numbers disturb each other")
    if not arguments.status:
        yield from summary.analyse(path)
    if not summary.complete(path):
        raise InfrabenchError("the campaign is not complete; the same command goes on with what is missing")
