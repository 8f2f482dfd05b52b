"""Does infrabench change what it measures? Its trials beside the same tool typed by hand, in the same target.

Each treatment of a block is done twice, one after the other: as a trial (steps, monitor window, ledger) and by hand, a
coin says which comes first. By hand is the plain command over the same connection, its number found as an eye finds
it: no line here is shared with the workload's own command or parser. Systems are paused and hosts watched as in a
session, and no guard is applied, because it could take out trials only.

Per workload, metric and system: ratio of means (infrabench / by hand) with Fieller's interval of paired values. Where
nothing is changed, one interval in twenty misses 1 all the same.
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

from infrabench import design as designs
from infrabench import ledger, preflight, registry
from infrabench.byhand import TOOLS
from infrabench.core import (
    CommandFailed,
    DesignError,
    Guards,
    Limits,
    ParseError,
    Profile,
    Site,
    SiteError,
    Study,
    Target,
    Trial,
    Workload,
    unknown_name,
)
from infrabench.deployments import Fleet, deployed
from infrabench.monitor import Monitor, watching
from infrabench.progress import Estimator, OnProgress
from infrabench.site import open_site
from infrabench.stats.ratios import paired_fieller
from infrabench.trial import Bench, Finished, execute

log = logging.getLogger(__name__)

SEED = 20200315
COIN = 1  # keeps the coin's random numbers apart from those of the order
NAN = float("nan")
# Where none are named.
SYSTEMS = {"containers": ("native", "docker"), "cnis": ("flannel", "cilium"), "storage": ("zfs", "ceph")}
NO_GUARDS = Guards(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Pair:
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
    harness: float
    by_hand: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.harness / self.by_hand if self.by_hand else NAN

    @property
    def contains_1(self) -> bool | None:
        return None if math.isnan(self.low) else self.low <= 1.0 <= self.high


def report(
    spec: str, *, systems: Sequence[str], blocks: int, seed: int = SEED, on_progress: OnProgress | None = None,
    study: str = "containers",
) -> Iterator[str]:  # fmt: skip
    """Yield the lines of a Markdown table: per workload, metric and system, how the two ways agree on a site."""
    wanted = request(systems, blocks, seed, study)
    with open_site(spec) as site:
        found, left_out = compare(wanted, site, on_progress or (lambda progress: None))
    yield f"infrabench / by hand on {site.name}: {blocks} blocks, seed {seed}, ratio of means with 95 % interval"
    yield ""
    yield from markdown(summary(found))
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
        _study(systems[0], blocks, tools), profile="once", systems=systems, seed=seed,
        known_systems=registry.names("systems"),
        defaults={name: registry.workload(name).DEFAULTS for name in tools},
    )  # fmt: skip


def compare(wanted: designs.Design, site: Site, on_progress: OnProgress) -> tuple[list[Pair], dict[str, str]]:
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
            told = "; ".join(f"{name} on {reason}" for name, reason in refused.items())
            raise SiteError(f"{site.name} has none of the tools: {told}")
        trials = designs.trials(kept)
        stack.enter_context(ledger.opened(folder, {"parameters": {}}, trials))
        server = site.hosts["server"].name
        cgroups = sorted({path for each in fleet.deployments.values() for path in each.facts.get("cgroups", ())})
        monitor = stack.enter_context(watching(list(site.hosts.values()), {server: cgroups}))
        stand = _Stand(site, fleet, workloads, monitor, folder, wanted.seed)
        return _pairs(stand, trials, on_progress), {**fleet.not_run, **refused}


def summary(pairs: Iterable[Pair]) -> list[Agreement]:
    """Return one row per workload, metric and system, in the order of `TOOLS`."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.workload, pair.metric, pair.system), []).append(pair)
    rows = [_agreement(*key, group) for key, group in groups.items()]
    order = [(name, metric) for name, tool in TOOLS.items() for metric in tool.metrics]
    return sorted(rows, key=lambda row: (order.index((row.workload, row.metric)), row.system))


def markdown(rows: Iterable[Agreement]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| workload | metric | system | pairs | left out | ratio | 95 % interval | contains 1 |"
    yield "| --- | --- | --- | ---: | ---: | ---: | --- | --- |"
    for row in rows:
        told = {True: "yes", False: "no", None: "no interval"}[row.contains_1]
        yield (
            f"| {row.workload} | {row.metric} | {row.system} | {row.pairs} | {row.left_out} | {row.ratio:.4f} | "
            f"[{row.low:.4f}, {row.high:.4f}] | {told} |"
        )


def _study(baseline: str, blocks: int, tools: Sequence[str]) -> Study:
    profile = Profile(blocks, tuple(TOOLS[name].case for name in tools))
    title = "Does infrabench change what it measures?"
    return Study("fidelity", title, baseline, (), {"once": profile}, Limits(), (), {}, NO_GUARDS, SEED)


def _agreement(workload: str, metric: str, system: str, group: Sequence[Pair]) -> Agreement:
    both = np.array([(p.harness, p.by_hand) for p in group], dtype=float)
    both = both[~np.isnan(both).any(axis=1)]
    left_out = len(group) - len(both)
    means = both.mean(axis=0) if len(both) else (NAN, NAN)
    found = paired_fieller(both[:, 0], both[:, 1])
    ends = float(found.low), float(found.high)
    return Agreement(workload, metric, system, len(both), left_out, float(means[0]), float(means[1]), *ends)


@dataclass(frozen=True, slots=True)
class _Stand:
    """What stands while pairs are measured."""

    site: Site
    fleet: Fleet
    workloads: Mapping[str, Workload]
    monitor: Monitor
    folder: Path  # a ledger, since writing it is a part of a trial's surroundings
    seed: int


def _pairs(stand: _Stand, trials: Sequence[Trial], on_progress: OnProgress) -> list[Pair]:
    estimator, found = Estimator(trials), []
    for trial in trials:
        begin = time.monotonic()
        stand.fleet.run_only(trial.system)
        roles = preflight.roles(stand.site, stand.fleet.deployments[trial.system])
        by_hand: Mapping[str, float] = {}
        hand_first = bool(np.random.default_rng([stand.seed, COIN, trial.position]).integers(2))
        if hand_first:
            by_hand = _typed(trial, roles)
        finished = _executed(stand, trial, roles)
        if not hand_first:
            by_hand = _typed(trial, roles)
        record = finished.record
        # After both, as it comes after a trial: neither way shall find the disk busier than the other does.
        ledger.write_trial(stand.folder, record, finished.blobs)
        harness = {m.metric: m.value for m in record.measurements if record.state == "ok"}
        for metric in TOOLS[trial.workload].metrics:
            values = harness.get(metric, NAN), by_hand.get(metric, NAN)
            found.append(Pair(trial.workload, metric, trial.system, *values))
        on_progress(estimator.add(record, time.monotonic() - begin))
    return found


def _executed(stand: _Stand, trial: Trial, roles: Mapping[str, Target]) -> Finished:
    cgroups = {stand.site.hosts["server"].name: list(stand.fleet.deployments[trial.system].facts.get("cgroups", ()))}
    where = Bench(roles, stand.monitor, cgroups, NO_GUARDS)
    finished = execute(trial, stand.workloads[trial.workload], where)
    if finished.fatal is not None:
        raise finished.fatal
    if finished.record.state != "ok":
        log.warning("%s on %s is left out: %s", trial.workload, trial.system, finished.record.reason)
    return finished


def _typed(trial: Trial, roles: Mapping[str, Target]) -> Mapping[str, float]:
    try:
        return TOOLS[trial.workload].by_hand(roles)
    except (CommandFailed, ParseError) as error:
        log.warning("%s by hand on %s is left out: %s", trial.workload, trial.system, error)
        return {}
