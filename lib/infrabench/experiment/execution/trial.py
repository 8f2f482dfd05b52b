"""Executing a trial: steps in order, the monitors' window around each measurement, and what became of it.

The measurement is never retried, whatever it does. Raw output is returned as it came, in every state. Trials of several
rounds are executed together with those of the other systems of their case (`rounds`): all are prepared, then they take
turns, and all are cleaned up.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from infrabench.core import (
    UNITS,
    Capture,
    Guards,
    Measurement,
    NotAsClaimed,
    ParseError,
    ProvisionError,
    Result,
    SiteError,
    State,
    Step,
    Target,
    Trial,
    TrialRecord,
    Workload,
    plan_steps,
    share_out,
)
from infrabench.core.names import is_label
from infrabench.experiment.execution.monitor import Monitor, Sample, judge, largest_step_s
from infrabench.experiment.execution.rounds import join_windows, name_steps, pool_rounds, split_captures
from infrabench.machines.sites import redaction

log = logging.getLogger(__name__)

SAID = 600  # characters of what a step that failed said last: pods that do not come have three kinds of complaints
POLL_S = (0.02, 0.5)  # first and longest pause between two questions whether a service is ready
FATAL = (SiteError, ProvisionError)  # no command ran: a host is gone, or systems could not be frozen or thawed
# What a parser that has a mistake of its own may raise.
PARSER_MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a trial runs: targets by role, watched hosts, cgroup folders by host, and the rules for validity.

    `private` are the texts that its record must not hold, see `redaction`. `orphans` says what of earlier trials still
    runs beside it. `turn` returns a context in which the trial's system alone runs, and commands are the trial's.
    """

    roles: Mapping[str, Target]
    monitor: Monitor
    cgroups: Mapping[str, Sequence[str]]
    guards: Guards
    private: Mapping[str, str] = field(default_factory=dict)
    orphans: Sequence[str] = ()
    turn: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True, slots=True)
class Finished:
    """A record, its raw files by name, and the error that ends the session (a lost host), if any.

    `left` says what on the host could not be removed, each with what tries it once more and tells whether it is gone:
    it is not frozen with its system, and would run beside the rest.
    """

    record: TrialRecord
    blobs: Mapping[str, bytes]
    fatal: SiteError | None = None
    left: Mapping[str, Callable[[], bool]] = field(default_factory=dict)


def execute(trial: Trial, workload: Workload, bench: Bench) -> Finished:
    """Return what became of `trial`.

    Raises only what is not the trial's own: an interrupt, a mistaken plan, what kept it from its first turn.
    """
    return execute_turns([(trial, bench)], workload)[0]


def execute_turns(trials: Sequence[tuple[Trial, Bench]], workload: Workload) -> list[Finished]:
    """Return what became of trials that are executed together, in their order: those of one case, each with its bench.

    Their systems are measured in that order in the first round, in the reverse order in the second, and so on: none is
    always the first. A trial that had not begun when a host was lost, or a system could not be frozen, is not among
    them. Raises as `execute` does, of what kept all of them from their first turn.
    """
    runs = [_Run(trial, bench, workload) for trial, bench in trials]
    now = runs[0]
    try:
        for now in runs:
            now.prepare()
        for number in range(now.trial.rounds):
            for now in runs if number % 2 == 0 else reversed(runs):
                now.measure(number)
    except FATAL as error:
        fatal, begun = _site_error(error), [run for run in runs if run.has_begun]
        if not begun:
            raise fatal from error.__cause__  # the error of a lost host is raised as it came
        (now if now.has_begun else begun[0]).fatal = fatal
        reason = f"a host was lost: {error}" if fatal is error else str(fatal)
        for run in runs:
            if run is now or run.state == "ok":
                run.end("aborted", reason)
    except BaseException:
        for run in runs:  # for the steps that follow: no record is made of it
            run.end("aborted", "interrupted")
        raise
    finally:
        # Also on an interrupt: a server or pods left behind would disturb the next trial.
        with ExitStack() as cleanup:
            for run in reversed(runs):
                cleanup.callback(run.clean)
    return [run.finish() for run in runs if run.has_begun]


def parse_trial(workload: Workload, trial: Trial, results: Mapping[str, Result]) -> tuple[Measurement, ...]:
    """Return the measurements of a trial from what its steps left, see `parse_capture`: the one value of its rounds."""
    rounds = [parse_capture(workload, each) for each in split_captures(workload, trial, results)]
    return rounds[0] if trial.rounds == 1 else pool_rounds(rounds, workload)


def parse_capture(workload: Workload, capture: Capture) -> tuple[Measurement, ...]:
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
    for each in found:
        if not _is_measurement(each):
            raise ParseError("parser", f"{each!r} is no measurement")
    if len({m.metric for m in found}) != len(found):
        raise ParseError("parser", "it found a metric twice")
    return found


def _is_measurement(found: object) -> bool:
    """Tell whether this can be recorded and read again: what a reader refuses is never written."""
    if not isinstance(found, Measurement) or not is_label(found.metric):
        return False
    value = found.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return found.unit in UNITS and found.better in ("higher", "lower") and abs(value) < 2**63


class _Run:
    """The state of one trial that is being executed."""

    def __init__(self, trial: Trial, bench: Bench, workload: Workload) -> None:
        self.trial, self.bench, self.workload = trial, bench, workload
        self.planned = plan_steps(workload, share_out(trial.params, workload.PARAMS, trial.rounds), bench.roles)
        self.state: State = "ok"
        self.reason = ""
        self.fatal: SiteError | None = None
        self.results: dict[str, Result] = {}
        self.steps: list[dict[str, Any]] = []
        self.idle: Mapping[str, Sample] = {}
        self.windows: list[tuple[Mapping[str, Sample], Mapping[str, Sequence[Sample]]]] = []
        self.unclean: list[str] = []
        self.started, self.begin, self.took_s = time.time(), time.monotonic(), 0.0
        self.has_begun = False  # has it had its system's turn: commands ran

    @contextmanager
    def turn(self) -> Iterator[None]:
        begin = time.monotonic()
        try:
            with self.bench.turn():
                self.has_begun = True
                yield
        finally:
            self.took_s += time.monotonic() - begin

    def end(self, state: State, reason: str) -> None:
        self.state, self.reason = state, redaction.text(reason, self.bench.private)

    def prepare(self) -> None:
        """Run the steps that stand before the measurement."""
        steps = [step for step in self.planned if step.phase == "prepare"]
        if not steps:
            return  # no switch to a system that has nothing to do
        with self.turn():
            # A server that starts is load of our own: see how busy the hosts are before.
            self.idle = self.bench.monitor.begin(f"{self.trial.id}-idle", self.bench.cgroups)
            self.run_steps(steps)

    def measure(self, number: int) -> None:
        """Run the steps of round `number` in a window of their own; nothing, where the trial is not ok any more."""
        if self.state != "ok":
            return
        with self.turn():
            # How busy the hosts were is asked once: before the first window, or before the servers start.
            counted = {} if self.idle or self.windows else self.bench.cgroups
            before = self.bench.monitor.begin(self.trial.id, counted)
            if self.idle and not self.windows:
                before = {host: {**now, "load": self.idle[host]["load"]} for host, now in before.items()}
            self.run_steps(name_steps(self.planned, self.trial, number))
            self.windows.append((before, self.bench.monitor.end(self.trial.id)))

    def run_steps(self, steps: Sequence[Step]) -> None:
        """Run steps in order, until one fails."""
        for step in steps:
            result = self.run_step(step)
            if not result.ok:
                how = f"timed out after {step.timeout_s:g} s" if result.timed_out else result.ending
                said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-SAID:]
                self.end("timeout" if result.timed_out else "failed", f"{step.phase} step {step.name} {how}: {said}")
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

    def clean(self) -> None:
        """Run every cleanup step, whatever happened before, and first what rescues a trial that is not ok by now.

        A host that is lost meanwhile is noted, not raised. What a rescue step says on stderr joins the trial's reason.
        """
        if not self.has_begun:
            return
        lost: dict[str, SiteError] = {}
        rescue = [step for step in self.planned if step.phase == "rescue" and self.state != "ok"]
        steps = (*rescue, *(step for step in self.planned if step.phase == "cleanup"))
        try:
            with self.turn() if steps else nullcontext():
                for step in steps:
                    host = self.bench.roles[step.role].host.name
                    try:
                        if host in lost or not (result := self.run_step(step)).ok:
                            self.unclean.append(step.name)
                        elif step.phase == "rescue" and (cause := result.stderr.decode("utf-8", "replace").strip()):
                            self.end(self.state, f"{self.reason}; {cause[-SAID:]}")
                    except FATAL as error:
                        self.unclean.append(step.name)
                        lost[host] = _site_error(error)
        except FATAL as error:  # it cannot be given its turn any more
            self.unclean += [step.name for step in steps]
            lost[""] = _site_error(error)
        if self.unclean:
            log.warning("%s %s: cleanup failed: %s", self.trial.system, self.trial.workload, ", ".join(self.unclean))
        self.fatal = next(iter(lost.values()), self.fatal)

    def finish(self) -> Finished:
        """Parse, apply the guards, and put the record together."""
        begin = time.monotonic()
        measurements: Sequence[Measurement] = ()
        if self.state == "ok":
            try:
                measurements = parse_trial(self.workload, self.trial, self.results)
            except NotAsClaimed as error:
                self.end("invalid", str(error))
            except ParseError as error:
                self.end("unparsable", str(error))
        conditions: dict[str, Any] = {}
        if self.windows:
            ends = [(before, {host: samples[-1] for host, samples in after.items()}) for before, after in self.windows]
            invalid, failed, conditions = judge(self.bench.guards, *join_windows(ends), self.bench.cgroups)
            conditions |= {"invalid": invalid, "failed": failed}  # for every state: a mended parser must not lose them
            if self.state == "ok" and (failed or invalid):
                self.end("failed" if failed else "invalid", "; ".join(failed or invalid))
        self.judge_clock(conditions)
        self.invalidate(conditions, self.bench.orphans)
        if self.unclean:
            conditions["cleanup_failed"] = self.unclean
        record = TrialRecord(
            trial=self.trial, state=self.state, reason=self.reason, started_utc=_utc(self.started),
            duration_s=self.took_s + time.monotonic() - begin,
            tool_s=sum(step["duration_s"] for step in self.steps if step["phase"] == "measure"),
            steps=tuple(self.steps), measurements=tuple(measurements), conditions=conditions,
            ended_utc=_utc(time.time()),
        )  # fmt: skip
        left = {
            f"{self.trial.system} {self.trial.workload}: step {step.name} failed: what it made may still run":
            partial(_is_removed, Target(step.role, self.bench.roles[step.role].host), step)
            for step in self.planned
            if step.phase == "rescue" and step.host and step.name in self.unclean
        }  # fmt: skip
        return Finished(record, self._blobs(), self.fatal, left)

    def judge_clock(self, conditions: dict[str, Any]) -> None:
        """Make a trial invalid in which this machine's clock was set, or the machine slept.

        Durations are of the monotonic clock, which is not set. But tools and hosts may use the other one.
        """
        took_s = time.monotonic() - self.begin
        stepped_s = (time.time() - self.started) - took_s
        if abs(stepped_s) > largest_step_s(took_s):
            conditions["clock_stepped_s"] = stepped_s
            self.invalidate(conditions, [f"the clock was set by {stepped_s:+.2f} s while it ran, or the machine slept"])

    def invalidate(self, conditions: dict[str, Any], reasons: Sequence[str]) -> None:
        """Make the trial invalid for `reasons`, if there are any; they are kept for every state."""
        if not reasons:
            return
        conditions["invalid"] = [*conditions.get("invalid", ()), *reasons]
        if self.state == "ok":
            self.end("invalid", "; ".join(reasons))

    def _blobs(self) -> dict[str, bytes]:
        blobs = {f"{name}.stdout": result.stdout for name, result in self.results.items() if result.stdout}
        blobs |= {f"{name}.stderr": result.stderr for name, result in self.results.items() if result.stderr}
        for host in self.windows[0][0] if self.windows else ():
            rows = [row for before, after in self.windows for row in (before[host], *after[host])]
            blobs[f"monitor-{host}.jsonl"] = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows).encode()
        return blobs


def _site_error(error: SiteError | ProvisionError) -> SiteError:
    """Return what ends the session: whatever kept a trial from its turn, its records and those beside it are kept."""
    return error if isinstance(error, SiteError) else SiteError(f"the systems could not take turns: {error}")


def _is_removed(target: Target, step: Step) -> bool:
    return target.run(step.argv, timeout_s=step.timeout_s, stdin=step.stdin).ok


def _until_ok(target: Target, step: Step) -> tuple[Result, int]:
    result = target.run(step.argv, timeout_s=step.timeout_s, stdin=step.stdin)
    if step.until_ok_s is None:
        if result.ok or step.phase not in ("rescue", "cleanup"):
            return result, 1
        # What stays would disturb all that follows, and a daemon may only have been busy.
        return target.run(step.argv, timeout_s=step.timeout_s, stdin=step.stdin), 2
    first, pause, attempts = time.monotonic() - result.duration_s, POLL_S[0], 1
    while not result.ok and (left := first + step.until_ok_s - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        pause = min(2 * pause, POLL_S[1])
        result = target.run(step.argv, timeout_s=min(step.timeout_s, max(1.0, left)), stdin=step.stdin)
        attempts += 1
    return result, attempts


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
