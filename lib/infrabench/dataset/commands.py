"""What the commands of a data set do: functions of the parsed arguments that yield the lines to print."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench import runs
from infrabench.core import DesignError, InfrabenchError


def tidy(arguments: Namespace) -> Iterator[str]:
    """Bring sessions up to date in a data set, and yield what came of each, and how large the data set is."""
    from infrabench.dataset import folder  # pandas is loaded for this command alone

    root = Path(arguments.out)
    names = arguments.sessions or sorted(str(path) for path in runs.sessions().values())
    if not names:
        raise DesignError(f"there is no session below {runs.home() / 'data'}: name some")
    for each in folder.update(names, root, arguments.site):
        done = "read" if each.read else "unchanged"
        yield f"{done:9s}  {each.part.study}/{each.part.site}/{each.part.session}: {each.part.rows} rows"
    parts, left_out = folder.parts(root)
    yield from left_out
    yield f"{root}: {len(parts)} sessions, {sum(part.rows for part in parts)} rows"


def survey(arguments: Namespace) -> Iterator[str]:
    """Analyse a data set, study by study and site by site, and yield a line for each.

    `InfrabenchError` at the end when one could not be analysed.
    """
    from infrabench.dataset import folder, survey  # the statistics are loaded for this command alone

    root, out = Path(arguments.dataset), runs.home() / arguments.out
    if not folder.is_one(root):
        raise DesignError(f"{root} is no data set; infrabench tidy makes one")
    made = survey.survey(root, out, stamped=arguments.stamped)
    yield from survey.lines(made)
    yield f"tables: {out / 'tables' / survey.TABLES}; all answers as parquet: {out / 'answers'}"
    if made.refused:
        raise InfrabenchError(f"{made.refused} of {len(made.groups)} studies at sites were not analysed, as said above")
