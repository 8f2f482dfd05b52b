"""Running what is left of a session on systems that are ready: probe, trials, repeats, looks; each recorded at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from infrabench.core import CommandFailed, Host, Site, SiteError, Study, Trial, Workload
from infrabench.experiment.design.design import Design, Treatment, by_block
from infrabench.experiment.execution import blocks, preflight
from infrabench.experiment.execution.deployments import Fleet
from infrabench.experiment.execution.monitor import Monitor, watching
from infrabench.experiment.execution.progress import Estimator, OnProgress
from infrabench.experiment.execution.rounds import group_turns
from infrabench.experiment.execution.trial import Bench, execute_turns
from infrabench.ledger.codes import CODE, known_codes, trial_code
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import LOOK, PROBE
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts import marks, parallel
from infrabench.machines.hosts.marks import Sweeper
from infrabench.machines.hosts.remote_shell import probe


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that stands before the first trial."""

    design: Design
    fleet: Fleet
    workloads: Mapping[str, Workload]
    tools: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, str]  # workload -> reason
    not_applicable: Mapping[Treatment, str]  # treatment that its system has no place for -> reason
    next_s: float = 0.0  # expected wall time of making it all ready for the next deployment


@dataclass(frozen=True, slots=True)
class Look:
    """What the analysis says of a session's intervals: their widths decide, and nothing else of them is looked at."""

    n: int  # complete blocks, of `cases` where they are named
    widths: Mapping[str, float]  # primary cell -> relative half-width of its interval
    stop: bool
    reason: str  # target, n_max or time where `stop`, else empty
    unequal: Mapping[str, str] = field(default_factory=dict)  # cell whose width does not count -> the trials lost there
    cases: Sequence[tuple[str, str]] = ()  # workload, scenario: those that get blocks; none: all
    count: int | None = None  # blocks that are added; None: the rule's
    budget: Mapping[str, Any] = field(default_factory=dict)  # of a time that is shared out: what the choice was made by


SWITCH_S = 60.0  # that a switch to another system may take

LookAt = Callable[[SessionFolder, float], Look]  # session and its time so far (seconds)


def end_orphans(site: Site, sweeper: Sweeper, hosts: Sequence[Host] = ()) -> list[str]:
    """End what earlier trials left on the hosts of `site`, and on `hosts`; return, in words, what cannot be ended.

    Through a kubeconfig nothing is ended: this machine is not claimed then, and may steer another cluster too.
    """
    return [] if site.kind == "kubeconfig" else sweeper.end_orphans([*site.hosts.values(), *hosts])


class Runner:
    """The part of a session that one making-ready of its systems carries."""

    def __init__(
        self, study: Study, site: Site, ready: Ready, stored: SessionFolder, sweeper: Sweeper,
        on_progress: OnProgress | None, look: LookAt | None,
    ) -> None:  # fmt: skip
        self.study, self.site, self.ready, self.stored, self.look = study, site, ready, stored, look
        self.sweeper = sweeper
        self.report = on_progress or (lambda progress: None)
        fleet = ready.fleet.deployments
        self.hosts = {name: preflight.watched_hosts(site, each) for name, each in fleet.items()}
        self.cgroups = {
            name: {each.targets["server"].host.name: list(each.facts.get("cgroups", ()))}
            for name, each in fleet.items()
        }
        self.roles = {name: preflight.roles(site, each) for name, each in fleet.items()}
        self.code = known_codes(stored.session, stored.notes(CODE))[-1]
        self.estimator = Estimator(stored.awaited, stored, ready.next_s)
        self.estimator.left_s = self.left_s()
        self.left: dict[str, Callable[[], bool]] = {}  # what trials of this deployment could not remove
        self.ended_s: float | None = None  # when the last trial of the block ended, by the clock that goes on in sleep

    def one_deployment(self) -> None:
        """Run the blocks of the first deployment that has any left, and those that looks add to it."""
        every: dict[str, list[str]] = {}
        for host, paths in (part for each in self.cgroups.values() for part in each.items()):
            every[host] = sorted({*every.get(host, ()), *paths})
        hosts = [host for own in self.hosts.values() for host in own.values()]
        self.report(self.estimator.now())
        with watching(hosts, every) as monitor:
            left = blocks.select_unfinished(self.stored, self.study, self.ready.design)
            first = min((block[0].deployment for block in left.values()), default=0)
            for block in left.values():
                if block[0].deployment == first:
                    self.one_block(block, monitor)
            while self.ready.design.stopping is not None and (added := self.look_and_add()):
                for block in by_block(added).values():
                    self.one_block(block, monitor)

    def one_block(self, block: Sequence[Trial], monitor: Monitor) -> None:
        """Run what is missing of a block, then repeat what was invalid."""
        records, most = self.stored.records, self.study.repeats
        for check in self.site.checks:
            check()
        self.ready.fleet.run_only(block[0].system)  # at the first block of a deployment all of them run
        self.probe(block)
        self.ended_s = None
        self.run_trials([trial for trial in block if trial.id not in records], monitor)
        while due := blocks.repeats(block, records, most, self.ready.design):
            self.estimator.more(due)
            self.run_trials(due, monitor)

    def run_trials(self, trials: Sequence[Trial], monitor: Monitor) -> None:
        """Run trials in order, those that take turns together, and record each; a lost host ends the session."""
        for turns in group_turns(trials, self.ready.design.order):
            self.refuse_gap(0.0 if self.ended_s is None else time.time() - self.ended_s)
            begin, workload = time.monotonic(), self.ready.workloads[turns[0].workload]
            targets = [target.host for trial in turns for target in self.roles[trial.system].values()]
            self.ready.fleet.run_only(turns[0].system)
            self.left = {name: is_gone for name, is_gone in self.left.items() if not is_gone()}
            orphans = [*end_orphans(self.site, self.sweeper, targets), *self.left]
            finished = execute_turns([(trial, self.bench(trial, monitor, orphans)) for trial in turns], workload)
            code = trial_code(self.stored.session, self.code, turns[0].workload)
            seconds = (time.monotonic() - begin) / len(turns)
            for each in finished:
                self.stored.append_trial(replace(each.record, code=code), each.blobs)
                self.report(self.estimator.add(each.record, seconds))
                self.left |= each.left
            fatal = next((each.fatal for each in finished if each.fatal is not None), None)
            if fatal is not None:
                self.append_look(Look(0, {}, True, "error"), [])
                end = "" if str(fatal).endswith((".", "?")) else "."
                raise SiteError(f"{fatal}{end} The session stops here; run it again to go on") from fatal
            self.refuse_gap(max(each.record.conditions.get("clock_stepped_s", 0.0) for each in finished))
            self.ended_s = time.time()

    def refuse_gap(self, stood_s: float) -> None:
        """Raise `SiteError` where the session stood still within a block for longer than a resumed one may have.

        What is left of the block would be measured in other hours than the rest; the next run discards it.
        """
        if stood_s > max(self.study.block_gap_s, SWITCH_S):
            raise SiteError(
                f"the session stood still for {stood_s:.0f} s within a block, {self.study.block_gap_s:.0f} s are "
                "allowed (did the machine sleep, was the process stopped, or the clock set?). Run it again: the block "
                "is begun anew"
            )

    def bench(self, trial: Trial, monitor: Monitor, orphans: Sequence[str]) -> Bench:
        """Return where a trial runs, and what lets its system alone run there."""

        @contextmanager
        def turn() -> Iterator[None]:
            self.ready.fleet.run_only(trial.system)
            with marks.mark_commands(f"{self.stored.path.name}/{trial.id}"):
                yield

        roles, cgroups = self.roles[trial.system], self.cgroups[trial.system]
        monitor = monitor.of(host.name for host in self.hosts[trial.system].values())
        return Bench(roles, monitor, cgroups, self.study.guards, self.site.private, orphans, turn)

    def probe(self, block: Sequence[Trial]) -> None:
        """Record how fast one core of the server hashes, and of each machine that a system of `block` has for its own.

        A series over blocks shows drift, and corrects nothing.
        """
        if not self.study.probe_s:
            return
        argv = (*probe("machines/hosts/probes/drift.py"), str(self.study.probe_s))
        systems = [self.ready.fleet.deployments[trial.system] for trial in block]
        server = {"server": self.site.hosts["server"]}
        hosts = {host.name: host for each in systems for host in (each.machines or server).values()}
        results = parallel.run_all(lambda host: host.run(argv, timeout_s=self.study.probe_s + 30), hosts.values())
        for name, result in zip(hosts, results, strict=True):
            if not result.ok:
                raise SiteError(f"the drift probe failed: {CommandFailed(result, name)}")
            note = {"host": name, "started_s": result.started_s, "position": block[0].position}
            self.stored.append_block_note(block[0].block, PROBE, note | json.loads(result.stdout))

    def look_and_add(self) -> list[Trial]:
        """Look at the widths, store the look, and return the trials of the blocks that are added for it."""
        stopping = self.ready.design.stopping
        assert stopping is not None
        assert self.look is not None
        if blocks.is_stopped(self.stored):
            return []
        look = self.look(self.stored, measure_pace(self.stored.records.values()).spent_s)
        number = blocks.next_number(self.stored)
        wanted = min(stopping.batch, stopping.most - look.n) if look.count is None else look.count
        count = 0 if look.stop else wanted
        adds = [[number + i, 0] for i in range(count)]
        self.append_look(look, adds)
        blocks.add_promised(self.stored, self.ready.design)
        fresh = [trial for trial in self.stored.awaited if trial.block >= number]
        self.estimator.more(fresh)
        self.estimator.left_s = self.left_s()
        self.report(self.estimator.now())
        return fresh

    def left_s(self) -> float:
        """Return what is left of a time that is shared out; 0 where there is none, or where a look has ended it."""
        rule = self.ready.design.stopping
        if rule is None or rule.target is not None or rule.budget_s is None or blocks.is_stopped(self.stored):
            return 0.0
        return max(0.0, rule.budget_s - measure_pace(self.stored.records.values()).spent_s)

    def append_look(self, look: Look, adds: list[list[int]]) -> None:
        if self.ready.design.stopping is not None:
            note = {"n": look.n, "widths": dict(look.widths), "reason": look.reason, "adds": adds}
            note |= {"unequal": dict(look.unequal)} if look.unequal else {}
            note |= {"cases": [list(each) for each in look.cases]} if look.cases else {}
            note |= {"budget": dict(look.budget)} if look.budget else {}
            self.stored.append_block_note(blocks.next_number(self.stored) - 1, LOOK, note)
