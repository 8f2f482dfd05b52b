"""Carrying out plans on hosts, all of them at once; what that changed, and plans and results in words.

What is printed of a plan is the same for a dry run and before a real one.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from infrabench.core import CommandFailed, Host, InfrabenchError
from infrabench.machines.hosts import interrupts, parallel
from infrabench.machines.sites.prepare import plan as planning
from infrabench.machines.sites.prepare import survey as surveys
from infrabench.machines.sites.prepare.plan import Command, GuestFiles, HostPlan, Options
from infrabench.machines.sites.prepare.requirements import Needs
from infrabench.machines.sites.prepare.survey import Change, HostSurvey, compare_versions

AT_ONCE = 16
FORMAT = 1
NOTHING = "nothing to do"


@dataclass(frozen=True, slots=True)
class PreparedHost:
    """What became of a host. `changed` are packages whose version is another than before; `error`: it was given up."""

    name: str
    plan: HostPlan | None
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
class HostJob:
    """A host, what it needs, and what of ours is brought to it."""

    name: str
    host: Host
    needs: Needs
    ours: GuestFiles

    def plan(self, options: Options, *, updated: bool = False) -> HostPlan:
        """Return the plan for the host as it is now; nothing is changed."""
        return planning.make_plan(
            self.needs, self.survey(), self.ours.files, options=options,
            simulate=lambda argv: surveys.simulate_install(self.host, argv),
            older=lambda version, floor: surveys.is_older(self.host, version, floor),
            no_files=self.ours.reason, made_for=platform.machine(), updated=updated,
        )  # fmt: skip

    def survey(self) -> HostSurvey:
        """Return what the host has."""
        return surveys.survey_host(self.host, self.needs, (*(each.path for each in self.ours.files), planning.LIMITS))


def make_job(name: str, host: Host, needs: Needs, ours: GuestFiles) -> HostJob:
    """Return what is to be done for a host that also needs the folders of what is brought to it."""
    return HostJob(name, host, replace(needs, folders=tuple(dict.fromkeys((*needs.folders, *ours.folders)))), ours)


def make_plans(jobs: Sequence[HostJob], options: Options) -> dict[str, PreparedHost]:
    """Return the plan for each host, asked of all at once; one that cannot be asked says so, the others go on."""
    return _run_each(jobs, lambda job: PreparedHost(job.name, job.plan(options)))


def apply_plans(
    jobs: Sequence[HostJob], planned: Mapping[str, PreparedHost], options: Options, say: Callable[[str], None]
) -> dict[str, PreparedHost]:
    """Carry out the plans of hosts that have something to do; a host that fails is named, and the others go on.

    An interrupt lets the commands that run come to their end, since half an installation helps nobody, and starts none.
    """

    stopped = Event()

    def one(job: HostJob) -> PreparedHost:
        before = planned[job.name]
        if before.plan is None or not before.plan.commands or before.plan.by_hand:
            if before.plan is None:
                return before
            return PreparedHost(job.name, before.plan, left=before.plan.unmet, after=before.plan.survey.installed)
        return _apply_plan(job, before.plan, options, say, stopped)

    with interrupts.set_event(stopped, say):
        return _run_each(jobs, one)


def make_record(
    prepared: Sequence[PreparedHost], needs: Mapping[str, Needs], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what was done, as JSON: commands, versions before and after of what is needed, and every change."""
    return {
        "format": FORMAT,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": dict(asked),
        "hosts": {each.name: _host_record(each, needs[each.name]) for each in prepared},
    }


def write_record(data: Mapping[str, Any], inventory: Path) -> Path:
    """Write a record beside the inventory and return its path: ``NAME.prepared-TIME.json``; never over another."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = inventory.with_name(f"{inventory.stem}.prepared-{stamp}.json")
    with path.open("x") as file:
        file.write(json.dumps(data, indent=1, sort_keys=True) + "\n")
    return path


def _run_each(jobs: Sequence[HostJob], do: Callable[[HostJob], PreparedHost]) -> dict[str, PreparedHost]:
    def safe(job: HostJob) -> PreparedHost:
        try:
            return do(job)
        except InfrabenchError as error:
            return PreparedHost(job.name, None, error=str(error))

    return {each.name: each for each in parallel.run_all(safe, jobs, AT_ONCE)}


def _apply_plan(
    job: HostJob, plan: HostPlan, options: Options, say: Callable[[str], None], stopped: Event
) -> PreparedHost:  # fmt: skip
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
            plan, error = _replan(job, plan, options)
            waiting = list(plan.commands)
    return _result(job, plan, before, tuple(done), error)


def _replan(job: HostJob, shown: HostPlan, options: Options) -> tuple[HostPlan, str]:
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
    return "" if result.ok else surveys.printable(str(CommandFailed(result, host.name)))


def _result(
    job: HostJob, plan: HostPlan, before: Mapping[str, str], done: tuple[Command, ...], error: str
) -> PreparedHost:
    """Return what a host is like after its commands: asked of it, not concluded from them."""
    try:
        survey = job.survey()
    except InfrabenchError as lost:
        return PreparedHost(job.name, plan, done, error=error or str(lost))
    known = plan.survey.hashes
    files = tuple(path for path, value in sorted(survey.hashes.items()) if known.get(path) != value)
    lacking = () if error else sorted(survey.absent & _expected_names(job, plan))
    left = (*plan.problems, *(f"{name} is still not there" for name in lacking))
    return PreparedHost(
        job.name, plan, done, compare_versions(before, survey.installed), files, left, error, survey.installed
    )  # fmt: skip


def _expected_names(job: HostJob, plan: HostPlan) -> set[str]:
    """Return what is there if all commands of a plan did what they should; what it could not mend, it said itself."""
    packages = {each.name for each in plan.packages} | ({""} if job.ours.files else set())
    programs = {program for program in job.needs.programs if job.needs.package(program)[0] in packages}
    return {*programs, *job.needs.folders, *job.needs.modules}


def _host_record(prepared: PreparedHost, needs: Needs) -> dict[str, Any]:
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


def render_plans(planned: Sequence[PreparedHost], untold: Sequence[str]) -> Iterator[str]:
    """Yield every host's plan: packages with versions, every command as it is run, and what stays unmet."""
    for each in planned:
        if each.plan is None:
            yield f"{each.name}: failed: {each.error}"
            continue
        survey = each.plan.survey
        title = f"{survey.title}, {survey.architecture or survey.machine}, root: {survey.root}"
        summary = f"{_count(len(each.plan.packages), 'package')}, {_count(len(each.plan.commands), 'command')}"
        if not each.plan.commands:
            summary = "nothing that can be done" if each.plan.problems else NOTHING
        yield f"{each.name} ({title}): {summary}"
        yield from _packages(each.plan)
        if each.plan.by_hand:
            yield f"  The login {each.plan.survey.login} has neither root nor sudo. An administrator has to run there:"
        yield from (f"    {command}" for command in each.plan.commands)
        if each.plan.by_hand and any(command.stdin for command in each.plan.commands):
            yield "  What is read there is brought from here: that takes a login with root or sudo"
        yield from (f"  unmet: {problem}" for problem in each.plan.problems)
    yield from (f"not asked: {reason}" for reason in untold)


def render_results(prepared: Sequence[PreparedHost]) -> Iterator[str]:
    """Yield what changed on every host, and what is still lacking."""
    for each in prepared:
        if each.error:
            yield f"{each.name}: failed: {each.error}"
        elif not each.done and not each.left:
            yield f"{each.name}: {NOTHING}"
        else:
            yield f"{each.name}: {_count(len(each.changed), 'package')} and {_count(len(each.files), 'file')} changed"
        for change in each.changed:
            yield f"  {change.package}: {change.old or 'not there'} -> {change.new or 'removed'}"
        yield from (f"  {path}: written" for path in each.files)
        yield from (f"  unmet: {reason}" for reason in each.left)


def _packages(plan: HostPlan) -> Iterator[str]:
    width = max((len(each.name) for each in plan.packages), default=0)
    for each in plan.packages:
        version = each.new or "version known after apt-get update"
        change = f"{each.old} -> {version}" if each.old else version
        yield f"  {each.name:{width}}  {change}  for {', '.join(each.wanted)}"
    if plan.depends:
        yield f"  and {_count(plan.depends, 'package')} that they depend on"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
