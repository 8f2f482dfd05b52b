"""Plans and results in words: what is printed, the same for a dry run and before a real one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infrabench.machines.sites.prepare.apply import PreparedHost
from infrabench.machines.sites.prepare.plan import HostPlan

NOTHING = "nothing to do"


def render_plans(planned: Sequence[PreparedHost], untold: Sequence[str]) -> Iterator[str]:
    """Yield every host's plan: packages with versions, every command as it is run, and what stays unmet."""
    for each in planned:
        if each.plan is None:
            yield f"{each.name}: failed: {each.error}"
            continue
        yield f"{each.name} ({_title(each.plan)}): {_summary(each.plan)}"
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


def _title(plan: HostPlan) -> str:
    survey = plan.survey
    return f"{survey.title}, {survey.architecture or survey.machine}, root: {survey.root}"


def _summary(plan: HostPlan) -> str:
    if not plan.commands:
        return NOTHING if not plan.problems else "nothing that can be done"
    return f"{_count(len(plan.packages), 'package')}, {_count(len(plan.commands), 'command')}"


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
