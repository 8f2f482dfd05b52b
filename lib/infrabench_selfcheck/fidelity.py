"""Does infrabench change what it measures? Its trials beside the same tool typed by hand, in the same target.

Each treatment of a block is done twice, one after the other: as a trial (steps, monitor window, ledger) and by hand, a
coin says which comes first. By hand is the plain command over the same connection, its number found as an eye finds
it: no line here is shared with the workload's own command or parser. Systems are paused and hosts watched as in a
session, and no guard is applied, because it could take out trials only.

Per workload, metric and system: ratio of means (infrabench / by hand) with Fieller's interval of paired values, and
whether the two ways agree. That they do is a claim, so it is shown and not assumed: the 90 % interval has to lie within
a margin stated beforehand. An interval that is wide enough holds 1 whatever the harness does.
"""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from infrabench import registry
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
from infrabench.stats.intervals import LEVEL, NAN
from infrabench.stats.pairwise import NARROW, paired_fieller
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, INCONCLUSIVE, WITHIN
from infrabench_selfcheck.bare_tools import TOOLS

log = logging.getLogger(__name__)

SEED = 20200315
MARGIN = 0.02  # relative
NO_INTERVAL = "no interval"
COIN = 1  # keeps the coin's random numbers apart from those of the order
# Where none are named.
SYSTEMS = {"containers": ("native", "docker"), "cnis": ("flannel", "cilium"), "storage": ("zfs", "ceph")}
NO_GUARDS = Guards(None, None, None, None)


@dataclass(frozen=True, slots=True)
class ToolPair:
    """One metric of one treatment of one block, both ways; NaN where a way gave no number."""

    workload: str
    metric: str
    system: str
    harness: float
    by_hand: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the pairs of one metric say together: `pairs` complete ones, `left_out` others; NaN where no interval is."""

    workload: str
    metric: str
    system: str
    pairs: int
    left_out: int
    ratio: float  # of the means, the trials over those by hand
    low: float
    high: float
    narrow: tuple[float, float]  # of the 90 % interval, which goes with two one-sided tests at 5 %
    margin: float  # relative

    @property
    def verdict(self) -> str:
        """The same words as of a contrast; ``no interval`` where nothing can be said."""
        if math.isnan(self.low):
            return NO_INTERVAL
        apart = not self.low <= 1.0 <= self.high
        alike = 1 - self.margin < self.narrow[0] and self.narrow[1] < 1 + self.margin
        return (WITHIN if apart else EQUIVALENT) if alike else DIFFERENT if apart else INCONCLUSIVE


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
        found, left_out = compare(wanted, site, on_progress or (lambda progress: None))
    yield f"infrabench / by hand on {site.name}: {blocks} blocks, seed {seed}, ratio of means with 95 % interval"
    yield f"They agree where the 90 % interval lies within {100 * margin:g} %: {EQUIVALENT}, or {WITHIN}."
    yield ""
    yield from markdown(summary(found, margin))
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


def compare(wanted: designs.Design, site: Site, on_progress: OnProgress) -> tuple[list[ToolPair], dict[str, str]]:
    """Return the pairs, and what was left out (workload or system -> reason); `SiteError` when nothing can run."""
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
        estimator, found = Estimator(trials), list[ToolPair]()
        for trial in trials:
            begin = time.monotonic()
            fleet.run_only(trial.system)
            roles = preflight.roles(site, fleet.deployments[trial.system])
            bench = Bench(roles, monitor, {server: cgroups[trial.system]}, NO_GUARDS)
            finished, by_hand = _measure_both_ways(trial, workloads[trial.workload], bench, roles, wanted.seed)
            # After both, as it comes after a trial: neither way shall find the disk busier than the other does.
            stored.append_trial(finished.record, finished.blobs)
            harness = {m.metric: m.value for m in finished.record.measurements if finished.record.state == "ok"}
            for metric in TOOLS[trial.workload].metrics:
                values = harness.get(metric, NAN), by_hand.get(metric, NAN)
                found.append(ToolPair(trial.workload, metric, trial.system, *values))
            on_progress(estimator.add(finished.record, time.monotonic() - begin))
        return found, {**fleet.not_run, **refused}


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


def summary(pairs: Iterable[ToolPair], margin: float = MARGIN) -> list[Agreement]:
    """Return one row per workload, metric and system, in the order of `TOOLS`; `margin` is relative."""
    groups: dict[tuple[str, str, str], list[ToolPair]] = {}
    for pair in pairs:
        groups.setdefault((pair.workload, pair.metric, pair.system), []).append(pair)
    rows = [_agreement(*key, group, margin) for key, group in groups.items()]
    order = [(name, metric) for name, tool in TOOLS.items() for metric in tool.metrics]
    return sorted(rows, key=lambda row: (order.index((row.workload, row.metric)), row.system))


def markdown(rows: Iterable[Agreement]) -> Iterator[str]:
    """Yield the lines of the table."""
    head = ("workload", "metric", "system", "pairs", "left out", "ratio", "95 % interval", "90 % interval", "margin %")
    yield f"| {' | '.join(head)} | verdict |"
    yield "| --- | --- | --- | ---: | ---: | ---: | --- | --- | ---: | --- |"
    for row in rows:
        yield (
            f"| {row.workload} | {row.metric} | {row.system} | {row.pairs} | {row.left_out} | {row.ratio:.4f} | "
            f"[{row.low:.4f}, {row.high:.4f}] | [{row.narrow[0]:.4f}, {row.narrow[1]:.4f}] | {100 * row.margin:g} | "
            f"{row.verdict} |"
        )


def _study(baseline: str, blocks: int, tools: Sequence[str]) -> Study:
    profile = Profile(blocks, tuple(TOOLS[name].case for name in tools))
    title = "Does infrabench change what it measures?"
    return Study("fidelity", title, baseline, (), {"once": profile}, Limits(), (), {}, NO_GUARDS, SEED)


def _agreement(workload: str, metric: str, system: str, group: Sequence[ToolPair], margin: float) -> Agreement:
    both = np.array([(p.harness, p.by_hand) for p in group], dtype=float)
    both = both[~np.isnan(both).any(axis=1)]
    harness, by_hand = both.mean(axis=0) if len(both) else (NAN, NAN)
    wide, narrow = (paired_fieller(both[:, 0], both[:, 1], level) for level in (LEVEL, NARROW))
    return Agreement(
        workload, metric, system, len(both), len(group) - len(both), float(harness / by_hand) if by_hand else NAN,
        float(wide.low), float(wide.high), (float(narrow.low), float(narrow.high)), margin,
    )  # fmt: skip
