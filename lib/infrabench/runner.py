"""Running what is left of a session on systems that are ready: probe, trials, repeats, looks; each recorded at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from infrabench import blocks, ledger, preflight
from infrabench.core import CommandFailed, Site, SiteError, Study, Trial, TrialRecord, Workload
from infrabench.deployments import Fleet
from infrabench.design import Design, Treatment
from infrabench.monitor import Monitor, watching
from infrabench.progress import Estimator, OnProgress
from infrabench.records import LOOK, PROBE, awaited, read_blocks, read_trial, recorded
from infrabench.trial import Bench, execute


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that stands before the first trial."""

    design: Design
    fleet: Fleet
    workloads: Mapping[str, Workload]
    tools: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, str]  # workload -> reason
    not_applicable: Mapping[Treatment, str]  # treatment that its system has no place for -> reason


@dataclass(frozen=True, slots=True)
class Look:
    """What the analysis says of a session's intervals: their widths decide, and nothing else of them is looked at."""

    n: int  # complete blocks
    widths: Mapping[str, float]  # primary cell -> relative half-width of its interval
    stop: bool
    reason: str  # target, n_max or time where `stop`, else empty


LookAt = Callable[[Path, float], Look]  # session folder and its measuring time so far (seconds)


class Runner:
    """The part of a session that one making-ready of its systems carries."""

    def __init__(
        self, study: Study, site: Site, ready: Ready, folder: Path, on_progress: OnProgress | None, look: LookAt | None
    ) -> None:
        self.study, self.site, self.ready, self.folder, self.look = study, site, ready, folder, look
        self.report = on_progress or (lambda progress: None)
        self.server = site.hosts["server"]
        fleet = ready.fleet.deployments
        self.cgroups = {name: {self.server.name: list(each.facts.get("cgroups", ()))} for name, each in fleet.items()}
        self.roles = {name: preflight.roles(site, each) for name, each in fleet.items()}
        planned, done = awaited(folder), recorded(folder)
        self.estimator = Estimator(planned, folder)
        for trial in planned:
            if trial.id in done:
                self.estimator.add(read_trial(folder, trial.id))

    def one_deployment(self) -> None:
        """Run the blocks of the first deployment that has any left, and those that looks add to it."""
        every = {self.server.name: sorted({path for each in self.cgroups.values() for path in each[self.server.name]})}
        self.report(self.estimator.now())
        with watching(list(self.site.hosts.values()), every) as monitor:
            left = blocks.due(self.folder, self.study, self.ready.design)
            first = min((block[0].deployment for block in left.values()), default=0)
            for block in left.values():
                if block[0].deployment == first:
                    self.one_block(block, monitor)
            while self.ready.design.stopping is not None and (added := self.looked()):
                for block in blocks.by_block(added).values():
                    self.one_block(block, monitor)

    def one_block(self, block: Sequence[Trial], monitor: Monitor) -> None:
        """Run what is missing of a block, then repeat what was invalid."""
        design, done = self.ready.design, recorded(self.folder)
        self.probe(block[0])
        for trial in block:
            if trial.id not in done:
                self.one_trial(trial, monitor)
        while again := blocks.repeats(block, self.records(block), self.study.repeats, design.seed):
            self.estimator.more(again)
            for trial in again:
                self.one_trial(trial, monitor)

    def records(self, block: Sequence[Trial]) -> dict[str, TrialRecord]:
        return blocks.of_block(self.folder, block, recorded(self.folder), self.study.repeats)

    def one_trial(self, trial: Trial, monitor: Monitor) -> None:
        """Run a trial and record it; a lost host ends the session."""
        begin = time.monotonic()
        self.ready.fleet.run_only(trial.system)
        roles, cgroups = self.roles[trial.system], self.cgroups[trial.system]
        bench = Bench(roles, monitor, cgroups, self.study.guards, self.site.private)
        finished = execute(trial, self.ready.workloads[trial.workload], bench)
        ledger.write_trial(self.folder, finished.record, finished.blobs)
        self.report(self.estimator.add(finished.record, time.monotonic() - begin))
        if finished.fatal is not None:
            self.say_look(Look(0, {}, True, "error"), [])
            raise SiteError(f"{finished.fatal} The session stops here; run it again to go on") from finished.fatal

    def probe(self, first: Trial) -> None:
        """Record how fast one core of the server hashes: a series over blocks shows drift, and corrects nothing."""
        if not self.study.probe_s:
            return
        script = resources.files("infrabench").joinpath("probes/drift.py").read_text()
        argv = ("python3", "-c", script, str(self.study.probe_s))
        result = self.server.run(argv, timeout_s=self.study.probe_s + 30)
        if not result.ok:
            raise SiteError(f"the drift probe failed: {CommandFailed(result, self.server.name)}")
        told = {"host": self.server.name, "started_s": result.started_s, "position": first.position}
        ledger.say_of_block(self.folder, first.block, PROBE, told | json.loads(result.stdout))

    def looked(self) -> list[Trial]:
        """Look at the widths, store what was seen, and return the trials of the blocks that are added for it."""
        stopping = self.ready.design.stopping
        assert stopping is not None
        assert self.look is not None
        if any(each["reason"] in blocks.FINAL for each in read_blocks(self.folder, LOOK)):
            return []
        spent = sum(read_trial(self.folder, name).duration_s for name in recorded(self.folder))
        seen = self.look(self.folder, spent)
        number = blocks.next_number(self.folder)
        count = 0 if seen.stop else min(stopping.batch, stopping.most - seen.n)
        adds = [[number + i, 0] for i in range(count)]
        self.say_look(seen, adds)
        blocks.add_promised(self.folder, self.ready.design)
        fresh = [trial for trial in awaited(self.folder) if trial.block >= number]
        self.estimator.more(fresh)
        return fresh

    def say_look(self, seen: Look, adds: list[list[int]]) -> None:
        if self.ready.design.stopping is not None:
            told = {"n": seen.n, "widths": dict(seen.widths), "reason": seen.reason, "adds": adds}
            ledger.say_of_block(self.folder, blocks.next_number(self.folder) - 1, LOOK, told)
