"""Executing one trial: steps in order, the monitors' window around the measurement, and what became of it.

The measurement is never retried, whatever it does. Raw output is returned as it came, in every state.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from infrabench.core import (
    UNITS,
    Capture,
    Guards,
    Measurement,
    NotAsClaimed,
    ParseError,
    Result,
    SiteError,
    State,
    Step,
    Target,
    Trial,
    TrialRecord,
    Workload,
    plan_steps,
)
from infrabench.experiment.execution.guards import CLOCK_S, judge
from infrabench.experiment.execution.monitor import Monitor, Sample
from infrabench.machines.sites import redaction

log = logging.getLogger(__name__)

TAIL = 600  # characters of what a step that failed said last: pods that do not come have three kinds of complaints
POLL_S = (0.02, 0.5)  # first and longest pause between two questions whether a service is ready
# What a parser that has a mistake of its own may raise.
PARSER_MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a trial runs: targets by role, watched hosts, cgroup folders by host, and the rules for validity.

    `private` are the texts that its record must not hold, see `redaction`. `orphans` says what of earlier trials still
    runs beside it.
    """

    roles: Mapping[str, Target]
    monitor: Monitor
    cgroups: Mapping[str, Sequence[str]]
    guards: Guards
    private: Mapping[str, str] = field(default_factory=dict)
    orphans: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A record, its raw files by name, and the error that ends the session (a lost host), if any."""

    record: TrialRecord
    blobs: Mapping[str, bytes]
    fatal: SiteError | None = None


def execute(trial: Trial, workload: Workload, bench: Bench) -> Finished:
    """Return what became of `trial`. Raises only what is not the trial's own: an interrupt, a mistaken plan."""
    run = _Run(trial, bench)
    steps = plan_steps(workload, trial.params, bench.roles)
    fatal: SiteError | None = None
    try:
        # How busy the hosts are before anything of this trial runs: a server that starts is load of our own.
        idle = bench.monitor.begin(f"{trial.id}-idle") if any(step.phase == "prepare" for step in steps) else {}
        run.run_phase(steps, "prepare")
        if run.state == "ok":
            run.before = bench.monitor.begin(trial.id)
            if idle:
                run.before = {host: {**now, "load": idle[host]["load"]} for host, now in run.before.items()}
            run.run_phase(steps, "measure")
            run.window = bench.monitor.end(trial.id)
    except SiteError as error:
        fatal = error
        run.end("aborted", f"a host was lost: {error}")
    except BaseException:
        run.end("aborted", "interrupted")  # for the steps that follow: no record is made of it
        raise
    finally:
        # Also on an interrupt: a server or pods left behind would disturb the next trial.
        fatal = run.clean(steps) or fatal
    return run.finish(workload, fatal)


def parsed(workload: Workload, capture: Capture) -> tuple[Measurement, ...]:
    """Return the measurements that `capture` holds, checked; `ParseError` when it does not say what it should.

    A mistake of the parser itself is a `ParseError` too: its trial is shown as unparsable and its raw output kept.
    """
    try:
        found = tuple(workload.parse(capture))
    except PARSER_MISTAKES as error:
        log.exception("a parser has a mistake")
        raise ParseError("parser", f"it has a mistake: {error!r}") from error
    if not found:
        raise ParseError("parser", "it found no measurement at all")
    for m in found:
        if m.unit not in UNITS or m.better not in ("higher", "lower") or not math.isfinite(m.value):
            raise ParseError("parser", f"{m.metric} = {m.value!r} {m.unit!r}, better {m.better!r}: no measurement")
    if len({m.metric for m in found}) != len(found):
        raise ParseError("parser", "it found a metric twice")
    return found


class _Run:
    """The state of the one trial that is being executed."""

    def __init__(self, trial: Trial, bench: Bench) -> None:
        self.trial, self.bench = trial, bench
        self.state: State = "ok"
        self.reason = ""
        self.results: dict[str, Result] = {}
        self.steps: list[dict[str, Any]] = []
        self.before: Mapping[str, Sample] = {}
        self.window: Mapping[str, Sequence[Sample]] = {}
        self.unclean: list[str] = []
        self.started, self.begin = time.time(), time.monotonic()

    def end(self, state: State, reason: str) -> None:
        self.state, self.reason = state, redaction.text(reason, self.bench.private)

    def run_phase(self, steps: Sequence[Step], phase: str) -> None:
        """Run the steps of a phase in order, until one fails."""
        for step in (each for each in steps if each.phase == phase):
            result = self.run_step(step)
            if not result.ok:
                how = f"timed out after {step.timeout_s:g} s" if result.timed_out else result.ending
                tail = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-TAIL:]
                self.end("timeout" if result.timed_out else "failed", f"{phase} step {step.name} {how}: {tail}")
                return

    def run_step(self, step: Step) -> Result:
        """Run one step, until it succeeds when it may be repeated, and note what it did."""
        target = self.bench.roles[step.role]
        if step.host:
            target = Target(step.role, target.host)
        result, attempts = _until_ok(target, step)
        result = redaction.result(result, self.bench.private)  # before it is parsed: what is kept is read alike later
        self.results[step.name] = result
        self.steps.append(
            {
                "name": step.name, "role": step.role, "phase": step.phase, "argv": list(result.argv),
                "status": result.status, "timed_out": result.timed_out, "started_s": result.started_s,
                "duration_s": result.duration_s, "attempts": attempts,
            }
        )  # fmt: skip
        return result

    def clean(self, steps: Sequence[Step]) -> SiteError | None:
        """Run every cleanup step, whatever happened before, and first what rescues a trial that is not ok by now.

        A lost host is returned, not raised.
        """
        lost: dict[str, SiteError] = {}
        rescue = [step for step in steps if step.phase == "rescue" and self.state != "ok"]
        for step in (*rescue, *(step for step in steps if step.phase == "cleanup")):
            host = self.bench.roles[step.role].host.name
            try:
                if host in lost or not self.run_step(step).ok:
                    self.unclean.append(step.name)
            except SiteError as error:
                self.unclean.append(step.name)
                lost[host] = error
        if self.unclean:
            log.warning("%s %s: cleanup failed: %s", self.trial.system, self.trial.workload, ", ".join(self.unclean))
        return next(iter(lost.values()), None)

    def finish(self, workload: Workload, fatal: SiteError | None) -> Finished:
        """Parse, apply the guards, and put the record together."""
        measurements: Sequence[Measurement] = ()
        if self.state == "ok":
            try:
                measurements = parsed(workload, Capture(self.results, self.trial.params))
            except NotAsClaimed as error:
                self.end("invalid", str(error))
            except ParseError as error:
                self.end("unparsable", str(error))
        conditions: dict[str, Any] = {}
        if self.window:
            after = {host: samples[-1] for host, samples in self.window.items()}
            invalid, failed, conditions = judge(self.bench.guards, self.before, after, self.bench.cgroups)
            conditions |= {"invalid": invalid, "failed": failed}  # for every state: a mended parser must not lose them
            if self.state == "ok" and (failed or invalid):
                self.end("failed" if failed else "invalid", "; ".join(failed or invalid))
        # Durations are of the monotonic clock, which is not set. But tools and hosts may use the other one.
        stepped_s = (time.time() - self.started) - (time.monotonic() - self.begin)
        reasons = list(self.bench.orphans)
        if abs(stepped_s) > CLOCK_S:
            conditions["clock_stepped_s"] = stepped_s
            reasons.insert(0, f"the clock was set by {stepped_s:+.1f} s while it ran, or the machine slept")
        for reason in reasons:  # kept for every state
            conditions.setdefault("invalid", []).append(reason)
        if reasons and self.state == "ok":
            self.end("invalid", "; ".join(reasons))
        if self.unclean:
            conditions["cleanup_failed"] = self.unclean
        record = TrialRecord(
            trial=self.trial, state=self.state, reason=self.reason, started_utc=_utc(self.started),
            duration_s=time.monotonic() - self.begin,
            tool_s=sum(step["duration_s"] for step in self.steps if step["phase"] == "measure"),
            steps=tuple(self.steps), measurements=tuple(measurements), conditions=conditions,
            ended_utc=_utc(time.time()),
        )  # fmt: skip
        return Finished(record, self._blobs(), fatal)

    def _blobs(self) -> dict[str, bytes]:
        blobs = {f"{name}.stdout": result.stdout for name, result in self.results.items() if result.stdout}
        blobs |= {f"{name}.stderr": result.stderr for name, result in self.results.items() if result.stderr}
        for host, samples in self.window.items():
            rows = [self.before[host], *samples]
            blobs[f"monitor-{host}.jsonl"] = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows).encode()
        return blobs


def _until_ok(target: Target, step: Step) -> tuple[Result, int]:
    result = target.run(step.argv, timeout_s=step.timeout_s, stdin=step.stdin)
    if step.until_ok_s is None:
        return result, 1
    first, pause, attempts = time.monotonic() - result.duration_s, POLL_S[0], 1
    while not result.ok and (left := first + step.until_ok_s - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(2 * pause, POLL_S[1])
        result = target.run(step.argv, timeout_s=min(step.timeout_s, max(1.0, left)), stdin=step.stdin)
        attempts += 1
    return result, attempts


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
