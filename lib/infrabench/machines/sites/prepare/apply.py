"""Carrying out plans on hosts, all of them at once; what that changed, and plans and results in words.

What is printed of a plan is the same for a dry run and before a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from infrabench.core import CommandFailed, InfrabenchError, SiteError
from infrabench.machines.hosts import interrupts, parallel
from infrabench.machines.sites.inventory import Say
from infrabench.machines.sites.prepare.plan import APART, Command, HostPlan, make_plan, printable, survey_host

AT_ONCE = 16
STEP_S, APT_S = 60.0, 900.0
FORMAT = 1


def make_plans(hosts: Sequence[HostPlan]) -> list[HostPlan]:
    """Return the plan for each host, asked of all at once; one that cannot be asked says so, the others go on."""
    return _run_each(hosts, lambda plan: make_plan(plan, survey_host(plan)))


def apply_plans(planned: Sequence[HostPlan], say: Say) -> list[HostPlan]:
    """Carry out the plans of hosts that have something to do; a host that fails is named, and the others go on.

    An interrupt lets the commands that run come to their end, since half an installation helps nobody, and starts none.
    """
    stopped = Event()
    with interrupts.set_event(stopped, say):
        return _run_each(planned, lambda plan: _apply_plan(plan, say, stopped))


def _run_each(plans: Sequence[HostPlan], do: Callable[[HostPlan], HostPlan]) -> list[HostPlan]:
    def safe(plan: HostPlan) -> HostPlan:
        try:
            return do(plan)
        except InfrabenchError as error:
            return replace(plan, error=str(error))

    return parallel.run_all(safe, plans, AT_ONCE)


def _apply_plan(plan: HostPlan, say: Say, stopped: Event) -> HostPlan:
    if not plan.commands or plan.by_hand:
        return plan
    before, done, waiting, error = plan.survey, list[Command](), list(plan.commands), ""
    try:
        while waiting:
            if stopped.is_set():
                raise SiteError(f"interrupted; {len(waiting)} of its commands have not run")
            command = waiting.pop(0)
            say(f"{plan.name}: {command}")
            done.append(command)
            timeout_s = APT_S if "apt-get" in command.argv else STEP_S
            result = plan.host.run(command.argv, timeout_s=timeout_s, stdin=command.stdin)
            if not result.ok:
                raise SiteError(printable(str(CommandFailed(result, plan.host.name))))
            if plan.updates:  # by this first command: what apt offers is known only now
                known = {name for each in plan.packages for name in (each.package, APART.get(each.package))}
                plan = make_plan(plan, survey_host(plan), updated=True)
                waiting = list(plan.commands)
                if more := sorted({each.package for each in plan.packages} - known):
                    raise SiteError(f"apt now offers more than was shown: {', '.join(more)}. Run it again")
    except InfrabenchError as why:
        error = str(why)
    plan = replace(plan, survey=before, done=tuple(done), error=error)
    try:  # what the host is like now is asked of it, not concluded from the commands
        after = survey_host(plan)
    except InfrabenchError as lost:
        return replace(plan, after=None, error=error or str(lost))
    # What a plan could not mend, it said itself.
    packages = {each.package for each in plan.packages} | ({""} if plan.ours.files else set())
    mended = {each for each in plan.needs.programs if plan.needs.package(each)[0] in packages}
    lacking = () if error else sorted(after.absent & {*mended, *plan.needs.folders, *plan.needs.modules})
    return replace(
        plan, after=after, problems=(*plan.problems, *(f"{name} is still not there" for name in lacking))
    )  # fmt: skip


def write_record(inventory: Path, prepared: Sequence[HostPlan], asked: Mapping[str, Any]) -> Path:
    """Write what was done beside the inventory, never over another record: ``NAME.prepared-TIME.json``; return it.

    It holds commands, versions before and after of what is needed, and every change.
    """
    now = datetime.now(UTC)
    path = inventory.with_name(f"{inventory.stem}.prepared-{now.strftime('%Y%m%dT%H%M%S.%fZ')}.json")
    data = {
        "format": FORMAT, "written": now.isoformat(timespec="seconds"), "asked": dict(asked),
        "hosts": {each.name: _host_record(each) for each in prepared},
    }  # fmt: skip
    with path.open("x") as file:
        file.write(json.dumps(data, indent=1, sort_keys=True) + "\n")
    return path


def _host_record(host: HostPlan) -> dict[str, Any]:
    if host.survey is None:
        return {"error": host.error}
    before, after = host.survey, host.after.installed if host.after else {}
    return {
        "system": before.title, "kernel": before.kernel, "architecture": before.architecture, "root": before.root,
        "commands": [
            {"argv": list(each.argv), "stdin_bytes": len(each.stdin), "files": [file.path for file in each.files]}
            for each in host.done
        ],
        "packages": {
            name: {"before": before.installed.get(name), "after": after.get(name)} for name in host.needs.packages()
        },
        "changed": {each.package: [each.old or None, each.new or None] for each in host.changed},
        "files": list(host.written), "left": list(host.left), "error": host.error or None,
    }  # fmt: skip


def render_plans(planned: Sequence[HostPlan], untold: Sequence[str]) -> Iterator[str]:
    """Yield every host's plan: packages with versions, every command as it is run, and what stays unmet."""
    for host in planned:
        survey, packages, commands = host.survey, host.packages, host.commands
        if survey is None:
            yield f"{host.name}: failed: {host.error}"
            continue
        summary = "nothing that can be done" if host.problems else "nothing to do"
        if commands:
            summary = f"{_count(len(packages), 'package')}, {_count(len(commands), 'command')}"
        yield f"{host.name} ({survey.title}, {survey.architecture or survey.machine}, root: {survey.root}): {summary}"
        width = max((len(change.package) for change in packages), default=0)
        for change in packages:
            apart = f", with {APART[change.package]} where apt has it" if change.package in APART else ""
            version = change.new or f"version known after apt-get update{apart}"
            versions = f"{change.old} -> {version}" if change.old else version
            yield f"  {change.package:{width}}  {versions}  for {', '.join(change.wanted)}"
        if host.depends:
            yield f"  and {_count(host.depends, 'package')} that they depend on"
        if host.by_hand:
            yield f"  The login {survey.login} has neither root nor sudo. An administrator has to run there:"
        yield from (f"    {command}" for command in commands)
        if host.by_hand and any(command.files for command in commands):
            yield "  What is read there is brought from here: that takes a login with root or sudo"
        yield from (f"  unmet: {problem}" for problem in host.problems)
        yield from (f"  stays as it is: {reason}" for reason in host.refusals)
    yield from (f"not asked: {reason}" for reason in untold)


def render_results(prepared: Sequence[HostPlan]) -> Iterator[str]:
    """Yield what changed on every host, and what is still lacking."""
    for each in prepared:
        if each.error:
            yield f"{each.name}: failed: {each.error}"
        elif not each.done and not each.left:
            yield f"{each.name}: {'ready as it is' if each.commands else 'nothing to do'}"
        else:
            yield f"{each.name}: {_count(len(each.changed), 'package')} and {_count(len(each.written), 'file')} changed"
        for change in each.changed:
            yield f"  {change.package}: {change.old or 'not there'} -> {change.new or 'removed'}"
        yield from (f"  {path}: written" for path in each.written)
        yield from (f"  unmet: {reason}" for reason in each.left)
        yield from (f"  stays as it is: {reason}" for reason in each.refusals)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
