"""The commands of `infrabench session`: how far sessions are, what they say, and what is done with their files."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infrabench.analysis.columns import FORMS
from infrabench.cli.subcommands import Subparsers, add_command, add_group, add_session, add_sessions, agreed, complete
from infrabench.core import DesignError, InfrabenchError, LedgerError
from infrabench.experiment.provenance import comparability, labels
from infrabench.ledger import archive, catalogue, ledger
from infrabench.ledger.codes import CODE, known_codes
from infrabench.ledger.fields import check_present
from infrabench.ledger.records import LOOK, SESSION, absences, describe_added, not_applicable, read_session, recorded
from infrabench.ledger.records import verify as problems
from infrabench.ledger.session_folder import SessionFolder


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `session`."""
    group = add_group(subparsers, "session", "list, show, verify, compare, export and pack sessions", "list")
    example = "lab-quick-debian13-containers"
    add_sessions(add_command(group, "list", list_sessions, "say how far sessions are"))
    add_session(add_command(group, "show", show, "print estimates, and contrasts against the baseline", example))
    add_sessions(add_command(group, "verify", verify, "check every file, and parse the raw output again", example))
    text = "write a session anew with the parsers of this version"
    parser = add_command(group, "reparse", reparse, text, f"{example} out/reparsed")
    add_session(parser)
    parser.add_argument("destination", metavar="FOLDER", help="the new session's folder")
    text = "write a session into one reproducible archive"
    parser = add_command(group, "pack", pack, text, f"{example} out/{example}.tar.xz")
    add_session(parser)
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive to write (.tar.xz)")
    text = "write a session's trials for R, a database or Grafana"
    parser = add_command(group, "export", export, text, f"{example} --as parquet -o out/rounds.parquet")
    add_session(parser)
    parser.add_argument("--as", dest="form", choices=FORMS, default="csv", help="default: csv")
    parser.add_argument("-o", "--out", metavar="FILE", help="the file to write (default: out/export/SESSION.FORM)")
    text = "compare what two sessions say about where and how they were measured"
    parser = add_command(group, "diff", diff, text, f"{example} lab-quick-2026-11-aa")
    add_session(parser, "first", metavar="A")
    add_session(parser, "second", "another one", metavar="B")
    parser.add_argument("--all", action="store_true", help="also what may differ, and every package")
    text = "say what changed over the sessions of a study, when, by how much, and what explains it"
    parser = add_command(group, "history", history, text, "containers --fail-on different")
    complete(parser.add_argument("study", metavar="STUDY", help="whose sessions"), "studies")
    add_sessions(parser, "names, folders or archives (default: all of the study that were measured here)")
    parser.add_argument("--metric", nargs="+", default=[], metavar="NAME", help="these metrics (default: the primary)")
    text = "the ratio to the baseline of each session (default), or each system's own level"
    parser.add_argument("--view", default="ratio", choices=("ratio", "level"), help=text)
    add_session(parser, "--since", "the first session to look at: what changed before it is accepted", default="")
    parser.add_argument(
        "--fail-on", choices=("different", "any"),
        help="exit with status 1 where the last sessions are on a level that is worse, without a break that explains "
        "it (any: or better), or have no value of what earlier ones have",
    )  # fmt: skip
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where tables and figures go (default: out)")
    parser = add_command(group, "remove", remove, "remove sessions made on this machine", "pilot")
    add_sessions(parser, "name or folder of a session", nargs="+")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def list_sessions(arguments: Namespace) -> Iterator[str]:
    """Yield how far each session is; `LedgerError` after the last names those that cannot be read."""
    names = arguments.sessions or sorted(catalogue.sessions())
    if not names:
        yield f"no session yet below {catalogue.home() / 'data'}"
    unreadable = []
    for name in names:
        try:
            yield from list(describe_state(catalogue.find(None, name)))
        except (LedgerError, OSError) as error:
            unreadable.append(name)
            yield f"{name}: {error}"
    if unreadable:
        raise LedgerError(f"not readable: {', '.join(unreadable)}. What is wrong with each is said above")


def show(arguments: Namespace) -> Iterator[str]:
    """Yield what a session says as text tables: estimates, contrasts, tests over all systems, tiers, diagnostics."""
    from infrabench.analysis import session_data, tables  # pandas and scipy are loaded for this command alone
    from infrabench.analysis.results import TABLES
    from infrabench.notebook import api

    opened = session_data.open_session(catalogue.find(None, arguments.session))
    found = api.results(opened)
    yield from describe_state(opened.folder)
    baseline = opened.data["baseline"]
    for kind, caption in (
        ("estimates", "Estimates: mean with 95 % t interval, median with exact interval; n trials of state ok."),
        ("contrasts", f"Contrasts: ratio to {baseline}, paired by block, with 95 % Fieller interval."),
        ("omnibus", "All systems of a case: Friedman and Iman-Davenport over blocks."),
        ("tiers", "Systems that share a letter cannot be separated."),
        ("diagnostics", "Diagnostics: they inform, and drop nothing."),
    ):
        yield ""
        yield tables.markdown(TABLES[kind](found, False), caption)


def verify(arguments: Namespace) -> Iterator[str]:
    """Yield a line for each session: that it is sound, or what is wrong with it, and where.

    Without names, folders that lie where sessions do and are none count too. After the last session, `LedgerError`
    names those that are not sound; of a single one it names everything that differs.
    """
    names = arguments.sessions or sorted([*catalogue.sessions(), *map(str, catalogue.foreign_folders())])
    if not names:
        raise DesignError(f"there is no session below {catalogue.home() / 'data'}: name some")
    bad = []
    for name in names:
        try:
            folder = catalogue.find(None, name)
            differences, new_metrics = _check(folder)
        except (InfrabenchError, OSError) as error:
            if len(names) == 1:
                raise
            differences, new_metrics = [str(error)], []
        if not differences:
            yield f"{folder}: every file is as recorded, and raw output gives the same measurements"
            yield from new_metrics
        elif len(names) == 1:
            raise LedgerError(f"{folder}: {len(differences)} differences\n" + "\n".join(differences))
        else:
            bad.append(name)
            more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
            yield f"{name}: not sound: {differences[0]}{more}"
    if bad:
        raise LedgerError(
            f"{len(bad)} of {len(names)} are not sound: {', '.join(bad)}. Verify one alone to see all of it"
        )


def _check(folder: Path) -> tuple[list[str], list[str]]:
    """Return what differs in the session in `folder`, and metrics that are new to its parsers; a sentence each."""
    from infrabench.analysis.budget import check_looks
    from infrabench.experiment.execution.reparse import check_plan, compare

    if found := problems(folder) or check_plan(SessionFolder(folder)) or check_looks(SessionFolder(folder)):
        return found, []
    checked = compare(folder)
    return list(checked.differences), list(checked.new_metrics)


def reparse(arguments: Namespace) -> Iterator[str]:
    """Write a session anew with the parsers of this version, and yield what changed."""
    from infrabench.experiment.execution.reparse import compare, write

    folder = catalogue.find(None, arguments.session)
    if found := problems(folder):  # new sums would prove what is damaged
        raise LedgerError(f"{folder} is damaged and is not written anew: {found[0]}. Restore it from a copy")
    checked = compare(folder)
    yield from (*checked.differences, *checked.new_metrics)
    yield str(write(folder, Path(arguments.destination)))


def pack(arguments: Namespace) -> Iterator[str]:
    """Write a session into an archive and yield its size."""
    if not arguments.archive.endswith(catalogue.ARCHIVE):
        raise DesignError(f"an archive is called NAME{catalogue.ARCHIVE}, not {arguments.archive}")
    path = archive.pack(catalogue.find(None, arguments.session), Path(arguments.archive))
    yield f"{path}: {path.stat().st_size / 1e6:.2f} MB"


def export(arguments: Namespace) -> Iterator[str]:
    """Write the trials of a session in a form that other tools read, and yield the files and what they hold."""
    from infrabench.analysis import export as exports  # pandas is loaded for this command alone
    from infrabench.analysis import session_data

    opened = session_data.open_session(arguments.session)
    path = exports.export(opened, arguments.form, arguments.out)
    about = exports.describe_data(opened)
    counts = [*about["trials"].items(), *([("missing", about["missing"])] if about["missing"] else ())]
    states = ", ".join(f"{count} {state}" for state, count in counts)
    yield f"{path}: {len(opened.table)} rows; trials: {states or 'none'}"
    yield f"{exports.package_of(path)}: what the columns are"


def diff(arguments: Namespace) -> Iterator[str]:
    """Yield what differs between two sessions; `NotComparable` when something that must not."""
    first, second = (catalogue.find(None, name) for name in (arguments.first, arguments.second))
    found = comparability.differences(first, second)
    for each in found:
        if each.checked or each.named or arguments.all:
            mark = "must agree" if each.checked else "reported"
            yield f"{mark:11s} {each.where} {each.key}: {comparability.describe(each, every=arguments.all)}"
    checked = [each for each in found if each.checked]
    if checked:
        raise comparability.NotComparable([first.name, second.name], checked)
    hint = "" if arguments.all or not found else " (--all lists them)"
    yield f"comparable: all that must agree does; {len(found)} other differences{hint}"


def history(arguments: Namespace) -> Iterator[str]:
    """Yield what changed over the sessions of a study; `InfrabenchError` at the end where that is to fail."""
    from infrabench.analysis import history as histories  # pandas and scipy are loaded for this command alone
    from infrabench.analysis import tables
    from infrabench.notebook.session_figures import write_history

    names = arguments.sessions or [str(path) for path in catalogue.local(arguments.study).values()]
    if not names:
        raise DesignError(f"there is no session of {arguments.study} in {catalogue.home() / 'data' / 'runs'}")
    found = histories.read_history(
        [catalogue.find(arguments.study, name) for name in names], metrics=arguments.metric, view=arguments.view,
        since=arguments.since,
    )  # fmt: skip
    yield from histories.describe_history(found)
    yield ""
    yield tables.markdown(tables.history_table(found.series, found.changes))
    yield from map(str, write_history(found, catalogue.home() / arguments.out))
    changed = histories.unexplained(found, both=arguments.fail_on == "any")
    bad = [*map(histories.describe_change, changed.itertuples(index=False)), *found.silent]
    if arguments.fail_on and bad:
        raise InfrabenchError("; ".join(bad))


def remove(arguments: Namespace) -> Iterator[str]:
    """Remove sessions made here, after asking, and yield what went."""
    folders = [catalogue.find(None, name) for name in arguments.sessions]
    for name, folder in zip(arguments.sessions, folders, strict=True):
        if catalogue.is_recorded(folder):
            raise DesignError(f"{folder} is a recorded session of the project and is not removed")
        if catalogue.is_unpacked(folder):
            raise DesignError(f"{name} is packed in an archive, which is not removed: remove that file yourself")
        if folder.is_symlink():
            raise DesignError(f"{folder} is a link to {os.path.realpath(folder)}: name the session by that path")
    for folder in folders:
        read_session(folder)  # never remove a folder that is not a session
        count = len(recorded(folder))
        if not arguments.yes and not agreed(f"Remove {folder} with {count} trials? [y/N] "):
            yield f"{folder} stays"
            continue
        with ledger.claimed(folder):  # not while a run writes to it
            shutil.rmtree(folder)
        yield f"{folder} is removed"


def describe_state(folder: Path) -> Iterator[str]:
    """Yield how far the session in `folder` is: trials by system and state, looks at the width, what was not run."""
    stored = SessionFolder(folder)
    data, planned, discarded, every = stored.session, stored.awaited, stored.discarded, stored.records.values()
    check_present(folder / SESSION, data, ("systems", "not_run", "left_out"))
    missing = [trial for trial in planned if trial.id not in stored.records]
    kept = [record for record in every if record.trial.block not in discarded]
    repeats = sum(1 for record in kept if record.trial.attempt)
    extra = f", {repeats} repeats of invalid ones" if repeats else ""
    extra += f", {len(discarded)} blocks discarded with {len(every) - len(kept)} trials" if discarded else ""
    yield f"{folder}: {len(planned) - len(missing)} of {len(planned)} trials{extra}"
    codes = known_codes(data, stored.notes(CODE))
    if any(each != codes[0] for each in codes):
        yield "  a mixture: trials of other code are analysed apart"
    names = labels.of(folder)
    for system in data["systems"]:
        states = Counter(record.state for record in kept if record.trial.system == system)
        counts = [*sorted(states.items()), ("missing", sum(trial.system == system for trial in missing))]
        text = ", ".join(f"{count} {state}" for state, count in counts if count)
        yield f"  {names.get(system, system)}: {text}"
    for look in stored.notes(LOOK):
        widest = max(look["widths"].values(), default=float("nan"))
        why = f"stop ({look['reason']})" if look["reason"] else describe_added(look)
        yield f"  look at n = {look['n']}: widest half-width {100 * widest:.2f} %: {why}"
        for lost in dict.fromkeys(look.get("unequal", {}).values()):
            yield f"    no width of it counts: {lost}"
        if look["reason"] and "budget" in look:
            from infrabench.notebook.plan_tables import describe_end  # pandas is loaded for this sentence alone

            yield f"    {describe_end(look['budget'], look['reason'], names)}"
    absent = absences(not_applicable(labels.renamed(data, names)))
    for name, reason in {**data["not_run"], **data["left_out"], **absent}.items():
        yield f"  {name}: not run: {reason}"
