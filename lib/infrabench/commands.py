"""What each command does: a function of the parsed arguments that yields the lines to print."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infrabench import archive, comparability, costs, labels, ledger, registry, runs, session
from infrabench import design as designs
from infrabench.core import DesignError, LedgerError, SiteError
from infrabench.design import Design
from infrabench.progress import bar, words
from infrabench.records import (
    LOOK,
    absences,
    awaited,
    discarded,
    not_applicable,
    read_blocks,
    read_session,
    read_trials,
    recorded,
)
from infrabench.records import verify as problems

MIB = 2**20


def plan(arguments: Namespace) -> Iterator[str]:
    """Yield every trial in order, with when it is expected to start, and the cost of all; or what a pilot says."""
    if arguments.pilot:
        yield from _from_pilot(arguments.study, arguments.pilot, arguments.goals, arguments.all)
        return
    if arguments.study is None:
        raise DesignError(f"name the study to plan: {', '.join(registry.names('studies'))}")
    wanted = _wanted(arguments)
    at = len(wanted.systems) * session.study_of(wanted).deploy_s
    wide = [max(map(len, names), default=0) for names in (wanted.systems, designs.workloads(wanted))]
    system, workload = (max(12, width) for width in wide)
    yield f"position  block  starts       {'system':{system}s}  {'workload':{workload}s}  scenario"
    for trial in designs.trials(wanted):
        yield (
            f"{trial.position:8d}  {trial.block:5d}  {words(at):11s}  {trial.system:{system}s}  "
            f"{trial.workload:{workload}s}  {trial.scenario}"
        )
        at += trial.seconds + costs.TRIAL_OVERHEAD_S
    from infrabench import planned  # scipy is loaded for this line alone

    yield _cost(wanted)
    yield planned.power_summary(wanted)


def run(arguments: Namespace) -> Iterator[str]:
    """Run a study, or go on with it, and yield what will be done, where it is and how it went."""
    wanted, site = _wanted(arguments), _site(arguments.site)
    look = None
    if wanted.stopping is not None:
        from infrabench import planned  # pandas and scipy are loaded only where intervals are looked at

        look = planned.look_of(wanted)
    yield _cost(wanted)
    with bar(f"{wanted.study} {wanted.profile}") as show:
        folder = runs.carry_out(wanted, site=site, name=arguments.session, on_progress=show, look=look)
    yield from _state_of(folder)


def status(arguments: Namespace) -> Iterator[str]:
    """Yield how far each session is, in counts by system and state."""
    names = arguments.sessions or sorted(runs.sessions())
    if not names:
        yield f"no session yet below {runs.home() / 'data'}"
    for name in names:
        yield from _state_of(runs.find(None, name))


def analyze(arguments: Namespace) -> Iterator[str]:
    """Yield what a session says as text tables: estimates, contrasts, tests over all systems, tiers, diagnostics."""
    from infrabench import facade, tables  # pandas and scipy are loaded for this command alone

    opened = facade.open_session(runs.find(None, arguments.session))
    found = facade.results(opened)
    yield from _state_of(opened.folder)
    for made, caption in (
        (
            tables.estimates_table(found.estimates, found.diagnostics),
            "Estimates: mean with 95 % t interval, median with exact interval; n trials of state ok.",
        ),
        (
            tables.contrasts_table(found.contrasts),
            f"Contrasts: ratio to {opened.data['baseline']}, paired by block, with 95 % Fieller interval.",
        ),
        (tables.omnibus_table(found.omnibus), "All systems of a case: Friedman and Iman-Davenport over blocks."),
        (tables.tiers_table(found.tiers), "Systems that share a letter cannot be separated."),
        (tables.diagnostics_table(found.diagnostics), "Diagnostics: they inform, and drop nothing."),
    ):
        yield ""
        yield tables.markdown(made, caption)


def report(arguments: Namespace) -> Iterator[str]:
    """Make the report of executed notebooks, with their figures, tables and data, and yield where it is."""
    from infrabench.report import report as write  # Sphinx and pandas are loaded for this command alone

    out = Path(arguments.out)
    notebooks = [Path(each) for each in arguments.notebooks] or sorted(out.glob("*.ipynb"))
    if not notebooks:
        raise DesignError(f"there is no executed notebook in {out}; name one, or see: infrabench notebook --help")
    for each in notebooks:
        if not each.is_file():
            raise DesignError(f"there is no notebook {each}")
    figures, tables = (
        [Path(given)] if given else [out / name, runs.home() / name]
        for name, given in (("figures", arguments.figures), ("tables", arguments.tables))
    )
    expected = [name for name in registry.names("studies") if (runs.home() / "notebooks" / f"{name}.ipynb").is_file()]
    yield str(write(notebooks, out, figures=figures, tables=tables, expected=expected, raw=arguments.raw))


def paper(arguments: Namespace) -> Iterator[str]:
    """Write the numbers, captions and ratios of sessions for LaTeX, and yield the files."""
    from infrabench import facade  # pandas and scipy are loaded for this command alone
    from infrabench import paper as printed

    if arguments.prefix and len(arguments.sessions) > 1:
        raise DesignError("--prefix is for one session: with several, each needs another one")
    seen: set[str] = set()
    for name in arguments.sessions:
        found = facade.results(facade.open_session(runs.find(None, name)))
        if found.name in seen:
            raise DesignError(f"{name} is a second session of {found.name}: a command of its own, with --prefix")
        seen.add(found.name)
        yield from map(str, printed.write(found, Path(arguments.out), Path(arguments.figures), arguments.prefix))


def diff(arguments: Namespace) -> Iterator[str]:
    """Yield what differs between two sessions; `NotComparable` when something that must not."""
    first, second = (runs.find(None, name) for name in (arguments.first, arguments.second))
    found = comparability.differences(first, second)
    for each in found:
        if each.checked or arguments.all:
            mark = "must agree" if each.checked else "reported"
            one, two = comparability.shown(each.first), comparability.shown(each.second)
            yield f"{mark:11s} {each.where} {each.key}: {one} | {two}"
    checked = [each for each in found if each.checked]
    if checked:
        raise comparability.NotComparable([first.name, second.name], checked)
    hint = "" if arguments.all or not found else " (--all lists them)"
    yield f"comparable: all that must agree does; {len(found)} other differences{hint}"


def verify(arguments: Namespace) -> Iterator[str]:
    """Yield that a session is sound; `LedgerError` names everything that differs."""
    from infrabench.reparse import differences

    names = arguments.sessions or sorted(runs.sessions())
    for name in names:
        folder = runs.find(None, name)
        found = problems(folder) or list(differences(folder))
        if found:
            raise LedgerError(f"{folder}: {len(found)} differences\n" + "\n".join(found))
        yield f"{folder}: every file is as recorded, and raw output gives the same measurements"


def reparse(arguments: Namespace) -> Iterator[str]:
    """Write a session anew with the parsers of now, and yield what changed."""
    from infrabench.reparse import differences, write

    folder = runs.find(None, arguments.session)
    yield from differences(folder)
    yield str(write(folder, Path(arguments.destination)))


def pack(arguments: Namespace) -> Iterator[str]:
    """Write a session into an archive and yield its size."""
    if not arguments.archive.endswith(runs.ARCHIVE):
        raise DesignError(f"an archive is called NAME{runs.ARCHIVE}, not {arguments.archive}")
    path = archive.pack(runs.find(None, arguments.session), Path(arguments.archive))
    yield f"{path}: {path.stat().st_size / 1e6:.2f} MB"


def clean(arguments: Namespace) -> Iterator[str]:
    """Remove sessions made here, after asking, and yield what went."""
    folders = [runs.find(None, name) for name in arguments.sessions]
    for folder in folders:
        if runs.is_recorded(folder):
            raise DesignError(f"{folder} is a recorded session of the project and is not removed")
    for folder in folders:
        read_session(folder)  # never remove a folder that is not a session
        count = len(recorded(folder))
        if not arguments.yes and not agreed(f"Remove {folder} with {count} trials? [y/N] "):
            yield f"{folder} stays"
            continue
        with ledger.claimed(folder):  # not while a run writes to it
            shutil.rmtree(folder)
        yield f"{folder} is removed"


def notebook(arguments: Namespace) -> Iterator[str]:
    """Execute a notebook and yield where it is."""
    from infrabench import headless  # papermill is slow to import

    given = {name: headless.value(text) for name, text in arguments.parameters}
    try:
        out = headless.execute(
            Path(arguments.notebook), Path(arguments.out), given, cell_timeout_s=arguments.cell_timeout
        )
    except KeyboardInterrupt:  # the kernel is killed with it, and cannot take down what it started
        _sweep()
        raise
    yield str(out)


def jupyter(arguments: Namespace) -> Iterator[str]:
    """Become JupyterLab, opened on its first page; yields nothing."""
    from infrabench import workbench

    workbench.serve(port=arguments.port, browser=not arguments.no_browser)
    yield from ()


def _sweep() -> None:
    from infrabench import lab as embedded

    if os.geteuid() == 0:
        embedded.sweep()


def benchmark(arguments: Namespace) -> Iterator[str]:
    """Measure the harness itself, the analysis, or many rows, and yield a table."""
    if arguments.analysis:
        from infrabench.validation import speed

        yield from speed.report()
        return
    if arguments.rows:
        from infrabench.dataset import scale

        yield from scale.report(arguments.rows, arguments.sites)
        return
    from infrabench import benchmarks

    site = _site(arguments.site)
    if arguments.session:
        yield benchmarks.tool_share(runs.find(None, arguments.session))
    yield from benchmarks.report(site, arguments.blocks)


def validate(arguments: Namespace) -> Iterator[str]:
    """Run the simulations of known truth, or ask sessions of known truth, and yield tables.

    `InfrabenchError` at the end when a check has failed.
    """
    from infrabench import facade, trust, validation  # the statistics are loaded for this command alone

    for name in arguments.sessions or ():
        opened = facade.open_session(runs.find(None, name))
        yield f"{opened.folder.name}: {opened.data['title']}"
        yield from trust.lines(facade.results(opened))
    if arguments.sessions:
        return
    seed = validation.SEED if arguments.seed is None else arguments.seed
    yield from validation.lines(validation.run(arguments.only, full=arguments.full, seed=seed))


def sites(arguments: Namespace) -> Iterator[str]:
    """Yield what several sites say together: of a campaign, or of sessions that are named, one a site."""
    from infrabench import across  # the statistics are loaded for this command alone

    given = list(arguments.sessions)
    campaign = given[0] if len(given) == 1 and given[0].endswith(".json") else None
    yield from across.lines(across.opened(campaign, given, arguments.labels, arguments.out))


def fidelity(arguments: Namespace) -> Iterator[str]:
    """Measure trials beside the same tools typed by hand and yield a table."""
    from infrabench import fidelity as compared

    site = _site(arguments.site)
    systems = compared.SYSTEMS.get(arguments.study, ()) if arguments.systems is None else split(arguments.systems)
    with bar("fidelity") as show:
        lines = list(compared.report(
            site, systems=systems or (), blocks=arguments.blocks, seed=arguments.seed, on_progress=show,
            study=arguments.study,
        ))  # fmt: skip
    yield from lines


def _site(spec: str) -> str:
    """Return the site that is meant; `DesignError` when there is none: it does not exist, like an unknown study."""
    try:
        site = runs.resolved(spec)
        runs.site_name(site)
    except SiteError as error:
        raise DesignError(str(error)) from error
    return site


def _wanted(arguments: Namespace) -> Design:
    return session.request(
        registry.study(arguments.study), profile=arguments.profile, systems=split(arguments.systems),
        workloads=split(arguments.workloads), runs=arguments.runs, seed=arguments.seed,
        deployments=arguments.deployments, order=arguments.order, aa=arguments.aa,
        stopping=designs.stopping(_share(arguments.precision), arguments.most, arguments.hours),
    )  # fmt: skip


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def split(names: list[str] | None) -> list[str] | None:
    """Return the names that were given, apart where they were joined by commas; None where none was."""
    return None if names is None else [part for name in names for part in name.split(",") if part]


def _from_pilot(study: str, pilot: str, goals: list[float], every: bool) -> Iterator[str]:
    from infrabench import facade, planned, tables

    if min(goals) <= 0:
        raise DesignError(f"a half-width of {min(goals):g} % cannot be reached: goals are above 0")
    opened = facade.open_session(runs.find(study, pilot))
    sizes = planned.plan_from_pilot(opened.data, opened.table, [percent / 100 for percent in goals], every=every)
    which = "all" if every else "primary"
    yield f"From {opened.folder.name}: {which} metrics; 'n at most' allows for the pilot's own size."
    yield ""
    yield tables.markdown(tables.planning_table(sizes))


def _cost(wanted: Design) -> str:
    cost = costs.of_study(session.study_of(wanted), wanted)
    count = len(wanted.systems) * len(wanted.cases) * wanted.blocks
    anew = f", every system made ready {wanted.deployments} times" if wanted.deployments > 1 else ""
    rule = wanted.stopping
    more = f", more blocks up to {rule.most} for a half-width of {100 * rule.target:g} %" if rule else ""
    return (
        f"{wanted.study} {wanted.profile}: {count} trials in {wanted.blocks} blocks{anew}{more} "
        f"({', '.join(wanted.systems)} x {len(wanted.cases)} cases), about {words(cost.seconds)}; up to "
        f"{cost.target_bytes / MIB:.0f} MiB inside a target, about {cost.ledger_bytes / MIB:.0f} MiB recorded"
        f"{session.told_baseline(wanted)}"
    )


def _state_of(folder: Path) -> Iterator[str]:
    data, planned, done = read_session(folder), awaited(folder), recorded(folder)
    gone, missing = discarded(folder), [trial for trial in planned if trial.id not in done]
    every = read_trials(folder)
    kept = [record for record in every if record.trial.block not in gone]
    repeats = sum(1 for record in kept if record.trial.attempt)
    extra = f", {repeats} repeats of invalid ones" if repeats else ""
    extra += f", {len(gone)} blocks discarded with {len(every) - len(kept)} trials" if gone else ""
    yield f"{folder}: {len(planned) - len(missing)} of {len(planned)} trials{extra}"
    names = labels.of(folder)
    for system in data["systems"]:
        states = Counter(record.state for record in kept if record.trial.system == system)
        absent = sum(1 for trial in missing if trial.system == system)
        told = [f"{count} {state}" for state, count in sorted(states.items())]
        yield f"  {names.get(system, system)}: {', '.join(told + ([f'{absent} missing'] if absent else []))}"
    for look in read_blocks(folder, LOOK):
        widest = max(look["widths"].values(), default=float("nan"))
        why = f"stop ({look['reason']})" if look["reason"] else f"{len(look['adds'])} blocks added"
        yield f"  look at n = {look['n']}: widest half-width {100 * widest:.2f} %: {why}"
    absent = absences(not_applicable(labels.renamed(data, names)))
    for name, reason in {**data["not_run"], **data["left_out"], **absent}.items():
        yield f"  {name}: not run: {reason}"


def agreed(question: str) -> bool:
    """Ask on the terminal and return whether the answer is yes."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
