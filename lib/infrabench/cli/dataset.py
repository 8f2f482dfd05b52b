"""The commands of `infrabench dataset`: build a data set of many sessions, and analyse it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench.cli.subcommands import Subparsers, add_command, add_group, add_sessions
from infrabench.core import DesignError, InfrabenchError
from infrabench.ledger import catalogue


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `dataset`."""
    text = "bring many sessions into one data set, and analyse it"
    group = add_group(subparsers, "dataset", text, "build --out out/many")
    example = "lab-quick-debian13-containers lab-quick-2026-11-aa --out out/many"
    parser = add_command(group, "build", build, "bring many sessions into one data set of parquet", example)
    add_sessions(parser)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the data set: new, or one to bring up to date")
    text = "call their site so (every embedded lab calls itself lab)"
    parser.add_argument("--site", default="", metavar="NAME", help=text)
    parser.add_argument("--campaign", metavar="FILE", help="the sessions of a campaign.json, under its sites' labels")
    text = "analyse a data set: every study at every site, in bounded memory"
    parser = add_command(group, "analyze", analyze, text, "out/many")
    parser.add_argument("dataset", metavar="DATASET", help="a data set that `infrabench dataset build` made")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where tables and answers go (default: out)")
    text = "pool the sessions of a site also where their checked provenance differs, and say so beside every answer"
    parser.add_argument("--stamped", action="store_true", help=text)


def build(arguments: Namespace) -> Iterator[str]:
    """Bring sessions up to date in a data set, and yield what came of each, and how large the data set is."""
    from infrabench.analysis.dataset import folder  # pandas is loaded for this command alone

    root = Path(arguments.out)
    if arguments.campaign:
        if arguments.sessions or arguments.site:
            raise DesignError("--campaign names the sessions and their sites: give no others with it")
        by_site, absent = campaign(Path(arguments.campaign))
    else:
        names = arguments.sessions or sorted(str(path) for path in catalogue.sessions().values())
        by_site, absent = {arguments.site: names}, []
        if not names:
            raise DesignError(f"there is no session below {catalogue.home() / 'data'}: name some")
    for site, names in by_site.items():
        for each in folder.update(names, root, site):
            done = "read" if each.read else "unchanged"
            yield f"{done:9s}  {each.part.study}/{each.part.site}/{each.part.session}: {each.part.rows} rows"
    parts, left_out = folder.parts(root)
    yield from absent + left_out
    yield f"{root}: {len(parts)} sessions, {sum(part.rows for part in parts)} rows"


def campaign(file: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return the sessions of a ``campaign.json`` by the label of their site, and a sentence for each that is absent."""
    from infrabench.notebook import multisite

    by_site: dict[str, list[str]] = {}
    absent = []
    for study, members in multisite.read_campaign(file)[1].items():
        for each in members:
            if each.state in multisite.USED:
                by_site.setdefault(each.site, []).append(str(catalogue.home() / each.session))
            else:
                absent.append(f"left out: {study} at {each.site}, {each.state}: {each.reason or each.state}")
    return by_site, absent


def analyze(arguments: Namespace) -> Iterator[str]:
    """Analyse a data set and yield a line for each study at each site; `InfrabenchError` at the end when one failed."""
    from infrabench.analysis.dataset import folder, survey  # the statistics are loaded for this command alone

    root, out = Path(arguments.dataset), catalogue.home() / arguments.out
    if not folder.is_one(root):
        raise DesignError(f"{root} is no data set; `infrabench dataset build` makes one")
    answers = survey.survey(root, out, stamped=arguments.stamped)
    yield from survey.lines(answers)
    yield f"tables: {out / 'tables' / survey.TABLES}; all answers as parquet: {out / 'answers'}"
    if answers.refused:
        of = f"{answers.refused} of {len(answers.groups)}"
        raise InfrabenchError(f"{of} studies at sites were not analysed, as said above")
