"""Carrying out plans on hosts, all of them at once; what that changed, and plans and results in words.

What is printed of a plan is the same for a dry run and before a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from infrabench.core import CommandFailed, InfrabenchError, SiteError
from infrabench.machines.hosts import interrupts, parallel
from infrabench.machines.sites.prepare.plan import (
    Change,
    Command,
    HostJob,
    HostPlan,
    make_plan,
    printable,
    survey_host,
)

AT_ONCE = 16
FORMAT = 1


@dataclass(frozen=True, slots=True)
class PreparedHost:
    """What became of a host, or would: with a plan that was not run, `left` is what the plan does not mend.

    `changed` are packages whose version is another than before; `error`: it was given up.
    """

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


def make_plans(jobs: Sequence[HostJob]) -> dict[str, PreparedHost]:
    """Return the plan for each host, asked of all at once; one that cannot be asked says so, the others go on."""

    def plan(job: HostJob) -> PreparedHost:
        made = make_plan(job, survey_host(job))
        return PreparedHost(job.name, made, left=made.unmet, after=made.survey.installed)

    return _run_each(jobs, plan)


def apply_plans(
    jobs: Sequence[HostJob], planned: Mapping[str, PreparedHost], say: Callable[[str], None]
) -> dict[str, PreparedHost]:
    """Carry out the plans of hosts that have something to do; a host that fails is named, and the others go on.

    An interrupt lets the commands that run come to their end, since half an installation helps nobody, and starts none.
    """
    stopped = Event()
    with interrupts.set_event(stopped, say):
        return _run_each(jobs, lambda job: _apply_plan(job, planned[job.name], say, stopped))


def _apply_plan(job: HostJob, shown: PreparedHost, say: Callable[[str], None], stopped: Event) -> PreparedHost:
    plan = shown.plan
    if plan is None or not plan.commands or plan.by_hand:
        return shown
    before, done, waiting, error = plan.survey, list[Command](), list(plan.commands), ""
    try:
        while waiting:
            if stopped.is_set():
                raise SiteError(f"interrupted; {len(waiting)} of its commands have not run")
            command = waiting.pop(0)
            say(f"{job.name}: {command}")
            done.append(command)
            result = job.host.run(command.argv, timeout_s=command.timeout_s, stdin=command.stdin)
            if not result.ok:
                raise SiteError(printable(str(CommandFailed(result, job.host.name))))
            if plan.updates:  # by this first command: what apt offers is known only now
                known = {each.package for each in plan.packages}
                plan = make_plan(job, survey_host(job), updated=True)
                waiting = list(plan.commands)
                if more := sorted({each.package for each in plan.packages} - known):
                    raise SiteError(f"apt now offers more than was shown: {', '.join(more)}. Run it again")
    except InfrabenchError as why:
        error = str(why)
    try:  # what the host is like now is asked of it, not concluded from the commands
        after = survey_host(job)
    except InfrabenchError as lost:
        return PreparedHost(job.name, plan, tuple(done), error=error or str(lost))
    # What a plan could not mend, it said itself.
    packages = {each.package for each in plan.packages} | ({""} if job.ours.files else set())
    mended = {each for each in job.needs.programs if job.needs.package(each)[0] in packages}
    lacking = () if error else sorted(after.absent & {*mended, *job.folders, *job.needs.modules})
    files = tuple(path for path, value in sorted(after.hashes.items()) if before.hashes.get(path) != value)
    return PreparedHost(
        job.name, plan, tuple(done), compare_versions(before.installed, after.installed), files,
        (*plan.problems, *(f"{name} is still not there" for name in lacking)), error, after.installed,
    )  # fmt: skip


def compare_versions(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """Return how packages changed from `before` to `after`, by name."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return tuple(Change(name, before.get(name, ""), after.get(name, "")) for name in names)


def _run_each(jobs: Sequence[HostJob], do: Callable[[HostJob], PreparedHost]) -> dict[str, PreparedHost]:
    def safe(job: HostJob) -> PreparedHost:
        try:
            return do(job)
        except InfrabenchError as error:
            return PreparedHost(job.name, None, error=str(error))

    return {each.name: each for each in parallel.run_all(safe, jobs, AT_ONCE)}


def write_record(
    inventory: Path, jobs: Sequence[HostJob], prepared: Mapping[str, PreparedHost], asked: Mapping[str, Any]
) -> Path:
    """Write what was done beside the inventory, never over another record: ``NAME.prepared-TIME.json``; return it.

    It holds commands, versions before and after of what is needed, and every change.
    """
    now = datetime.now(UTC)
    path = inventory.with_name(f"{inventory.stem}.prepared-{now.strftime('%Y%m%dT%H%M%S.%fZ')}.json")
    data = {
        "format": FORMAT, "written": now.isoformat(timespec="seconds"), "asked": dict(asked),
        "hosts": {job.name: _host_record(prepared[job.name], job.needs.packages()) for job in jobs},
    }  # fmt: skip
    with path.open("x") as file:
        file.write(json.dumps(data, indent=1, sort_keys=True) + "\n")
    return path


def _host_record(prepared: PreparedHost, packages: Sequence[str]) -> dict[str, Any]:
    if prepared.plan is None:
        return {"error": prepared.error}
    survey = prepared.plan.survey
    return {
        "system": survey.title, "kernel": survey.kernel, "architecture": survey.architecture, "root": survey.root,
        "commands": [
            {"argv": list(each.argv), "stdin_bytes": len(each.stdin), "files": list(each.holds)}
            for each in prepared.done
        ],
        "packages": {
            name: {"before": survey.installed.get(name), "after": prepared.after.get(name)} for name in packages
        },
        "changed": {each.package: [each.old or None, each.new or None] for each in prepared.changed},
        "files": list(prepared.files), "left": list(prepared.left), "error": prepared.error or None,
    }  # fmt: skip


def render_plans(planned: Sequence[PreparedHost], untold: Sequence[str]) -> Iterator[str]:
    """Yield every host's plan: packages with versions, every command as it is run, and what stays unmet."""
    for each in planned:
        plan = each.plan
        if plan is None:
            yield f"{each.name}: failed: {each.error}"
            continue
        survey, packages, commands = plan.survey, plan.packages, plan.commands
        summary = "nothing that can be done" if plan.problems else "nothing to do"
        if commands:
            summary = f"{_count(len(packages), 'package')}, {_count(len(commands), 'command')}"
        yield f"{each.name} ({survey.title}, {survey.architecture or survey.machine}, root: {survey.root}): {summary}"
        width = max((len(change.package) for change in packages), default=0)
        for change in packages:
            version = change.new or "version known after apt-get update"
            versions = f"{change.old} -> {version}" if change.old else version
            yield f"  {change.package:{width}}  {versions}  for {', '.join(change.wanted)}"
        if plan.depends:
            yield f"  and {_count(plan.depends, 'package')} that they depend on"
        if plan.by_hand:
            yield f"  The login {survey.login} has neither root nor sudo. An administrator has to run there:"
        yield from (f"    {command}" for command in commands)
        if plan.by_hand and any(command.stdin for command in commands):
            yield "  What is read there is brought from here: that takes a login with root or sudo"
        yield from (f"  unmet: {problem}" for problem in plan.problems)
    yield from (f"not asked: {reason}" for reason in untold)


def render_results(prepared: Sequence[PreparedHost]) -> Iterator[str]:
    """Yield what changed on every host, and what is still lacking."""
    for each in prepared:
        if each.error:
            yield f"{each.name}: failed: {each.error}"
        elif not each.done and not each.left:
            yield f"{each.name}: nothing to do"
        else:
            yield f"{each.name}: {_count(len(each.changed), 'package')} and {_count(len(each.files), 'file')} changed"
        for change in each.changed:
            yield f"  {change.package}: {change.old or 'not there'} -> {change.new or 'removed'}"
        yield from (f"  {path}: written" for path in each.files)
        yield from (f"  unmet: {reason}" for reason in each.left)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
