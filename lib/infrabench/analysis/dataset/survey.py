"""All groups of a data set one after the other: their answers on disk, and of each a row that fits on a page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infrabench.analysis import tables
from infrabench.analysis.dataset import folder, streamed
from infrabench.analysis.dataset.streamed import Group, GroupAnalysis
from infrabench.analysis.results import Shown, listed
from infrabench.analysis.tables import notation
from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue, ledger
from infrabench.stats.verdicts import VERDICTS

log = logging.getLogger(__name__)

SHOWN = 200  # rows of a table on a page; its CSV and parquet have all
TABLES = "dataset"  # the folder of its tables
RATIO = ["workload", "scenario", "metric", "system", "n", "ratio", "ratio 95 % CI", "verdict"]
COUNTED = ("study", "site", "sessions", "rows", "ok", "other", "missing", *VERDICTS, "note")


class GroupAnswer(NamedTuple):
    """What came of a group: its analysis, or why there is none."""

    group: Group
    found: GroupAnalysis | None
    refused: str = ""


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


def answers(root: Path, *, stamped: bool = False) -> Iterator[GroupAnswer]:
    """Yield the analysis of every group of the data set `root`; one that is refused or damaged says why."""
    for group in streamed.groups(folder.parts(root)[0]):
        try:
            yield GroupAnswer(group, streamed.analysed(group, stamped=stamped))
        except InfrabenchError as error:
            yield GroupAnswer(group, None, str(error))


def survey(root: Path, out: Path, *, stamped: bool = False) -> DatasetSurvey:
    """Analyse a data set, write the answers of every group below `out`, and return what fits on a page.

    The answers are ``answers/STUDY/SITE/NAME.parquet``, unrounded, NAME one of `streamed.FRAMES`; the tables are in
    ``tables/dataset``. `stamped`: sessions of a site whose checked provenance differs are pooled all the same.
    """
    rows, primary, refused = [], [], 0
    for answer in answers(root, stamped=stamped):
        if answer.found is not None:
            write(answer.found, out)
            primary.append(_primary(answer.found))
        refused += answer.found is None
        rows.append(_row(answer))
    contrasts = pd.concat(primary, ignore_index=True) if primary else pd.DataFrame()
    made = DatasetSurvey(
        pd.DataFrame(rows, columns=list(COUNTED)), contrasts, tuple(folder.parts(root)[1]), refused, out
    )
    groups_table(made)
    primary_table(made)
    return made


def write(found: GroupAnalysis, out: Path) -> None:
    """Write every frame of a group as parquet."""
    for name, frame in found.frames.items():
        ledger.replace_file(out / "answers" / found.group.study / found.group.site / f"{name}.parquet", _bytes(frame))


def _row(answer: GroupAnswer) -> dict[str, Any]:
    parts = answer.group.parts
    trials = sum(sum(each.states.values()) for each in parts)
    ok = sum(each.states.get("ok", 0) for each in parts)
    verdicts, note = pd.Series(dtype="int64"), f"not analysed: {answer.refused}"
    if answer.found is not None:
        verdicts = answer.found.frames["contrasts"]["verdict"].value_counts()
        note = answer.found.data.get("stamp") or ""
    return {
        "study": answer.group.study, "site": answer.group.site, "sessions": len(parts),
        "rows": sum(each.rows for each in parts), "ok": ok, "other": trials - ok,
        "missing": sum(each.missing for each in parts),
        **{name: int(verdicts.get(name, 0)) for name in VERDICTS}, "note": note,
    }  # fmt: skip


def lines(made: DatasetSurvey) -> Iterator[str]:
    """Yield every study at every site as a line of text, and then what was left out."""
    for told in made.groups.to_dict("records"):
        counted = f"{told['sessions']} sessions, {told['rows']} rows; trials: {told['ok']} ok, {told['other']} other"
        missing = f", {told['missing']} missing" if told["missing"] else ""
        verdicts = "; ".join(f"{told[name]} {name}" for name in VERDICTS if told[name])
        yield f"{told['study']}/{told['site']}: {counted}{missing}; contrasts: {verdicts or 'none'}"
        if told["note"]:
            yield f"  {told['note']}"
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
    some, names = made.primary.head(SHOWN), ["study", "site"]
    rounded = tables.contrasts_table(some) if len(some) else pd.DataFrame()
    rounded = rounded.reindex(columns=RATIO)
    named = made.primary.reindex(columns=names).head(SHOWN).reset_index(drop=True)
    caption = "Ratios to the baseline of each study at each site, with 95 % Fieller intervals. Sites are not pooled."
    return _cut(made, "primary", pd.concat([named, rounded], axis=1), made.primary, caption)


def _cut(made: DatasetSurvey, name: str, shown: pd.DataFrame, every: pd.DataFrame, caption: str) -> Shown:
    """Write a table, and return what of it is shown on a page."""
    folder = made.out / "tables" / TABLES
    some = shown.head(SHOWN).astype("object").fillna("").astype("str")
    told = f"The first {SHOWN} of {len(every)} rows; {name}.csv and {name}.parquet have all." * (len(every) > SHOWN)
    tables.save(some, folder, name, f"{caption} {told}".strip(), whole=every)
    ledger.replace_file(folder / f"{name}.parquet", _bytes(every))
    page = notation.html_table(some, words=True), tables.markdown(some)
    return Shown(*page) if not told else Shown(f"{page[0]}<p>{told}</p>", f"{page[1]}\n{told}")


def _primary(found: GroupAnalysis) -> pd.DataFrame:
    wanted = {tuple(each) for each in found.data["primary"]}
    contrasts = found.frames["contrasts"]
    pairs = zip(contrasts["workload"], contrasts["metric"], strict=True)
    rows = contrasts[np.fromiter((pair in wanted for pair in pairs), bool, len(contrasts))]
    return rows.assign(study=found.group.study, site=found.group.site)


def _bytes(frame: pd.DataFrame) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), out, compression="zstd")
    return out.getvalue().to_pybytes()
