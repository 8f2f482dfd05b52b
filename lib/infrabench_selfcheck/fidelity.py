"""Does infrabench change what it measures? Its trials beside the same tool typed by hand, in the same target.

Each treatment of a block is done twice, one after the other: as a trial (steps, monitor window, ledger) and by hand, a
coin says which comes first. By hand is the plain command over the same connection, its number found as an eye finds
it: no line here is shared with the workload's own command or parser. Systems are paused and hosts watched as in a
session, and no guard is applied, because it could take out trials only.

The two ways are two systems, and what is said of them is said as of any contrast: per workload, metric and system the
ratio infrabench / by hand, and whether the two ways agree. That they do is a claim, so it is shown and not assumed: the
90 % interval has to lie within a margin stated beforehand. An interval that is wide enough holds 1 whatever the harness
does.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench import registry
from infrabench.analysis import tables
from infrabench.analysis.tidy import DTYPES, PLAN_COLUMNS
from infrabench.core.errors import CommandFailed, DesignError, ParseError, SiteError, unknown_name
from infrabench.core.hosts import Site, Target
from infrabench.core.request import Request
from infrabench.core.studies import Guards, Profile, Study
from infrabench.core.systems import Limits
from infrabench.core.trials import Trial
from infrabench.core.workloads import Workload
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import preflight
from infrabench.experiment.execution.deployments import deployed
from infrabench.experiment.execution.monitor import watching
from infrabench.experiment.execution.progress import Estimator, OnProgress
from infrabench.experiment.execution.trial import Bench, Finished, execute
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.sites.site import open_site
from infrabench.stats import contrasts
from infrabench.stats.table import ANALYSED, ORDER
from infrabench.stats.verdicts import EQUIVALENT, WITHIN
from infrabench_selfcheck.bare_tools import TOOLS

log = logging.getLogger(__name__)

SEED = 20200315
MARGIN = 0.02  # relative
BY_HAND = ", by hand"  # behind the name of a system whose tools are typed
SHOWN = ["workload", "metric", "system", "n", "ratio", "ratio 95 % CI", "ratio 90 % CI", "margin %"]
SHOWN += ["verdict", "reason"]
COIN = 1  # keeps the coin's random numbers apart from those of the order
# Where none are named.
SYSTEMS = {"containers": ("native", "docker"), "cnis": ("flannel", "cilium"), "storage": ("zfs", "ceph")}
NO_GUARDS = Guards(None, None, None, None)


def report(
    spec: str, *, systems: Sequence[str], blocks: int, seed: int = SEED, on_progress: OnProgress | None = None,
    study: str = "containers", margin: float = MARGIN,
) -> Iterator[str]:  # fmt: skip
    """Yield the lines of a Markdown table: per workload, metric and system, whether the two ways agree on a site.

    `margin`: relative (0.02 = 2 %); they agree where the 90 % interval of their ratio lies within it. `DesignError`
    when it is no share.
    """
    if not 0 < margin < 1:
        raise DesignError(f"a margin of {100 * margin:g} % is none: give one above 0 and below 100")
    wanted = request(systems, blocks, seed, study)
    with open_site(spec, session="fidelity") as site:
        rows, left_out = compare(wanted, site, on_progress or (lambda progress: None))
    yield f"infrabench / by hand on {site.name}: {blocks} blocks, seed {seed}, ratio of means with 95 % interval"
    yield f"They agree where the 90 % interval lies within {100 * margin:g} %: {EQUIVALENT}, or {WITHIN}."
    yield ""
    yield from tables.markdown(agreement(rows, margin)).splitlines()
    yield from (f"{name}: not run: {reason}" for name, reason in left_out.items())


def request(systems: Sequence[str], blocks: int, seed: int, study: str = "containers") -> designs.Design:
    """Return the design: every tool of a study on every system once a block; `DesignError` for what cannot be done."""
    tools = [name for name, tool in TOOLS.items() if tool.study == study]
    if not tools:
        raise unknown_name("study with tools typed by hand", study, {tool.study for tool in TOOLS.values()})
    if blocks < 2:
        raise DesignError(f"blocks must be at least 2, not {blocks}: one pair has no interval")
    if not systems:
        raise DesignError("name at least one system")
    return designs.design(
        _study(systems[0], blocks, tools), Request("fidelity", "once", systems=systems, seed=seed),
        registry.names("systems"), {name: registry.workload(name).PARAMS for name in tools},
    )  # fmt: skip


def compare(wanted: designs.Design, site: Site, on_progress: OnProgress) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return what both ways measured in the columns `ANALYSED`, and what was left out (workload or system -> reason).

    Raises `SiteError` when nothing can run.
    """
    tools = designs.workloads(wanted)
    study = _study(wanted.systems[0], wanted.blocks, tools)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infrabench-"))) / "session"
        fleet = stack.enter_context(deployed(study, wanted, site, label="fidelity"))
        kept = designs.without(wanted, systems=tuple(fleet.not_run))
        workloads = {name: registry.workload(name) for name in tools}
        fleet.resume_all()
        refused, _, absent = preflight.check(kept, site, fleet.deployments, workloads)
        kept = designs.without(kept, workloads=tuple(refused), excluded=absent)
        if not kept.cases:
            reasons = "; ".join(f"{name} on {reason}" for name, reason in refused.items())
            raise SiteError(f"{site.name} has none of the tools: {reasons}")
        trials = designs.trials(kept)
        stored = stack.enter_context(SessionFolder(folder).opened({"parameters": {}}, trials))
        server = site.hosts["server"].name
        cgroups = {name: list(each.facts.get("cgroups", ())) for name, each in fleet.deployments.items()}
        watched = {server: sorted({path for paths in cgroups.values() for path in paths})}
        monitor = stack.enter_context(watching(list(site.hosts.values()), watched))
        estimator, rows = Estimator(trials), list[dict[str, Any]]()
        for trial in trials:
            begin = time.monotonic()
            fleet.run_only(trial.system)
            roles = preflight.roles(site, fleet.deployments[trial.system])
            bench = Bench(roles, monitor, {server: cgroups[trial.system]}, NO_GUARDS)
            finished, by_hand = _measure_both_ways(trial, workloads[trial.workload], bench, roles, wanted.seed)
            # After both, as it comes after a trial: neither way shall find the disk busier than the other does.
            stored.append_trial(finished.record, finished.blobs)
            harness = {m.metric: m.value for m in finished.record.measurements if finished.record.state == "ok"}
            rows += [*_rows(trial, "", harness), *_rows(trial, BY_HAND, by_hand)]
            on_progress(estimator.add(finished.record, time.monotonic() - begin))
        table = pd.DataFrame(rows, columns=list(ANALYSED)).astype({name: DTYPES[name] for name in ANALYSED})
        return table, {**fleet.not_run, **refused}


def _measure_both_ways(
    trial: Trial, workload: Workload, bench: Bench, roles: Mapping[str, Target], seed: int
) -> tuple[Finished, Mapping[str, float]]:
    """The trial, and what its tool says by hand (nothing, where it fails); a coin says which comes first."""
    hand_first = bool(np.random.default_rng([seed, COIN, trial.position]).integers(2))
    by_hand: Mapping[str, float] = {}
    for hand in (hand_first, not hand_first):
        if not hand:
            finished = execute(trial, workload, bench)
            if finished.fatal is not None:
                raise finished.fatal
            continue
        try:
            by_hand = TOOLS[trial.workload].by_hand(roles)
        except (CommandFailed, ParseError) as error:
            log.warning("%s by hand on %s is left out: %s", trial.workload, trial.system, error)
    if finished.record.state != "ok":
        log.warning("%s on %s is left out: %s", trial.workload, trial.system, finished.record.reason)
    return finished, by_hand


def _rows(trial: Trial, way: str, values: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the rows of one way of a trial; without a number it is an invalid one, and its block no pair."""
    common = {name: getattr(trial, name) for name in PLAN_COLUMNS[1:]} | {"session": "fidelity", "state": "ok"}
    common |= {"trial": trial.id + way, "system": trial.system + way}
    # only ratios are shown: they have no unit, and are the same whatever is better
    numbers = [
        {"metric": metric, "value": values[metric], "unit": "1", "better": "higher"}
        for metric in TOOLS[trial.workload].metrics if metric in values
    ]  # fmt: skip
    return [common | number for number in numbers] or [common | {"state": "invalid"}]


def agreement(rows: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Return whether both ways agree, as text, one row for each metric and system; `rows`: of `compare`.

    `margin`: relative.
    """
    names = [each for each in rows["system"].unique() if not each.endswith(BY_HAND)]
    both = [(rows[rows["system"].isin([name, name + BY_HAND])], name + BY_HAND) for name in names]
    found = pd.concat([contrasts(table, baseline, {"": margin}) for table, baseline in both])
    return tables.contrasts_table(found.sort_values(ORDER)).reindex(columns=SHOWN)


def _study(baseline: str, blocks: int, tools: Sequence[str]) -> Study:
    profile = Profile(blocks, tuple(TOOLS[name].case for name in tools))
    title = "Does infrabench change what it measures?"
    return Study("fidelity", title, baseline, (), {"once": profile}, Limits(), (), {}, NO_GUARDS, SEED)
