"""Carrying out plans on hosts, all of them at once, and what that changed."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from infrabench.core import CommandFailed, Host, InfrabenchError
from infrabench.preparing import plan as planning
from infrabench.preparing import survey as surveys
from infrabench.preparing.apt import Change, changes
from infrabench.preparing.guestfiles import Brought
from infrabench.preparing.needs import Needs
from infrabench.preparing.plan import Command, Options, Plan
from infrabench.preparing.survey import Survey

AT_ONCE = 16
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of a host. `changed` are packages whose version is another than before; `error`: it was given up."""

    name: str
    plan: Plan | None
    done: tuple[Command, ...] = ()
    changed: tuple[Change, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # needs that are still unmet
    error: str = ""
    after: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.error and not self.left


@dataclass(frozen=True, slots=True)
class Job:
    """A host, what it needs, and what of ours is brought to it."""

    name: str
    host: Host
    needs: Needs
    ours: Brought

    def plan(self, options: Options, *, updated: bool = False) -> Plan:
        """Return the plan for the host as it is now; nothing is changed."""
        return planning.made(
            self.needs, self.survey(), self.ours.files, options=options,
            simulate=lambda argv: surveys.simulation(self.host, argv),
            older=lambda version, floor: surveys.older(self.host, version, floor),
            no_files=self.ours.reason, made_for=platform.machine(), updated=updated,
        )  # fmt: skip

    def survey(self) -> Survey:
        """Return what the host has."""
        return surveys.taken(self.host, self.needs, (*(each.path for each in self.ours.files), planning.LIMITS))


def job(name: str, host: Host, needs: Needs, ours: Brought) -> Job:
    """Return what is to be done for a host that also needs the folders of what is brought to it."""
    return Job(name, host, replace(needs, folders=tuple(dict.fromkeys((*needs.folders, *ours.folders)))), ours)


def plans(jobs: Sequence[Job], options: Options) -> dict[str, Prepared]:
    """Return the plan for each host, asked of all at once; one that cannot be asked says so, the others go on."""
    return _each(jobs, lambda job: Prepared(job.name, job.plan(options)))


def carried_out(
    jobs: Sequence[Job], planned: Mapping[str, Prepared], options: Options, say: Callable[[str], None]
) -> dict[str, Prepared]:
    """Carry out the plans of hosts that have something to do; a host that fails is named, and the others go on.

    An interrupt lets the commands that run come to their end, since half an installation helps nobody, and starts none.
    """

    stopped = Event()

    def one(job: Job) -> Prepared:
        before = planned[job.name]
        if before.plan is None or not before.plan.commands or before.plan.by_hand:
            if before.plan is None:
                return before
            return Prepared(job.name, before.plan, left=before.plan.unmet, after=before.plan.survey.installed)
        return _carried(job, before.plan, options, say, stopped)

    return _each(jobs, one, stopped)


def record(prepared: Sequence[Prepared], needs: Mapping[str, Needs], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was done, as JSON: commands, versions before and after of what is needed, and every change."""
    return {
        "format": FORMAT,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": dict(asked),
        "hosts": {each.name: _recorded(each, needs[each.name]) for each in prepared},
    }


def write(data: Mapping[str, Any], inventory: Path) -> Path:
    """Write a record beside the inventory and return its path: ``NAME.prepared-TIME.json``; never over another."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = inventory.with_name(f"{inventory.stem}.prepared-{stamp}.json")
    with path.open("x") as file:
        file.write(json.dumps(data, indent=1, sort_keys=True) + "\n")
    return path


def _each(
    jobs: Sequence[Job], do: Callable[[Job], Prepared], stopped: Event | None = None
) -> dict[str, Prepared]:  # fmt: skip
    def safe(job: Job) -> Prepared:
        try:
            return do(job)
        except InfrabenchError as error:
            return Prepared(job.name, None, error=str(error))

    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(jobs)))) as pool:
        waiting = [pool.submit(safe, job) for job in jobs]
        try:
            wait(waiting)
        except KeyboardInterrupt:
            if stopped is None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            stopped.set()
            wait(waiting)
        return {job.name: each.result() for job, each in zip(jobs, waiting, strict=True)}


def _carried(
    job: Job, plan: Plan, options: Options, say: Callable[[str], None], stopped: Event
) -> Prepared:  # fmt: skip
    before, done = plan.survey.installed, list[Command]()
    error, waiting = "", list(plan.commands)
    while waiting and not error:
        if stopped.is_set():
            error = f"interrupted; {len(waiting)} of its commands have not run"
            break
        command = waiting.pop(0)
        say(f"{job.name}: {command}")
        error = _run(job.host, command)
        done.append(command)
        if plan.updates and not error and len(done) == 1:
            # What apt offers is known only now.
            plan, error = _again(job, plan, options)
            waiting = list(plan.commands)
    return _result(job, plan, before, tuple(done), error)


def _again(job: Job, shown: Plan, options: Options) -> tuple[Plan, str]:
    """Return the plan with apt's new lists, and why it cannot be carried out: it must not be more than was shown."""
    try:
        plan = job.plan(options, updated=True)
    except InfrabenchError as error:
        return shown, str(error)
    more = {each.name for each in plan.packages} - {each.name for each in shown.packages}
    return plan, f"apt now offers more than was shown: {', '.join(sorted(more))}. Run it again" if more else ""


def _run(host: Host, command: Command) -> str:
    """Run one command within its time; return why it failed, or nothing."""
    try:
        result = host.run(command.argv, timeout_s=command.timeout_s, stdin=command.stdin)
    except InfrabenchError as error:
        return str(error)
    return "" if result.ok else surveys.plain(str(CommandFailed(result, host.name)))


def _result(job: Job, plan: Plan, before: Mapping[str, str], done: tuple[Command, ...], error: str) -> Prepared:
    """Return what a host is like after its commands: asked of it, not concluded from them."""
    try:
        survey = job.survey()
    except InfrabenchError as lost:
        return Prepared(job.name, plan, done, error=error or str(lost))
    known = plan.survey.hashes
    files = tuple(path for path, value in sorted(survey.hashes.items()) if known.get(path) != value)
    lacking = () if error else sorted(survey.absent & _mended(job, plan))
    left = (*plan.problems, *(f"{name} is still not there" for name in lacking))
    return Prepared(
        job.name, plan, done, changes(before, survey.installed), files, left, error, survey.installed
    )  # fmt: skip


def _mended(job: Job, plan: Plan) -> set[str]:
    """Return what is there if all commands of a plan did what they should; what it could not mend, it said itself."""
    packages = {each.name for each in plan.packages} | ({""} if job.ours.files else set())
    programs = {program for program in job.needs.programs if job.needs.package(program)[0] in packages}
    return {*programs, *job.needs.folders, *job.needs.modules}


def _recorded(prepared: Prepared, needs: Needs) -> dict[str, Any]:
    if prepared.plan is None:
        return {"error": prepared.error}
    survey, names = prepared.plan.survey, sorted({needs.package(each)[0] for each in needs.programs} - {""})
    return {
        "system": survey.title, "kernel": survey.kernel, "architecture": survey.architecture, "root": survey.root,
        "commands": [
            {"argv": list(each.argv), "stdin_bytes": len(each.stdin), "files": list(each.holds)}
            for each in prepared.done
        ],
        "packages": {
            name: {"before": survey.installed.get(name), "after": prepared.after.get(name)} for name in names
        },
        "changed": {each.package: [each.old or None, each.new or None] for each in prepared.changed},
        "files": list(prepared.files), "left": list(prepared.left), "error": prepared.error or None,
    }  # fmt: skip
