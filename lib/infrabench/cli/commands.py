"""Plan, run, notebook, report, paper and artifact: each command is a function of its arguments that yields lines."""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from infrabench import registry
from infrabench.cli.session import describe_state
from infrabench.cli.subcommands import (
    CommandParser,
    Subparsers,
    add_command,
    add_group,
    add_session,
    add_sessions,
    complete,
    existing_site,
    split,
)
from infrabench.core import PROFILES, DesignError, InfrabenchError, Request, split_version
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import bar, words
from infrabench.ledger import catalogue
from infrabench.ledger.records import absences
from infrabench.machines.sites.platforms import find_platforms

MIB = 2**20


def add_study_parsers(subparsers: Subparsers) -> None:
    """Add `plan` and `run`."""
    example = "containers --profile quick --systems native docker"
    parser = add_command(subparsers, "plan", plan, "print studies, trials of one, or the blocks of a goal", example)
    _add_request(parser, left_out=("site", "session", "mixture"), nargs="?")  # a pilot knows its study
    add_session(parser, "--pilot", "say, from the spread in this session, how many blocks and hours each goal needs")
    text = "with --pilot: half-widths to plan for (default: 1 2 5)"
    parser.add_argument("--goals", type=float, nargs="+", default=[1.0, 2.0, 5.0], metavar="PERCENT", help=text)
    parser.add_argument("--all", action="store_true", help="with --pilot: all metrics, not only the primary ones")
    text = "print what --set takes: the parameters of the study's workloads"
    parser.add_argument("--parameters", action="store_true", help=text)
    example = "containers --systems native docker --workloads sysbench-cpu --runs 10"
    parser = add_command(subparsers, "run", run, "run a study on a site, or go on with it", example)
    _add_request(parser)


def add_notebook_parsers(subparsers: Subparsers) -> None:
    """Add the group `notebook`."""
    example = "notebooks/containers.ipynb out/containers.ipynb"
    group = add_group(subparsers, "notebook", "execute notebooks, or open JupyterLab on them", f"run {example}")
    text = "execute a notebook, its parameters checked first"
    parser = add_command(group, "run", run_notebook, text, f"{example} -p mode run -p profile smoke")
    parser.add_argument("notebook", metavar="NOTEBOOK", help="the notebook, which stays as it is")
    parser.add_argument("out", metavar="OUT", help="where the executed notebook is written")
    text, pair = "a parameter; VALUE is JSON or text", ("NAME", "VALUE")
    parser.add_argument("-p", dest="parameters", nargs=2, action="append", default=[], metavar=pair, help=text)
    parser.add_argument("--cell-timeout", type=int, default=24 * 3600, metavar="SECONDS", help="longest time of a cell")
    text = "open JupyterLab on the notebooks, on this machine alone"
    parser = add_command(group, "open", open_notebooks, text, "--no-browser")
    parser.add_argument("--port", type=int, metavar="N", help="port on the loopback (default: Jupyter's own choice)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address, with its token")


def add_publication_parsers(subparsers: Subparsers) -> None:
    """Add `report`, `paper` and the group `artifact`."""
    text = "make a static site of executed notebooks with their data"
    parser = add_command(subparsers, "report", report, text, "out/containers.ipynb --out out")
    parser.add_argument("notebooks", metavar="NOTEBOOK", nargs="*", help="executed notebooks (default: all in --out)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="the report is its folder report (default: out)")
    for what in ("figures", "tables"):
        text = f"saved {what} (default: {what} in --out and in the checkout)"
        parser.add_argument(f"--{what}", metavar="FOLDER", help=text)
    parser.add_argument("--raw", action="store_true", help="with every raw output of the sessions, however large")
    text = "write numbers, captions and tables of sessions for LaTeX"
    parser = add_command(subparsers, "paper", paper, text, "lab-quick-debian13-containers --out out/paper")
    add_sessions(parser, "name, folder or archive of a session", nargs="+")
    parser.add_argument("--out", default="out/paper", metavar="FOLDER", help="where to write (default: out/paper)")
    text = "saved figures, whose captions are commands too (default: figures; those of your runs: out/figures)"
    parser.add_argument("--figures", default="figures", metavar="FOLDER", help=text)
    text = "begin every command with these letters instead of the study's"
    parser.add_argument("--prefix", default="", metavar="LETTERS", help=text)
    text = "pack everything for evaluators, and reproduce what was packed"
    group = add_group(subparsers, "artifact", text, "pack out/infrabench.tar.xz")
    text = "write one archive: raw data, source, results, metadata, checksums"
    parser = add_command(group, "pack", pack, text, "out/infrabench.tar.xz")
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive to write (.tar.xz)")
    text = "executed notebooks NAME-recorded.ipynb go in from here, as make figures leaves them (default: out)"
    parser.add_argument("--notebooks", default="out", metavar="FOLDER", help=text)
    text = "make an archive's tables again and compare every byte"
    parser = add_command(group, "reproduce", reproduce, text, "--results results")
    text = "the recorded tables (default: results, in an unpacked archive)"
    parser.add_argument("--results", metavar="FOLDER", help=text)


def _add_request(parser: CommandParser, *, left_out: Sequence[str] = (), nargs: str | None = None) -> None:
    """Add an argument for each field of `Request` but those of `left_out`; `nargs`: that of the study."""
    for each in (each for each in fields(Request) if each.name not in left_out):
        how = {name: each.metadata[name] for name in ("metavar", "nargs") if each.metadata[name] is not None}
        how |= {"help": each.metadata["help"].replace("%", "%%")}
        if each.name == "study":
            how |= {"nargs": nargs}
        elif each.type == "bool":
            how |= {"action": "store_true"}
        else:
            kind = {"int | None": int, "float | None": float}.get(str(each.type), str)
            how |= {"type": kind, "default": "quick" if each.name == "profile" else each.default}
        action = parser.add_argument(each.name if each.name == "study" else f"--{each.name}", **how)
        if each.metadata["of"]:
            complete(action, each.metadata["of"])


def plan(arguments: Namespace) -> Iterator[str]:
    """Yield every trial in order and the cost of all; or what the studies ask and take, or what a pilot says."""
    if arguments.pilot:
        yield from _from_pilot(arguments.study, arguments.pilot, arguments.goals, arguments.all, arguments.minutes)
        return
    if arguments.study is None:
        yield from _describe_studies()
        return
    wanted = _wanted(arguments)
    if arguments.parameters:
        yield from _describe_parameters(wanted)
        return
    at = session.study_of(wanted).ready_s(wanted.systems)
    wide = [max(map(len, names), default=0) for names in (wanted.systems, designs.workloads(wanted))]
    system, workload = (max(12, width) for width in wide)
    yield f"position  block  starts       {'system':{system}s}  {'workload':{workload}s}  scenario"
    for trial in designs.trials(wanted):
        yield (
            f"{trial.position:8d}  {trial.block:5d}  {words(at):11s}  {trial.system:{system}s}  "
            f"{trial.workload:{workload}s}  {trial.scenario}{f' in {trial.rounds} rounds' if trial.rounds > 1 else ''}"
        )
        at += trial.seconds + designs.TRIAL_OVERHEAD_S
    from infrabench.notebook import plan_tables  # scipy is loaded for this line alone

    for each in absences(dict.fromkeys(sorted(wanted.excluded), "")):
        yield f"not in the plan, for its system has no place for it: {each}"
    yield _cost(wanted)
    yield plan_tables.power_summary(wanted)
    yield from _describe_versions(wanted)


def _describe_versions(wanted: Design) -> Iterator[str]:
    """Yield a line for each version that the lab does not have, or cannot have here, and what others need first."""
    named = [name for name in wanted.systems if split_version(name)[1]]
    if named and registry.PLATFORMS in registry.packages().values():
        platforms = find_platforms()
        found = platforms.check_systems(session.study_of(wanted), named, 0, {})
        yield from (f"{name}: not run in the lab: {each.lab}" for name, each in found.items() if each.lab)
        if first := list(dict.fromkeys(kind for each in found.values() for kind in each.first)):
            took = words(platforms.seconds(first))
            yield f"made first for these versions in the lab, once: {', '.join(first)}; about {took}, besides downloads"


def _describe_studies() -> Iterator[str]:
    from infrabench.notebook import start_page  # pandas is loaded for this alone

    for row in start_page.describe_studies(start_page.look_around()):
        times = ", ".join(f"{name} {row[name]}" for name in PROFILES if row[name])
        yield f"{row['study']}: {row['question']}"
        yield f"    {times}; {row['systems that run here']} systems run here"
        yield f"    made first, once: {row['made first, once']}"
    yield "make run STUDY=NAME PROFILE=NAME runs one, STUDY=all all of them; infrabench plan NAME says how"


def _describe_parameters(wanted: Design) -> Iterator[str]:
    rows = [("parameter", "in this plan", "may be", "meaning")]
    for workload in designs.workloads(wanted):
        cases = [case.params for case in wanted.cases if case.workload == workload]
        for name, param in registry.workload(workload).PARAMS.items():
            here = ", ".join(dict.fromkeys(str(params[name]) for params in cases))
            unit = f" ({param.unit})" if param.unit else ""
            rows.append((f"{workload}.{name}", here, param.range, f"{param.meaning}{unit}"))
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:{width}s}" for cell, width in zip(row, wide, strict=True)).rstrip()


def run(arguments: Namespace) -> Iterator[str]:
    """Run a study, or go on with it, and yield what will be done, where it is and how it went."""
    arguments.site = existing_site(arguments.site)
    wanted = _wanted(arguments)
    look = None
    if wanted.stopping is not None:
        from infrabench.notebook import plan_tables  # pandas and scipy are loaded only where intervals are looked at

        look = plan_tables.look_of(wanted)
    yield _cost(wanted)
    with bar(f"{wanted.study} {wanted.profile}") as show:
        folder = runs.carry_out(wanted, on_progress=show, look=look).path
    yield from describe_state(folder)


def run_notebook(arguments: Namespace) -> Iterator[str]:
    """Execute a notebook and yield where it is."""
    from infrabench.notebook import headless  # papermill is slow to import

    given = {name: headless.value(text) for name, text in arguments.parameters}
    try:
        out = headless.execute(
            Path(arguments.notebook), Path(arguments.out), given, cell_timeout_s=arguments.cell_timeout
        )
    except KeyboardInterrupt:  # the kernel is killed with it, and cannot take down what it started
        if os.geteuid() == 0 and registry.PLATFORMS in registry.packages().values():  # else there was no lab
            find_platforms().sweep_lab()
        raise
    yield str(out)


def open_notebooks(arguments: Namespace) -> Iterator[str]:
    """Become JupyterLab, opened on its first page; yields nothing."""
    from infrabench.notebook import start_page

    start_page.serve(port=arguments.port, browser=not arguments.no_browser)
    yield from ()


def report(arguments: Namespace) -> Iterator[str]:
    """Make the report of executed notebooks, with their figures, tables and data, and yield where it is."""
    from infrabench.notebook.start_page import list_studies  # pandas and scipy are loaded for this command alone
    from infrabench.publish.report import report as write

    out = Path(arguments.out)
    notebooks = [Path(each) for each in arguments.notebooks] or sorted(out.glob("*.ipynb"))
    if not notebooks:
        raise DesignError(f"there is no executed notebook in {out}; name one, or see `infrabench notebook run --help`")
    for each in notebooks:
        if not each.is_file():
            raise DesignError(f"there is no notebook {each}")
    figures, tables = (
        [Path(given)] if given else [out / name, catalogue.home() / name]
        for name, given in (("figures", arguments.figures), ("tables", arguments.tables))
    )
    yield str(write(notebooks, out, figures=figures, tables=tables, expected=list_studies(), raw=arguments.raw))


def paper(arguments: Namespace) -> Iterator[str]:
    """Write the numbers, captions and ratios of sessions for LaTeX, and yield the files."""
    from infrabench.analysis import session_data  # pandas and scipy are loaded for this command alone
    from infrabench.notebook import api
    from infrabench.publish import latex as printed

    if arguments.prefix and len(arguments.sessions) > 1:
        raise DesignError("--prefix is for one session: with several, each needs another one")
    seen: set[str] = set()
    for name in arguments.sessions:
        found = api.results(session_data.open_session(catalogue.find(None, name)))
        if found.name in seen:
            raise DesignError(f"{name} is a second session of {found.name}: a command of its own, with --prefix")
        seen.add(found.name)
        yield from map(str, printed.write(found, Path(arguments.out), Path(arguments.figures), arguments.prefix))


def pack(arguments: Namespace) -> Iterator[str]:
    """Write the archive of this commit and yield where it is, its size, and its SHA-256."""
    from infrabench.publish import artifact  # pandas and scipy are loaded for this command alone

    done = artifact.write(Path(arguments.archive), root=catalogue.home(), executed=Path(arguments.notebooks))
    size, unpacked = done.path.stat().st_size / 1e6, done.unpacked_bytes / 1e6
    yield f"{done.path}: {size:.1f} MB, {done.files} files, {unpacked:.1f} MB unpacked"
    yield f"SHA-256 {done.sha256}"


def reproduce(arguments: Namespace) -> Iterator[str]:
    """Make the tables of the recorded sessions again and compare them with those of the archive; yield how it went."""
    from infrabench.publish import artifact

    recorded = Path(arguments.results) if arguments.results else catalogue.home() / "results"
    if not recorded.is_dir():
        raise InfrabenchError(f"there is no {recorded}: it is in the archive that `infrabench artifact pack` writes")
    with tempfile.TemporaryDirectory() as again:
        tables = sum(count for _, count in artifact.make_tables(Path(again)))
        yield from artifact.compare_tables(recorded, Path(again))
    yield f"{tables} tables made again from the recorded measurements: every byte is as recorded"


def _wanted(arguments: Namespace) -> Design:
    typed = vars(arguments)  # `plan` has no site and no session
    given = {each.name: typed[each.name] for each in fields(Request) if each.name in typed}
    given |= {name: split(given[name]) for name in ("systems", "workloads")}
    return session.resolve(Request(**given))


def _from_pilot(study: str, pilot: str, goals: list[float], every: bool, minutes: float | None) -> Iterator[str]:
    from infrabench.analysis import session_data, tables
    from infrabench.notebook import plan_tables

    if minutes is not None:
        Request(study or "any", "quick", minutes=minutes)  # raises for a time that is none
        told, frame = plan_tables.budget_from_pilot(session_data.open_session(catalogue.find(study, pilot)), minutes)
        yield told
        yield ""
        yield tables.markdown(frame)
        return
    if min(goals) <= 0:
        raise DesignError(f"a half-width of {min(goals):g} % cannot be reached: goals are above 0")
    opened = session_data.open_session(catalogue.find(study, pilot))
    shares = [percent / 100 for percent in goals]
    sizes = plan_tables.plan_from_pilot(opened.data, opened.table, shares, every=every)
    anew = plan_tables.dimensions_from_pilot(opened.data, opened.table, shares, every=every)
    which = "all" if every else "primary"
    yield f"From {opened.folder.name}: {which} metrics; 'n at most' allows for the pilot's own size."
    yield ""
    yield tables.markdown(tables.planning_table(sizes))
    yield ""
    if anew.empty:
        yield "One deployment: a pilot with --deployments says how many of them, and how many blocks in each."
        return
    yield "Deployments, and blocks in each, at the least cost (Kalibera and Jones 2013), at this pilot's pace:"
    yield ""
    yield tables.markdown(tables.dimensions_table(anew))


def _cost(wanted: Design) -> str:
    cost = designs.expected_study_cost(session.study_of(wanted), wanted)
    anew = f", every system made ready {wanted.deployments} times" if wanted.deployments > 1 else ""
    rule = wanted.stopping
    more = ""
    if rule is not None and rule.target is None:
        more = " first, and more of the cases that are too wide for their margins"
    elif rule is not None:
        more = f", more blocks up to {rule.most} for a half-width of {100 * rule.target:g} %"
    return (
        f"{wanted.study} {wanted.profile}: {designs.count_trials(wanted)} trials in {wanted.blocks} blocks{anew}{more} "
        f"({', '.join(wanted.systems)} x {len(wanted.cases)} cases), about {words(cost.seconds)}; up to "
        f"{cost.target_bytes / MIB:.0f} MiB inside a target, about {cost.ledger_bytes / MIB:.0f} MiB recorded"
        f"{session.baseline_text(wanted)}"
    )
