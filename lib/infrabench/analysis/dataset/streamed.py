"""The analysis of a data set: every study at every site by itself, one workload of it in memory at a time.

Sessions of one study at one site are pooled as `session_data.pool` does: each is a deployment of its own, the unit is
the deployment, and where checked provenance differs they are refused, or stamped. Sites are never pooled here: what
holds at all of them is another question, which starts from these ratios.

A family of tests is the scenarios and systems of one metric of one workload, so workloads can be worked out one by one,
and every number is the one that the whole table gives.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from infrabench.analysis import results, session_data
from infrabench.analysis.dataset import part
from infrabench.analysis.dataset.part import SessionPart
from infrabench.core import SchemaError
from infrabench.experiment.provenance import comparability
from infrabench.ledger.session_folder import SessionFolder

log = logging.getLogger(__name__)

FRAMES = ("estimates", "contrasts", "diagnostics", "omnibus", "interactions", "trends", "tiers")


class Group(NamedTuple):
    """The sessions of one study at one site."""

    study: str
    site: str
    parts: tuple[SessionPart, ...]

    @property
    def name(self) -> str:
        """Study and site, as their folder in the data set."""
        return f"{self.study}/{self.site}"


class GroupAnalysis(NamedTuple):
    """What a group says: its ``session.json`` (`session_data.together`), and the frames of `FRAMES` by name."""

    group: Group
    data: dict[str, Any]
    frames: dict[str, pd.DataFrame]


def groups(parts: Sequence[SessionPart]) -> list[Group]:
    """Return the parts by study and site, in alphabetical order."""
    ordered = sorted(parts, key=lambda each: (each.study, each.site, each.session))
    grouped = groupby(ordered, key=lambda each: (each.study, each.site))
    return [Group(study, site, tuple(members)) for (study, site), members in grouped]


def analysed(group: Group, *, stamped: bool = False) -> GroupAnalysis:
    """Return the analysis of a group; what it holds at once is one workload, and its answers.

    Raises
    ------
    LedgerError
        A part is damaged.
    SchemaError
        Its sessions have different baselines, or measure a metric in different units.
    NotComparable
        Their checked provenance differs, and `stamped` is false; with it the answers carry the stamp.
    """
    log.info("%s: %d sessions", group.name, len(group.parts))
    for each in group.parts:
        part.verify(each)
    folders = [each.folder for each in group.parts]
    comparability.measures_alike(folders)
    told = comparability.stamp(folders, allow=stamped)
    data = _together(group, told)
    systems = {name for each in group.parts for name in each.systems}
    absent = part.missing(group.parts)
    workloads = {name for each in group.parts for name in each.workloads} | set(absent["workload"])
    made = [_of_workload(group, name, data, absent, systems) for name in sorted(workloads)]
    frames = {name: pd.concat([each[name] for each in made], ignore_index=True) for name in FRAMES}
    return GroupAnalysis(group, data, frames)


def _of_workload(
    group: Group, workload: str, data: dict[str, Any], absent: pd.DataFrame, systems: set[str]
) -> dict[str, pd.DataFrame]:
    table = part.trials(group.parts, workload)
    missing = absent[absent["workload"] == workload].reset_index(drop=True)
    found = results.results(data, table, missing, Path(), systems=sorted(systems))
    return {name: getattr(found, name) for name in FRAMES}


def _together(group: Group, told: str) -> dict[str, Any]:
    """The group's ``session.json``, systems by their labels, that of one session where there is one."""
    data = [session_data.describe_session(SessionFolder(each.folder)) for each in group.parts]
    baselines = sorted({each["baseline"] for each in data})
    if len(baselines) > 1:
        raise SchemaError(f"{group.name}: sessions of different baselines, {', '.join(baselines)}, are not one")
    return data[0] if len(data) == 1 else session_data.together(data, [each.session for each in group.parts], told)
