"""The analysis of a data set: answers of every study at every site on disk, and of each a row that fits on a page.

Sessions of one study at one site are pooled as `session_data.pool` does: each is a deployment of its own, the unit is
the deployment, and where checked provenance differs they are refused, or stamped. Sites are never pooled here: what
holds at all of them is another question, which starts from these ratios.

One workload is in memory at a time. A family of tests is the scenarios and systems of one metric of one workload, so
workloads can be worked out one by one, and every number is the one that the whole table gives.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from infrabench.analysis import results, session_data, tables
from infrabench.analysis.dataset import folder, part
from infrabench.analysis.dataset.part import SessionPart
from infrabench.analysis.results import Results, Shown, listed
from infrabench.analysis.tables import notation
from infrabench.core import InfrabenchError, SchemaError
from infrabench.experiment.provenance import comparability
from infrabench.ledger import catalogue, ledger
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats.verdicts import VERDICTS

log = logging.getLogger(__name__)

FRAMES = ("estimates", "contrasts", "diagnostics", "omnibus", "interactions", "trends", "tiers")
SHOWN = 200  # rows of a table on a page; its CSV and parquet have all
TABLES = "dataset"  # the folder of its tables
RATIO = ["workload", "scenario", "metric", "system", "n", "ratio", "ratio 95 % CI", "verdict"]
COUNTED = ("study", "site", "sessions", "rows", "ok", "other", "missing", *VERDICTS, "note")


class Group(NamedTuple):
    """The sessions of one study at one site."""

    study: str
    site: str
    parts: tuple[SessionPart, ...]


@dataclass(frozen=True)
class DatasetSurvey:
    """What a data set says: one row per study and site, the contrasts of primary metrics, and where the rest is.

    ``left_out``: what lies in its folder and is no part of it, in sentences; ``refused``: how many studies at sites
    were not analysed (their row says why); ``out``: where tables and answers are.
    """

    groups: pd.DataFrame
    primary: pd.DataFrame
    left_out: tuple[str, ...]
    refused: int
    out: Path


def groups(parts: Sequence[SessionPart]) -> list[Group]:
    """Return the parts by study and site, in alphabetical order."""
    ordered = sorted(parts, key=lambda each: (each.study, each.site, each.session))
    grouped = groupby(ordered, key=lambda each: (each.study, each.site))
    return [Group(study, site, tuple(members)) for (study, site), members in grouped]


def analyse_group(group: Group, *, stamped: bool = False) -> Results:
    """Return the analysis of a group, without its trials; what is held at once is one workload, and the answers.

    Raises `LedgerError` for a damaged part; `SchemaError` for sessions of different baselines, or of a metric in two
    units; `NotComparable` for checked provenance that differs, unless `stamped`: then the answers carry the stamp.
    """
    name = f"{group.study}/{group.site}"
    log.info("%s: %d sessions", name, len(group.parts))
    for each in group.parts:
        part.verify(each)
    folders = [each.folder for each in group.parts]
    comparability.measures_alike(folders)
    stamp = comparability.stamp(folders, allow=stamped)
    sessions = [session_data.describe_session(SessionFolder(each)) for each in folders]
    baselines = sorted({each["baseline"] for each in sessions})
    if len(baselines) > 1:
        raise SchemaError(f"{name}: sessions of different baselines, {', '.join(baselines)}, are not one")
    data = sessions[0]
    if len(sessions) > 1:
        data = session_data.together(sessions, [each.session for each in group.parts], stamp)
    systems = sorted({system for each in group.parts for system in each.systems})
    absent = part.missing(group.parts)
    frames = []
    for workload in sorted({*absent["workload"]}.union(*(each.workloads for each in group.parts))):
        missing = absent[absent["workload"] == workload].reset_index(drop=True)
        found = results.results(data, part.trials(group.parts, workload), missing, Path(), systems=systems)
        frames.append({name: getattr(found, name) for name in FRAMES})
    answers = {name: pd.concat([each[name] for each in frames], ignore_index=True) for name in FRAMES}
    return Results(data, table=pd.DataFrame(), probes=pd.DataFrame(), folder=Path(), **answers)


def survey(root: Path, out: Path, *, stamped: bool = False) -> DatasetSurvey:
    """Analyse a data set, write the answers of every group below `out`, and return what fits on a page.

    The answers are ``answers/STUDY/SITE/NAME.parquet``, unrounded, NAME one of `FRAMES`; the tables are in
    ``tables/dataset``. A group that is refused or damaged says why. `stamped`: sessions of a site whose checked
    provenance differs are pooled all the same.
    """
    rows, primary, refused = [], [], 0
    parts, left_out = folder.parts(root)
    for group in groups(parts):
        try:
            found = analyse_group(group, stamped=stamped)
        except InfrabenchError as error:
            refused += 1
            rows.append(_count(group, {}, f"not analysed: {error}"))
            continue
        for name in FRAMES:
            path = out / "answers" / group.study / group.site / f"{name}.parquet"
            ledger.replace_file(path, getattr(found, name).to_parquet(index=False, compression="zstd"))
        of_primary = found.contrasts[results.is_primary(found)]
        primary.append(of_primary.assign(study=group.study, site=group.site))
        verdicts = found.contrasts["verdict"].value_counts().to_dict()
        rows.append(_count(group, verdicts, found.data.get("stamp") or ""))
    every = pd.concat(primary, ignore_index=True) if primary else pd.DataFrame()
    made = DatasetSurvey(pd.DataFrame(rows, columns=list(COUNTED)), every, tuple(left_out), refused, out)
    groups_table(made)
    primary_table(made)
    return made


def _count(group: Group, verdicts: Mapping[str, int], note: str) -> dict[str, Any]:
    trials = sum(sum(each.states.values()) for each in group.parts)
    ok = sum(each.states.get("ok", 0) for each in group.parts)
    return {
        "study": group.study, "site": group.site, "sessions": len(group.parts),
        "rows": sum(each.rows for each in group.parts), "ok": ok, "other": trials - ok,
        "missing": sum(each.missing for each in group.parts),
        **{name: int(verdicts.get(name, 0)) for name in VERDICTS}, "note": note,
    }  # fmt: skip


def lines(made: DatasetSurvey) -> Iterator[str]:
    """Yield every study at every site as a line of text, and then what was left out."""
    for row in made.groups.to_dict("records"):
        counted = f"{row['sessions']} sessions, {row['rows']} rows; trials: {row['ok']} ok, {row['other']} other"
        missing = f", {row['missing']} missing" if row["missing"] else ""
        verdicts = "; ".join(f"{row[name]} {name}" for name in VERDICTS if row[name])
        yield f"{row['study']}/{row['site']}: {counted}{missing}; contrasts: {verdicts or 'none'}"
        if row["note"]:
            yield f"  {row['note']}"
    yield from made.left_out


def opened(root: str, out: str, *, stamped: bool = False) -> DatasetSurvey:
    """Return the survey of a data set for a notebook, written below `out` (relative to the checkout).

    Without a data set, that is ``""``, the recorded sessions are brought into one below `out`.
    """
    place = catalogue.home() / out
    if root:
        return survey(catalogue.home() / root, place, stamped=stamped)
    recorded = place / "dataset"
    for each in folder.update(sorted(catalogue.recorded().values()), recorded):
        log.info("%s %s", "read" if each.read else "unchanged", each.part.session)
    return survey(recorded, place, stamped=stamped)


def left_out(made: DatasetSurvey) -> Shown:
    """Return what was left out, in sentences."""
    return listed(made.left_out or ["Nothing was left out."])


def groups_table(made: DatasetSurvey) -> Shown:
    """Return the studies and sites of a survey as a table, the first `SHOWN` of them; all are in its files."""
    shown = made.groups if made.groups["note"].any() else made.groups.drop(columns="note")
    return _cut(made, "groups", shown, made.groups, "What is there of each study at each site.")


def primary_table(made: DatasetSurvey) -> Shown:
    """Return the contrasts of primary metrics by study and site, the first `SHOWN` of them; all are in its files."""
    some = made.primary.head(SHOWN)
    rounded = (tables.contrasts_table(some) if len(some) else pd.DataFrame()).reindex(columns=RATIO)
    named = some.reindex(columns=["study", "site"]).reset_index(drop=True)
    caption = "Ratios to the baseline of each study at each site, with 95 % intervals. Sites are not pooled."
    return _cut(made, "primary", pd.concat([named, rounded], axis=1), made.primary, caption)


def _cut(made: DatasetSurvey, name: str, shown: pd.DataFrame, every: pd.DataFrame, caption: str) -> Shown:
    """Write a table, and return what of it is shown on a page."""
    folder = made.out / "tables" / TABLES
    some = shown.head(SHOWN).astype("object").fillna("").astype("str")
    note = f"The first {SHOWN} of {len(every)} rows; {name}.csv and {name}.parquet have all." * (len(every) > SHOWN)
    tables.save(some, folder, name, f"{caption} {note}".strip(), whole=every)
    ledger.replace_file(folder / f"{name}.parquet", every.to_parquet(index=False, compression="zstd"))
    page = notation.html_table(some, words=True), tables.markdown(some)
    return Shown(*page) if not note else Shown(f"{page[0]}<p>{note}</p>", f"{page[1]}\n{note}")
