"""One session of a data set: what an analysis of many sessions asks for, without the raw output.

A part is a folder with ``session.json`` and ``provenance/`` as they were recorded, so that whatever reads those of a
session reads them here; ``trials.parquet``, the tidy table with the labels of systems; ``missing.parquet``;
``part.json``, which says of which state of the session all this was made; and ``SHA256SUMS``. It is written whole or
not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from infrabench.analysis import session_data
from infrabench.analysis.tidy import DTYPES, PLAN_COLUMNS, SCHEMA, check
from infrabench.core import DesignError, LedgerError
from infrabench.core.names import is_name
from infrabench.ledger import ledger
from infrabench.ledger.codes import CODE
from infrabench.ledger.files import SUMS, list_files, read_bytes, read_file, read_sums
from infrabench.ledger.records import SESSION, damage, note_files, read_session, unlisted
from infrabench.stats.table import ANALYSED

FORMAT = 1
PLACE = ("study", "site", "session")
TRIALS, MISSING, ABOUT = "trials.parquet", "missing.parquet", "part.json"
ANEW = "remove its folder, and `infrabench dataset build` makes it anew from the session"
MISSING_SCHEMA = pa.schema([SCHEMA.field(name) for name in PLAN_COLUMNS])
TEXT = pa.dictionary(pa.int32(), pa.string())  # as it lies in parquet: each text once, and numbers in the rows


@dataclass(frozen=True, slots=True)
class SessionPart:
    """One part: where it is, what it is of, and how much is in it.

    ``source``: of which state of the session it was made (`source_of`); ``states``: trials by state; ``workloads``: of
    `TRIALS`, one row group each, in this order; ``systems``: those with a trial.
    """

    folder: Path
    study: str
    site: str
    session: str
    source: str
    rows: int
    missing: int
    states: Mapping[str, int]
    workloads: tuple[str, ...]
    systems: tuple[str, ...]


def place_of(session: Path, site: str = "") -> tuple[str, str, str]:
    """Return study, site and name of a session, as its part lies in a data set; `site` stands for its own site's name.

    A system measured under two labels is a study of its own: ``containers-aa-docker``, ``containers-aa-docker-26.1``.
    Raises `DesignError` when one of the names cannot be that of a folder.
    """
    data = read_session(session)
    study = data["study"] + (f"-aa-{data['aa']}" if data.get("aa") else "").replace("@", "-")
    place = (study, site or data["site"]["name"], session.resolve().name)
    for what, name in zip(PLACE, place, strict=True):
        if not is_name(name):
            hint = "; --site gives it another" if what == "site" else ""
            raise DesignError(f"{session}: the {what} {str(name)[:60]!r} cannot be the name of a folder{hint}")
    return place


def source_of(session: Path, site: str) -> str:
    """Return a digest of the state of a session: it changes whenever a trial or a file is added to its folder.

    Its ``SHA256SUMS`` names everything that was recorded; what a killed writer had no time to list counts too.
    """
    sums, _ = read_sums(session / SUMS)
    state = [str(FORMAT), site, *(f"{value} {name}" for name, value in sums.items()), *unlisted(session, sums)]
    return sha256("\n".join(state).encode()).hexdigest()


def write(session: Path, folder: Path, site: str = "") -> SessionPart:
    """Write the part of a session as `folder`, in place of an earlier one, and return it.

    Raises `LedgerError` for a damaged session or one that cannot be written, `SchemaError` for what is no measurement.
    """
    source = source_of(session, site)  # before the first trial is read: what is added meanwhile is read the next time
    opened = session_data.open_session(session)
    table = check(opened.table.assign(site=site)) if site else opened.table
    files = {SESSION: read_file(session, SESSION), **provenance_of(session)}
    store(folder, place_of(session, site), source, table, opened.missing, files)
    return read(folder)


def store(
    folder: Path, place: tuple[str, str, str], source: str, table: pd.DataFrame, missing: pd.DataFrame,
    files: Mapping[str, bytes],
) -> None:  # fmt: skip
    """Write a part from its tables and its other files; `place` as of `place_of`, `source` as of `source_of`."""
    states = table.drop_duplicates(["session", "trial"])["state"].value_counts().sort_index()
    workloads = sorted(set(table["workload"]))
    about = {
        "format": FORMAT, **dict(zip(PLACE, place, strict=True)), "source": source, "rows": len(table),
        "missing": len(missing), "states": {str(state): int(count) for state, count in states.items()},
        "workloads": workloads, "systems": sorted(set(table["system"])),
    }  # fmt: skip
    made = {
        ABOUT: json.dumps(about, indent=1).encode() + b"\n",
        TRIALS: _parquet([table[table["workload"] == name] for name in workloads], SCHEMA),
        MISSING: _parquet([missing], MISSING_SCHEMA),
    }
    ledger.replace_folder(folder, {**files, **made})


def read(folder: Path) -> SessionPart:
    """Return what ``part.json`` says; `LedgerError` when it is none of this version or is damaged."""
    path = folder / ABOUT
    try:
        about = json.loads(read_bytes(path))
        if about["format"] != FORMAT:
            raise LedgerError(f"{path} has the format {str(about['format'])[:40]}, this version reads {FORMAT}")
        names = [about[name] for name in (*PLACE, "source")]
        lists = (tuple(map(str, about["workloads"])), tuple(map(str, about["systems"])))
        states = {str(state): int(count) for state, count in about["states"].items()}
        return SessionPart(folder, *map(str, names), int(about["rows"]), int(about["missing"]), states, *lists)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise LedgerError(f"{path} does not say what part it is ({error!r}): {ANEW}") from error


def verify(part: SessionPart) -> None:
    """Raise `LedgerError` naming the first file of a part that is not as it was written, or that was put there."""
    sums, torn = read_sums(part.folder / SUMS)
    found = [problem for name, value in sums.items() for problem in damage(part.folder, name, value)]
    needed = {ABOUT, TRIALS, MISSING, SESSION} - {*sums}
    there, foreign = list_files(part.folder)
    extra = sorted({*there} - {*sums, SUMS})
    if found or torn or needed or extra or foreign:
        faults = [*found, *foreign, *(f"{part.folder} holds {name}, which its {SUMS} does not name" for name in extra)]
        raise LedgerError(f"{faults[0] if faults else f'{part.folder / SUMS} is cut off'}: {ANEW}")


def trials(parts: Sequence[SessionPart], workload: str) -> pd.DataFrame:
    """Return the rows of one workload from many parts, the columns `ANALYSED`, each session in executed order.

    Row groups are read by pyarrow as they lie. Over the same parts of 10^6 rows, filters pushed down, its data sets
    took 4.1 times the time, pandas 1.3 and DuckDB 0.6; their peaks were 1.2, 1.25 and 1.4 times as high. Reading is a
    few per cent of an analysis, so memory decides, and one engine fewer.
    """
    found = []
    for part in (each for each in parts if workload in each.workloads):
        path, group = part.folder / TRIALS, part.workloads.index(workload)
        found.append(_read(path, ANALYSED, group))
        if found[-1]["workload"].unique().to_pylist() != [workload]:
            raise LedgerError(f"{path}: its row group {group} is not of {workload}, as {ABOUT} says: {ANEW}")
    return _frame(found, ANALYSED)


def missing(parts: Sequence[SessionPart]) -> pd.DataFrame:
    """Return the planned trials without a record of many parts (`tidy.missing`)."""
    return _frame([_read(part.folder / MISSING, PLAN_COLUMNS) for part in parts if part.missing], PLAN_COLUMNS)


def provenance_of(session: Path) -> dict[str, bytes]:
    """Return the files of a session's provenance by name, and those that say which code went on with it."""
    paths = [*sorted(session.glob("provenance/[!.]*")), *note_files(session, CODE)]
    names = [path.relative_to(session).as_posix() for path in paths]
    return {name: read_file(session, name) for name in names}


def _read(path: Path, names: Sequence[str], group: int = 0) -> pa.Table:
    """A row group of a file of a part; `LedgerError` when it is none, though its sum is right."""
    try:
        with pq.ParquetFile(path, read_dictionary=[name for name in names if DTYPES[name] == "str"]) as file:
            return file.read_row_group(group, columns=list(names)).select(list(names)).cast(_encoded(names))
    except (pa.ArrowException, ValueError, LookupError, OSError) as error:
        raise LedgerError(f"{path} is not a table of a part ({error}): {ANEW}") from error


def _parquet(groups: Sequence[pd.DataFrame], schema: pa.Schema) -> bytes:
    """The bytes of a parquet file with these row groups."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for rows in groups:
            table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
            writer.write_table(table, row_group_size=max(len(rows), 1))
    return out.getvalue()


def _encoded(names: Sequence[str]) -> pa.Schema:
    """Columns of the tidy table as they are read."""
    fields = (SCHEMA.field(name) for name in names)
    return pa.schema([each.with_type(TEXT) if each.type == pa.string() else each for each in fields])


def _frame(tables: Sequence[pa.Table], names: Sequence[str]) -> pd.DataFrame:
    """The rows of all tables. Text is categories in alphabetical order: a third of the memory, and grouped faster."""
    whole = pa.concat_tables([_encoded(names).empty_table(), *tables]).unify_dictionaries()
    frame = whole.to_pandas(split_blocks=True)
    for name in (each for each in names if DTYPES[each] == "str"):
        column = frame[name].astype("category").cat
        frame[name] = column.set_categories(sorted(column.categories))
    return frame
